"""Writes checkpoints in a background thread while the GPU keeps training.

    step -> copy in the CPU's memory -> writing thread -> sample

The copy goes into pinned memory, which is kept for the whole run. The next step's kernels and the
writing thread wait for it; the host does not. If not enough memory can be pinned, a plain copy
takes seconds. Writing and hashing take many seconds. On a CPU there is no copy and no thread,
because memory is short there and the same cores train.
"""

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import torch
from torch.utils._pytree import KeyPath, tree_map_with_path

from machine.devices.selection import memory_bytes
from machine.text import first_line
from xtts.voices.run_folder import VerifiedCheckpoint

log = logging.getLogger("train")

# Nested dictionaries and lists with tensors.
State = TypeVar("State")

# The share of the machine's or container's memory that a run may pin. XTTS-v2 with its optimizer
# takes 5.3 GB, which fits from 21 GB on.
MAX_PINNED_SHARE = 0.25


class CheckpointWriter:
    """Writes one checkpoint at a time; `with` waits for the last one.

    background: in a separate thread.
    """

    def __init__(self, background: bool) -> None:
        self.background = background
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="saving") if background else None
        self._running: Future[VerifiedCheckpoint] | None = None
        self._saved: VerifiedCheckpoint | None = None
        # The seconds that the newest complete checkpoint took to write; 0 before the first.
        self.seconds = 0.0
        self._staging = PinnedStaging()

    def __enter__(self) -> "CheckpointWriter":
        return self

    def __exit__(self, *_: object) -> None:
        # Whatever ends the run, finish the epoch that is being written.
        try:
            self.finish()
        except Exception as error:
            log.warning("The last checkpoint could not be written: %s", error)
        if self._pool:
            self._pool.shutdown()

    def write(self, state: State, save: Callable[[State], VerifiedCheckpoint]) -> None:
        """Calls `save` with `state`; in the background with a copy on the CPU.

        Raises the error of the last checkpoint, if it was not raised yet.
        """
        self.finish()
        if self._pool is None:
            self._saved = self._save_timed(state, save)
        else:
            copy, wait_for_copy = self._staging.copy_to_cpu(state)
            self._running = self._pool.submit(self._save_in_background, copy, wait_for_copy, save)

    @property
    def idle(self) -> bool:
        """Whether no checkpoint is being written."""
        return self._running is None or self._running.done()

    def finish(self) -> VerifiedCheckpoint | None:
        """Waits for the checkpoint in progress; returns the newest. Raises the writer's error."""
        running, self._running = self._running, None
        if running is not None:
            self._saved = running.result()
        return self._saved

    def _save_timed(self, state: State, save: Callable[[State], VerifiedCheckpoint]) -> VerifiedCheckpoint:
        started = time.monotonic()
        saved = save(state)
        self.seconds = time.monotonic() - started
        return saved

    def _save_in_background(
        self, state: State, wait_for_copy: Callable[[], object], save: Callable[[State], VerifiedCheckpoint]
    ) -> VerifiedCheckpoint:
        try:
            wait_for_copy()
            return self._save_timed(state, save)
        except Exception as error:
            # Logged at once; `finish` raises it later.
            log.error("The checkpoint could not be written: %s", error)
            raise


class PinnedStaging:
    """Copies a GPU's tensors into pinned memory, which is allocated once and used for every epoch.

    Each call of `copy_to_cpu` overwrites the last copy. max_bytes: the limit of pinned memory; None =
    `MAX_PINNED_SHARE` of the machine's memory.
    """

    def __init__(self, max_bytes: int | None = None) -> None:
        self._buffers: dict[KeyPath, torch.Tensor] = {}
        self._bytes_left = int(MAX_PINNED_SHARE * memory_bytes()) if max_bytes is None else max_bytes

    def copy_to_cpu(self, state: State) -> tuple[State, Callable[[], object]]:
        """Copies nested dictionaries and lists with their tensors to the CPU's memory. Returns the
        copy, and a function that waits until it is complete.

        Tensors on the CPU are copied too: the next step would write into them.
        """
        device: torch.device | None = None

        def copy(path: KeyPath, value: object) -> object:
            nonlocal device
            if not isinstance(value, torch.Tensor):
                return value
            if is_on_gpu(value):
                device = value.device
            return self._buffer(path, value).copy_(value.detach(), non_blocking=True)

        copies: State = tree_map_with_path(copy, state)
        return copies, (lambda: None) if device is None else waiter_for_copies(device)

    def _buffer(self, path: KeyPath, tensor: torch.Tensor) -> torch.Tensor:
        """Memory for a copy: pinned for a GPU's tensor, as far as there is room."""
        buffer = self._buffers.get(path)
        if buffer is not None and buffer.shape == tensor.shape and buffer.dtype == tensor.dtype:
            return buffer
        if is_on_gpu(tensor) and tensor.nbytes <= self._bytes_left:
            try:
                self._buffers[path] = pinned_like(tensor)
                self._bytes_left -= tensor.nbytes
                return self._buffers[path]
            except (RuntimeError, torch.AcceleratorError) as error:
                # Memory that is already pinned stays in use; other tensors are copied slowly.
                self._bytes_left = 0
                log.warning(
                    "Checkpoints are saved without pinned memory, which is slower: %s", first_line(error)
                )
        return torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu")


def is_on_gpu(tensor: torch.Tensor) -> bool:
    """Whether it can be copied while the host continues."""
    return tensor.device.type == "cuda"


def pinned_like(like: torch.Tensor) -> torch.Tensor:
    """Memory that a GPU writes into without the CPU."""
    return torch.empty(like.shape, dtype=like.dtype, device="cpu", pin_memory=True)


def waiter_for_copies(device: torch.device) -> Callable[[], object]:
    """A function that waits for all work queued on a GPU so far. Any thread may call it."""
    event = torch.cuda.Event(blocking=True)
    event.record(torch.cuda.current_stream(device))
    return event.synchronize
