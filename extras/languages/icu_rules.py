"""Rules for the languages that XTTS-v2 lacks: numbers in words, by ICU's numerals.

They read whole numbers, decimals, negative numbers, ranges and times of day. A numeric date is read
number by number. ICU's numerals (package `unicode-rbnf`) have no words for currencies, units,
percentages and months, so these stay as they are written.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Never

from xtts.text.normalization.registry import LanguageRules, engine, spell

# Languages that separate thousands with a comma, like English.
_COMMA_GROUPS = frozenset("am cy fil ga he km lo mt my ms ne sw ta th ur yue zu ak ee chr si bn".split())
# Other codes of the same language.
_CODES = {"nb": "no", "tl": "fil"}
# Errors in CLDR's numerals: a Latin i in Belarusian, a superfluous accent in Greek, cedillas
# instead of commas in Romanian.
_CORRECTIONS = {"be": (("i", "і"),), "el": (("χίλι", "χιλι"),), "ro": (("ş", "ș"), ("ţ", "ț"))}
# A zero-width space, which allows a line break in scripts without spaces.
_BREAK = "\u200b"
_RULE_SETS = (
    "numbering",
    "cardinal",
    "cardinal-masculine",
    "cardinal-neuter",
    "cardinal-common",
    "cardinal-feminine",
)


class IcuRules(LanguageRules):
    """The rules that `rules_of` makes."""

    plus, spells_decimals = "", True
    # ICU's numerals lack words for percent and units.
    percents: Mapping[str, Never] = {}
    read_percents: Callable[[str], str] = staticmethod(lambda text: text)
    read_units: Callable[[str], str] = staticmethod(lambda text: text)

    def __init__(self, code: str, rule_set: str) -> None:
        self.code, self.cardinals, self.digit_rules = code, {"m": rule_set}, rule_set
        self.corrections = (*_CORRECTIONS.get(code, ()), (_BREAK, ""))
        self.thousands_separator = "," if code in _COMMA_GROUPS else "."
        two, five = (spell(code, number, rule_set) for number in (2, 5))
        self.point = _between(_spell(code, "2.5", rule_set), two, five)
        self.minus = _between(_spell(code, "-2", rule_set), "", two)


@cache
def rules_of(language: str) -> LanguageRules | None:
    """Makes the rules of a language from ICU's numerals; None if ICU does not know it."""
    from unicode_rbnf import RbnfEngine

    code = _CODES.get(language, language)
    if code not in RbnfEngine.get_supported_languages():
        return None
    names = set(engine(code).format_number(2).text_by_ruleset)
    rule_set = next((name for name in _RULE_SETS if f"spellout-{name}" in names), None)
    return None if rule_set is None else IcuRules(code, rule_set)


def _spell(code: str, number: str, rule_set: str) -> str:
    """A number in words; "" if the rules lack them."""
    from unicode_rbnf.engine import RbnfError

    try:
        texts: dict[str, str] = engine(code).format_number(number).text_by_ruleset
    except RbnfError:  # Zulu lacks decimals
        return ""
    # The rule set `numbering` lacks decimals in some languages.
    candidates = [texts.get(f"spellout-{name}", "") for name in (rule_set, *_RULE_SETS)]
    return next((text for text in candidates if text and not any(map(str.isdigit, text))), "")


def _between(words: str, first: str, last: str) -> str:
    """The word between two numerals (for the decimal separator) or before one (for minus)."""
    if words.startswith(first) and words.endswith(last):
        return words[len(first) : len(words) - len(last)].strip(f" {_BREAK}")
    return " ".join(words.split()[1 if first else 0 : -1])
