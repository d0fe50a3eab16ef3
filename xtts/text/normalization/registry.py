"""The door to normalization: the rules of each language, and functions that need none of them.

No other module of the package is imported from outside.
"""

from functools import cache
from importlib import import_module

from machine import extras
from xtts.text.normalization.language_rules import LanguageRules
from xtts.text.normalization.numbers import GROUP, NoWordsError, engine, spell
from xtts.text.normalization.numerals import in_digits
from xtts.text.sentences import SentenceEnds

__all__ = [
    "COQUI",
    "GROUP",
    "LANGUAGES",
    "NEWEST",
    "NORMALIZERS",
    "SOTAQUE_1",
    "LanguageRules",
    "NoWordsError",
    "engine",
    "in_digits",
    "rules_of",
    "sentence_ends",
    "spell",
]

# The names of the rules in `config.json`, checkpoints and caches. To fix a reading, keep the name
# and increment `_RULES` in `xtts.text.tokenizer`, which invalidates caches. To change the words of
# texts that were read correctly, add a name and keep the old rules.
COQUI, SOTAQUE_1 = "coqui", "sotaque-1"
NORMALIZERS = (COQUI, SOTAQUE_1)
NEWEST = SOTAQUE_1

_CLASSES = {
    "english": {"en": "EnglishRules"},
    "germanic": {"de": "GermanRules", "nl": "DutchRules"},
    "romance": {"es": "SpanishRules", "fr": "FrenchRules", "it": "ItalianRules", "pt": "PortugueseRules"},
    "slavic": {"pl": "PolishRules", "cs": "CzechRules"},
    "russian": {"ru": "RussianRules"},
    "east_asian": {"zh": "ChineseRules", "ja": "JapaneseRules", "ko": "KoreanRules"},
    "other_languages": {
        "tr": "TurkishRules",
        "hu": "HungarianRules",
        "ar": "ArabicRules",
        "hi": "HindiRules",
    },
}
LANGUAGES = tuple(language for classes in _CLASSES.values() for language in classes)


@cache
def rules_of(language: str) -> LanguageRules | None:
    """The rules of a language (`pt`, `zh`): its class, or those of an extra for languages that
    XTTS-v2 lacks. None for a language without either."""
    for module, classes in _CLASSES.items():
        if language in classes:
            rules = getattr(import_module(f"xtts.text.normalization.{module}"), classes[language])
            language_rules: LanguageRules = rules()
            return language_rules
    added = (module.rules_of(language) for module in extras.modules("RULES"))
    return next(filter(None, added), None)


@cache
def sentence_ends(language: str) -> SentenceEnds:
    """Where the sentences of a language end; "" if it is unknown."""
    if not language:
        every = (rules_of(code) for code in LANGUAGES)
        return SentenceEnds("", [name for rules in every if rules for name in rules.abbreviations])
    rules = rules_of(language)
    return rules.sentences if rules else SentenceEnds(language)
