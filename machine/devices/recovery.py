"""What to do after a fault on a GPU: check whether it computes, choose the next place, end the process."""

import contextlib
import gc
import os
import sys
from dataclasses import replace
from typing import NoReturn

from machine.devices.cuda_errors import DeviceFault, classify
from machine.devices.health import Outcome
from machine.devices.selection import Place
from machine.errors import SotaqueError
from machine.text import first_line


class GpuLost(SotaqueError):
    """The CUDA context is dead: this process can compute nothing more on that GPU."""

    exit_code = 70


def step_down(place: Place, reason: str, fault: DeviceFault | None) -> Place:
    """The next rung after a fault on a GPU: without the part that failed, else the CPU."""
    failed_part = fault.part if fault and fault.outcome is Outcome.BUILD else ""
    if failed_part == "fft" and place.mel_device != "cpu":
        return replace(place, mel_device="cpu", reason=f"{reason}; the speaker's mel is on the CPU")
    if failed_part == "convolution" and place.cudnn:
        return replace(place, cudnn=False, reason=f"{reason}; without cuDNN")
    return Place("cpu", reason, code="gpu_fault")


def remaining_fault(device: str) -> str:
    """The text of a new error if `device` no longer computes; "" if it does, also for a device that
    is not a GPU."""
    if not device.startswith("cuda"):
        return ""
    import torch

    try:
        torch.ones(1, device=device).add_(1).item()
    except Exception as error:
        # A context without free memory is still alive.
        fault = classify(error)
        return "" if fault and fault.transient else first_line(error)
    return ""


def free_after_fault(device: str) -> None:
    """Frees cached memory. Call it outside the `except` block: inside, the error's traceback keeps
    the tensors alive (pytorch #18853)."""
    gc.collect()
    if not device.startswith("cuda"):
        return
    import torch

    with contextlib.suppress(RuntimeError):  # a broken context raises again at the next use
        torch.backends.cuda.cufft_plan_cache[torch.device(device)].clear()
        torch.cuda.empty_cache()


def exit_after_fault(code: int) -> NoReturn:
    """Ends this process with `code`.

    With a dead CUDA context it skips the destructors: an error in them would end the process by
    SIGABRT (pytorch PR 177780), and exit code 70 would be lost.
    """
    if code == GpuLost.exit_code and "torch" in sys.modules:
        import torch

        if torch.cuda.is_initialized():
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    sys.exit(code)
