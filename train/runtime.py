"""Configures threads, memory and cuDNN of the training process."""

import contextlib
import ctypes
import logging

import torch

from machine.devices.selection import Environment, Place
from train.distributed import World
from train.settings import TrainSettings

log = logging.getLogger("train")

# mallopt's parameters in malloc.h, and glibc's limit for the second.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_LARGEST_THRESHOLD = 32 << 20


def set_up_runtime(settings: TrainSettings, machine: Environment, place: Place, world: World) -> None:
    """Configures threads, memory and cuDNN. Call it before any computation."""
    own = max(1, machine.cpu_count // world.local_size)
    torch.set_num_threads(settings.num_threads or own)
    keep_freed()
    torch.backends.cudnn.enabled = place.cudnn
    if not place.cudnn:
        log.warning("cuDNN: off (%s)", place.reason)


def keep_freed() -> None:
    """Keeps freed memory for the next step instead of returning it to the system.

    Each step allocates the memory of gradients and activations that the one before freed. By
    default, glibc returns it each time, and the system provides zeroed pages again: 220,000 in a
    step of XTTS-v2, a tenth of its time. `machine.memory` still returns memory. Other C libraries
    ignore this.
    """
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(_MMAP_THRESHOLD, _LARGEST_THRESHOLD)
        library.mallopt(_TRIM_THRESHOLD, -1)
