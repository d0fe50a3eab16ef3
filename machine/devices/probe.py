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

# The time limit of the check of one GPU.
LIMIT_SECONDS = 60.0
# Eight GPUs, each checked up to the limit.
MAX_WAIT_SECONDS = 500.0
# The number changes with the fields of a verdict.
NAMESPACE = "gpus 1"
DAY_SECONDS = 24 * 3600.0
# Outcomes with a cause that may pass: such a verdict holds for ten minutes, any other for a day.
_TEMPORARY_OUTCOMES = frozenset(
    {Outcome.TRANSIENT, Outcome.HANG, Outcome.CRASH, Outcome.STICKY, Outcome.COULD_NOT_RUN}
)
_TEMPORARY_SECONDS = 600.0
# Variables that make the loader take other libraries than torch's.
_LIBRARY_VARIABLES = ("LD_LIBRARY_PATH", "LD_PRELOAD")
_VARIABLES = (*_LIBRARY_VARIABLES, "CUDA_VISIBLE_DEVICES", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
_MAX_REPORTED_FAILURES = 2  # failures that are reported in full


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
                gpus = _check_gpus(child)
                _store(folder, "check", {"at": time.time(), "gpus": list(map(asdict, gpus))}, key)
    oldest = time.time() - DAY_SECONDS
    reported_at, device, words = _facts(folder).get("surprise") or (0.0, "", "")
    return tuple(
        replace(gpu, surprise=words if gpu.device == device and reported_at > oldest else "") for gpu in gpus
    )


def report_surprise(device: str, words: str, folder: Path | None = None) -> None:
    """Records a run-time fault that the check did not predict.

    The next start checks again. For a day, the process that trains on that GPU speaks no samples:
    a worker does.
    """
    folder = folder or cache_folder(os.environ)
    _store(folder, "check", None)
    _store(folder, "surprise", (time.time(), device, words[:300]))


# --- one check


def _check_gpus(child: ProbeChild) -> tuple[GpuHealth, ...]:
    first, count = _check_gpu(child, 0)
    return (first, *(_check_gpu(child, index)[0] for index in range(1, count)))


def _check_gpu(child: ProbeChild, index: int) -> tuple[GpuHealth, int]:
    """Runs one child for one GPU. Returns the GPU's health and the number of GPUs that it saw."""
    command = (*child.command, "--device", child.devices.format(index))
    events, ending = run_check(command, child.environ, child.limit_seconds)
    try:
        gpu, count = gpu_health(index, events, ending)
    except (KeyError, TypeError, ValueError) as error:
        reason = f"the check's answer cannot be parsed ({error!r})."
        gpu = GpuHealth(index, "the GPU", (0, 0), 0, Outcome.COULD_NOT_RUN, reason=reason)
        count = 1
    redirected = [name for name in _LIBRARY_VARIABLES if child.environ.get(name)]
    if redirected and gpu.outcome not in (Outcome.OK, Outcome.TRANSIENT):
        unset = " ".join(f"-u {name}" for name in redirected)
        hint = f"If another library than torch's is loaded, put `env {unset}` before the command."
        gpu = replace(gpu, reason=f"{gpu.reason} {hint}")
    return gpu, count


def run_check(
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


def gpu_health(index: int, events: Sequence[JsonObject], ending: ProcessResult) -> tuple[GpuHealth, int]:
    """The health of the GPU that a child checked, and the number of GPUs that the child saw."""
    last_by_kind = {event["event"]: event for event in events}
    facts = last_by_kind.get("device", {})
    operations = tuple(
        OperationVerdict(**{**fields, "outcome": Outcome(fields["outcome"])})
        for fields in (dict(event) for event in events)
        if fields.pop("event") == "operation"
    )
    outcome, reason = operations_outcome(operations)
    if refusal := last_by_kind.get("refused"):
        outcome, reason = Outcome(refusal["outcome"]), str(refusal["reason"])
    elif ending.code != 0:
        started = [str(event["operation"]) for event in events if event["event"] == "doing"]
        unfinished = started[-1] if len(started) > len(operations) else ""
        outcome, reason = ending_outcome(ending, unfinished)
        if unfinished:
            operations += (OperationVerdict(unfinished, False, reason=reason, outcome=outcome),)
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


def operations_outcome(operations: Sequence[OperationVerdict]) -> tuple[Outcome, str]:
    """The overall outcome of all operations, and its reason."""
    faulty = [operation for operation in operations if operation.reason]
    if not faulty:
        return Outcome.OK, ""
    reason = " ".join(operation.reason for operation in faulty[:_MAX_REPORTED_FAILURES])
    if len(faulty) > _MAX_REPORTED_FAILURES:
        reason += f" {len(faulty) - _MAX_REPORTED_FAILURES} more failed: " + (
            ", ".join(operation.name for operation in faulty[_MAX_REPORTED_FAILURES:]) + "."
        )
    if sticky := next((operation for operation in faulty if operation.outcome is Outcome.STICKY), None):
        return Outcome.STICKY, sticky.reason
    if all(operation.outcome is Outcome.TRANSIENT for operation in faulty):
        return Outcome.TRANSIENT, reason
    all_failed = not any(operation.ok for operation in operations)
    return (faulty[0].outcome if all_failed else Outcome.DEGRADED), reason


def ending_outcome(ending: ProcessResult, operation: str) -> tuple[Outcome, str]:
    """Why a child did not finish. operation: the one that it was running, "" if none."""
    where = f" in {operation}" if operation else ""
    last_words = (not ending.hung and ending.fault) or last_line(ending.errors)
    tail = f" Its last line: {last_words}" if last_words else ""
    code = ending.code
    if ending.hung:
        return Outcome.HANG, f"the check hung{where} and was stopped after {ending.seconds:.2g} s.{tail}"
    if code == -signal.SIGKILL:
        usual_cause = "usually the system does that when memory runs out"
        return Outcome.TRANSIENT, f"the check was killed{where} (SIGKILL); {usual_cause}.{tail}"
    if code is not None and code < 0:
        return Outcome.CRASH, f"the check was ended{where} by {signal_name(-code)}.{tail}"
    fault = cuda_errors.classify_text("", last_words)
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


def max_age_seconds(gpu: GpuHealth) -> float:
    """How long a verdict holds."""
    outcomes = {gpu.outcome} | {operation.outcome for operation in gpu.operations if not operation.ok}
    return _TEMPORARY_SECONDS if outcomes & _TEMPORARY_OUTCOMES else DAY_SECONDS


@contextlib.contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """Waits for another process's check, unless the folder cannot hold a lock."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError, WriteError):
            folder.mkdir(parents=True, exist_ok=True)
            lock = wait_for(folder / "gpus.lock", limit_seconds=MAX_WAIT_SECONDS)
            stack.enter_context(lock)
        yield


def _cached_health(folder: Path, key: str) -> tuple[GpuHealth, ...] | None:
    """The verdicts of the last check; None if its key differs or it is too old."""
    from pydantic import TypeAdapter

    if (check := _facts(folder).get("check", key)) is None:
        return None
    gpus = TypeAdapter(tuple[GpuHealth, ...]).validate_python(check["gpus"])
    age = time.time() - check["at"]
    return gpus if 0 <= age < min(map(max_age_seconds, gpus), default=_TEMPORARY_SECONDS) else None


def _facts(folder: Path) -> Facts:
    return Facts(folder, NAMESPACE, logging.DEBUG)


def _store(folder: Path, name: str, value: object, key: str = "") -> None:
    facts = _facts(folder)
    facts.put(name, value, key)
    facts.save()
