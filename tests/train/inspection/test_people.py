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
