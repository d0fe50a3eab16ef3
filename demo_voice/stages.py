"""What the training stages share: the loop, precision, learning rate, snapshots, prefetching."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from demo_voice.recipe import BaseRecipe, StageSchedule
from machine.devices.selection import has_bf16
from machine.storage import atomic

SECONDS_BETWEEN_SNAPSHOTS = 60.0
# A simulated fine-tune takes at most as long as this many steps of the vocoder.
STEPS_AHEAD = 60

T = TypeVar("T")


@dataclass(frozen=True)
class Workplace:
    """The recipe, the folder of the stages' files, and the device."""

    recipe: BaseRecipe
    folder: Path
    device: torch.device


class Stateful(Protocol):
    """A module or an optimizer."""

    def state_dict(self) -> Any: ...
    def load_state_dict(self, state: Any) -> Any: ...


def low_precision(device: torch.device) -> AbstractContextManager[None]:
    """A context that multiplies in bfloat16 if the hardware is fast at it."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=quick_in_bf16(device))


def quick_in_bf16(device: torch.device) -> bool:
    """Whether the device is faster in bfloat16: a GPU, or a CPU with AMX (4 times as fast as in
    float32). A CPU without AMX takes 45 times as long."""
    return device.type != "cpu" or has_bf16()


def rate(step: int, stage: StageSchedule, warmup: int = 200) -> float:
    """The learning rate: a linear warm-up, then a cosine down to 2 % of the peak."""
    rise = min(1.0, (step + 1) / max(1, min(warmup, stage.steps // 4)))
    fall = 0.5 + 0.5 * float(torch.cos(torch.tensor(torch.pi * step / stage.steps)))
    return stage.learning_rate * rise * max(fall, 0.02)


def learn(
    path: Path,
    stage: StageSchedule,
    parts: dict[str, Stateful],
    losses: Callable[[Any], Sequence[Tensor]],
    report: Callable[[Sequence[float]], str],
    *,
    prepare: Callable[[int], Any] | None = None,
    clip: tuple[nn.Module, float] | None = None,
) -> None:
    """Trains from the snapshot at `path` to `stage.steps`. Writes a snapshot and a log line each
    minute and at the end.

    Args:
        parts: What learns, with its optimizers; this is what a snapshot holds.
        losses: Takes a step, or what `prepare` returned for it; returns the loss that is minimised,
            then the values that are logged.
        report: Turns the means of the logged values, over the last 50 steps, into a log line.
        prepare: Called ahead of the steps, in a thread.
        clip: A module and the largest norm of its gradients.
    """
    optimizers = [part for part in parts.values() if isinstance(part, Optimizer)]
    logged: deque[list[float]] = deque(maxlen=50)
    counter = _steps(path, stage, parts, optimizers, lambda: report(_means(logged)))
    for given in ahead(prepare, counter, stage.steps) if prepare else counter:
        wanted, *figures = losses(given)
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        wanted.backward()
        if clip:
            nn.utils.clip_grad_norm_(clip[0].parameters(), clip[1])
        for optimizer in optimizers:
            optimizer.step()
        logged.append([float(one.detach()) for one in figures])


def _steps(
    path: Path,
    stage: StageSchedule,
    parts: dict[str, Stateful],
    optimizers: Sequence[Optimizer],
    report: Callable[[], str],
) -> Iterator[int]:
    saved_at = monotonic()
    for step in range(resumed(path, parts), stage.steps):
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate(step, stage)
        yield step
        if monotonic() - saved_at > SECONDS_BETWEEN_SNAPSHOTS or step + 1 == stage.steps:
            save(path, parts, step + 1)
            saved_at = monotonic()
            print(f"{path.stem}: step {step + 1} of {stage.steps}, {report()}", flush=True)


def _means(rows: Sequence[Sequence[float]]) -> list[float]:
    return [sum(column) / len(rows) for column in zip(*rows, strict=True)]


def ahead(make: Callable[[int], T], counter: Iterator[int], num_steps: int) -> Iterator[T]:
    """Yields `make` of each counted step, in order, computed ahead in a thread."""
    beside = ThreadPoolExecutor(1)
    coming: deque[Future[T]] = deque()
    try:
        for step in counter:
            last = min(step + STEPS_AHEAD, num_steps)
            coming += [beside.submit(make, n) for n in range(step + len(coming), last)]
            yield coming.popleft().result()
    finally:
        beside.shutdown(cancel_futures=True)  # on a stop, wait for one, not for all


def resumed(path: Path, parts: dict[str, Stateful]) -> int:
    """Loads a snapshot into `parts`; returns the steps done, 0 without one."""
    if not path.is_file():
        return 0
    content = torch.load(path, map_location="cpu", weights_only=True)
    for name, part in parts.items():
        part.load_state_dict(content[name])
    return int(content["step"])


def save_arrays(path: Path, **arrays: np.ndarray) -> None:
    """Writes arrays as npz, whole or not at all."""
    waiting = path.with_suffix(".part")
    with waiting.open("wb") as file:  # given the name, numpy would append .npz
        np.savez(file, allow_pickle=False, **arrays)
    waiting.replace(path)


def save(path: Path, parts: dict[str, Stateful], step: int) -> None:
    """Writes a snapshot, whole or not at all."""
    content = {"step": step, **{name: part.state_dict() for name, part in parts.items()}}
    atomic.replace_file(path, partial(torch.save, content))
