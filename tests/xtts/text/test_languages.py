"""Which language a text is written in: told surely or not at all."""

from pathlib import Path

import pytest

from xtts.text.languages import FUNCTION_WORDS, NAMES, other_language

# Written to be spoken by an evaluation, not to choose the words by.
TEXTS = Path(__file__).parents[3] / "train/data/evaluation"
# Czech inflects most words: too few are the same everywhere, and nothing is said.
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
