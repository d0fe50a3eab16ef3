"""Classifies CUDA and out-of-memory errors: retry, new process, other device, or a bug of ours.

The probe (`machine.devices.probe`) and the running programs share this classification. The texts
and codes are those of CUDA, cuFFT, cuDNN and cuBLAS, as torch reports them. NVIDIA's list of codes:
https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html
"""

import re
from dataclasses import dataclass

from machine.devices.health import Outcome
from machine.errors import SotaqueError

# After an error of the first group no call on the context succeeds ("the process must be terminated
# and relaunched").
_FAULT_OF_CODE = {
    code: (outcome, part)
    for codes, outcome, part in (
        ((700, 702, 710, *range(714, 720), 214, 999), Outcome.STICKY, "context"),
        ((2,), Outcome.TRANSIENT, "memory"),
        ((46,), Outcome.TRANSIENT, "busy"),
        ((13, 98, 209, 218, 222), Outcome.BUILD, "kernels"),
        ((3, 34, 35, 36, 100, 101, 304, 802, 803, 804), Outcome.DRIVER, "driver"),
    )
    for code in codes
}
# With less free memory than this, libraries fail to allocate a workspace and report other codes:
# CUFFT_INTERNAL_ERROR (pytorch #119420), CUDNN_STATUS_NOT_INITIALIZED.
LOW_MEMORY_BYTES = 1 << 30

# A fault whose outcome is transient while memory is low, else a fault of the build.
_BY_FREE_MEMORY = "by free memory"
# (pattern, outcome, part): the first pattern that matches the error's lower-case text decides.
_FAULT_OF_TEXT: tuple[tuple[str, Outcome | str, str], ...] = (
    (
        r"an illegal memory access was|launch timed out|device-side assert|hardware stack error|"
        r"an illegal instruction was|misaligned address|not supported on global/shared address|"
        r"invalid program counter|unspecified launch failure|uncorrectable ecc error|"
        r"cuda (error: )?unknown error",
        Outcome.STICKY,
        "context",
    ),
    (r"cuda error: out of memory", Outcome.TRANSIENT, "memory"),
    (r"busy or unavailable", Outcome.TRANSIENT, "busy"),
    (r"no kernel image is available|an unsupported toolchain", Outcome.BUILD, "kernels"),
    (
        r"initialization error|driver version is insufficient|no cuda-capable device|"
        r"invalid device ordinal|unsupported display driver|forward compatibility was attempted",
        Outcome.DRIVER,
        "driver",
    ),
    (r"empty tensor: cufft_invalid_size", Outcome.DATA, "fft"),
    (r"cufft only supports dimensions whose sizes are powers of two", Outcome.DATA, "fft"),
    (r"cufft_alloc_failed", Outcome.TRANSIENT, "fft"),
    (r"cufft_internal_error", _BY_FREE_MEMORY, "fft"),
    (r"cufft", Outcome.BUILD, "fft"),
    (r"cudnn_status_alloc_failed", Outcome.TRANSIENT, "convolution"),
    (r"cudnn_status_not_initialized|unable to find an engine", _BY_FREE_MEMORY, "convolution"),
    (r"cudnn", Outcome.BUILD, "convolution"),
    (r"cublas_status_alloc_failed", Outcome.TRANSIENT, "matrix_product"),
    (r"cublas_status_not_initialized", _BY_FREE_MEMORY, "matrix_product"),
    (r"cublas", Outcome.BUILD, "matrix_product"),
    (r"can't allocate memory|cannot allocate memory", Outcome.TRANSIENT, "memory of the machine"),
    (r"cuda out of memory|tried to allocate", Outcome.TRANSIENT, "memory"),
    (r"found no nvidia driver|driver on your system is too old", Outcome.DRIVER, "driver"),
    (r"libcuda\.so\.1|driver/library version mismatch|initialize nvml", Outcome.DRIVER, "driver"),
    (r"no cuda gpus are available", Outcome.DRIVER, "driver"),
    (r"not compiled with cuda|not compatible with the current pytorch", Outcome.BUILD, "kernels"),
    (r"expected 2d or 3d \(batch mode\) tensor|padding size should be less", Outcome.DATA, "fft"),
    (r"probability tensor contains either", Outcome.DATA, "sampling"),
)


class NotFinite(SotaqueError):
    """A device computed non-finite values from finite ones: the device or the weights are
    damaged."""


@dataclass(frozen=True)
class DeviceFault:
    """A classified device error.

    Attributes:
        outcome: What the error means.
        part: The operation in which a library failed, else "memory", "driver", "kernels",
            "context" or "busy".
        code: `AcceleratorError.error_code`; None if the error has none.
        words: The error's first line, at most 300 characters.
    """

    outcome: Outcome
    part: str
    code: int | None
    words: str

    @property
    def sticky(self) -> bool:
        """Whether this process's CUDA context is dead."""
        return self.outcome is Outcome.STICKY

    @property
    def transient(self) -> bool:
        """Whether to retry once memory has been freed."""
        return self.outcome is Outcome.TRANSIENT


def classify(error: BaseException, free_bytes: int | None = None) -> DeviceFault | None:
    """Classifies `error` or its nearest cause; None if no device is at fault."""
    cause: BaseException | None = error
    while cause is not None:
        code = getattr(cause, "error_code", None)
        fault = classify_text(type(cause).__name__, str(cause), code, free_bytes)
        if fault is not None:
            return fault
        cause = cause.__cause__
    return None


def classify_text(
    class_name: str, text: str, code: int | None = None, free_bytes: int | None = None
) -> DeviceFault | None:
    """Classifies an error by plain values, as another process reports it.

    Args:
        class_name: The name of the exception's class.
        text: The exception's text.
        code: `AcceleratorError.error_code`.
        free_bytes: The GPU's free memory; None if unknown.
    """
    lower_text = text.lower()
    words = next((line.strip() for line in text.splitlines() if line.strip()), class_name)[:300]
    if code in _FAULT_OF_CODE:
        return DeviceFault(*_FAULT_OF_CODE[code], code, words)
    if class_name == "MemoryError":
        return DeviceFault(Outcome.TRANSIENT, "memory of the machine", None, words)
    if class_name == "OutOfMemoryError":
        return DeviceFault(Outcome.TRANSIENT, "memory", None, words)
    for pattern, outcome, part in _FAULT_OF_TEXT:
        if re.search(pattern, lower_text):
            return DeviceFault(_outcome_by_memory(outcome, free_bytes), part, None, words)
    if class_name == "AcceleratorError" or "cuda error" in lower_text:  # "invalid argument" and its like
        return DeviceFault(Outcome.BUILD, "kernels", code, words)
    return None


def free_bytes(device: str) -> int | None:
    """The free memory of a GPU; None if it cannot be read."""
    if not device.startswith("cuda"):
        return None
    import torch

    try:
        return int(torch.cuda.mem_get_info(device)[0])
    except Exception:
        return None


def _outcome_by_memory(outcome: Outcome | str, free: int | None) -> Outcome:
    if isinstance(outcome, Outcome):
        return outcome
    return Outcome.TRANSIENT if free is not None and free < LOW_MEMORY_BYTES else Outcome.BUILD
