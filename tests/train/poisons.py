"""Faults inside a trainer: the nursery calls one of these functions before the trainer starts."""

import errno
import os
import resource
import time
from collections.abc import Callable
from typing import Any

import torch

# Longer than any test runs.
LONG_SECONDS = 600.0


def around(owner: Any, name: str, new: Callable[..., Any]) -> None:
    """Replaces `owner.name` by `new(old, *arguments)`."""
    old = getattr(owner, name)
    setattr(owner, name, lambda *args, **kwargs: new(old, *args, **kwargs))


def stall_seconds(seconds: str) -> None:
    """Sets how long a step may take."""
    from train import defaults

    defaults.STALL_SECONDS = float(seconds)


def hanging_loader(epoch: str) -> None:
    """The thread that makes batches waits for the disk without an answer."""
    from train.dataset.batches import Batches

    def batch(old: Any, self: Any, number: int, group: Any) -> Any:
        if number == int(epoch) and not self.fixed:
            time.sleep(LONG_SECONDS)
        return old(self, number, group)

    around(Batches, "batch", batch)


def dying_loader(epoch: str) -> None:
    """The cache's disk fails."""
    from train.dataset.batches import Batches

    def batch(old: Any, self: Any, number: int, group: Any) -> Any:
        if number == int(epoch) and not self.fixed:
            raise OSError(errno.EIO, "Input/output error")
        return old(self, number, group)

    around(Batches, "batch", batch)


def no_numbers(clip: str, first_epoch: str, value: str) -> None:
    """From `first_epoch`, batches with this clip (`all`: every batch) have a loss of `value`."""
    from train.dataset.batches import Batches

    def batch(old: Any, self: Any, number: int, group: Any) -> Any:
        found = old(self, number, group)
        names = [self.clips[index].name for index in group]
        hit = clip == "all" or any(clip in name for name in names)
        if hit and number >= int(first_epoch) and not self.fixed:
            found.rows.conditioning.fill_(float(value))
        return found

    around(Batches, "batch", batch)


def validation_without_numbers() -> None:
    """The validation clips have a non-finite loss."""
    from train.dataset.batches import Batches

    def batch(old: Any, self: Any, number: int, group: Any) -> Any:
        found = old(self, number, group)
        if self.fixed:
            found.rows.conditioning.fill_(float("nan"))
        return found

    around(Batches, "batch", batch)


def slow_disk(seconds: str) -> None:
    """Each fsync takes `seconds`."""
    around(os, "fsync", lambda old, descriptor: (time.sleep(float(seconds)), old(descriptor))[1])


def signals_while_saving(number: str, count: str) -> None:
    """Sends `count` signals, one after another, while the second epoch's weights are written."""
    from machine.storage import files

    def point(old: Any, name: str, path: Any = None) -> None:
        if name == "half written" and path.name == "checkpoint_epoch_2.pt" and not sent:
            for _ in range(int(count)):
                sent.append(number)
                os.kill(os.getpid(), int(number))
                time.sleep(0.2)  # the watching thread handles them one by one
        old(name, path)

    sent: list[str] = []
    around(files, "crash_point", point)


def signal_while_sampling(number: str) -> None:
    """Sends a signal while the first sample is spoken, by a warm worker in tenths of a second. The
    file `signalled` next to the run has the time."""
    from train.sampling.samples import Samples

    def speak(old: Any, self: Any, *arguments: Any) -> Any:
        (self.run.folder.parent / "signalled").write_text(str(time.time()))
        os.kill(os.getpid(), int(number))
        return old(self, *arguments)

    around(Samples, "_speak_into", speak)


def signal_before_the_first_step(number: str) -> None:
    """Sends a signal while features are computed."""
    from train.dataset import features

    def build(old: Any, *arguments: Any) -> Any:
        os.kill(os.getpid(), int(number))
        time.sleep(LONG_SECONDS)
        return old(*arguments)

    around(features, "build", build)


def full_after(num_bytes: str) -> None:
    """The disk accepts `num_bytes` bytes in total, then none."""
    left = [int(num_bytes)]

    def write(old: Any, descriptor: int, data: Any) -> int:
        if descriptor <= 2 or len(data) < 40:  # the console, a heartbeat
            return int(old(descriptor, data))
        if not left[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = int(old(descriptor, data[: left[0]]))
        left[0] -= written
        return written

    around(os, "write", write)


def small_files(num_bytes: str) -> None:
    """Sets a real `ulimit -f`."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(num_bytes), int(num_bytes)))


def space_unasked() -> None:
    """Skips the check for free space, so that the write itself fails."""
    from train.checkpointing import checkpoints

    around(checkpoints, "require_space", lambda old, *arguments: None)


def undeletable() -> None:
    """Deletions fail, as in a folder of another owner."""
    from pathlib import Path

    def unlink(old: Any, self: Path, missing_ok: bool = False) -> None:
        if self.suffix in (".pt", ".json"):
            raise PermissionError(errno.EACCES, "Permission denied")
        old(self, missing_ok=missing_ok)

    around(Path, "unlink", unlink)


def held_gil(step: str) -> None:
    """C code waits for ever inside a step while it holds the GIL."""
    from tests.train.resilience.hanging import deadlock_with_the_gil
    from train import trainer

    def train_step(old: Any, learner: Any, batch: Any, **how: Any) -> Any:
        if learner.step == int(step):
            deadlock_with_the_gil()
        return old(learner, batch, **how)

    around(trainer, "train_step", train_step)


def slow_steps(seconds: str) -> None:
    """Each step takes longer."""
    from train import trainer

    def train_step(old: Any, *args: Any, **how: Any) -> Any:
        time.sleep(float(seconds))
        return old(*args, **how)

    around(trainer, "train_step", train_step)


def numbers(state: dict[str, Any]) -> bool:
    """Whether every tensor in nested dictionaries is finite."""
    return all(
        numbers(value) if isinstance(value, dict) else bool(torch.isfinite(value).all())
        for value in state.values()
        if isinstance(value, dict | torch.Tensor)
    )
