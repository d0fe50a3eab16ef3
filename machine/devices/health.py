"""GPU health: a verdict per operation, and whether the GPU is good enough to use.

Plain values without torch. `machine.devices.probe` fills them, `machine.devices.selection` decides
by them, and `python -m xtts doctor` prints them.
"""

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """The result of checking a GPU, or the meaning of an error on it.

    ok             every operation ran and equals the CPU's result
    degraded       some operations failed; `GpuHealth.failed_operations` names them
    build          this build of torch, or a library that it loaded, does not fit this GPU
    driver         the driver is missing, too old or half updated, or the GPU is lost
    data           the input was invalid: empty, non-finite or too short
    transient      out of memory for now, or another process has the GPU
    sticky         the CUDA context is dead; only a new process gets another
    hang           no answer in time
    crash          a signal ended the process
    could_not_run  nothing is known: the check itself failed
    """

    OK = "ok"
    DEGRADED = "degraded"
    BUILD = "build"
    DRIVER = "driver"
    DATA = "data"
    TRANSIENT = "transient"
    STICKY = "sticky"
    HANG = "hang"
    CRASH = "crash"
    COULD_NOT_RUN = "could_not_run"


# A GPU is used without these: FFTs then run on the CPU, and products in another precision.
DISPENSABLE_OPERATIONS = frozenset({"fft", "attention_fp16", "attention_bf16"})


@dataclass(frozen=True)
class OperationVerdict:
    """The result of one operation on one GPU.

    Attributes:
        reason: A sentence about the failure; "" for none.
        outcome: What the failure means.
        cudnn: Whether it passed through cuDNN. torch's own convolutions are slower and equally
            correct.
    """

    name: str
    ok: bool
    reason: str = ""
    outcome: Outcome = Outcome.OK
    cudnn: bool = True


@dataclass(frozen=True)
class GpuHealth:
    """One CUDA device and the results of its check.

    Attributes:
        reason: What failed, as a sentence; "" if every operation passed.
        surprise: A fault at run time that the check did not predict, kept for a day; "" for none.
    """

    index: int
    name: str
    capability: tuple[int, int]
    total_bytes: int
    outcome: Outcome = Outcome.OK
    operations: tuple[OperationVerdict, ...] = ()
    reason: str = ""
    surprise: str = ""

    @property
    def device(self) -> str:
        """Its name in torch."""
        return f"cuda:{self.index}"

    @property
    def failed_operations(self) -> frozenset[str]:
        """The operations that failed."""
        return frozenset(operation.name for operation in self.operations if not operation.ok)

    @property
    def trains(self) -> bool:
        """Whether it can train; failed dispensable operations have a replacement."""
        return self._passes_without("sampling")

    @property
    def speaks(self) -> bool:
        """Whether it can speak; failed dispensable operations have a replacement."""
        return self._passes_without("train_step")

    @property
    def works(self) -> bool:
        """Whether it can train and speak."""
        return self.trains and self.speaks

    def _passes_without(self, operation: str) -> bool:
        has_ended = self.outcome in (Outcome.OK, Outcome.DEGRADED)
        return has_ended and self.failed_operations <= DISPENSABLE_OPERATIONS | {operation}

    @property
    def cudnn(self) -> bool:
        """Whether convolutions may go through cuDNN."""
        return all(operation.cudnn for operation in self.operations)
