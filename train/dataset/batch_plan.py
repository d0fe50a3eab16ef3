"""Which clips go together in a batch: by length, within the budget BATCH_SECONDS, over ranks. Pure.

The budget is halved after out-of-memory. A halving is known by where it happened: (epoch, batches
of it done). From there on the batches of that epoch's plan are cut again, and later epochs are
planned with the smaller budget; so the same halvings always make the same batches, and a resumed
run goes on bit for bit.
"""

import random
from collections.abc import Iterable, Sequence
from typing import NamedTuple

# Clips are sorted by length inside windows of so many batches: long enough that a batch holds clips
# of one length, short enough that an epoch stays well mixed.
WINDOW_BATCHES = 16

Group = tuple[int, ...]


class OomBackoff(NamedTuple):
    """From epoch `epoch` (from 1), behind `batch` of its batches, the budget is `seconds`."""

    epoch: int
    batch: int
    seconds: float


def grouped(
    clips: Sequence[int], seconds: Sequence[float], batch_seconds: float, draw: random.Random
) -> list[Group]:
    """Every one of `clips` once: shuffled, sorted by length inside windows, cut at the budget, the
    groups shuffled. seconds: how long each clip is, by its number."""
    order = list(clips)
    draw.shuffle(order)
    mean = sum(seconds[clip] for clip in order) / max(1, len(order))
    window = max(1, int(WINDOW_BATCHES * batch_seconds / max(mean, 0.1)))
    groups = [
        group
        for start in range(0, len(order), window)
        for group in cut(
            sorted(order[start : start + window], key=seconds.__getitem__), seconds, batch_seconds
        )
    ]
    draw.shuffle(groups)
    return groups


def cut(order: Sequence[int], seconds: Sequence[float], batch_seconds: float) -> list[Group]:
    """Cuts clips into groups whose longest clip times their number stays within the budget.

    A clip longer than the budget is a group of its own.
    """
    groups: list[list[int]] = []
    longest = 0.0
    for clip in order:
        longer = max(longest, seconds[clip])
        if groups and longer * (len(groups[-1]) + 1) <= batch_seconds:
            groups[-1].append(clip)
            longest = longer
        else:
            groups.append([clip])
            longest = seconds[clip]
    return [tuple(group) for group in groups]


def dealt(groups: Sequence[Group], rank: int, world_size: int) -> list[Group]:
    """What `rank` learns of these groups: of `world_size` groups in a row, one.

    Every rank takes part in every step: the groups that are left at the end are dealt clip by clip,
    and a rank that gets none of them gets an empty group. Each clip is dealt once.
    """
    whole = len(groups) - len(groups) % world_size
    own = list(groups[rank:whole:world_size])
    if left := [clip for group in groups[whole:] for clip in group]:
        own.append(tuple(left[rank::world_size]))
    return own


def at_epoch(began_with: float, halvings: Iterable[OomBackoff], epoch: int) -> float:
    """The budget in seconds with which `epoch` is planned."""
    return min([began_with, *(one.seconds for one in halvings if one.epoch < epoch)])


def recut(
    groups: list[Group], seconds: Sequence[float], halvings: Iterable[OomBackoff], epoch: int
) -> list[Group]:
    """The plan of `epoch` with the halvings inside it; seconds: of each clip."""
    for one in (one for one in halvings if one.epoch == epoch):
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
