"""Why a worker failed, from its answer or its exit status."""

import signal
import traceback
from dataclasses import asdict
from pathlib import Path

from machine.devices import cuda_errors, recovery
from machine.devices.cuda_errors import DeviceFault
from machine.devices.health import Outcome
from machine.errors import SotaqueError
from machine.process import signal_name
from machine.storage.files import JsonObject

_OUT_OF_MEMORY_WORDS = ("memoryerror", "out of memory", "can't allocate memory", "cannot allocate memory")


class WorkerFailed(SotaqueError):
    """A worker failed.

    Attributes:
        reason_code: crashed, killed, hang, out_of_memory, gpu_fault, not_finite, refused,
            interrupted, error (in this process), or text_process (the text process did not answer).
        fault: The classified device error; None if no device is at fault.
        of_device: Whether the device may be the cause.
        elsewhere: Whether another device might succeed.
    """

    def __init__(
        self,
        reason_code: str,
        reason: str,
        fault: DeviceFault | None = None,
        *,
        of_device: bool = True,
        elsewhere: bool = True,
    ) -> None:
        super().__init__(reason)
        self.reason_code = reason_code
        self.fault = fault
        self.of_device = of_device
        # A refused text or recording is refused on every device.
        self.elsewhere = elsewhere and reason_code not in ("refused", "interrupted")

    @property
    def transient(self) -> bool:
        """Whether to retry in the same place."""
        return self.fault is not None and self.fault.transient

    @property
    def first_line(self) -> str:
        """The first line of the message, for use in another message."""
        return (str(self).splitlines() or [self.reason_code])[0].rstrip(".")


def answer_to_error(error: Exception, device: str) -> JsonObject | None:
    """A child's answer to an error: a message or a device fault; None for other errors.

    If the device is unusable, the answer reports that instead of the error.
    """
    fault = cuda_errors.classify(error, cuda_errors.free_bytes(device))
    if context_error := recovery.remaining_fault(device):
        cuda_code = fault.code if fault and fault.sticky else None
        fault = DeviceFault(Outcome.STICKY, "context", cuda_code, context_error)
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


def failure_from_answer(answer: JsonObject) -> WorkerFailed:
    """The failure that an answer by `answer_to_error` reports, in the parent."""
    fields = answer.get("fault")
    fault = DeviceFault(**{**fields, "outcome": Outcome(fields["outcome"])}) if fields else None
    return WorkerFailed(answer["reason_code"], answer["reason"], fault)


def failure_from_exit(code: int, last_line: str, *, oom_killed: bool = False) -> WorkerFailed:
    """The failure that an exit status means.

    Args:
        code: The exit status, negative for a signal.
        last_line: The last line of stderr.
        oom_killed: Whether the kernel has killed processes for lack of memory meanwhile.
    """
    tail = f" Its last line: {last_line}" if last_line else ""
    oom_killed = oom_killed and code == -signal.SIGKILL
    if oom_killed or any(words in last_line.lower() for words in _OUT_OF_MEMORY_WORDS):
        killed = ": the system killed it" if oom_killed else ""
        reason = f"The worker ran out of memory{killed}.{tail}"
        fault = DeviceFault(Outcome.TRANSIENT, "memory of the machine", None, reason)
        return WorkerFailed("out_of_memory", reason, fault)
    if code == -signal.SIGKILL:
        reason = "The worker was killed (SIGKILL); usually the system does that when memory runs out"
        return WorkerFailed("killed", f"{reason}.{tail}")
    return WorkerFailed("crashed", f"The worker {exit_words(code)}.{tail}", of_device=code < 0)


def exit_words(code: int) -> str:
    """An exit status, negative for a signal, as the end of a sentence: `ended by SIGSEGV`."""
    return f"ended by {signal_name(-code)}" if code < 0 else f"ended with exit status {code}"


def type_and_place(error: BaseException) -> str:
    """Type and place of an unexpected error: `IndexError in decoding.py:71`. Answers, the status and
    the log show them; they omit the message, which may quote a user's text."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" in {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return type(error).__name__ + place
