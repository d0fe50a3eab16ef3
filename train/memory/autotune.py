"""Finds the largest batch that fits: tried on a GPU, estimated on a CPU.

On a GPU the largest batch that is wanted goes first, made of the longest clips: if it fits with
head-room, that is all. Otherwise two small ones show what a clip takes, and what then should fit is
tried before it is believed. On a CPU an allocation that is too large ends in the kernel's killer
and not in an error, so nothing is tried there.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch

from machine.devices import cuda_errors
from machine.text import size_words
from train.defaults import AutoChoice
from train.memory.estimate import STATE_BYTES
from train.optim.optimizer import state_bytes

if TYPE_CHECKING:
    from train.dataset.batches import Batch, Batches
    from train.learner import Learner

# Fragments between blocks, other clips' longer texts, and samples spoken on the same card.
HEADROOM = 0.15
# Of a CPU's RAM: the rest is the worker that speaks, the file cache and whoever else is there.
CPU_SHARE = 0.5


class MemoryMeter(Protocol):
    """Measures steps on a device."""

    def room_bytes(self) -> int:
        """What a step may take in all, weights and optimizer included."""

    def peak_bytes(self, clips: int) -> int | None:
        """The most that a step on so many of the longest clips takes; None when it did not fit."""


class CudaMemoryMeter:
    """Steps without an update on the longest clips, measured by torch's own counters."""

    def __init__(self, learner: "Learner", batches: "Batches") -> None:
        self.learner = learner
        self.batches = batches
        seconds = [clip.seconds for clip in batches.clips]
        self._longest = sorted(batches.indices, key=seconds.__getitem__, reverse=True)

    def room_bytes(self) -> int:
        """What is free, and what this process holds of the card already."""
        device = self.learner.device
        return int(torch.cuda.mem_get_info(device)[0]) + torch.cuda.memory_reserved(device)

    def peak_bytes(self, clips: int) -> int | None:
        """With the optimizer's states, also those that the first step will make."""
        device = self.learner.device
        torch.cuda.reset_peak_memory_stats(device)
        repeated = self._longest * -(-clips // len(self._longest))
        try:
            find_batch_seconds(self.learner, self.batches.batch(1, repeated[:clips]))
        except Exception as error:
            found = cuda_errors.classify(error)
            if found is None or not found.transient:
                raise
            peak = None
        else:
            peak = int(torch.cuda.max_memory_allocated(device)) + coming_bytes(self.learner)
        if peak is None:  # behind the `except`: the error held the tensors that are to go
            self.learner.optimizer.zero_grad(set_to_none=True)
            cuda_errors.free_after_fault(str(device))
        return peak


def find_batch_seconds(learner: "Learner", batch: "Batch") -> None:
    """A step that moves nothing: its gradients are made and given back."""
    learner.gpt.train()
    with learner.autocast():
        # Not by way of the other ranks: they may try other sizes.
        losses = learner.gpt.losses(batch.rows.to(learner.device))
    learner.weighted_loss(losses).backward()
    learner.optimizer.zero_grad(set_to_none=True)


def coming_bytes(learner: "Learner") -> int:
    """What the first step will allocate for the optimizer; 0 behind it."""
    if state_bytes(learner.optimizer.state):
        return 0
    numbers = sum(weight.numel() for weight in learner.weights.learning)
    return int(STATE_BYTES[learner.config.optimizer] * numbers)


@dataclass(frozen=True)
class Fitting:
    """clips: how many of the longest clips fit; reason: what was seen."""

    clips: int
    reason: str


def largest_fitting(meter: MemoryMeter, wanted: int) -> Fitting:
    """How many of the longest clips fit with head-room, at most `wanted` and at least 1."""
    allowed = int(meter.room_bytes() * (1 - HEADROOM))
    peak = meter.peak_bytes(wanted)
    if peak is not None and peak <= allowed:
        return Fitting(wanted, f"{size_words(peak)} of {size_words(allowed)} taken")
    one = meter.peak_bytes(1)
    if one is None or one > allowed or wanted == 1:
        return Fitting(
            1, f"not even the longest clip fits into {size_words(allowed)} with head-room"
        )
    two = meter.peak_bytes(2) if wanted > 2 else None
    clips = _reckoned(one, two, allowed, wanted)
    while clips > 1:
        peak = meter.peak_bytes(clips)
        if peak is not None and peak <= allowed:
            return Fitting(
                clips,
                f"{size_words(peak)} of {size_words(allowed)} taken; {wanted} clips did not fit",
            )
        clips = clips * 3 // 4
    return Fitting(1, f"{size_words(one)} of {size_words(allowed)} taken; two clips did not fit")


def _reckoned(one: int, two: int | None, allowed: int, wanted: int) -> int:
    """Memory grows in a line with the clips; the smallest guess that is worth a trial is 1."""
    if two is None or two <= one:
        return max(1, wanted // 2)
    return max(1, min(wanted - 1, 1 + (allowed - one) // (two - one)))


def fitting_on_cpu(
    wanted_seconds: float, second_bytes: float, held_bytes: int, ram_bytes: int
) -> AutoChoice:
    """A budget of at most `wanted_seconds` that half of the RAM has room for.

    second_bytes: what a second of audio takes in a step; held_bytes: weights, gradients, states.
    """
    room = ram_bytes * CPU_SHARE - held_bytes
    seconds = max(1.0, room / second_bytes)
    told = f"{size_words(ram_bytes)} of RAM"
    if seconds >= wanted_seconds:
        return AutoChoice(wanted_seconds, f"fits into half of {told}")
    return AutoChoice(round(seconds, 1), f"what half of {told} has room for")
