"""Handles a GPU that is lost in training: exits 70 with instructions, saves nothing from it.

Weights in a dead CUDA context cannot be read or may be wrong, so the run resumes from its last
checkpoint.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from machine import commands
from machine.devices import cuda_errors, recovery
from machine.devices.health import Outcome
from machine.devices.probe import report_surprise
from machine.devices.recovery import GpuLost
from machine.errors import SotaqueError


@contextmanager
def lost_gpu(device: str, report: Callable[[str, str], None] = report_surprise) -> Iterator[None]:
    """Turns an error caused by a fault of `device` into GpuLost (exit 70); other errors pass.

    After any error, the device is tested. A fault that the GPU probe should have detected is
    reported, so that the next start probes again.
    """
    try:
        yield
    except SotaqueError:
        raise
    except Exception as error:
        fault, poison = cuda_errors.classify(error), recovery.remaining_fault(device)
        words = fault.words if fault else poison
        dead, on_gpu = bool(poison) or (fault is not None and fault.sticky), device != "cpu"
        if not dead and (fault is None or fault.outcome is Outcome.DATA or not on_gpu):
            raise
        if fault and fault.transient and not dead:
            raise out_of_memory(device, words) from error
        if on_gpu:
            report(device, words)
        raise lost_error(device, words) from error


def lost_error(device: str, words: str) -> GpuLost:
    """The error for a device that no longer computes."""
    return GpuLost(
        f"{device} failed and cannot be used by this process any more: {words.rstrip('.')}. "
        "Nothing was saved from it; everything saved before is whole. Give the same command again: "
        "it checks the GPU again and resumes from the last saved epoch. If it fails again, "
        f"`{commands.make('doctor')}` and docs/errors.md say more, and DEVICE=cpu continues "
        "without it."
    )


def out_of_memory(device: str, words: str) -> GpuLost:
    """The error for a device that is out of memory even after unused memory was freed."""
    return GpuLost(
        f"{device} does not have enough memory, even after unused memory was freed: "
        f"{words.rstrip('.')}. Everything saved before is whole. Stop other programs on it and "
        "give the same command again; or start over with smaller batches (RESUME=never and "
        "BATCH_SECONDS at half of the value above), which make a new run. See docs/errors.md."
    )
