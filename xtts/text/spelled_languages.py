"""Normalises languages that Coqui's normaliser does not know: numbers in words, lower case."""

import re

from xtts.text.normalization.registry import rules_of
from xtts.text.normalization.spelling import NoWordsError

# In these languages, the lower case of I is dotless.
_DOTLESS = ("az", "crh", "gag", "tt")
# Variants of the apostrophe.
_APOSTROPHES = str.maketrans("\u2019\u02bc\uff07", "'''")


def spelled_out(text: str, short: str) -> str:
    """A text in lower case, with numbers in words by ICU's rules, one kind of apostrophe and
    without double quotes.

    Raises NoWordsError for digits in a language without numerals in ICU.
    """
    rules = rules_of(short)
    if rules is not None:
        text = rules.read(text)
    elif digits := re.search(r"\d+", text):
        raise NoWordsError(f"{short} has no rules for {digits[0]}")
    small = lowered(text, short).translate(_APOSTROPHES).replace('"', "")
    return " ".join(small.split())


def lowered(text: str, short: str) -> str:
    """Lower case as in Coqui's training, which replaces the Turkish İ first. Coqui's inference does
    not, and gets an i with a combining dot, which the model has not learned."""
    if short in _DOTLESS:
        text = text.replace("I", "ı")
    return (text.replace("İ", "i") if short in ("tr", *_DOTLESS) else text).lower()
