"""What is sure of a sentence that was heard in part."""

import pytest

from train.cutting.alignment.manuscript import manuscript_of
from train.cutting.alignment.placing import place_units
from train.cutting.alignment.recogniser import HeardWord
from train.cutting.alignment.text_files import Cue

TEXT = manuscript_of([Cue("The king promised half.")], "en")
# `the` was heard in what another person says, six seconds before the rest.
HEARD = [
    HeardWord("the", 1.0, 1.2), HeardWord("come", 1.2, 1.6), HeardWord("king", 7.2, 7.5),
    HeardWord("promised", 7.5, 8.0), HeardWord("half", 8.0, 8.4),
]  # fmt: skip
PLACES = {0: 0, 1: 2, 2: 3, 3: 4}


def placed(starts: list[float], certainty: float) -> list[str]:
    checked = {
        number: HeardWord(word, start, start + 0.3, certainty)
        for number, (word, start) in enumerate(zip(TEXT.words, starts))
    }
    return [unit.text for unit in place_units(TEXT, PLACES, HEARD, checked)]


def test_a_heard_word_is_sure_where_it_was_heard_only() -> None:
    assert placed([1.0, 1.3, 1.6, 2.0], certainty=-6.0) == ["The"]
    assert placed([1.0, 7.2, 7.6, 8.1], certainty=-6.0) == "The king promised half.".split()


@pytest.mark.parametrize(("certainty", "sure"), [(-1.3, 4), (-1.5, 1)])
def test_elsewhere_it_must_be_certain(certainty: float, sure: int) -> None:
    assert len(placed([1.0, 1.3, 1.6, 2.0], certainty)) == sure
