"""Reads texts of languages that Coqui's normaliser does not know: words for numbers, lower case."""

import re

from xtts.text.normalization.registry import rules_of
from xtts.text.normalization.spelling import NoWordsError

# The dotless letter of these alphabets is the small form of I.
_DOTLESS = ("az", "crh", "gag", "tt")
# Apostrophes that are part of words, written in one way.
_APOSTROPHES = str.maketrans("\u2019\u02bc\uff07", "'''")


def spelled_out(text: str, short: str) -> str:
    """A text in a language that Coqui's normaliser does not know: numbers in words by ICU's rules,
    lower case, one kind of apostrophe.

    Raises NoWordsError for digits in a language that ICU has no numerals of.
    """
    rules = rules_of(short)
    if rules is not None:
        text = rules.read(text)
    elif digits := re.search(r"\d+", text):
        raise NoWordsError(f"{short} has no rules for {digits[0]}")
    small = lowered(text, short).translate(_APOSTROPHES).replace('"', "")
    return " ".join(small.split())


def lowered(text: str, short: str) -> str:
    """Lower case as in Coqui's training, where the Turkish rule for İ comes first. Coqui's
    inference lowers before and gets an i with a combining dot, which the model has not learned."""
    if short in _DOTLESS:
        text = text.replace("I", "ı")
    return (text.replace("İ", "i") if short in ("tr", *_DOTLESS) else text).lower()
