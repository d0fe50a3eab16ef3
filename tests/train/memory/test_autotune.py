"""How much fits into memory, with a formula instead of a GPU."""

import pytest

from train.memory.autotune import HEADROOM, fitting_on_cpu, largest_fitting

GB = 10**9


class Card:
    """A GPU with `room` GB: a step takes 4 GB, plus `clip` and quadratically `bend` per clip."""

    def __init__(self, room: float, clip: float = 1, bend: float = 0) -> None:
        self.room, self.clip, self.bend = (int(one * GB) for one in (room, clip, bend))
        self.tried: list[int] = []

    def peak_bytes(self, clips: int) -> int | None:
        self.tried.append(clips)
        peak = int(4 * GB + self.clip * clips + self.bend * clips**2)
        return peak if peak <= self.room else None


@pytest.mark.parametrize(
    ("room", "max_clips", "fits", "tried", "why"),
    [
        (24, 10, 10, [10], ""),
        (16, 40, 8, [40, 35, 30], "of 13.6 GB taken"),
        (8, 40, 2, [40, 35, 30], "of 6.8 GB taken"),
        (6.5, 2, 1, [2], ""),
        (4.5, 8, 1, [8], "longest clip does not fit"),
    ],
)
def test_the_longest_batch_goes_first_and_headroom_is_left(room, max_clips, fits, tried, why):
    card = Card(room)
    clips, reason = largest_fitting(card.peak_bytes, card.room, max_clips)
    assert clips == fits and card.tried[: len(tried)] == tried and why in reason


def test_each_batch_is_tried_before_it_is_believed():
    """Memory grows faster than linearly."""
    card = Card(room=16, clip=0.2, bend=0.1)
    clips, _ = largest_fitting(card.peak_bytes, card.room, 100)
    peak = 4 + 0.2 * clips + 0.1 * clips**2
    assert peak <= 16 * (1 - HEADROOM) and len(card.tried) > 4 and clips >= 6


def test_what_did_not_fit_is_not_tried_again_and_less_is():
    card = Card(room=16, clip=0.2, bend=0.1)
    assert largest_fitting(card.peak_bytes, card.room, 9)[0] == 7
    assert card.tried == [9, 7]


@pytest.mark.parametrize(
    ("ram", "seconds", "why"),
    [
        (64, 40.0, "half of 64.0 GB of RAM"),
        (16, 10.0, "the most that fits"),
        (8, 1.0, "even one second does not fit into half of 8.0 GB"),
    ],
)
def test_a_cpu_is_reckoned_with_half_of_its_ram(ram, seconds, why):
    found = fitting_on_cpu(40.0, bytes_per_second=0.1 * GB, fixed_bytes=7 * GB, ram_bytes=ram * GB)
    assert found[0] == seconds and why in found[1]
