"""What the training stages share: precision, learning rate schedule, snapshots, prefetching."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from time import monotonic
from typing import Any, Protocol, TypeVar

import torch

from demo_voice.recipe import StageSchedule
from machine.devices.selection import has_bf16

SECONDS_BETWEEN_SNAPSHOTS = 60.0
# A stranger's fine-tune takes as long as so many steps of the vocoder, or less.
STEPS_AHEAD = 60

T = TypeVar("T")


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


def steps(
    path: Path,
    stage: StageSchedule,
    parts: dict[str, Stateful],
    optimizers: list[torch.optim.Optimizer],
    report: Callable[[int], str],
) -> Iterator[int]:
    """Counts from where the snapshot at `path` stopped to `stage.steps`; sets the learning rate,
    saves a snapshot each minute and at the end, and prints `report` with it."""
    first = resumed(path, parts)
    saved_at = monotonic()
    for step in range(first, stage.steps):
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate(step, stage) * group.get("share", 1.0)
        yield step
        if monotonic() - saved_at > SECONDS_BETWEEN_SNAPSHOTS or step + 1 == stage.steps:
            save(path, parts, step + 1)
            saved_at = monotonic()
            print(f"{path.stem}: step {step + 1} of {stage.steps}, {report(step)}", flush=True)


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


def recent_mean(values: Sequence[float]) -> float:
    """Of the last 50; 0 of none."""
    recent = values[-50:]
    return sum(recent) / max(1, len(recent))


def resumed(path: Path, parts: dict[str, Stateful]) -> int:
    """Loads a snapshot into `parts`; returns the steps done, 0 without one."""
    if not path.is_file():
        return 0
    found = torch.load(path, map_location="cpu", weights_only=True)
    for name, part in parts.items():
        part.load_state_dict(found[name])
    return int(found["step"])


def save(path: Path, parts: dict[str, Stateful], step: int) -> None:
    """Writes a snapshot, whole or not at all."""
    waiting = path.with_suffix(".part")
    torch.save({"step": step, **{name: part.state_dict() for name, part in parts.items()}}, waiting)
    waiting.replace(path)
