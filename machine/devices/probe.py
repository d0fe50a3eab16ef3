"""Checks each GPU in a child process, and caches the verdict.

A faulty driver may kill or hang any process that calls it, so this process never does. It starts
`machine.devices.probe_child`, waits with a limit, and reads the child's output. Every outcome of
the child is a verdict, never an error.
"""

import contextlib
import hashlib
import importlib.util
import json
import logging
import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from machine.devices import cuda_errors
from machine.devices.health import GpuHealth, OperationVerdict, Outcome
from machine.process import ProcessResult, module_command, run_with_timeout, signal_name
from machine.storage.facts import Facts, cache_folder
from machine.storage.files import JsonObject, WriteError, read_text
from machine.storage.locks import wait_for
from machine.text import last_line

LIMIT_SECONDS = 60.0
# Eight GPUs, each checked up to the limit.
LONGEST_WAIT_SECONDS = 500.0
# The number changes with the fields of a verdict.
NAMESPACE = "gpus 1"
DAY_SECONDS = 24 * 3600.0
# The cause may be temporary: such a verdict holds for ten minutes, any other for a day.
_PASSING = frozenset({Outcome.TRANSIENT, Outcome.HANG, Outcome.CRASH, Outcome.STICKY, Outcome.COULD_NOT_RUN})
_PASSING_SECONDS = 600.0
_SEARCHED = ("LD_LIBRARY_PATH", "LD_PRELOAD")
_VARIABLES = (*_SEARCHED, "CUDA_VISIBLE_DEVICES", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
_REPORTED_FAILURES = 2  # failures that are reported in full


@dataclass(frozen=True)
class ProbeChild:
    """How to start a check; tests replace it."""

    command: tuple[str, ...] = field(default_factory=lambda: module_command("machine.devices.probe_child"))
    devices: str = "cuda:{}"
    limit_seconds: float = LIMIT_SECONDS
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))


def probe(
    *, use_cache: bool = True, folder: Path | None = None, child: ProbeChild | None = None
) -> tuple[GpuHealth, ...]:
    """Every GPU with its verdict.

    Args:
        use_cache: False checks again and caches the new result.
        folder: The folder whose facts keep the verdicts; None is the user's cache folder.
        child: How to start the check.
    """
    child, folder = child or ProbeChild(), folder or cache_folder(os.environ)
    key = key_of(child.environ)
    gpus = _cached_health(folder, key) if use_cache else None
    if gpus is None:
        with _one_at_a_time(folder):
            # torchrun starts several processes on a node: one checks, the others read.
            gpus = _cached_health(folder, key) if use_cache else None
            if gpus is None:
                gpus = _check_child(child)
                _keep(folder, "check", {"at": time.time(), "gpus": list(map(asdict, gpus))}, key)
    oldest = time.time() - DAY_SECONDS
    at, device, words = _facts(folder).get("surprise") or (0.0, "", "")
    return tuple(replace(gpu, surprise=words if gpu.device == device and at > oldest else "") for gpu in gpus)


def report_surprise(device: str, words: str, folder: Path | None = None) -> None:
    """Records a run-time fault that the check did not predict.

    The next start checks again. For a day, the process that trains on that GPU speaks no samples:
    a worker does.
    """
    folder = folder or cache_folder(os.environ)
    _keep(folder, "check", None)
    _keep(folder, "surprise", (time.time(), device, words[:300]))


# --- one check


def _check_child(child: ProbeChild) -> tuple[GpuHealth, ...]:
    first, count = _check(child, 0)
    return (first, *(_check(child, index)[0] for index in range(1, count)))


def _check(child: ProbeChild, index: int) -> tuple[GpuHealth, int]:
    """Runs one child for one GPU. Returns the GPU's health and the number of GPUs that it saw."""
    command = (*child.command, "--device", child.devices.format(index))
    events, ending = run(command, child.environ, child.limit_seconds)
    try:
        gpu, count = gpu_of(index, events, ending)
    except (KeyError, TypeError, ValueError) as error:
        reason = f"the check's answer cannot be parsed ({error!r})."
        gpu = GpuHealth(index, "the GPU", (0, 0), 0, Outcome.COULD_NOT_RUN, reason=reason)
        count = 1
    foreign = [name for name in _SEARCHED if child.environ.get(name)]
    if foreign and gpu.outcome not in (Outcome.OK, Outcome.TRANSIENT):
        without = " ".join(f"-u {name}" for name in foreign)
        hint = f"If another library than torch's is loaded, put `env {without}` before the command."
        gpu = replace(gpu, reason=f"{gpu.reason} {hint}")
    return gpu, count


def run(
    command: Sequence[str], environ: Mapping[str, str], limit_seconds: float
) -> tuple[list[JsonObject], ProcessResult]:
    """Starts a child and collects its events until it ends or its time is up."""
    # With this the child's is_available() and device_count() use NVML and create no context.
    environment = {**environ, "PYTORCH_NVML_BASED_CUDA_CHECK": "1"}
    result = run_with_timeout(command, limit_seconds, environment)
    events = []
    for line in result.out.splitlines():
        with contextlib.suppress(ValueError):
            event = json.loads(line)
            if isinstance(event, dict) and "event" in event:
                events.append(event)
    return events, result


def gpu_of(index: int, events: Sequence[JsonObject], ending: ProcessResult) -> tuple[GpuHealth, int]:
    """The health of the GPU that a child checked, and the number of GPUs that the child saw."""
    last = {event["event"]: event for event in events}
    facts = last.get("device", {})
    operations = tuple(
        OperationVerdict(**{**fields, "outcome": Outcome(fields["outcome"])})
        for fields in (dict(event) for event in events)
        if fields.pop("event") == "operation"
    )
    outcome, reason = of_operations(operations)
    if "refused" in last:
        outcome, reason = Outcome(last["refused"]["outcome"]), str(last["refused"]["reason"])
    elif ending.code != 0:
        begun = [str(event["operation"]) for event in events if event["event"] == "doing"]
        doing = begun[-1] if len(begun) > len(operations) else ""
        outcome, reason = of_ending(ending, doing)
        if doing:
            operations += (OperationVerdict(doing, False, reason=reason, outcome=outcome),)
    elif not operations:
        raise ValueError("it names no operation")
    return GpuHealth(
        index=index,
        name=facts.get("name", "the GPU"),
        capability=tuple(facts.get("capability", (0, 0))),
        total_bytes=facts.get("total_bytes", 0),
        outcome=outcome,
        operations=operations,
        reason=reason,
    ), int(facts.get("count", 1))


def of_operations(operations: Sequence[OperationVerdict]) -> tuple[Outcome, str]:
    """The overall outcome of all operations, and its reason."""
    faulty = [operation for operation in operations if operation.reason]
    if not faulty:
        return Outcome.OK, ""
    reason = " ".join(operation.reason for operation in faulty[:_REPORTED_FAILURES])
    if len(faulty) > _REPORTED_FAILURES:
        reason += f" {len(faulty) - _REPORTED_FAILURES} more failed: " + (
            ", ".join(operation.name for operation in faulty[_REPORTED_FAILURES:]) + "."
        )
    if dead := next((operation for operation in faulty if operation.outcome is Outcome.STICKY), None):
        return Outcome.STICKY, dead.reason
    if all(operation.outcome is Outcome.TRANSIENT for operation in faulty):
        return Outcome.TRANSIENT, reason
    nothing = not any(operation.ok for operation in operations)
    return (faulty[0].outcome if nothing else Outcome.DEGRADED), reason


def of_ending(ending: ProcessResult, doing: str) -> tuple[Outcome, str]:
    """Why a child did not finish. doing: the operation that it was running."""
    where = f" in {doing}" if doing else ""
    last = (not ending.hung and ending.fault) or last_line(ending.errors)
    tail = f" Its last line: {last}" if last else ""
    code = ending.code
    if ending.hung:
        why = f"the check hung{where} and was stopped after {ending.seconds:.2g} s.{tail}"
        return Outcome.HANG, why
    if code == -signal.SIGKILL:
        why = "usually the system does that when memory runs out"
        return Outcome.TRANSIENT, f"the check was killed{where} (SIGKILL); {why}.{tail}"
    if code is not None and code < 0:
        return Outcome.CRASH, f"the check was ended{where} by {signal_name(-code)}.{tail}"
    fault = cuda_errors.fault("", last)
    outcome = fault.outcome if fault else Outcome.COULD_NOT_RUN
    return outcome, f"the check did not finish{where}.{tail}"


# --- the cache


def key_of(environ: Mapping[str, str], root: Path = Path("/")) -> str:
    """A hash of the facts that can change a verdict: the build of torch, the driver, the cards, the
    library path, the boot and the sleep since. It needs neither torch nor a GPU.

    A laptop's driver may be broken after sleep (error 999). Tests pass another `root`.
    """
    torch = importlib.util.find_spec("torch")
    build = Path(torch.origin).parent / "version.py" if torch and torch.origin else None
    slept = time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)
    facts = {
        "torch": [str(build), read_text(build) if build else ""],
        "driver": read_text(root / "proc/driver/nvidia/version"),
        "cards": [
            read_text(path) for path in sorted((root / "proc/driver/nvidia/gpus").glob("*/information"))
        ],
        "devices": sorted(path.name for kind in ("nvidia*", "dxg") for path in (root / "dev").glob(kind)),
        "environment": {name: environ.get(name) for name in _VARIABLES},
        "boot": read_text(root / "proc/sys/kernel/random/boot_id").strip(),
        "slept": round(slept),
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def longest_age(gpu: GpuHealth) -> float:
    """Seconds for which a verdict holds."""
    seen = {gpu.outcome} | {operation.outcome for operation in gpu.operations if not operation.ok}
    return _PASSING_SECONDS if seen & _PASSING else DAY_SECONDS


@contextlib.contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """Waits for another process's check, unless the folder cannot hold a lock."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError, WriteError):
            folder.mkdir(parents=True, exist_ok=True)
            lock = wait_for(folder / "gpus.lock", limit_seconds=LONGEST_WAIT_SECONDS)
            stack.enter_context(lock)
        yield


def _cached_health(folder: Path, key: str) -> tuple[GpuHealth, ...] | None:
    """The verdicts of the last check; None if its key differs or it is too old."""
    from pydantic import TypeAdapter

    if (check := _facts(folder).get("check", key)) is None:
        return None
    gpus = TypeAdapter(tuple[GpuHealth, ...]).validate_python(check["gpus"])
    age = time.time() - check["at"]
    return gpus if 0 <= age < min(map(longest_age, gpus), default=_PASSING_SECONDS) else None


def _facts(folder: Path) -> Facts:
    return Facts(folder, NAMESPACE, logging.DEBUG)


def _keep(folder: Path, name: str, value: object, key: str = "") -> None:
    facts = _facts(folder)
    facts.put(name, value, key)
    facts.save()
