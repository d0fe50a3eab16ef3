"""Spells numbers in words by ICU's rules (package `unicode-rbnf`, rule sets of Unicode CLDR).

num2words, which Coqui's normaliser uses, lacks Hindi and Chinese and, for most other languages,
genders and cases. The module of each language corrects CLDR's errors.
"""

from functools import cache, lru_cache
from typing import Any

# Longer numbers are read digit by digit, as people do; the rules end before 10**18.
MOST_DIGITS = 15
# Bounded, because callers choose the numbers.
_KEPT = 4_096


class NoWordsError(Exception):
    """The language lacks these rules, as Arabic and Korean lack ordinals."""


@lru_cache(_KEPT)
def spell(language: str, number: int, rules: str) -> str:
    """`number`, 0 or more, in words. rules: a rule set of CLDR, such as `cardinal-feminine`.

    Spells the digits one by one if the number is too long, or if the rules lack words for it.
    Raises NoWordsError if the language lacks the rule set.
    """
    if len(str(number)) <= MOST_DIGITS:
        from unicode_rbnf.engine import RbnfError

        try:
            formatted = _engine(language).format_number(number, ruleset_names=[f"spellout-{rules}"])
        except RbnfError as error:
            raise NoWordsError(str(error)) from error
        spelled: str = formatted.text
        if not any(character.isdigit() for character in spelled):
            return " ".join(spelled.split())
    return " ".join(spell(language, int(digit), rules) for digit in str(number))


@cache
def _engine(language: str) -> Any:
    from unicode_rbnf import RbnfEngine

    return RbnfEngine.for_language(language)
