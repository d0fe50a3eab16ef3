"""The meaning of CUDA's error texts and numbers; each row is from a real machine."""

import pytest
import torch

from machine.devices.cuda_errors import classify, classify_text
from machine.devices.health import Outcome

BUILD, DRIVER, DATA = Outcome.BUILD, Outcome.DRIVER, Outcome.DATA
TRANSIENT, STICKY = Outcome.TRANSIENT, Outcome.STICKY
MUCH, LITTLE = 8 << 30, 200 << 20


@pytest.mark.parametrize(
    ("text", "outcome", "part"),
    [
        ("cuFFT error: CUFFT_INVALID_SIZE", BUILD, "fft"),
        ("cuFFT could not plan over an empty tensor: CUFFT_INVALID_SIZE", DATA, "fft"),
        ("cuFFT error: CUFFT_INTERNAL_ERROR", BUILD, "fft"),
        ("cuFFT error: CUFFT_ALLOC_FAILED", TRANSIENT, "fft"),
        ("cuFFT error: CUFFT_INVALID_PLAN", BUILD, "fft"),
        (
            "cuFFT only supports dimensions whose sizes are powers of two when computing in half "
            "precision, but got a signal size of[400]",
            DATA,
            "fft",
        ),
        ("Could not load library libcufft.so.11: cannot open shared object file", BUILD, "fft"),
        ("cuDNN error: CUDNN_STATUS_NOT_INITIALIZED", BUILD, "convolution"),
        ("cuDNN error: CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH", BUILD, "convolution"),
        (
            "Could not load library libcudnn_cnn_train.so.8. Error: undefined symbol: _ZN5cudnn3cnn"
            "34layerNormFwd",
            BUILD,
            "convolution",
        ),
        (
            "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
            TRANSIENT,
            "matrix_product",
        ),
        (
            "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
            BUILD,
            "matrix_product",
        ),
        ("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm`", BUILD, "matrix_product"),
        ("libcublasLt.so.13: cannot open shared object file", BUILD, "matrix_product"),
        ("CUDA error: device-side assert triggered\nCUDA kernel errors might be…", STICKY, "context"),
        ("CUDA error: an illegal memory access was encountered", STICKY, "context"),
        ("CUDA error: the launch timed out and was terminated", STICKY, "context"),
        ("CUDA error: misaligned address", STICKY, "context"),
        ("CUDA error: unspecified launch failure", STICKY, "context"),
        ("CUDA error: uncorrectable ECC error encountered", STICKY, "context"),
        ("CUDA error: unknown error", STICKY, "context"),
        ("CUDA unknown error - this may be due to an incorrectly set up environment", STICKY, "context"),
        ("CUDA error: out of memory", TRANSIENT, "memory"),
        (
            "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 24.00 GiB",
            TRANSIENT,
            "memory",
        ),
        ("CUDA error: all CUDA-capable devices are busy or unavailable", TRANSIENT, "busy"),
        ("CUDA error: no kernel image is available for execution on the device", BUILD, "kernels"),
        ("CUDA error: the provided PTX was compiled with an unsupported toolchain.", BUILD, "kernels"),
        ("CUDA error: invalid argument", BUILD, "kernels"),
        (
            "NVIDIA GeForce RTX 5090 with CUDA capability sm_120 is not compatible with the current "
            "PyTorch installation.",
            BUILD,
            "kernels",
        ),
        ("Torch not compiled with CUDA enabled", BUILD, "kernels"),
        ("Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU", DRIVER, "driver"),
        ("The NVIDIA driver on your system is too old (found version 12040).", DRIVER, "driver"),
        ("libcuda.so.1: cannot open shared object file: No such file or directory", DRIVER, "driver"),
        ("Failed to initialize NVML: Driver/library version mismatch", DRIVER, "driver"),
        ("Failed to initialize NVML: Unknown Error", DRIVER, "driver"),
        ("No CUDA GPUs are available", DRIVER, "driver"),
        (
            "Unexpected error from cudaGetDeviceCount(). Error 804: forward compatibility was "
            "attempted on non supported HW",
            DRIVER,
            "driver",
        ),
        (
            "Unexpected error from cudaGetDeviceCount(). Error 803: system has unsupported display "
            "driver / cuda driver combination",
            DRIVER,
            "driver",
        ),
        ("CUDA error: initialization error", DRIVER, "driver"),
        ("Expected 2D or 3D (batch mode) tensor with possibly 0 batch size", DATA, "fft"),
        ("Argument #4: Padding size should be less than the corresponding input dimension", DATA, "fft"),
        ("probability tensor contains either `inf`, `nan` or element < 0", DATA, "sampling"),
        (
            "[enforce fail at alloc_cpu.cpp:124] . DefaultCPUAllocator: can't allocate memory: you "
            "tried to allocate 8589934592 bytes.",
            TRANSIENT,
            "memory of the machine",
        ),
    ],
)
def test_what_a_text_means(text, outcome, part):
    fault = classify(RuntimeError(text))
    assert fault is not None and (fault.outcome, fault.part) == (outcome, part)
    assert fault.words == text.splitlines()[0]
    assert (fault.sticky, fault.transient) == (outcome is STICKY, outcome is TRANSIENT)


@pytest.mark.parametrize(
    ("code", "outcome"),
    [(code, STICKY) for code in (700, 702, 710, 714, 715, 716, 717, 718, 719, 214, 999)]
    + [(2, TRANSIENT), (46, TRANSIENT), (209, BUILD), (222, BUILD), (35, DRIVER), (803, DRIVER)]
    + [(804, DRIVER), (100, DRIVER), (1, BUILD)],
)
def test_what_a_code_means(code, outcome):
    error = torch.AcceleratorError("CUDA error: in words of tomorrow")
    error.error_code = code  # type: ignore[attr-defined]
    fault = classify(error)
    assert fault is not None and (fault.outcome, fault.code) == (outcome, code)


@pytest.mark.parametrize(
    "text",
    [
        "cuFFT error: CUFFT_INTERNAL_ERROR",
        "cuDNN error: CUDNN_STATUS_NOT_INITIALIZED",
        "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
        "GET was unable to find an engine to execute this computation",
    ],
)
def test_what_a_library_says_of_low_memory(text):
    outcomes = [classify_text("RuntimeError", text, free_bytes=free) for free in (LITTLE, MUCH, None)]
    assert [outcome and outcome.outcome for outcome in outcomes] == [TRANSIENT, BUILD, BUILD]


def test_memory_has_classes_of_its_own():
    for error, part in (
        (torch.OutOfMemoryError("no text that is known"), "memory"),
        (MemoryError(), "memory of the machine"),
    ):
        fault = classify(error)
        assert fault is not None and (fault.outcome, fault.part) == (TRANSIENT, part)
        assert fault.words


@pytest.mark.parametrize(
    "error", [ValueError("a shape"), KeyError("gpt.x"), OSError(2, "No such file"), RuntimeError()]
)
def test_what_is_no_fault_of_a_device(error):
    assert classify(error) is None


def test_the_cause_counts():
    try:
        try:
            raise RuntimeError("cuFFT error: CUFFT_INVALID_SIZE")
        except RuntimeError as error:
            raise ValueError("no voice") from error
    except ValueError as error:
        fault = classify(error)
    assert fault is not None and fault.part == "fft"
