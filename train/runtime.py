"""Configures threads, memory and cuDNN of the training process."""

import contextlib
import ctypes
import logging

import torch

from machine.devices.selection import Environment, Place
from train.distributed import World
from train.settings import TrainSettings

log = logging.getLogger("train")

# mallopt's numbers in malloc.h, and the most that glibc takes for the second.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_LARGEST_THRESHOLD = 32 << 20


def set_up_runtime(
    settings: TrainSettings, machine: Environment, place: Place, world: World
) -> None:
    """Threads, memory and cuDNN, before anything computes."""
    own = max(1, machine.cpu_count // world.local_size)
    torch.set_num_threads(settings.num_threads or own)
    keep_freed()
    torch.backends.cudnn.enabled = place.cudnn
    if not place.cudnn:
        log.warning("cuDNN: off (%s)", place.reason)


def keep_freed() -> None:
    """What is freed from here on waits for the next step instead of going back by itself.

    A step frees its gradients and activations and asks for the same again. Left alone, glibc gives
    them back each time, and the system hands out zeroed pages again: 220,000 of them a step of
    XTTS-v2, a tenth of its time. `machine.memory` gives back all the same. Where the C library is
    another one, nothing happens.
    """
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(_MMAP_THRESHOLD, _LARGEST_THRESHOLD)
        library.mallopt(_TRIM_THRESHOLD, -1)
