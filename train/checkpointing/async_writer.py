"""Writes checkpoints in a background thread while a GPU trains on.

    the step    -> a copy of everything in the CPU's memory -> a thread that writes -> the sample

Copying takes a second at XTTS-v2's size, writing and hashing 5 GB many. On a CPU there is no copy
and no thread: memory is what is short there, and the cores that would write are those that learn.
"""

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch

from train.checkpointing.checkpoints import SavedCheckpoint

log = logging.getLogger("train")


class CheckpointWriter:
    """Writes one checkpoint at a time; `with` waits for the last one.

    background: in a thread of its own.
    """

    def __init__(self, background: bool) -> None:
        self.background = background
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="saving") if background else None
        self._running: Future[SavedCheckpoint] | None = None
        self._saved: SavedCheckpoint | None = None

    def __enter__(self) -> "CheckpointWriter":
        return self

    def __exit__(self, *_: object) -> None:
        # Whatever ends the run, an epoch that is being written is worth a minute.
        try:
            self.finish()
        except Exception as error:
            log.warning("The last checkpoint could not be written: %s", error)
        if self._pool:
            self._pool.shutdown()

    def write(
        self, state: Mapping[str, Any], save: Callable[[Mapping[str, Any]], SavedCheckpoint]
    ) -> None:
        """Calls `save` with `state`; in the background with a copy on the CPU.

        Raises what the checkpoint before raised, if it was not raised yet.
        """
        self.finish()
        if self._pool is None:
            self._saved = save(state)
        else:
            self._running = self._pool.submit(self._saving, on_cpu(state), save)

    @property
    def seconds(self) -> float:
        """How long the newest that is whole took to write; 0 before the first."""
        return self._saved.seconds if self._saved else 0.0

    @property
    def idle(self) -> bool:
        """Whether nothing is being written any more."""
        return self._running is None or self._running.done()

    def finish(self) -> SavedCheckpoint | None:
        """Waits for what is being written; the newest that was. Raises what writing it raised."""
        running, self._running = self._running, None
        if running is not None:
            self._saved = running.result()
        return self._saved

    def _saving(
        self, state: Mapping[str, Any], save: Callable[[Mapping[str, Any]], SavedCheckpoint]
    ) -> SavedCheckpoint:
        try:
            return save(state)
        except Exception as error:
            # Logged at once; raised where the run checks next.
            log.error("The checkpoint could not be written: %s", error)
            raise


def on_cpu(value: Any) -> Any:
    """A copy of nested dictionaries and lists whose tensors stand in the CPU's memory.

    Each tensor is copied, also one that is on the CPU already: the next step would write into it.
    """
    if isinstance(value, torch.Tensor):
        copy = torch.empty(value.shape, dtype=value.dtype, device="cpu")
        return copy.copy_(value.detach())
    if isinstance(value, Mapping):
        return {name: on_cpu(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(on_cpu(item) for item in value)
    return value
