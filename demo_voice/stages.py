"""Shared parts of the training stages: the clock, the loop, precision, snapshots."""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from demo_voice.base import Base
from demo_voice.recipe import BaseRecipe, StageSchedule
from machine.devices.selection import has_bf16
from machine.errors import SotaqueError
from machine.storage import files

SECONDS_BETWEEN_SNAPSHOTS = 20.0
# A line may need a validation, which takes seconds on a busy CPU.
SECONDS_BETWEEN_LINES = 60.0
_WARMUP_STEPS = 100


@dataclass(frozen=True)
class StageContext:
    """What a stage works with.

    Attributes:
        folder: For the files of the stages.
        seconds: The time for this stage.
        base: The voice to continue from.
    """

    recipe: BaseRecipe
    folder: Path
    device: torch.device
    seconds: float
    base: Base | None = None


class Stateful(Protocol):
    """A module or an optimizer."""

    def state_dict(self) -> Any: ...
    def load_state_dict(self, state: Any) -> Any: ...


class Clock:
    """Measures the time of a stage over all its runs. seconds: the time for the stage; earlier: the
    time of earlier runs."""

    def __init__(self, seconds: float, earlier: float = 0.0) -> None:
        self.seconds, self.earlier, self.started = seconds, earlier, time.monotonic()

    @property
    def passed(self) -> float:
        """Seconds of training, including earlier runs."""
        return self.earlier + time.monotonic() - self.started

    @property
    def share(self) -> float:
        """The share of the stage's time that has passed, at most 1."""
        return min(1.0, self.passed / max(1e-9, self.seconds))


def low_precision(device: torch.device) -> AbstractContextManager[None]:
    """A context for bfloat16 products, if the hardware is fast at them."""
    is_fast = device.type != "cpu" or has_bf16()
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=is_fast)


def learning_rate(step: int, share: float, stage: StageSchedule) -> float:
    """The learning rate: a linear warm-up, constant for 40 % of the time, then a cosine down to
    2 % of the peak."""
    warm_up = min(1.0, (step + 1) / _WARMUP_STEPS)
    cosine_share = max(0.0, share - 0.4) / 0.6
    decay = 0.5 + 0.5 * float(torch.cos(torch.tensor(torch.pi * cosine_share)))
    return stage.learning_rate * warm_up * max(decay, 0.02)


def learn(
    path: Path,
    stage: StageSchedule,
    clock: Clock,
    parts: dict[str, Stateful],
    take_step: Callable[[int], Sequence[Tensor]],
    report: Callable[[Sequence[float]], str],
) -> None:
    """Trains from the snapshot at `path` until the clock has run out, for at least one step.

    Args:
        parts: The trained modules and their optimizers; a snapshot holds these.
        take_step: Takes the step of this number with `descend`; returns figures for the log.
        report: Turns the means of the figures over the last 50 steps into a log line.
    """
    optimizers = [part for part in parts.values() if isinstance(part, Optimizer)]
    step, clock.earlier = resume(path, parts)
    clock.started = saved_at = reported_at = time.monotonic()
    last_figures: deque[Sequence[Tensor]] = deque(maxlen=50)
    first_step = step
    while clock.share < 1.0 or step == first_step:
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(step, clock.share, stage)
        last_figures.append([figure.detach() for figure in take_step(step)])
        step += 1
        now, is_last = time.monotonic(), clock.share >= 1.0
        if now - reported_at > SECONDS_BETWEEN_LINES or is_last:
            columns = zip(*last_figures, strict=True)
            means = [float(torch.stack(list(column)).mean()) for column in columns]
            print(f"{path.stem}: step {step}, {clock.share:.0%}, {report(means)}", flush=True)
            reported_at = now
        if now - saved_at > SECONDS_BETWEEN_SNAPSHOTS or is_last:
            save(path, parts, step, clock.passed)
            saved_at = now


def descend(loss: Tensor, optimizers: Sequence[Optimizer], clipped: nn.Module | None = None) -> None:
    """One optimizer step. clipped: a module whose gradients are clipped to a norm of 1."""
    for optimizer in optimizers:
        optimizer.zero_grad(set_to_none=True)
    loss.backward()
    if clipped is not None:
        nn.utils.clip_grad_norm_(clipped.parameters(), 1.0)
    for optimizer in optimizers:
        optimizer.step()


def resume(path: Path, parts: Mapping[str, Stateful]) -> tuple[int, float]:
    """Loads a snapshot into `parts`; returns its steps and seconds, zeros without a snapshot. A
    part that the snapshot lacks keeps its state."""
    if not path.is_file():
        return 0, 0.0
    content = torch.load(path, map_location="cpu", weights_only=True)
    for name, part in parts.items():
        if name in content:
            part.load_state_dict(content[name])
    return int(content["step"]), float(content["seconds"])


def load_finished(path: Path, parts: Mapping[str, Stateful]) -> None:
    """Loads the snapshot of an earlier stage into `parts`. Raises SotaqueError without it."""
    if not path.is_file():
        raise SotaqueError(f"{path} is missing. Run the stage {path.stem} first.")
    resume(path, parts)


def save(path: Path, parts: dict[str, Stateful], step: int, seconds: float) -> None:
    """Writes a snapshot atomically."""
    states = {name: part.state_dict() for name, part in parts.items()}
    content = {"step": step, "seconds": seconds, **states}
    files.replace_file(path, partial(torch.save, content))
