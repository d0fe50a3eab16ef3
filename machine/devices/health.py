"""GPU health: a verdict per operation, and what the GPU is good for (train, speak).

Plain values without torch: `machine.devices.probe.runner` fills them, `machine.devices.selection`
and `train.sampling.sampler` decide by them, `python -m xtts doctor` tells them. They go into JSON
and come back.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar


class Outcome(StrEnum):
    """What a check of a GPU, or an error on it, comes to.

    ok             every operation ran and equals the CPU's
    degraded       some operations ran, others did not; `GpuHealth.failed` names them
    build          this torch, or a library that it loaded, does not fit this GPU
    driver         no driver, one that is too old or half replaced, or a GPU that is lost
    data           the input was no input: empty, not finite, too short
    transient      no memory just now, or the GPU belongs to another process
    sticky         the CUDA context is dead; only a new process has another
    hang           no answer in time
    crash          the process ended by a signal
    could_not_run  nothing is known: the check itself did not work
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


# In the order in which they are run.
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
# What a training step asks for, whatever its precision; mels are cached before.
_FOR_BOTH = frozenset({"allocation", "resample", "convolution", "matrix_product", "attention_fp32"})
FOR_TRAINING = _FOR_BOTH | {"train_step"}
# What speaking asks for. A broken `fft` costs it nothing but the place of the speaker's mel.
FOR_SPEAKING = _FOR_BOTH | {"sampling"}
# What codes and mels of a dataset ask for.
FOR_FEATURES = frozenset({"allocation", "fft", "convolution", "matrix_product"})
# What runs through cuDNN. torch has convolutions of its own: slower, and as right.
USES_CUDNN = frozenset(
    {"resample", "convolution", "attention_fp16", "attention_bf16", "train_step"}
)

T = TypeVar("T", "GpuHealth", "OperationVerdict")
CUDNN_OFF = "cuDNN off"
CLEAN_LIBRARY_PATH = "clean library path"


@dataclass(frozen=True)
class OperationVerdict:
    """One operation on one GPU. distance: relative L2 to the CPU's result, None where it gave none;
    reason: "" when ok, else a sentence; outcome: what its failure comes to."""

    name: str
    ok: bool
    distance: float | None = None
    tolerance: float | None = None
    reason: str = ""
    seconds: float = 0.0
    outcome: Outcome = Outcome.OK


@dataclass(frozen=True)
class ProbeVariant:
    """The failed operations once more, one thing changed.

    name: "clean library path", "cuDNN off" or "GPU 1"; ok: all of them passed; passed: those that
    did; advice: what to do when it was the cure.
    """

    name: str
    ok: bool
    advice: str = ""
    reason: str = ""
    passed: tuple[str, ...] = ()


class SpeakingSetup(NamedTuple):
    """How a process is set up to speak on a GPU.

    Attributes:
        mel_device: Where the speaker encoder's mel is computed: the CPU where the GPU's FFT failed.
        cudnn: Whether convolutions go through cuDNN.
        clean_libraries: The process is started without LD_LIBRARY_PATH and LD_PRELOAD.
    """

    device: str
    mel_device: str
    cudnn: bool
    clean_libraries: bool


@dataclass(frozen=True)
class GpuHealth:
    """One CUDA device and what the check found of it.

    libraries: name -> path of the CUDA libraries that the check had loaded ("libcufft.so.12");
    exclusive: its compute mode allows one process only; surprise: a fault at run time that the
    check had not foretold, remembered until it is a day old; "" for none.
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
        """ "" when every operation passed, else why not, in a sentence."""
        return "" if self.outcome is Outcome.OK else self.reason

    @property
    def failed(self) -> frozenset[str]:
        """The operations that did not pass."""
        return frozenset(one.name for one in self.operations if not one.ok)

    @property
    def without_cudnn(self) -> frozenset[str]:
        """The operations that failed, and pass as soon as cuDNN is off."""
        found = (one.passed for one in self.variants if one.name == CUDNN_OFF)
        return self.failed & frozenset().union(*found)

    @property
    def with_clean_libraries(self) -> bool:
        """Whether a process without LD_LIBRARY_PATH and LD_PRELOAD passes the check."""
        return any(one.ok and one.name == CLEAN_LIBRARY_PATH for one in self.variants)

    def trains(self) -> bool:
        """Whether it is good for training in this process, cuDNN off where that is the cure."""
        return self._passes(FOR_TRAINING)

    def speaks(self) -> bool:
        """Whether it is good for speaking, the speaker's mel on the CPU where its FFT is bad."""
        return self._passes(FOR_SPEAKING)

    def computes_features(self) -> bool:
        """Whether codes and mels of a dataset are computed on it; never through cuDNN."""
        return self._passes(FOR_FEATURES)

    def speaks_in_own_process(self) -> bool:
        """Whether a process of its own can speak on it, without foreign libraries if need be."""
        return self.speaks() or self.with_clean_libraries

    def speaking_setup(self) -> SpeakingSetup:
        """How to speak on it, where `speaks_in_own_process` says that it can be done."""
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
        # A check that cuDNN ended came to its end without it.
        ended = ended or any(one.ok and one.name == CUDNN_OFF for one in self.variants)
        return ended and not (self.failed - self.without_cudnn) & needed

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON; `read_as` is the way back."""
        return asdict(self) | {"libraries": dict(self.libraries)}


def read_as(kind: type[T], found: Mapping[str, Any]) -> T:
    """A GpuHealth or OperationVerdict of what JSON has kept of one. Raises ValueError."""
    from pydantic import TypeAdapter

    if unknown := found.keys() - {one.name for one in fields(kind)}:
        raise ValueError(f"{kind.__name__} has no {', '.join(sorted(unknown))}")
    return TypeAdapter(kind).validate_python(found)
