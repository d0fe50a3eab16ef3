"""Findings from figures: one person, a few clips of another person, and two people."""

from dataclasses import replace

import numpy as np
import pytest

from extras.inspect.outliers import ClipMeasurements, find_suspects, group_voices
from extras.inspect.sound import SoundFacts

GOOD = SoundFacts(3.0, 22_050, -12.0, 45.0, 25.0, 1e-4, 8000.0, 0.2, 0.2, -45.0, -45.0, 0.0, 0.01, 0.7)


def usual(count: int = 40) -> list[ClipMeasurements]:
    random = np.random.default_rng(5)
    return [
        ClipMeasurements(
            f"good-{n}",
            round(40 * random.uniform(0.9, 1.1)),
            replace(GOOD, level_db=-12 + random.uniform(-1, 1)),
            3 + random.uniform(-0.3, 0.3),
            1.5 + random.uniform(-0.5, 0.5),
        )
        for n in range(count)
    ]


@pytest.mark.parametrize(
    ("changed", "kind", "seen"),
    [
        ({"dynamics_db": 1.0, "tone": 0.99}, "tone", "It is a tone"),
        ({"dynamics_db": 2.0, "flatness": 0.5}, "noise", "It is noise"),
        ({"dynamics_db": 2.0}, "steady", "loudness is constant"),
        ({"noise_db": 9.0}, "snr", "only 9 dB below the voice"),
        ({"clipped": 0.03}, "clipping", "3.0% of its samples are clipped"),
        ({"heard_hz": 3900.0}, "band", "above 3.9 kHz"),
        ({"seconds": 6.0, "lead_seconds": 3.2}, "silence", "3.2 s before the speech and 0.2 s"),
        ({"seconds": 6.0, "tail_seconds": 3.2}, "silence", "0.2 s before the speech and 3.2 s"),
        ({"end_db": -3.0}, "cut", "It ends in the middle of sound"),
        ({"start_db": -3.0}, "cut", "It begins in the middle of sound"),
        ({"offset": -0.1}, "offset", "-0.100 of full scale"),
        ({"level_db": -50.0}, "level", "very quiet"),
        ({"level_db": -30.0}, "level", "18 dB quieter than most clips"),
    ],
)
def test_a_fault_of_the_sound_is_one_finding(changed, kind, seen):
    bad = replace(usual()[0], name="bad", sound=replace(GOOD, **changed))
    (suspect,) = find_suspects([*usual(), bad])
    assert suspect.name == "bad"
    assert [finding.kind for finding in suspect.findings] == [kind]
    assert seen in suspect.reasons


@pytest.mark.parametrize(
    ("changed", "kind", "seen"),
    [
        ({"num_letters": 3}, "rate", "too little for the sound: 1.2 characters a second, 15"),
        ({"num_letters": 120}, "rate", "too much for the sound"),
        ({"nats_per_code": 3.0, "text_evidence": -0.1}, "words", "Its text may be wrong"),
        ({"nats_per_code": 9.0, "text_evidence": 1.5}, "likelihood", "loss 9.0"),
        ({"copy_of": "good-3"}, "copy", "the same sound as good-3"),
        ({"voice_finding": "It sounds like another person."}, "voice", "another person"),
    ],
)
def test_sound_and_text_together(changed, kind, seen):
    bad = replace(usual()[0], name="bad", **changed)
    (suspect,) = find_suspects([*usual(), bad])
    assert [finding.kind for finding in suspect.findings] == [kind]
    assert seen in suspect.reasons


@pytest.mark.parametrize(
    ("spread", "apart", "suspect"),
    [
        (0.1, 6.0, False),  # 6 dB are not a fault, however similar the others are
        (0.1, 12.0, True),
        (8.0, 12.0, False),  # 12 dB are usual among clips of all levels
        (8.0, 60.0, True),
    ],
)
def test_a_level_is_suspect_where_it_is_far_off_and_unusual(spread, apart, suspect):
    random = np.random.default_rng(3)
    clips = [replace(clip, sound=replace(GOOD, level_db=random.normal(-20, spread))) for clip in usual(100)]
    loud = replace(clips[0], name="loud", sound=replace(GOOD, level_db=-20 + apart))
    found = [suspect.name for suspect in find_suspects([*clips, loud]) if suspect.name == "loud"]
    assert found == ["loud"] * suspect


def test_a_base_that_knows_nothing_of_the_language_does_not_judge_words():
    blind = [replace(clip, nats_per_code=7.0, text_evidence=0.01) for clip in usual()]
    deaf = replace(blind[0], name="bad", nats_per_code=7.0, text_evidence=-0.1)
    assert find_suspects([*blind, deaf]) == []


def test_the_worst_comes_first_and_good_clips_are_not_suspect():
    assert find_suspects(usual()) == find_suspects([]) == []
    suspect = replace(usual()[0], name="one", sound=replace(GOOD, heard_hz=3900.0))
    worse = replace(suspect, name="worse", num_letters=3)
    assert [s.name for s in find_suspects([*usual(), suspect, worse])] == ["worse", "one"]


# Voices, as clouds of embeddings


def cloud(count: int, person: int, spread: float = 0.4) -> list[np.ndarray]:
    centre = np.random.default_rng(person).standard_normal(128)
    noise = np.random.default_rng(100 + person).standard_normal((count, 128))
    return list(centre + spread * noise)


@pytest.mark.parametrize("strangers", [0, 1, 3, 20, 29])
def test_somebody_else_is_found_few_or_many(strangers):
    found = group_voices([*cloud(60, 1), *cloud(strangers, 2)])
    assert found.others == tuple(range(60, 60 + strangers))
    assert strangers or (min(found.likeness) > 0.7 and not found.has_two_people)
    # There are too few clips to judge.
    assert group_voices([*cloud(4, 1), *cloud(3, 2)]).others == ()


def test_guests_do_not_move_the_centre_that_the_person_is_measured_by():
    person, guests = cloud(60, 1), [cloud(1, 10 + number)[0] for number in range(25)]
    alone, among = group_voices(person), group_voices([*person, *guests])
    assert among.others == tuple(range(60, 85)) and not among.has_two_people
    assert np.mean(among.likeness[:60]) == pytest.approx(np.mean(alone.likeness), abs=0.01)


def in_few_directions(count: int, seed: int, shift: float = 0.0) -> list[np.ndarray]:
    """Clips of one voice as encoders place them: they differ in a few directions only."""
    draw = np.random.default_rng(seed)
    points = np.zeros((count, 128))
    points[:, 0] = 1.0
    points[:, 1:9] = 0.25 * draw.standard_normal((count, 8))
    points[:, 10] = shift
    return list(points)


@pytest.mark.parametrize("count", [8, 9, 12, 40])
def test_few_clips_of_one_voice_are_not_two_people(count):
    assert not [seed for seed in range(40) if group_voices(in_few_directions(count, seed)).has_two_people]


@pytest.mark.parametrize(("own", "others"), [(5, 4), (6, 3), (20, 19)])
def test_a_handful_of_each_of_two_voices_is(own, others):
    for seed in range(20):
        clips = [*in_few_directions(own, seed), *in_few_directions(others, 100 + seed, shift=4.0)]
        found = group_voices(clips)
        assert found.has_two_people and found.others == tuple(range(own, own + others))
