"""From a probe child's output and exit to a verdict. Pure."""

import signal
from collections.abc import Mapping, Sequence
from typing import Any

from machine.devices import cuda_errors
from machine.devices.health import GpuHealth, OperationVerdict, Outcome, read_as
from machine.process import ProcessResult
from machine.text import last_line

_TOLD = 2  # so many failures are reported in full


def gpu_of(
    index: int, events: Sequence[Mapping[str, Any]], ending: ProcessResult
) -> tuple[GpuHealth, int]:
    """The GPU that a child was asked about, and how many it saw."""
    facts = _last(events, "device")
    refused = _last(events, "refused")
    end = _last(events, "end")
    operations = tuple(
        read_as(OperationVerdict, {key: value for key, value in one.items() if key != "event"})
        for one in events
        if one["event"] == "operation"
    )
    outcome, reason = of_operations(operations)
    if refused:
        found = cuda_errors.fault(refused["kind"], refused["text"])
        outcome = found.outcome if found else Outcome.COULD_NOT_RUN
        words = (refused["text"].splitlines() or [refused["kind"]])[0][:300]
        reason = f"the GPU cannot be used: {words.rstrip('.')}."
    elif not end:
        doing = _doing(events, operations)
        outcome, reason = of_ending(ending, doing)
        if doing:
            operations += (OperationVerdict(doing, False, reason=reason, outcome=outcome),)
    known = facts or {}
    return GpuHealth(
        index=index,
        name=known.get("name", "the GPU"),
        capability=tuple(known.get("capability", (0, 0))),
        total_bytes=known.get("total_bytes", 0),
        outcome=outcome,
        operations=operations,
        reason=reason,
        libraries=dict(end["libraries"]) if end else {},
        free_bytes=known.get("free_bytes"),
        exclusive=known.get("exclusive", False),
    ), int(known.get("count", 1))


def of_operations(operations: Sequence[OperationVerdict]) -> tuple[Outcome, str]:
    """What the verdicts of all operations come to, and why."""
    failed = [one for one in operations if not one.ok]
    if not failed:
        return Outcome.OK, ""
    reason = " ".join(one.reason for one in failed[:_TOLD])
    if len(failed) > _TOLD:
        reason += f" {len(failed) - _TOLD} more failed: " + (
            ", ".join(one.name for one in failed[_TOLD:]) + "."
        )
    first = failed[0]
    dead = next((one for one in failed if one.outcome is Outcome.STICKY), None)
    if dead:
        return Outcome.STICKY, dead.reason
    if all(one.outcome is Outcome.TRANSIENT for one in failed):
        return Outcome.TRANSIENT, reason
    if first.name == "allocation" or len(failed) == len(operations):
        return first.outcome, reason
    return Outcome.DEGRADED, reason


def of_ending(ending: ProcessResult, doing: str) -> tuple[Outcome, str]:
    """What it means that a child did not come to its end. doing: the operation that it was in."""
    where = f" in {doing}" if doing else ""
    last = last_line(ending.errors)
    if ending.hung:
        tail = f" It said last: {last}" if last else ""
        return (
            Outcome.HANG,
            f"the check hung{where} and was ended after {ending.seconds:.2g} s.{tail}",
        )
    last = ending.fault or last
    tail = f" It said last: {last}" if last else ""
    code = ending.code
    if code is not None and code < 0:
        name = _signal_name(-code)
        if code == -signal.SIGKILL:
            why = "most often the system does that when memory runs out"
            return Outcome.TRANSIENT, f"the check was killed{where} ({name}); {why}.{tail}"
        return Outcome.CRASH, f"the check was ended{where} by {name}.{tail}"
    found = cuda_errors.fault("", last)
    outcome = found.outcome if found else Outcome.COULD_NOT_RUN
    return outcome, f"the check did not come to its end{where}.{tail}"


def _doing(events: Sequence[Mapping[str, Any]], done: Sequence[OperationVerdict]) -> str:
    begun = [str(one["operation"]) for one in events if one["event"] == "doing"]
    return begun[-1] if len(begun) > len(done) else ""


def _last(events: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any] | None:
    return next((one for one in reversed(events) if one["event"] == name), None)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal has no name
        return f"signal {number}"
