"""Whether a student may replace its teacher, by the judges' figures of both."""

import pytest

from extras.distil.comparison import Comparison, rejection_reason
from tests.train.evaluation.spoken import candidate, facts


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({}, None),
        ({"voice": 0.72, "errors": 0.03}, None),
        ({"voice": 0.5}, "less like the person than the large model"),
        ({"rate": 1.2}, "faster than the person"),
        ({"unfinished": 0.3}, "sentences failed"),
        ({"errors": 0.3}, "percentage points above the large model's"),
        ({"errors": None, "lost": 0.2}, "in 100 than the large model"),
    ],
)
def test_a_distilled_model_replaces_what_it_is_no_worse_than(wrong, told):
    heard = {"errors": None} if "lost" in wrong else {"errors": 0.05}
    large = candidate(facts(1, **{"voice": 0.7, **heard}))
    small = candidate(facts(2, **{"voice": 0.7, **heard, **wrong}))
    reason = rejection_reason(Comparison(large, small))
    assert reason is None if told is None else told in str(reason)


def test_of_too_few_sentences_nobody_may_say_that_all_words_are_there():
    large, small = (candidate(facts(seed, voice=0.7, count=3)) for seed in (1, 2))
    assert "Too few sentences" in str(rejection_reason(Comparison(large, small)))


def test_a_drift_that_the_large_model_has_too_is_no_reason():
    large, small = (candidate(facts(seed, voice=0.7, rate=1.15)) for seed in (1, 2))
    assert rejection_reason(Comparison(large, small)) is None
    further = candidate(facts(3, voice=0.7, rate=1.3))
    assert "(the large model: 1" in str(rejection_reason(Comparison(large, further)))


@pytest.mark.parametrize(("natural", "allowed"), [(3.0, False), (3.4, True), (None, True)])
def test_a_student_that_sounds_less_natural_replaces_nobody(natural, allowed):
    large, small = (
        candidate(facts(100 + seed, voice=0.7, errors=0.1, natural=figure), loss=3.0)
        for seed, figure in enumerate((3.4, natural))
    )
    reason = rejection_reason(Comparison(large, small))
    assert (reason is None) is allowed
    assert allowed or "below the large model's" in reason
