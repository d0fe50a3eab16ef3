"""Why a worker failed: its own answer, or what its exit means."""

import signal
import traceback
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from machine.devices import cuda_errors
from machine.devices.cuda_errors import DeviceFault
from machine.devices.health import Outcome
from machine.errors import SotaqueError

_NO_MEMORY = ("memoryerror", "out of memory", "can't allocate memory", "cannot allocate memory")


class WorkerFailed(SotaqueError):
    """Something was not spoken, read or measured.

    reason_code: crashed, killed, hang, out_of_memory, gpu_fault, not_finite, refused, interrupted,
    error (in this process), text_process (the one that reads texts did not answer);
    fault: what it says of the device, where it says something; of_device: whether the device may be
    the reason: not an error that the process raised and did not take for one of its device;
    elsewhere: whether another place might succeed.
    """

    def __init__(
        self, reason_code: str, reason: str, fault: DeviceFault | None = None, *,
        of_device: bool = True, elsewhere: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(reason)
        self.reason_code = reason_code
        self.fault = fault
        self.of_device = of_device
        # What was refused, a text or a recording, is refused on every device.
        self.elsewhere = elsewhere and reason_code not in ("refused", "interrupted")

    @property
    def transient(self) -> bool:
        """Worth one more try in the same place."""
        return self.fault is not None and self.fault.transient

    @property
    def first_line(self) -> str:
        """What a reason quotes of it."""
        return (str(self).splitlines() or [self.reason_code])[0].rstrip(".")


def answer_of(error: Exception, device: str) -> dict[str, Any] | None:
    """What the child answers to an error: a sentence, a fault of its device; None for others.

    Whatever the error was, a device that computes no more is what is told.
    """
    fault = cuda_errors.classify(error, cuda_errors.free_bytes(device))
    if poison := cuda_errors.poisoned(device):
        number = fault.code if fault and fault.sticky else None
        fault = DeviceFault(Outcome.STICKY, "context", number, poison)
    elif isinstance(error, SotaqueError):
        code = "not_finite" if isinstance(error, cuda_errors.NotFinite) else "refused"
        code = error.reason_code if isinstance(error, WorkerFailed) else code
        return {"ok": False, "reason_code": code, "reason": str(error)}
    if fault is None:
        return None
    if fault.part.startswith("memory"):
        answer = {"reason_code": "out_of_memory", "reason": "The worker ran out of memory"}
    else:
        answer = {"reason_code": "gpu_fault", "reason": f"The worker failed on {device}"}
    answer["reason"] += f": {fault.words.rstrip('.')}."
    return {"ok": False, **answer, "fault": asdict(fault)}


def worker_failed(answer: Mapping[str, Any]) -> WorkerFailed:
    """What `answer_of` gave, on the parent's side."""
    details = answer.get("fault")
    fault = DeviceFault(**{**details, "outcome": Outcome(details["outcome"])}) if details else None
    return WorkerFailed(answer["reason_code"], answer["reason"], fault)


def death(code: int, last_line: str, *, oom_killed: bool = False) -> WorkerFailed:
    """What an exit status, the last line on stderr and the kernel's count of OOM kills mean."""
    tail = f" It said last: {last_line}" if last_line else ""
    oom_killed = oom_killed and code == -signal.SIGKILL
    if oom_killed or any(words in last_line.lower() for words in _NO_MEMORY):
        by = ": the system killed it" if oom_killed else ""
        reason = f"The worker ran out of memory{by}.{tail}"
        fault = DeviceFault(Outcome.TRANSIENT, "memory of the machine", None, reason)
        return WorkerFailed("out_of_memory", reason, fault)
    if code == -signal.SIGKILL:
        what = "was killed (SIGKILL); most often the system does that when memory runs out"
        return WorkerFailed("killed", f"The worker {what}.{tail}")
    return WorkerFailed("crashed", f"The worker {ending(code)}.{tail}", of_device=code < 0)


def ending(code: int) -> str:
    """An exit status, negative for a signal, as the end of a sentence: `ended by SIGSEGV`."""
    return f"ended by {_signal_name(-code)}" if code < 0 else f"ended with exit status {code}"


def place_of(error: BaseException) -> str:
    """Kind and place of an unexpected error, `IndexError in decoding.py:71`. Without its message,
    which may quote a caller's text: this goes into answers, the status and the log."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" in {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return type(error).__name__ + place


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal has no name
        return f"signal {number}"
