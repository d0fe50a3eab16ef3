"""Judging takes what is allowed: what is left out, in which order, and what is known beforehand."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from train.dataset.dataset import Clip
from train.evaluation.budget import LEAST_SECONDS, TIME_SHARE, JudgingBudget, counts, planned
from train.evaluation.plan import EvaluationPlan, EvaluationSentence
from train.sampling.sample_files import SampleReference
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.workers.decoder_learning import STEPS
from xtts.workers.requests import SpeakingSpeed

SHARES = (0.7, 0.5, 0.3)
# As measured at XTTS-v2's size on two cores that nothing else used: a candidate of eight 55 s.
SLOW = SpeakingSpeed(loading=5.0, step=0.25, sound=0.02, hearing=0.005, word=0.002)
FAST = SpeakingSpeed(loading=0.1, step=0.004, sound=0.001, hearing=0.001, word=0.0001)


def seconds(sentences: int, epochs: int, blends: int, learning: float) -> float:
    """A second a sentence: the base's, and what judges an embedding, too."""
    return sentences * (1 + epochs + blends + bool(learning)) + learning


@pytest.mark.parametrize(
    ("allowed", "sentences", "epochs", "shares", "learning"),
    [
        (1000.0, 16, 1, SHARES, 60.0),
        (200.0, 16, 1, SHARES, 60.0),  # 6 x 16 + 60 = 156
        (120.0, 10, 1, SHARES, 60.0),  # 6 x 10 + 60
        (100.0, 10, 1, (0.5,), 60.0),  # 4 x 10 + 60
        (70.0, 10, 1, (0.5,), 30.0),
        (31.0, 10, 1, (0.5,), 0.0),
        (20.0, 10, 1, (), 0.0),
        (19.0, 4, 1, (), 0.0),  # figures without a verdict
        (8.0, 4, 1, (), 0.0),
        (7.0, 0, 0, (), 0.0),
    ],
)
def test_sentences_go_first_then_blends_then_the_embedding(
    allowed, sentences, epochs, shares, learning
):
    found = planned(seconds, allowed, 1, SHARES, 60.0, counts(16))
    assert (found.sentences, found.epochs, found.shares, found.learning_seconds) == (
        sentences, epochs, shares, learning,
    )  # fmt: skip
    assert found.seconds <= allowed


def test_of_many_epochs_as_many_as_fit_evenly_spread():
    found = planned(seconds, 50.0, 10, SHARES, 0.0, counts(16))
    assert (found.sentences, found.epochs, found.shares) == (10, 4, ())
    kept = budget(num_epochs=10)
    judged = []
    for epoch in range(1, 11):
        kept.plan = replace(found, epochs=found.epochs - len(judged))
        if kept.judges_epoch(epoch):
            judged.append(epoch)
    assert judged[-1] == 10 and 3 <= len(judged) <= 4
    kept.plan = planned(seconds, 1000.0, 10, SHARES, 0.0, counts(16))
    assert all(kept.judges_epoch(epoch) for epoch in range(1, 11))


def test_candidates_speak_what_the_base_has_spoken():
    assert counts(16) == (16, 10, 4) and counts(8) == (8, 4) and counts(3) == (3,)
    assert counts(16, known=12) == (12,)


def clip(name: str) -> Clip:
    return Clip(name, Path(name), "a" * 50, "anna", "en", 3.0, name, (1,) * 30)


def budget(num_epochs: int = 1) -> JudgingBudget:
    text = SynthesisRequest("one two three four five six seven eight nine ten", "en")
    plan = EvaluationPlan(
        [EvaluationSentence(text, "own")] * 24, SampleReference(Path("a"), "", "en"),
        [clip("a"), clip("b")], [], {}, "pocketsphinx", None,
    )  # fmt: skip
    return JudgingBudget(plan, num_epochs, range(1, num_epochs + 1), SHARES, learns_decoder=True)


def test_on_a_fast_machine_nothing_is_left_out():
    fast = budget(num_epochs=4)
    fast.speed, fast.epoch_seconds = FAST, 20.0
    plan = fast.make_plan(4, 16)
    assert (plan.sentences, plan.shares) == (16, SHARES)
    assert fast.limits == {} and plan.learning_seconds == fast.learning_seconds()


def test_a_long_run_may_take_its_share():
    long = budget(num_epochs=10)
    long.epoch_seconds = 600.0
    assert long.allowed_seconds == TIME_SHARE * 6000
    assert long.seconds_left() == TIME_SHARE * 6000  # nothing is known of the speed yet
    long.speed = SLOW
    plan = long.make_plan(10, 8)
    assert plan.seconds <= TIME_SHARE * 6000
    before = long.seconds_left()
    long.spend(40.0)
    assert long.seconds_left() == pytest.approx(before - 40.0)


def test_what_was_spent_leaves_less_for_the_decoder():
    one = budget()
    one.speed = SLOW
    whole = one.learning_room()
    one.spend(40.0)
    assert one.learning_room() == pytest.approx(whole - 40.0)
    one.spend(120.0)
    assert one.learning_room() == 0.0


def test_every_start_may_judge_whatever_earlier_ones_have_spent():
    """How long an epoch takes is not known again before one was learned."""
    known: Any = SimpleNamespace(candidates=[SimpleNamespace(seconds=200.0, sentences=[0] * 8)] * 3)
    again = budget(num_epochs=10)
    again.know(known)
    again.know(known)
    assert (again.spent_seconds, again.room_seconds) == (600.0, LEAST_SECONDS)
    again.epoch_seconds = 600.0
    assert again.room_seconds == TIME_SHARE * 6000 - 600.0


def test_blends_are_planned_without_forgetting_the_epochs_that_were_left_out():
    many = budget(num_epochs=20)
    many.speed = SLOW
    many.make_plan(20, 8)
    left = many.limits["epochs"]
    assert left.endswith("of 20 epochs")
    many.make_plan(0, 8)
    assert many.limits["epochs"] == left
    many.make_plan(1, 8)
    assert "epochs" not in many.limits


def test_what_is_left_counts_the_decoder_by_its_measured_steps():
    """The plan knows only how fast sound is made; the epochs' decoders tell what a step takes."""
    one = budget()
    one.speed = FAST
    one.make_plan(1, 16)
    planned_only = one.seconds_left()
    one.decoder_step_seconds = lambda: 0.3
    known = one.seconds_left()
    assert known == pytest.approx(planned_only - one.plan.learning_seconds + 0.3 * STEPS)
    one.decoder_step_seconds = lambda: 10.0  # then the time limit ends it
    assert known < one.seconds_left() <= one.room_seconds


def test_sentences_are_planned_by_the_measured_steps_of_a_decoder():
    """A trial makes a few sounds in some milliseconds; a decoder takes 24,000 codes."""
    one = budget()
    one.speed = SpeakingSpeed(loading=0.1, step=0.012, sound=0.0018, hearing=0.003, word=0.0001)
    assert one.make_plan(1, 16).sentences < 16
    one.decoder_step_seconds = lambda: 0.17
    plan = one.make_plan(1, 16)
    assert (plan.sentences, plan.shares, one.limits) == (16, SHARES, {})
    assert plan.learning_seconds == pytest.approx(0.17 * STEPS)


def test_what_the_base_may_take_leaves_the_others_as_much():
    one = budget(num_epochs=4)
    one.speed = SLOW
    one.decoder_step_seconds = lambda: 0.2
    one.make_plan(4, 16)
    each = one.most_base_seconds() + SLOW.loading
    others = 4 + len(SHARES) + 2
    assert (1 + others) * each == pytest.approx(LEAST_SECONDS - 0.2 * STEPS + SLOW.loading)
    one.spend(170.0)
    assert one.most_base_seconds() == 0.0


def test_the_limit_and_what_is_spent_of_it_do_not_contradict_each_other():
    one = budget()
    one.speed = FAST
    one.make_plan(1, 16)
    limit = f"limit is {LEAST_SECONDS:.0f} s"
    assert f"{limit} (15% of the training time" in one.sentence()
    one.spend(5.0)
    assert "s more. Its" in one.sentence()
    assert f"{limit}, of which 5 s are spent (15% of" in one.sentence()
