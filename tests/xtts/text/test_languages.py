"""The language of a text: recognised with certainty or not at all."""

from pathlib import Path

import pytest

from xtts.text.languages import FUNCTION_WORDS, NAMES, other_language

# These texts are for evaluations; the function words were not chosen on them.
TEXTS = Path(__file__).parents[3] / "train/data/evaluation"
# Czech inflects most words: too few are fixed, so there is no answer.
TOLD = set(FUNCTION_WORDS) - {"cs", "tr"}


@pytest.mark.parametrize("written", NAMES)
def test_a_language_is_never_taken_for_a_third_one(written):
    texts = (TEXTS / f"{written}.txt").read_text(encoding="utf-8").splitlines()
    assert other_language(texts, written) is None
    for named in FUNCTION_WORDS:
        assert other_language(texts, named) in (None, written)
    if written in TOLD - {"en"}:
        assert other_language(texts, "en") == written


def test_few_words_and_unknown_languages_say_nothing():
    german = "Der Hund und die Katze sind nicht im Haus. "
    assert other_language([german * 10], "en") == "de"
    assert other_language([german], "en") is None
    assert other_language([german * 10], "ja") is None
