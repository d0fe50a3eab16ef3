"""How much fits: with a card that is only a formula."""

import pytest

from train.memory.autotune import HEADROOM, fitting_on_cpu, largest_fitting

GB = 10**9


class Card:
    """So many bytes, of which a step takes `held` and so much a clip; beyond it, nothing."""

    def __init__(self, room: float, held: float = 4, clip: float = 1, bend: float = 0) -> None:
        self.room, self.held, self.clip, self.bend = (
            int(one * GB) for one in (room, held, clip, bend)
        )
        self.tried: list[int] = []

    def peak_bytes(self, clips: int) -> int | None:
        self.tried.append(clips)
        peak = int(self.held + self.clip * clips + self.bend * clips**2)
        return peak if peak <= self.room else None


def test_what_fits_is_tried_once():
    card = Card(room=24)
    assert largest_fitting(card.peak_bytes, card.room, 10)[0] == 10
    assert card.tried == [10]


@pytest.mark.parametrize("room", [8, 10, 16, 20])
def test_the_largest_that_leaves_headroom(room):
    clips, reason = largest_fitting(Card(room).peak_bytes, room * GB, 40)
    assert clips == max(1, int(room * (1 - HEADROOM) - 4))
    assert f"of {room * (1 - HEADROOM):.1f} GB taken" in reason


def test_the_longest_batch_goes_first():
    card = Card(room=16)
    largest_fitting(card.peak_bytes, card.room, 40)
    assert card.tried[:3] == [40, 1, 2]


def test_what_is_reckoned_is_tried_before_it_is_believed():
    """Memory that grows faster than in a line: the first guess is too large."""
    card = Card(room=16, clip=0.2, bend=0.1)
    clips, _ = largest_fitting(card.peak_bytes, card.room, 100)
    peak = 4 + 0.2 * clips + 0.1 * clips**2
    assert peak <= 16 * (1 - HEADROOM) and len(card.tried) > 4 and clips >= 6


def test_a_card_that_is_too_small_says_so():
    card = Card(room=4.5)
    clips, reason = largest_fitting(card.peak_bytes, card.room, 8)
    assert clips == 1 and "not even the longest clip" in reason


def test_two_wanted_and_one_fits():
    card = Card(room=6.5)
    assert largest_fitting(card.peak_bytes, card.room, 2)[0] == 1


def test_a_cpu_is_reckoned_with_half_of_its_ram():
    enough = fitting_on_cpu(40.0, second_bytes=0.1 * GB, held_bytes=7 * GB, ram_bytes=64 * GB)
    assert enough.value == 40.0 and "half of 64.0 GB of RAM" in enough.reason
    short = fitting_on_cpu(40.0, second_bytes=0.1 * GB, held_bytes=7 * GB, ram_bytes=16 * GB)
    assert short.value == 10.0 and "room for" in short.reason
    none = fitting_on_cpu(40.0, second_bytes=0.1 * GB, held_bytes=7 * GB, ram_bytes=8 * GB)
    assert none.value == 1.0
