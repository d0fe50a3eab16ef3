"""Makes batches: shuffled by seed and epoch, with conditioning; halved when memory runs out.

An epoch is planned in five steps: shuffle the clips, sort them by length inside windows, cut them
at the budget (BATCH_SECONDS: longest clip times number of clips), shuffle the batches, and deal
them to the ranks. The conditioning of each clip is drawn from (seed, epoch, clip), never from a
global random state, so prefetching, resuming and sampling change no batch.

A batch is packed (`xtts.model.varlen`), without padding. Sorting helps the attention on a GPU,
which works in a padded grid, and makes steps equally long. The next batch is made during the step,
for a GPU in pinned memory: the copy to the device is asynchronous, so the host never waits.

Out-of-memory halves the budget. A halving is identified by its position: (epoch, finished batches).
The rest of that epoch's plan is cut again, and later epochs are planned with the smaller budget.
The same halvings therefore always give the same batches, and a resumed run continues bit for bit.
"""

import itertools
import logging
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from machine.errors import SotaqueError
from machine.threads import PassingThreads
from train.concurrency import lookahead
from train.dataset.dataset import Clip
from train.dataset.features import FeatureCache
from train.distributed import Agreement, World
from xtts.audio import CODE_RATE, MEL_HOP, SAMPLES_PER_CODE
from xtts.model.shapes import GPTShape
from xtts.model.training import PackedBatch, pack

log = logging.getLogger("train")

# The sorting window in batches: long enough for batches of equal clips, short enough to keep an
# epoch well mixed.
WINDOW_BATCHES = 16
# Coqui's GPTArgs: 66,150 to 132,300 samples of the conditioning clip.
CONDITIONING_SECONDS = (3.0, 6.0)
MELS_PER_CODE = SAMPLES_PER_CODE // MEL_HOP
# At most this share of a clip may be its own conditioning, when its speaker has no other clip.
MAX_OWN_SHARE = 1 / 3
# Reading over a network may fail once; after this many failures the data is broken.
MAX_TRIES = 3


Group = tuple[int, ...]


class OomBackoff(NamedTuple):
    """After `batch` batches of epoch `epoch` (from 1), the budget is `seconds`."""

    epoch: int
    batch: int
    seconds: float


@dataclass(frozen=True)
class Batch:
    """The rows for the model, the indices of their clips, and their seconds of audio.

    agreement: the ranks' agreement on this step, if there are several ranks.
    """

    rows: PackedBatch
    clips: tuple[int, ...]
    audio_seconds: float
    agreement: Agreement | None = field(default=None, compare=False)


@dataclass(eq=False)
class Batches:
    """The batches of a set of clips.

    Attributes:
        indices: the clips of every epoch.
        seed: determines the order, together with the epoch.
        batch_seconds: the maximum of longest clip times number of clips.
        sources: the clips that conditioning is cut from.
        drawn, share: each epoch also draws clips of `drawn`, each at most once, until they make
            this share of its audio.
        fixed: the same order and conditioning in every epoch (validation).
        rank, world_size: the share of each step that this process takes.
        pinned: batches are in pinned memory, for asynchronous copies to a GPU.
        halvings: those after out-of-memory. Checkpoints keep them, as the batches depend on them.
    """

    clips: Sequence[Clip]
    indices: Sequence[int]
    features: FeatureCache
    shape: GPTShape
    _: KW_ONLY
    seed: int
    batch_seconds: float
    stop_input: bool
    sources: Sequence[int]
    drawn: Sequence[int] = ()
    share: float = 0.0
    fixed: bool = False
    pinned: bool = False
    rank: int = 0
    world_size: int = 1
    halvings: list[OomBackoff] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._by_speaker: dict[str, list[int]] = {}
        for index in self.sources:
            self._by_speaker.setdefault(self.clips[index].speaker, []).append(index)
        lists = self._by_speaker.values()
        self._place_in_speaker = {clip: place for indices in lists for place, clip in enumerate(indices)}

    def epoch(self, epoch: int, first: int = 0) -> Iterator[Batch]:
        """This rank's batches of `epoch`, after the first `first` of `plan(epoch)`.

        The plan does not depend on the world size, so a run can resume with another one. Each step
        takes `world_size` batches of the plan.
        """
        planned = dealt(self.plan(epoch)[first:], self.rank, self.world_size)
        # One batch ahead is enough: from memory-mapped features a batch takes milliseconds. A
        # permanent thread would keep OpenMP threads, and those of a step would no longer spin: on
        # two cores a step of the embedded model took 112 ms instead of 77.
        threads = PassingThreads("prefetch")
        begun = (threads.submit(self._make, epoch, group) for group in planned)
        try:
            yield from (batch.result() for batch in lookahead(begun, 1))
        finally:
            threads.join()

    def _make(self, epoch: int, group: Sequence[int]) -> Batch:
        """Makes a batch. Retries do not change its content."""
        for number in range(1, MAX_TRIES + 1):
            try:
                return self.batch(epoch, group)
            except SotaqueError:
                raise
            except Exception as error:
                names = ", ".join(self.clips[clip].name for clip in group)
                reason = f"{type(error).__name__}: {error}"
                if number == MAX_TRIES:
                    raise SotaqueError(
                        f"The batch of the clips {names} could not be made in {MAX_TRIES} tries "
                        f"({reason}). Check the disk of CACHE_DIR, or delete that folder: it is "
                        "computed again. The same command resumes from the last checkpoint."
                    ) from error
                log.warning("The batch of the clips %s failed (%s). Trying again.", names, reason)
        raise AssertionError

    def plan(self, epoch: int) -> list[Group]:
        """The clips of each batch in order, none twice."""
        draw = random.Random(f"order/{self.seed}/{0 if self.fixed else epoch}")
        seconds = [clip.seconds for clip in self.clips]
        budget = at_epoch(self.batch_seconds, self.halvings, epoch)
        clips = (*self.indices, *self._draw_for(epoch, seconds))
        return recut(group(clips, seconds, budget, draw), seconds, self.halvings, epoch)

    def _draw_for(self, epoch: int, seconds: Sequence[float]) -> list[int]:
        """The clips that an epoch draws from `drawn`."""
        order = list(self.drawn)
        random.Random(f"drawn/{self.seed}/{epoch}").shuffle(order)
        max_seconds = self.share / (1 - self.share) * sum(seconds[clip] for clip in self.indices)
        sums_before = itertools.accumulate((seconds[clip] for clip in order), initial=0.0)
        return [clip for clip, total in zip(order, sums_before, strict=False) if total < max_seconds]

    def halve(self, epoch: int, clips: Sequence[int]) -> float | None:
        """The smaller budget after out-of-memory with these clips; None for a single clip."""
        seconds = [clip.seconds for clip in self.clips]
        return halve_budget(clips, seconds, at_epoch(self.batch_seconds, self.halvings, epoch + 1))

    def batch(self, epoch: int, group: Sequence[int]) -> Batch:
        """A batch of these clips with their conditioning in `epoch`; empty without clips."""
        if not group:
            one_clip = self.batch(epoch, self.indices[:1])
            return Batch(one_clip.rows.without_targets(), (), 0.0)
        epoch = 0 if self.fixed else epoch
        conditioning = [self._conditioning(epoch, clip) for clip in group]
        rows = pack(
            [torch.tensor(self.clips[clip].tokens, dtype=torch.int64) for clip in group],
            [torch.from_numpy(self.features.codes(clip).astype(np.int64)) for clip in group],
            [mel for mel, _ in conditioning],
            self.shape,
            stop_input=self.stop_input,
            unheard=[unheard for _, unheard in conditioning],
        )
        if self.pinned:
            rows = rows.pinned()
        return Batch(rows, tuple(group), sum(self.clips[clip].seconds for clip in group))

    def _conditioning(self, epoch: int, clip: int) -> tuple[Tensor, tuple[int, int]]:
        """Returns (mel [80, frames], range of the codes of `clip` that the mel reveals)."""
        draw = random.Random(f"conditioning/{self.seed}/{epoch}/{self.clips[clip].name}")
        if (other := self._other_clip(draw, clip)) is not None:
            return self._slice(draw, other, max_share=1.0)[0], (0, 0)
        mel, first = self._slice(draw, clip, max_share=MAX_OWN_SHARE)
        last = first + mel.shape[1]
        return mel, (first // MELS_PER_CODE, -(-last // MELS_PER_CODE))

    def _other_clip(self, draw: random.Random, clip: int) -> int | None:
        """Another clip of the same speaker, or None.

        The result equals `draw.choice` over the others, but needs no list of them for each clip.
        """
        clips, place = self._by_speaker.get(self.clips[clip].speaker, []), self._place_in_speaker.get(clip)
        count = len(clips) - (place is not None)
        if not count:
            return None
        drawn = draw.randrange(count)
        return clips[drawn if place is None or drawn < place else drawn + 1]

    def _slice(self, draw: random.Random, clip: int, max_share: float) -> tuple[Tensor, int]:
        mel = self.features.mel(clip)
        frames = int(draw.uniform(*CONDITIONING_SECONDS) * CODE_RATE / MEL_HOP)
        frames = max(1, min(frames, int(mel.shape[1] * max_share)))
        first = draw.randint(0, mel.shape[1] - frames)
        # A copy: the cache is memory-mapped, read-only and half as wide.
        return torch.from_numpy(mel[:, first : first + frames].astype(np.float32)), first


def with_agreement(batches: Iterator[Batch], world: World, stop: Callable[[], bool]) -> Iterator[Batch]:
    """The same batches; with several ranks, each with an `agreement` computed one step ahead.

    stop: whether this rank received a stop signal.
    """
    if world.is_single_process:
        yield from batches
        return
    begun = (replace(batch, agreement=Agreement(world, batch.rows, stop())) for batch in batches)
    yield from lookahead(begun, 1)


# Grouping clips: pure functions


def group(
    clips: Sequence[int], seconds: Sequence[float], batch_seconds: float, draw: random.Random
) -> list[Group]:
    """Groups each of `clips` once: shuffles them, sorts them by length inside windows, cuts at the
    budget and shuffles the groups. seconds: the length of each clip, by its index."""
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

    A clip longer than the budget is the only clip of its group.
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
    """The share of `rank`: one of each `world_size` consecutive groups.

    Every rank takes part in every step. The remaining groups at the end are dealt clip by clip, and
    a rank without a clip gets an empty group. Each clip is dealt once.
    """
    num_even = len(groups) - len(groups) % world_size
    dealt_groups = list(groups[rank:num_even:world_size])
    if clips_left := [clip for group in groups[num_even:] for clip in group]:
        dealt_groups.append(tuple(clips_left[rank::world_size]))
    return dealt_groups


def at_epoch(first_budget: float, halvings: Iterable[OomBackoff], epoch: int) -> float:
    """The budget in seconds for the plan of `epoch`."""
    return min([first_budget, *(halving.seconds for halving in halvings if halving.epoch < epoch)])


def recut(
    groups: list[Group], seconds: Sequence[float], halvings: Iterable[OomBackoff], epoch: int
) -> list[Group]:
    """The plan of `epoch`, cut again at each halving in it. seconds: the length of each clip."""
    for halving in (halving for halving in halvings if halving.epoch == epoch):
        groups_done, groups_left = groups[: halving.batch], groups[halving.batch :]
        groups = groups_done + [
            smaller_group
            for group in groups_left
            for smaller_group in cut(sorted(group, key=seconds.__getitem__), seconds, halving.seconds)
        ]
    return groups


def halve_budget(group: Sequence[int], seconds: Sequence[float], budget_seconds: float) -> float | None:
    """Half the budget, or less if that is needed to cut this group; None for a single clip."""
    if len(group) < 2:
        return None
    group_seconds = max(seconds[clip] for clip in group) * len(group)
    return min(budget_seconds, group_seconds) / 2
