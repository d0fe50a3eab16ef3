"""Which clips form a batch, in which order, and the conditioning of each."""

import itertools
import random
import threading
from dataclasses import fields, is_dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from machine.errors import SotaqueError
from train.dataset.batches import Batch, Batches, OomBackoff, at_epoch, cut, halve_budget, recut
from train.dataset.dataset import Clip
from xtts.model.shapes import GPTShape

SHAPE = GPTShape(
    text_ids=30,
    text_start=28,
    layers=2,
    width=32,
    heads=2,
    audio_ids=1026,
    audio_start=1024,
    audio_stop=1025,
    max_text_tokens=20,
    max_audio_tokens=605,
)


class Made:
    """Features with the clip's number as each mel value, and with codes that count upwards."""

    def __init__(self, clips: list[Clip]) -> None:
        self.clips = clips

    def codes(self, clip: int) -> np.ndarray:
        return np.arange(round(self.clips[clip].seconds * 21.5), dtype=np.int16)

    def mel(self, clip: int) -> np.ndarray:
        return np.full((80, 4 * len(self.codes(clip))), clip, dtype=np.float16)


def some_clips(count: int = 30, speakers: int = 3, shortest: float = 1.0) -> list[Clip]:
    draw = np.random.default_rng(0)
    return [
        Clip(
            f"clip-{n}",
            Path(f"{n}.wav"),
            "Text.",
            f"speaker-{n % speakers}",
            "en",
            float(draw.uniform(shortest, 11.0)),
            f"sha-{n}",
            (2, 3, 4, 5),
        )
        for n in range(count)
    ]


def made(clips: list[Clip], **changes) -> Batches:
    indices = tuple(range(len(clips)))
    given = {"seed": 3, "batch_seconds": 30.0, "stop_input": False, "sources": indices, **changes}
    return Batches(clips, indices, Made(clips), SHAPE, **given)


def same(one: object, other: object) -> bool:
    """Whether batches, or their parts, are equal bit for bit."""
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return torch.equal(one, other)
    if not is_dataclass(one):
        return one == other
    names = [field.name for field in fields(one) if field.compare]
    return all(same(getattr(one, name), getattr(other, name)) for name in names)


def all_same(one: list[Batch], other: list[Batch]) -> bool:
    return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))


def test_the_order_depends_on_seed_and_epoch_only():
    clips = some_clips(60)
    orders = [made(clips).plan(epoch) for epoch in range(4)]
    assert len({str(order) for order in orders}) == 4
    used = made(clips)
    list(used.epoch(0))
    torch.manual_seed(99)
    np.random.seed(99)
    assert [used.plan(epoch) for epoch in range(4)] == orders
    assert made(clips, seed=4).plan(0) != orders[0]


def test_the_budget_is_kept_and_used():
    clips = some_clips(300)
    groups = made(clips, batch_seconds=40.0).plan(1)
    costs = [max(clips[n].seconds for n in group) * len(group) for group in groups]
    assert max(costs) <= 40.0
    assert np.mean(costs) > 30.0
    padding = 1 - sum(clip.seconds for clip in clips) / sum(costs)
    assert padding < 0.1


def test_batches_are_not_sorted_by_length():
    clips = some_clips(300)
    lengths = [clips[group[0]].seconds for group in made(clips).plan(1)]
    assert abs(np.corrcoef(lengths, range(len(lengths)))[0, 1]) < 0.4


def heard_clips(batches: Batches, epoch: int) -> dict[int, tuple[int, int]]:
    """clip -> (the clip it is conditioned on, frames of it)."""
    found = {}
    for batch in batches.epoch(epoch):
        for row, clip in enumerate(batch.clips):
            frames = batch.rows.frames.lengths[row]
            values = batch.rows.conditioning[row, :, :frames].unique()
            assert len(values) == 1
            found[clip] = (int(values), frames)
    return found


def test_conditioning_is_another_clip_of_the_same_speaker():
    clips = some_clips(40, shortest=7.0)
    batches = made(clips)
    for epoch in (1, 2):
        for clip, (source, frames) in heard_clips(batches, epoch).items():
            assert source != clip
            assert clips[source].speaker == clips[clip].speaker
            assert 258 <= frames <= 516  # 3 to 6 s
    assert heard_clips(batches, 1) != heard_clips(batches, 2)


def test_another_clip_is_drawn_as_from_a_list_of_all_the_others():
    sources = (0, 2, 3, 5, 7, 11)
    batches = made(some_clips(12), sources=sources)
    for clip in range(12):
        speaker = batches.clips[clip].speaker
        alike = [source for source in sources if batches.clips[source].speaker == speaker and source != clip]
        for seed in range(20):
            wanted = random.Random(seed).choice(alike) if alike else None
            assert batches._other_clip(random.Random(seed), clip) == wanted


def test_conditioning_comes_from_training_clips_only():
    clips = some_clips(20, speakers=1)
    validation = Batches(
        clips,
        range(15, 20),
        Made(clips),
        SHAPE,
        seed=0,
        batch_seconds=30.0,
        stop_input=False,
        sources=tuple(range(15)),
        fixed=True,
    )
    first = heard_clips(validation, 1)
    assert all(source < 15 for source, _ in first.values())
    assert all_same(list(validation.epoch(1)), list(validation.epoch(7)))


def test_a_speaker_with_one_clip_hears_a_third_of_it_and_does_not_learn_that():
    clips = some_clips(1, shortest=9.0)
    batches = made(clips)
    total = len(Made(clips).codes(0))
    for epoch in range(1, 6):
        (batch,) = batches.epoch(epoch)
        frames = batch.rows.frames.lengths[0]
        assert frames <= 4 * total / 3
        targets = set(batch.rows.audio_targets.tolist()) - {SHAPE.audio_stop}
        unlearned = set(range(total)) - targets
        assert len(unlearned) >= frames // 4
        assert unlearned == set(range(min(unlearned), max(unlearned) + 1))
        assert len(batch.rows.audio) == total + 4  # all of them are inputs


def test_other_clips_lose_no_target():
    clips = some_clips(2, speakers=1)
    (batch,) = made(clips).epoch(1)
    assert len(batch.rows.audio_targets) == len(batch.rows.audio)


@pytest.mark.parametrize("seconds", [0.5, 0.6, 1.0, 11.6])
def test_the_shortest_clips_make_batches(seconds):
    clip = some_clips(1)[0]
    short = [Clip(**{**vars(clip), "seconds": seconds})]
    (batch,) = made(short).epoch(1)
    assert batch.rows.frames.lengths[0] >= 1


def test_prefetching_changes_no_batch():
    batches = made(some_clips(40))
    for epoch in (1, 2):
        one_by_one = [batches.batch(epoch, group) for group in batches.plan(epoch)]
        assert all_same(one_by_one, list(batches.epoch(epoch)))


def test_no_thread_waits_between_two_batches():
    """It would keep OpenMP threads, and those of the step would sleep instead of spin."""
    batches = made(some_clips()).epoch(1)
    next(batches)
    for thread in threading.enumerate():
        if thread.name.startswith("prefetch"):
            thread.join(10)
            assert not thread.is_alive()


def test_an_epoch_that_is_left_waits_for_the_batch_that_is_being_made():
    """The next epoch reads the same cache."""
    clips, reading, go = some_clips(), threading.Event(), threading.Event()
    source = Made(clips)
    batches = Batches(
        clips, range(30), source, SHAPE, seed=3, batch_seconds=30.0, stop_input=False, sources=range(30)
    )
    epoch = batches.epoch(1)
    next(epoch)

    def slowly(clip: int) -> np.ndarray:
        reading.set()
        assert go.wait(10)
        return Made(clips).codes(clip)

    for thread in threading.enumerate():
        if thread.name.startswith("prefetch"):
            thread.join(10)
    source.codes = slowly
    threading.Timer(0.2, go.set).start()
    next(epoch)
    assert reading.wait(10)
    epoch.close()
    assert go.is_set()
    assert not any(one.name.startswith("prefetch") for one in threading.enumerate())


def test_an_epoch_goes_on_from_any_batch():
    batches = made(some_clips(40))
    whole = list(batches.epoch(2))
    for first in (0, 1, len(whole) - 1, len(whole)):
        assert all_same(list(batches.epoch(2, first)), whole[first:])


class Failing(Made):
    """The first `times` reads of clip 0 fail."""

    def __init__(self, clips: list[Clip], times: int) -> None:
        super().__init__(clips)
        self.left = times

    def codes(self, clip: int) -> np.ndarray:
        if clip == 0 and self.left:
            self.left -= 1
            raise OSError("the disk is away")
        return super().codes(clip)


def one_by_one(source: Made) -> Batches:
    """Four clips, one per batch. No two share a speaker, so no batch reads another clip."""
    return Batches(
        source.clips,
        (1, 2, 3, 0),
        source,
        SHAPE,
        seed=0,
        batch_seconds=1.0,
        stop_input=False,
        sources=(0, 1, 2, 3),
    )


def test_reading_that_fails_is_tried_again_and_makes_the_same_batch(caplog):
    clips = some_clips(5, speakers=5)
    whole, failing = one_by_one(Made(clips)), one_by_one(Failing(clips, 2))
    assert all_same(list(whole.epoch(1)), list(failing.epoch(1)))
    assert caplog.text.count("Trying again") == 2


def test_what_cannot_be_read_in_three_tries_is_named_behind_the_batches_before_it():
    failing = one_by_one(Failing(some_clips(5, speakers=5), 99))
    epoch = next(number for number in range(1, 9) if failing.plan(number)[0] != (0,))
    plan, found = failing.plan(epoch), failing.epoch(epoch)
    before = plan[: plan.index((0,))]
    assert [next(found).clips for _ in before] == before
    told = r"clip-0 could not be made in 3 tries \(OSError: the disk is away\)"
    with pytest.raises(SotaqueError, match=told) as raised:
        next(found)
    assert raised.value.exit_code == 2


def test_batches_leave_the_cache_as_it_is():
    """The cache is memory-mapped and read-only: a write to it would crash."""
    clips = some_clips(4, speakers=1)
    source = Made(clips)
    mels = {n: source.mel(n) for n in range(4)}
    for mel in mels.values():
        mel.setflags(write=False)
    source.mel = mels.__getitem__
    batches = made(clips)
    batches.features = source
    for batch in batches.epoch(1):
        batch.rows.conditioning.mul_(2)
    assert all((mel == n).all() for n, mel in mels.items())


@pytest.mark.parametrize("count", [1, 2, 7, 30, 61])
@pytest.mark.parametrize("world_size", [1, 2, 3, 8])
def test_every_clip_is_dealt_once_and_every_rank_has_as_many_steps(count, world_size):
    clips = some_clips(count)
    ranks = [made(clips, rank=rank, world_size=world_size) for rank in range(world_size)]
    plan = ranks[0].plan(2)
    assert all(batches.plan(2) == plan for batches in ranks)
    for first in (0, 1, len(plan)):
        seen = [[batch.clips for batch in batches.epoch(2, first)] for batches in ranks]
        left = sorted(clip for group in plan[first:] for clip in group)
        assert sorted(clip for rank in seen for group in rank for clip in group) == left
        assert {len(rank) for rank in seen} == {-(-len(plan[first:]) // world_size)}


def test_a_rank_without_a_clip_takes_part_and_learns_nothing():
    batches = made(some_clips(3), rank=1, world_size=2, batch_seconds=100.0)
    batches.indices = (0,)
    (batch,) = batches.epoch(1)
    assert batch.clips == () and batch.audio_seconds == 0
    assert len(batch.rows.text_targets) == len(batch.rows.audio_targets) == 0
    assert len(batch.rows.audio) > 0


def long_tailed(count: int) -> list[Clip]:
    """Lengths as in conversations: most clips are short, a few have the greatest length."""
    draw = np.random.default_rng(1)
    seconds = np.clip(draw.lognormal(np.log(2.5), 0.8, count), 0.5, 11.6)
    return [
        Clip(**{**vars(clip), "seconds": float(s)})
        for clip, s in zip(some_clips(count), seconds, strict=True)
    ]


def test_a_batch_has_no_padding_however_long_the_tail_is():
    batches = made(long_tailed(300), batch_seconds=40.0)
    for batch in itertools.islice(batches.epoch(1), 10):
        rows = batch.rows
        used = len(rows.conditioning_slots) + len(rows.text) + len(rows.audio)
        assert used == rows.length


# How clips are grouped, which rank learns them, and the effect of a halved budget


SECONDS = [4.0, 3.0, 2.0, 4.0, 1.0, 2.0, 3.0, 2.0]
GROUPS = [(0, 3), (1, 6), (2, 5, 7), (4,)]


@pytest.mark.parametrize(
    ("seconds", "groups"),
    [
        ([1.0, 1.0, 1.0, 1.0, 1.0], [(0, 1, 2, 3), (4,)]),  # exactly the budget
        ([1.0, 1.0, 9.0, 1.0, 1.0], [(0, 1), (2,), (3, 4)]),  # one clip is longer than the budget
        ([1.0, 2.0, 2.0, 1.0], [(0, 1), (2, 3)]),  # the longest clip counts, wherever it is
        ([1.0, 2.0, 1.0], [(0, 1), (2,)]),
        ([2.0, 1.0, 1.0, 1.0, 1.0], [(0, 1), (2, 3, 4)]),
        ([], []),
    ],
)
def test_the_longest_clip_times_their_number_fills_the_budget_and_no_more(seconds, groups):
    assert cut(range(len(seconds)), seconds, 4.0) == groups


@pytest.mark.parametrize(
    ("halvings", "epoch", "groups"),
    [
        ([], 2, GROUPS),
        ([OomBackoff(2, 1, 4.0)], 3, GROUPS),
        ([OomBackoff(2, 1, 4.0)], 2, [(0, 3), (1,), (6,), (2, 5), (7,), (4,)]),
        ([OomBackoff(1, 0, 6.0), OomBackoff(1, 2, 2.0)], 1, [(0,), (3,), (1,), (6,), (2,), (5,), (7,), (4,)]),
    ],
    ids=["none", "in another epoch", "behind a batch", "twice"],
)
def test_before_a_halving_nothing_changes_and_behind_it_batches_are_smaller(halvings, epoch, groups):
    assert recut(GROUPS, SECONDS, halvings, epoch) == groups


def test_later_epochs_are_planned_with_what_is_left():
    halvings = [OomBackoff(2, 1, 4.0), OomBackoff(3, 0, 2.0)]
    assert [at_epoch(8.0, halvings, epoch) for epoch in (1, 2, 3, 4)] == [8.0, 8.0, 4.0, 2.0]


@pytest.mark.parametrize(
    ("group", "budget", "expected"),
    [((0, 3), 8.0, 4.0), ((2, 5), 100.0, 2.0), ((4,), 8.0, None), ((), 8.0, None)],
)
def test_half_is_always_less_than_what_did_not_fit(group, budget, expected):
    assert halve_budget(group, SECONDS, budget) == expected


def test_an_epoch_draws_its_share_of_rehearsed_clips_and_each_epoch_draws_others():
    clips = some_clips(60)
    own, rehearsed = range(20), range(20, 60)
    batches = Batches(
        clips,
        own,
        Made(clips),
        SHAPE,
        seed=3,
        batch_seconds=30.0,
        stop_input=False,
        sources=range(60),
        drawn=rehearsed,
        share=0.25,
    )
    epochs = [[clip for group in batches.plan(epoch) for clip in group] for epoch in (1, 2)]
    for epoch in epochs:
        assert set(own) <= set(epoch) and len(epoch) == len(set(epoch))
        seconds = sum(clips[clip].seconds for clip in epoch)
        drawn = sum(clips[clip].seconds for clip in set(epoch) & set(rehearsed))
        assert 0.25 <= drawn / seconds < 0.29  # the last clip may exceed the share
    assert set(epochs[0]) != set(epochs[1])
    assert batches.plan(1) == batches.plan(1)
