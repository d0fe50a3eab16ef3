"""GPU health: a verdict per operation, and whether the GPU can train and speak.

Plain values without torch, which convert to JSON and back. `machine.devices.probe.runner` fills
them, `machine.devices.selection` and `train.sampling.sampler` decide by them, and
`python -m xtts doctor` prints them.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar


class Outcome(StrEnum):
    """The result of checking a GPU, or the meaning of an error on it.

    ok             every operation ran and equals the CPU's result
    degraded       some operations failed; `GpuHealth.failed` names them
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


# In the order in which the probe runs them.
OPERATIONS = (
    "allocation",
    "resample",
    "fft",
    "convolution",
    "matrix_product",
    "attention_fp32",
    "attention_fp16",
    "attention_bf16",
    "sampling",
    "train_step",
    "graph",
)
# What a training step needs in any precision; its mels are cached beforehand.
_FOR_BOTH = frozenset({"allocation", "resample", "convolution", "matrix_product", "attention_fp32"})
FOR_TRAINING = _FOR_BOTH | {"train_step"}
# What speaking needs. With a broken `fft` the speaker encoder's mel is computed on the CPU.
FOR_SPEAKING = _FOR_BOTH | {"sampling"}
# What computing the codes and mels of a dataset needs.
FOR_FEATURES = frozenset({"allocation", "fft", "convolution", "matrix_product"})
# What runs through cuDNN. torch's own convolutions are slower and equally correct.
USES_CUDNN = frozenset(
    {"resample", "convolution", "attention_fp16", "attention_bf16", "train_step"}
)

T = TypeVar("T", "GpuHealth", "OperationVerdict")
CUDNN_OFF = "cuDNN off"
CLEAN_LIBRARY_PATH = "clean library path"


@dataclass(frozen=True)
class OperationVerdict:
    """The result of one operation on one GPU.

    Attributes:
        distance: Relative L2 distance to the CPU's result; None if there was no result.
        tolerance: The largest distance that passes.
        reason: "" when ok, else a sentence.
        outcome: What the failure means.
    """

    name: str
    ok: bool
    distance: float | None = None
    tolerance: float | None = None
    reason: str = ""
    seconds: float = 0.0
    outcome: Outcome = Outcome.OK


@dataclass(frozen=True)
class ProbeVariant:
    """The failed operations, run again with one thing changed.

    Attributes:
        name: What was changed: "clean library path", "cuDNN off" or "GPU 1".
        ok: Whether all of them passed.
        advice: What to do if they passed.
        reason: Why they did not.
        passed: The operations that passed.
    """

    name: str
    ok: bool
    advice: str = ""
    reason: str = ""
    passed: tuple[str, ...] = ()


class SpeakingSetup(NamedTuple):
    """How a process is set up to speak on a GPU.

    Attributes:
        mel_device: Where the speaker encoder's mel is computed: the CPU if the GPU's FFT failed.
        cudnn: Whether convolutions go through cuDNN.
        clean_libraries: Whether the process starts without LD_LIBRARY_PATH and LD_PRELOAD.
    """

    device: str
    mel_device: str
    cudnn: bool
    clean_libraries: bool


@dataclass(frozen=True)
class GpuHealth:
    """One CUDA device and the results of its check.

    Attributes:
        libraries: CUDA libraries that the check loaded, name -> path ("libcufft.so.12").
        exclusive: Whether its compute mode allows one process only.
        surprise: A fault at run time that the check did not predict, kept for a day; "" for none.
    """

    index: int
    name: str
    capability: tuple[int, int]
    total_bytes: int
    outcome: Outcome = Outcome.OK
    operations: tuple[OperationVerdict, ...] = ()
    reason: str = ""
    libraries: Mapping[str, str] = field(default_factory=dict)
    free_bytes: int | None = None
    variants: tuple[ProbeVariant, ...] = ()
    exclusive: bool = False
    surprise: str = ""

    @property
    def verdict(self) -> str:
        """ "" if every operation passed, else a sentence that says what failed."""
        return "" if self.outcome is Outcome.OK else self.reason

    @property
    def failed(self) -> frozenset[str]:
        """The operations that failed."""
        return frozenset(one.name for one in self.operations if not one.ok)

    @property
    def without_cudnn(self) -> frozenset[str]:
        """The operations that failed with cuDNN and passed without it."""
        passed = (one.passed for one in self.variants if one.name == CUDNN_OFF)
        return self.failed & frozenset().union(*passed)

    @property
    def with_clean_libraries(self) -> bool:
        """Whether a process without LD_LIBRARY_PATH and LD_PRELOAD passes the check."""
        return any(one.ok and one.name == CLEAN_LIBRARY_PATH for one in self.variants)

    def trains(self) -> bool:
        """Whether it can train in this process, with cuDNN off where that is needed."""
        return self._passes(FOR_TRAINING)

    def speaks(self) -> bool:
        """Whether it can speak, with the speaker encoder's mel on the CPU if its FFT is bad."""
        return self._passes(FOR_SPEAKING)

    def computes_features(self) -> bool:
        """Whether it can compute the codes and mels of a dataset; these never use cuDNN."""
        return self._passes(FOR_FEATURES)

    def speaks_in_own_process(self) -> bool:
        """Whether a separate process can speak on it, with a clean library path if necessary."""
        return self.speaks() or self.with_clean_libraries

    def speaking_setup(self) -> SpeakingSetup:
        """How to set up a process that speaks on it; needs `speaks_in_own_process`."""
        clean = not self.speaks()
        device = f"cuda:{self.index}"
        return SpeakingSetup(
            device=device,
            mel_device="cpu" if "fft" in self.failed and not clean else device,
            cudnn=clean or not self.without_cudnn,
            clean_libraries=clean,
        )

    def _passes(self, needed: frozenset[str]) -> bool:
        ended = self.outcome in (Outcome.OK, Outcome.DEGRADED)
        # A check that cuDNN brought down may have finished without cuDNN.
        ended = ended or any(one.ok and one.name == CUDNN_OFF for one in self.variants)
        return ended and not (self.failed - self.without_cudnn) & needed

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON; `read_as` reads them back."""
        return asdict(self) | {"libraries": dict(self.libraries)}


def read_as(kind: type[T], values: Mapping[str, Any]) -> T:
    """A GpuHealth or OperationVerdict from its JSON values. Raises ValueError."""
    from pydantic import TypeAdapter

    if unknown := values.keys() - {one.name for one in fields(kind)}:
        raise ValueError(f"{kind.__name__} has no {', '.join(sorted(unknown))}")
    return TypeAdapter(kind).validate_python(values)
