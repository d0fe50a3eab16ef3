"""After a fault on a GPU: the next rung of the ladder, and an end with exit code 70."""

import subprocess
import sys

import pytest
import torch

from machine.devices import recovery
from machine.devices.cuda_errors import DeviceFault, classify_text, free_bytes
from machine.devices.recovery import GpuLost, step_down
from machine.devices.selection import Place

FFT = classify_text("RuntimeError", "cuFFT error: CUFFT_INVALID_SIZE")
CUDNN = classify_text("RuntimeError", "cuDNN error: CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH")
LOW = classify_text("RuntimeError", "cuFFT error: CUFFT_INTERNAL_ERROR", free_bytes=1 << 20)
DEAD = classify_text("RuntimeError", "CUDA error: an illegal memory access was encountered")


@pytest.mark.parametrize(
    ("seen", "steps"),
    [
        (FFT, [("cuda:0", "cpu", True), ("cpu", "cpu", True)]),
        (CUDNN, [("cuda:0", "cuda:0", False), ("cpu", "cpu", True)]),
        (LOW, [("cpu", "cpu", True)]),
        (DEAD, [("cpu", "cpu", True)]),
        (None, [("cpu", "cpu", True)]),
    ],
)
def test_the_ladder_down_after_faults(seen: DeviceFault | None, steps):
    place = Place("cuda:0", "RTX 3090 passed the check", "cuda:0")
    for step in steps:
        place = step_down(place, "It failed", seen)
        assert (place.value, place.mel_device, place.cudnn) == step
        assert place.reason.startswith("It failed")
        assert place.code == ("gpu_fault" if place.value == "cpu" else "")


def test_the_cpu_is_never_poisoned_and_clearing_it_is_harmless():
    assert recovery.remaining_fault("cpu") == ""
    assert free_bytes("cpu") is None
    recovery.free_after_fault("cpu")


def test_a_gpu_that_answers_nothing_is_poisoned(monkeypatch):
    def dead(*_: object, **__: object) -> torch.Tensor:
        raise RuntimeError("CUDA error: device-side assert triggered\nCompile with…")

    monkeypatch.setattr(torch, "ones", dead)
    assert recovery.remaining_fault("cuda:0") == "CUDA error: device-side assert triggered"

    def full(*_: object, **__: object) -> torch.Tensor:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(torch, "ones", full)
    assert recovery.remaining_fault("cuda:0") == ""


@pytest.mark.parametrize("initialized", [True, False])
def test_a_lost_gpu_leaves_with_70_whatever_its_destructors_would_do(initialized):
    # torch takes seconds to import; this stub has the one call that the code makes.
    code = (
        "import atexit, sys, types; from machine.devices import recovery;"
        "atexit.register(lambda: print('destructors'));"
        "sys.modules['torch'] = torch = types.ModuleType('torch');"
        f"torch.cuda = types.SimpleNamespace(is_initialized=lambda: {initialized});"
        "print('told', end=' '); recovery.exit_after_fault(70)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 70 == GpuLost.exit_code
    assert ("destructors" in done.stdout) is not initialized
    assert done.stdout.startswith("told")
