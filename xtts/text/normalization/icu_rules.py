"""Rules for languages without a class: numbers in words, by ICU's numerals.

They read whole numbers, decimals, negative numbers, ranges and times of day. A numeric date is read
number by number. ICU's numerals (package `unicode-rbnf`) have no words for currencies, units,
percentages and months, so these stay as they are written.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

from xtts.text.normalization.language_rules import LanguageRules, Step
from xtts.text.normalization.quantities import Noun, WrittenNumber
from xtts.text.normalization.spelling import spell

# Languages that separate thousands with a comma, like English.
_COMMA_GROUPS = frozenset(
    "am cy fil ga he km lo mt my ms ne sw ta th ur yue zu ak ee chr si bn".split()
)
# Other codes of the same language.
_CODES = {"nb": "no", "tl": "fil"}
# Errors in CLDR's numerals: a Latin i in Belarusian, a superfluous accent in Greek, cedillas
# instead of commas in Romanian.
_CORRECTIONS = {
    "be": (("i", "і"),),
    "el": (("χίλι", "χιλι"),),
    "ro": (("ş", "ș"), ("ţ", "ț")),
}
# A zero-width space, which allows a line break in scripts without spaces.
_BREAK = "\u200b"
_RULE_SETS = (
    "numbering", "cardinal", "cardinal-masculine", "cardinal-neuter", "cardinal-common",
    "cardinal-feminine",
)  # fmt: skip


class IcuRules(LanguageRules):
    """The base class of the rules that `icu_rules` makes."""

    plus = ""

    def read(self, text: str) -> str:
        """The text in words."""
        return " ".join(super().read(text).replace(_BREAK, "").split())

    def date(self, day: int, month: int, year: int | None, before: str = "") -> str:
        """A numeric date, number by number."""
        numbers = [day, month] if year is None else [day, month, year]
        return " ".join(self.cardinal(number) for number in numbers)

    @property
    def percents(self) -> Mapping[str, Noun]:
        """Empty, because ICU's numerals lack a word for percent."""
        return {}

    @property
    def read_percents(self) -> Step:
        """Leaves percentages unchanged."""
        return lambda text: text

    def decimal_words(self, number: WrittenNumber) -> str:
        """A decimal, with the digits of its fraction one by one."""
        words = (self.whole(number.whole), self.point, self.digits(number.fraction))
        return " ".join(words)


@cache
def icu_rules(language: str) -> LanguageRules | None:
    """Makes the rules of a language from ICU's numerals; None if ICU does not know it."""
    code = _CODES.get(language, language)
    engine = _engine(code)
    if engine is None:
        return None
    names = set(engine.format_number(2).text_by_ruleset)
    rule_set = next((name for name in _RULE_SETS if f"spellout-{name}" in names), None)
    if rule_set is None:
        return None
    two, five = (spell(code, number, rule_set) for number in (2, 5))
    made: type[IcuRules] = type(
        f"IcuRules_{language}", (IcuRules,),
        {
            "code": code,
            "cardinals": {"m": rule_set},
            "digit_rules": rule_set,
            "corrections": _CORRECTIONS.get(code, ()),
            "group": "," if code in _COMMA_GROUPS else ".",
            "point": _between(_spelled(engine, "2.5", rule_set), two, five),
            "minus": _between(_spelled(engine, "-2", rule_set), "", two),
        },
    )  # fmt: skip
    return made()


def _spelled(engine: Any, number: str, rule_set: str) -> str:
    """A number in words; "" if the rules lack them."""
    from unicode_rbnf.engine import RbnfError

    try:
        texts: dict[str, str] = engine.format_number(number).text_by_ruleset
    except RbnfError:  # Zulu lacks decimals
        return ""
    # The rule set `numbering` lacks decimals in some languages.
    known = [texts.get(f"spellout-{name}", "") for name in (rule_set, *_RULE_SETS)]
    return next((text for text in known if text and not any(map(str.isdigit, text))), "")


def _between(words: str, first: str, last: str) -> str:
    """The word between two numerals (for the decimal separator) or before one (for minus)."""
    if words.startswith(first) and words.endswith(last):
        return words[len(first) : len(words) - len(last)].strip(f" {_BREAK}")
    return " ".join(words.split()[1 if first else 0 : -1])


def _engine(language: str) -> Any:
    from unicode_rbnf import RbnfEngine

    if language not in RbnfEngine.get_supported_languages():
        return None
    return RbnfEngine.for_language(language)
