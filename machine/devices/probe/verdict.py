"""Turns a probe child's output and exit status into a verdict, as a pure function."""

import signal
from collections.abc import Mapping, Sequence
from typing import Any

from machine.devices import cuda_errors
from machine.devices.health import GpuHealth, OperationVerdict, Outcome, read_as
from machine.process import ProcessResult
from machine.text import last_line

_REPORTED_FAILURES = 2  # failures that are reported in full


def gpu_of(
    index: int, events: Sequence[Mapping[str, Any]], ending: ProcessResult
) -> tuple[GpuHealth, int]:
    """The health of the GPU that a child checked, and how many GPUs the child saw."""
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
        fault = cuda_errors.fault(refused["kind"], refused["text"])
        outcome = fault.outcome if fault else Outcome.COULD_NOT_RUN
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
    """The overall outcome of all operations, and why."""
    failed = [one for one in operations if not one.ok]
    if not failed:
        return Outcome.OK, ""
    reason = " ".join(one.reason for one in failed[:_REPORTED_FAILURES])
    if len(failed) > _REPORTED_FAILURES:
        reason += f" {len(failed) - _REPORTED_FAILURES} more failed: " + (
            ", ".join(one.name for one in failed[_REPORTED_FAILURES:]) + "."
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
    """Why a child did not finish. doing: the operation that it was running."""
    where = f" in {doing}" if doing else ""
    last = last_line(ending.errors)
    if ending.hung:
        tail = f" Its last line: {last}" if last else ""
        return (
            Outcome.HANG,
            f"the check hung{where} and was stopped after {ending.seconds:.2g} s.{tail}",
        )
    last = ending.fault or last
    tail = f" Its last line: {last}" if last else ""
    code = ending.code
    if code is not None and code < 0:
        name = _signal_name(-code)
        if code == -signal.SIGKILL:
            why = "usually the system does that when memory runs out"
            return Outcome.TRANSIENT, f"the check was killed{where} ({name}); {why}.{tail}"
        return Outcome.CRASH, f"the check was ended{where} by {name}.{tail}"
    fault = cuda_errors.fault("", last)
    outcome = fault.outcome if fault else Outcome.COULD_NOT_RUN
    return outcome, f"the check did not finish{where}.{tail}"


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
