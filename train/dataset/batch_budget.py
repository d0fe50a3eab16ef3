"""The batch budget BATCH_SECONDS, and halving it after out-of-memory.

A halving is known by where it happened: (epoch, batches of it done). From there on the batches of
that epoch's plan are cut again, and later epochs are planned with the smaller budget; so the same
halvings always make the same batches, and a resumed run goes on bit for bit.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from train.dataset.bucketing import cut

Groups = list[tuple[int, ...]]


@dataclass(frozen=True)
class OomBackoff:
    """From epoch `epoch` (from 1), behind `batch` of its batches, the budget is `seconds`."""

    epoch: int
    batch: int
    seconds: float


def at_epoch(began_with: float, halvings: Iterable[OomBackoff], epoch: int) -> float:
    """The budget in seconds with which `epoch` is planned."""
    return min([began_with, *(one.seconds for one in halvings if one.epoch < epoch)])


def recut(
    groups: Groups, seconds: Sequence[float], halvings: Iterable[OomBackoff], epoch: int
) -> Groups:
    """The plan of `epoch` with the halvings inside it; seconds: of each clip."""
    for one in halvings:
        if one.epoch != epoch:
            continue
        done, left = groups[: one.batch], groups[one.batch :]
        groups = done + [
            smaller
            for group in left
            for smaller in cut(sorted(group, key=seconds.__getitem__), seconds, one.seconds)
        ]
    return groups


def halve_budget(
    group: Sequence[int], seconds: Sequence[float], budget_seconds: float
) -> float | None:
    """Half the budget, or so much less that this group is cut; None for a single clip."""
    if len(group) < 2:
        return None
    taken = max(seconds[clip] for clip in group) * len(group)
    return min(budget_seconds, taken) / 2


def from_state(kept: Iterable[Sequence[float]]) -> list[OomBackoff]:
    """From the plain values of a checkpoint."""
    return [OomBackoff(int(epoch), int(batch), float(seconds)) for epoch, batch, seconds in kept]


def to_state(halvings: Iterable[OomBackoff]) -> list[list[float]]:
    """As plain values for a checkpoint."""
    return [[one.epoch, one.batch, one.seconds] for one in halvings]
