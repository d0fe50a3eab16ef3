"""One person, a few clips of somebody else, and two people, as clouds of embeddings."""

import numpy as np
import pytest

from train.inspection.people import group_voices


def cloud(count: int, person: int, spread: float = 0.4) -> list[np.ndarray]:
    centre = np.random.default_rng(person).standard_normal(128)
    noise = np.random.default_rng(100 + person).standard_normal((count, 128))
    return list(centre + spread * noise)


def test_one_person_is_one():
    found = group_voices(cloud(60, 1))
    assert not found.two_people and found.others == ()
    assert min(found.likeness) > 0.7


@pytest.mark.parametrize("strangers", [1, 3, 20, 29])
def test_somebody_else_is_found_few_or_many(strangers: int):
    found = group_voices([*cloud(60, 1), *cloud(strangers, 2)])
    assert found.others == tuple(range(60, 60 + strangers))


def test_guests_do_not_move_the_centre_that_the_person_is_measured_by():
    person, guests = cloud(60, 1), [cloud(1, 10 + number)[0] for number in range(25)]
    alone, among = group_voices(person), group_voices([*person, *guests])
    assert among.others == tuple(range(60, 85)) and not among.two_people
    assert np.mean(among.likeness[:60]) == pytest.approx(np.mean(alone.likeness), abs=0.01)


def test_too_few_clips_are_not_judged():
    assert group_voices([*cloud(4, 1), *cloud(3, 2)]).others == ()


def in_few_directions(count: int, seed: int, shift: float = 0.0) -> list[np.ndarray]:
    """Clips of one voice as encoders place them: they differ in a handful of directions."""
    draw = np.random.default_rng(seed)
    points = np.zeros((count, 128))
    points[:, 0] = 1.0
    points[:, 1:9] = 0.25 * draw.standard_normal((count, 8))
    points[:, 10] = shift
    return list(points)


@pytest.mark.parametrize("count", [8, 9, 12, 40])
def test_few_clips_of_one_voice_are_not_two_people(count: int):
    assert not [
        seed for seed in range(40) if group_voices(in_few_directions(count, seed)).two_people
    ]


@pytest.mark.parametrize(("own", "others"), [(5, 4), (6, 3), (20, 19)])
def test_a_handful_of_each_of_two_voices_is(own: int, others: int):
    for seed in range(20):
        clips = [*in_few_directions(own, seed), *in_few_directions(others, 100 + seed, shift=4.0)]
        found = group_voices(clips)
        assert found.two_people and found.others == tuple(range(own, own + others))
