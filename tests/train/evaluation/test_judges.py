"""The measurements of a sentence: its end, its words, its rate and its voice."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.train.evaluation.spoken import PERSON, candidate, embedding, facts
from train.dataset.dataset import Clip
from train.evaluation import judges
from train.evaluation.judges import mean_interval, paired_difference
from train.evaluation.plan import (
    EvaluationPlan,
    EvaluationSentence,
    describe_person,
    speaking_rate,
    voice_scale,
)
from train.sampling.reference import SampleReference
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.voices.evaluation_file import MeanInterval, SpokenSentence
from xtts.workers.requests import HeardRecordings, RecordingFacts, SpokenFacts


def spoken(length: float, *, tokens: int = 30, finished: bool = True) -> SpokenFacts:
    return SpokenFacts(round(PERSON.rate.codes(tokens) * length), tokens, finished, 1.0)


@pytest.mark.parametrize(
    ("length", "tokens", "finished", "outcome"),
    [
        (1.0, 30, True, "finished"),
        (0.65, 30, True, "cut"),
        (1.5, 30, True, "babbling"),
        (2.5, 30, False, "unfinished"),
        (0.5, 6, True, "finished"),  # in a word or two, pauses weigh more
    ],
)
def test_a_sentence_ends_where_it_should(length, tokens, finished, outcome):
    usual = [spoken(1.0) for _ in range(9)]
    found = candidate([*usual, spoken(length, tokens=tokens, finished=finished)]).sentences
    assert found[-1].outcome == outcome
    assert bool(found[-1].judges) is (outcome == "finished")


@pytest.mark.parametrize(("length", "outcome"), [(1.2, "finished"), (2.0, "babbling")])
def test_a_slow_speaker_is_slow_and_not_babbling_unless_twice_as_slow(length, outcome):
    found = candidate([spoken(length)] * 9).sentences
    assert {one.outcome for one in found} == {outcome}
    if outcome == "finished":
        drift = found[0].judges[judges.RATE_DRIFT]
        assert drift == pytest.approx(100 * (1 / length - 1), abs=2)


@pytest.mark.parametrize(
    ("evidence", "share"),
    [
        ([18.0, 17.0, 20.0, 19.0], 1.0),
        ([18.0, 17.0, 0.5, 19.0], 0.75),
        # A speaking style that lowers all words equally loses none.
        ([12.0, 11.0, 13.0, 12.0], 1.0),
        # If most are lost, the sentence's median word is not a usable standard.
        ([0.5, 0.4, 0.6, 17.0], 0.25),
        ([0.5, 0.4, 0.6, 0.3], 0.0),
    ],
)
def test_words_that_the_sound_does_not_need_were_left_out(evidence, share):
    assert judges.share_of_words_found(evidence, 18.0) == share
    assert judges.share_of_words_found([], 18.0) is None


def test_the_rate_is_a_line_through_the_clips_or_a_ratio_of_few():
    line = [((5 + 1.5 * tokens) * 1024 / 22_050, tokens) for tokens in range(10, 40, 2)]
    found = speaking_rate(line)
    assert (found.per_token, found.per_text) == (pytest.approx(1.5), pytest.approx(5, abs=1e-6))
    ratio = speaking_rate(line[:3])
    assert ratio.per_text == 0 and ratio.codes(12) == pytest.approx(5 + 1.5 * 12, rel=0.05)


def test_the_scale_of_likeness_ends_at_the_person_and_at_others():
    own = [RecordingFacts(2.0, [1.0, 0.1 * sign, 0.0], None) for sign in (-1, 0, 1)]
    scale, absent = voice_scale(own, list(np.eye(3)[1:]))
    assert absent is None and scale.similarity([]) is None
    assert scale.similarity([0.0, 0.0, 1.0]) == pytest.approx(0, abs=0.02)
    assert scale.similarity([1.0, 0.0, 0.0]) == pytest.approx(1, abs=0.02)
    # Candidates are measured on this scale.
    assert candidate(facts(voice=0.7)).mean(judges.VOICE) == pytest.approx(0.7, abs=0.05)
    assert PERSON.voice_scale.similarity(embedding(0.0)) == pytest.approx(0.0)


def test_a_scale_that_cannot_be_had_says_why():
    one = RecordingFacts(2.0, [1.0, 0.0], None)
    assert "has 1 recordings" in (voice_scale([one], [np.array([0.0, 1.0])])[1] or "")
    assert "no other voices" in (voice_scale([one, one], [])[1] or "")
    near = np.array([1.0, 0.0])
    assert "hardly distinguishes" in (voice_scale([one, one], [near])[1] or "")


def test_intervals_are_the_same_each_time_and_hold_their_mean():
    values = list(np.random.default_rng(3).normal(2, 1, 30))
    found = mean_interval(values)
    assert found == mean_interval(values)
    assert found.low < found.mean < found.high and found.count == 30
    # 1.96 standard errors to each side.
    assert found.high - found.low == pytest.approx(2 * 1.96 * np.std(values) / 30**0.5, rel=0.15)
    assert mean_interval([1.0, 2.0, 3.0]) is None


def test_a_difference_is_taken_sentence_by_sentence():
    hard = [float(i) for i in range(20)]
    found = paired_difference([value + 0.1 for value in hard], hard)
    assert (found.low, found.high) == (pytest.approx(0.1), pytest.approx(0.1))
    assert paired_difference([None, *hard[:2]], [1.0, *hard[:2]]) is None


def rows(measured: Sequence[SpokenFacts], reference: Sequence[float]) -> list[SpokenSentence]:
    """The sentences, judged against the embedding of one recording of the person."""
    asked = [EvaluationSentence(SynthesisRequest("text", "en"), "built_in")] * len(measured)
    return judges.judge_sentences(asked, measured, PERSON.compared_with(reference), 0.0)


REFERENCE = PERSON.voice_scale.centre.tolist()


def test_a_decoder_is_judged_by_words_and_by_the_voice_of_the_reference():
    own, closer = facts(3, voice=0.5, errors=0.1), facts(3, voice=0.6, errors=0.1)
    before, after = rows(own, REFERENCE), rows(closer, REFERENCE)
    gaps = judges.differences(after, before)
    assert gaps["voice"].mean == pytest.approx(0.06, abs=1e-3) and gaps["voice"].low > 0
    assert gaps["word_errors"].mean == 0
    assert judges.differences(before, after)["voice"].high < 0
    rough = [replace(one, naturalness=2.0) for one in own]
    smooth = [replace(one, naturalness=2.0 + 0.01 * number) for number, one in enumerate(own)]
    gap = judges.differences(rows(rough, REFERENCE), rows(smooth, REFERENCE))["naturalness"]
    assert gap.mean == pytest.approx(-0.115) and judges.is_less_natural(gap)


@pytest.mark.parametrize(
    ("mean", "high", "loss"), [(-0.2, -0.01, True), (-0.2, 0.01, False), (-0.09, -0.05, False)]
)
def test_a_loss_of_naturalness_is_measurable_and_large_enough_to_hear(mean, high, loss):
    assert judges.is_less_natural(MeanInterval(mean, mean - 0.1, high, 16)) is loss
    assert not judges.is_less_natural(None)


@pytest.mark.parametrize(
    ("natural", "voice", "low", "loss"),
    [(-0.2, 0.3, 0.2, False), (-0.31, 0.3, 0.2, True), (-0.2, 0.1, 0.05, True), (-0.2, 0.3, -0.1, True)],
)
def test_a_voice_that_is_much_nearer_may_lose_a_little_naturalness(natural, voice, low, loss):
    gap = MeanInterval(natural, natural - 0.1, -0.01, 16)
    assert judges.is_less_natural(gap, MeanInterval(voice, low, 0.4, 16)) is loss


def test_the_persons_own_clips_are_the_reference_of_naturalness():
    heard = [RecordingFacts(2.0, [1.0, 0.1 * n], None, naturalness=4.0 + 0.1 * n) for n in range(4)]
    others = [RecordingFacts(2.0, [0.0, 1.0], None, naturalness=1.0)]
    clip = Clip("c", Path("c.wav"), "hello", "anna", "en", 2.0, "s", (1, 2))
    plan = EvaluationPlan(
        [], SampleReference(clip.path, "", "en", "anna"), [clip], [clip], [clip] * 4, {}, "", None
    )
    person = describe_person(plan, HeardRecordings([*heard, *others], []))
    assert person.naturalness == (4.0, 4.1, 4.2, 4.3)
    told = judges.describe_judges(person, "", "off", None, None)["naturalness"]
    assert told.absent is None and (told.unit, told.better) == ("MOS", "higher")
    assert judges.describe_judges(PERSON, "", "off", "why", None)["naturalness"].absent == "why"


def test_what_no_judge_of_a_decoder_can_compare_is_left_out():
    own = facts(3)  # no recogniser listened
    heard = rows(own, REFERENCE)
    assert judges.differences(heard, heard).keys() == {"voice"}
    deaf = rows(own, [])  # the recording was too short for an embedding
    assert judges.differences(deaf, deaf) == {}
    failed = rows([replace(one, finished=False) for one in own], REFERENCE)
    assert judges.differences(failed, heard) == {}
