"""Classifies CUDA and out-of-memory errors: retry, new process, other device, or our own bug.

One function for the check (`machine.devices.probe.runner`) and for the run: the texts and numbers
are those of CUDA, cuFFT, cuDNN and cuBLAS as torch passes them on. NVIDIA's list of codes:
https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html
"""

import contextlib
import gc
import os
import re
import sys
from dataclasses import dataclass

from machine.devices.health import Outcome
from machine.errors import SotaqueError

# After the first of these no call on the context succeeds ("the process must be terminated and
# relaunched").
_OF_CODE = {
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
# torch before 2.8 raises the text alone.
_CODE_OF_TEXT = {
    "an illegal memory access was encountered": 700,
    "the launch timed out and was terminated": 702,
    "device-side assert triggered": 710,
    "hardware stack error": 714,
    "an illegal instruction was encountered": 715,
    "misaligned address": 716,
    "operation not supported on global/shared address space": 717,
    "invalid program counter": 718,
    "unspecified launch failure": 719,
    "uncorrectable ecc error encountered": 214,
    "cuda error: unknown error": 999,
    "cuda unknown error": 999,
    "cuda error: out of memory": 2,
    "busy or unavailable": 46,
    "no kernel image is available": 209,
    "provided ptx was compiled with an unsupported toolchain": 222,
    "initialization error": 3,
    "driver version is insufficient": 35,
    "no cuda-capable device": 100,
    "invalid device ordinal": 101,
    "unsupported display driver / cuda driver combination": 803,
    "forward compatibility was attempted on non supported hw": 804,
}
# Below this, libraries fail to get a workspace and say so in words of their own: seen as
# CUFFT_INTERNAL_ERROR (pytorch #119420) and CUDNN_STATUS_NOT_INITIALIZED.
LOW_BYTES = 1 << 30

# The first that is found in the error's text (lower case) decides: pattern, outcome, part. "low"
# stands for: transient where memory is low, else the build.
_LOW = "low"
_TEXTS: tuple[tuple[str, Outcome | str, str], ...] = (
    (r"empty tensor: cufft_invalid_size", Outcome.DATA, "fft"),
    (r"cufft only supports dimensions whose sizes are powers of two", Outcome.DATA, "fft"),
    (r"cufft_alloc_failed", Outcome.TRANSIENT, "fft"),
    (r"cufft_internal_error", _LOW, "fft"),
    (r"cufft", Outcome.BUILD, "fft"),
    (r"cudnn_status_alloc_failed", Outcome.TRANSIENT, "convolution"),
    (r"cudnn_status_not_initialized|unable to find an engine", _LOW, "convolution"),
    (r"cudnn", Outcome.BUILD, "convolution"),
    (r"cublas_status_alloc_failed", Outcome.TRANSIENT, "matrix_product"),
    (r"cublas_status_not_initialized", _LOW, "matrix_product"),
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
    """A device computed non-finite values from finite ones: it, or the weights, are damaged."""


class GpuLost(SotaqueError):
    """The CUDA context is dead: this process can compute nothing more on that GPU."""

    exit_code = 70


@dataclass(frozen=True)
class DeviceFault:
    """What an error is. part: an operation's name where a library failed, else "memory", "driver",
    "kernels", "context", "busy"; code: CUDA's number; words: the error's first line."""

    outcome: Outcome
    part: str
    code: int | None
    words: str

    @property
    def sticky(self) -> bool:
        """Nothing more can be had from this process's CUDA context."""
        return self.outcome is Outcome.STICKY

    @property
    def transient(self) -> bool:
        """Worth one more try when memory has been given back."""
        return self.outcome is Outcome.TRANSIENT


def classify(error: BaseException, free_bytes: int | None = None) -> DeviceFault | None:
    """What `error`, or what it was raised from, says of a device; None for any other error."""
    seen: BaseException | None = error
    while seen is not None:
        code = getattr(seen, "error_code", None)
        found = fault(type(seen).__name__, str(seen), code, free_bytes)
        if found is not None:
            return found
        seen = seen.__cause__
    return None


def fault(
    kind: str, text: str, code: int | None = None, free_bytes: int | None = None
) -> DeviceFault | None:
    """The same from plain values, as they come out of another process.

    kind: the exception's class; code: `AcceleratorError.error_code`; free_bytes: of the GPU's
    memory, None where it is not known.
    """
    lower = text.lower()
    words = next((line.strip() for line in text.splitlines() if line.strip()), kind)[:300]
    if code is None:
        code = next((number for line, number in _CODE_OF_TEXT.items() if line in lower), None)
    if code in _OF_CODE:
        return DeviceFault(*_OF_CODE[code], code, words)
    if kind == "MemoryError":
        return DeviceFault(Outcome.TRANSIENT, "memory of the machine", None, words)
    if kind == "OutOfMemoryError":
        return DeviceFault(Outcome.TRANSIENT, "memory", None, words)
    for pattern, outcome, part in _TEXTS:
        if re.search(pattern, lower):
            return DeviceFault(_settled(outcome, free_bytes), part, None, words)
    if kind == "AcceleratorError" or "cuda error" in lower:  # "invalid argument" and its like
        return DeviceFault(Outcome.BUILD, "kernels", code, words)
    return None


def poisoned(device: str) -> str:
    """ "" when `device` still computes, else what it says; to be asked after any error on it."""
    if not device.startswith("cuda"):
        return ""
    import torch

    try:
        torch.ones(1, device=device).add_(1).item()
    except Exception as error:
        # With no memory left the context is alive all the same.
        found = classify(error)
        return "" if found and found.transient else (str(error).splitlines() or ["no answer"])[0]
    return ""


def free_after_fault(device: str) -> None:
    """Gives back what may be given back. Not inside an `except`: the error holds the frames that
    hold the tensors (pytorch #18853)."""
    gc.collect()
    if not device.startswith("cuda"):
        return
    import torch

    with contextlib.suppress(RuntimeError):  # raised again by the next call
        torch.backends.cuda.cufft_plan_cache[torch.device(device)].clear()
        torch.cuda.empty_cache()


def free_bytes(device: str) -> int | None:
    """Free memory of a GPU; None where it cannot be asked."""
    if not device.startswith("cuda"):
        return None
    import torch

    try:
        return int(torch.cuda.mem_get_info(device)[0])
    except Exception:
        return None


def exit_after_fault(code: int) -> None:
    """Ends this process. With a dead CUDA context, without its destructors: one more error while
    unwinding would end it by SIGABRT (pytorch PR 177780), and 70 would be lost."""
    if code == GpuLost.exit_code and "torch" in sys.modules:
        import torch

        if torch.cuda.is_initialized():
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    sys.exit(code)


def _settled(outcome: Outcome | str, free: int | None) -> Outcome:
    if isinstance(outcome, Outcome):
        return outcome
    return Outcome.TRANSIENT if free is not None and free < LOW_BYTES else Outcome.BUILD
