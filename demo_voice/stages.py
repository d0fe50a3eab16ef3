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
# A stranger's fine-tune takes as long as so many steps of the vocoder, or less.
STEPS_AHEAD = 60

T = TypeVar("T")


@dataclass(frozen=True)
class Workplace:
    """What every stage is given: the recipe, the folder of its files, the device."""

    recipe: BaseRecipe
    folder: Path
    device: torch.device


class Stateful(Protocol):
    """A module or an optimizer."""

    def state_dict(self) -> Any: ...
    def load_state_dict(self, state: Any) -> Any: ...


def low_precision(device: torch.device) -> AbstractContextManager[None]:
    """Products in bfloat16 where the hardware has them."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=quick_in_bf16(device))


def quick_in_bf16(device: torch.device) -> bool:
    """Whether products in bfloat16 pay: 4 times float32 on a CPU with AMX, and what a GPU is built
    for. A CPU without takes 45 times as long as in float32."""
    return device.type != "cpu" or has_bf16()


def rate(step: int, stage: StageSchedule, warmup: int = 200) -> float:
    """Linear rise, then a cosine down to 2 % of the peak at the last step."""
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
    """Steps from where the snapshot at `path` stopped to `stage.steps`; a snapshot each minute and
    at the end, with a line of the log.

    Args:
        parts: What learns, its optimizers among them; what a snapshot holds.
        losses: Of a step, or of what `prepare` made for it: what is minimised, then what is logged.
        report: Makes the log's words of the means of what was logged, of the last 50 steps.
        prepare: Called beside the steps, beforehand.
        clip: Whose gradients may have which norm at most.
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
    """What each counted step needs, made in a thread in their order, the next ones beforehand."""
    beside = ThreadPoolExecutor(1)
    coming: deque[Future[T]] = deque()
    try:
        for step in counter:
            last = min(step + STEPS_AHEAD, num_steps)
            coming += [beside.submit(make, n) for n in range(step + len(coming), last)]
            yield coming.popleft().result()
    finally:
        beside.shutdown(cancel_futures=True)  # who is stopped waits for one, not for all


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
    with waiting.open("wb") as file:  # by its name it would be called .part.npz
        np.savez(file, allow_pickle=False, **arrays)
    waiting.replace(path)


def save(path: Path, parts: dict[str, Stateful], step: int) -> None:
    """Writes a snapshot, whole or not at all."""
    content = {"step": step, **{name: part.state_dict() for name, part in parts.items()}}
    atomic.replace_file(path, partial(torch.save, content))
