"""Reader: a text in words, and in the characters that a model has learned.

A model may name a front-end in config.json: `cmu_phones` converts English to phones, at the point
at which XTTS converts Chinese to pinyin. Its `normalizer` names the rules that write numbers and
symbols in words: `coqui` for models that were trained with Coqui's, otherwise `sotaque-1`
(`xtts.text.normalization`). In both cases, Coqui's abbreviations, lower case and romanisation
follow. Added languages have the rules of `extras/languages` and their own signs, in lower case.

Coqui's normaliser does not check its input: it raises a dozen kinds of errors, and its patterns
take seconds for a thousand digits. So its input is limited first, and each of its errors becomes a
TextError that names the word.
"""

import re
from functools import cached_property
from typing import Any

from machine import commands
from xtts.model.config import ModelConfig
from xtts.text.cleaning import speakable
from xtts.text.coqui_tokenizer import tokenizer_class
from xtts.text.errors import TextError, shown
from xtts.text.normalization.registry import (
    COQUI,
    LANGUAGES,
    NoWordsError,
    in_digits,
    rules_of,
)
from xtts.text.pronunciations import Pronunciations, replacer

EXTRAS = {"zh": "pypinyin", "ja": "cutlet and fugashi[unidic-lite]"}
# Coqui romanises these languages; people are shown the text before that.
_ROMANISED = ("zh", "ja", "ko")
# In these languages, the lower case of I is dotless.
_DOTLESS = ("az", "crh", "gag", "tt")
# Variants of the apostrophe; and double quotes, which are not read.
_QUOTES = str.maketrans("\u2019\u02bc\uff07", "'''", '"')


class Reader:
    """Reads texts for one model. said: the pronunciation lists."""

    def __init__(self, config: ModelConfig, said: Pronunciations) -> None:
        self._normalizer, self._said = config.normalizer, said
        self._phones = config.text_frontend == "cmu_phones"
        # Added languages are spelled, whatever the front-end of the others.
        self.added = {one.language: replacer(one.replacements) for one in config.extensions}

    @cached_property
    def coqui(self) -> Any:
        """Coqui's tokenizer, for its normaliser and limits; imported in 0.3 s."""
        return tokenizer_class()()

    def reads_phones(self, short: str) -> bool:
        """Whether a language is read as phones, each of which is one character."""
        return self._phones and short not in self.added

    def says(self, normal: str) -> bool:
        """Whether normalised text has more than punctuation."""
        if self._phones:
            from xtts.text.phonemes import PAUSES

            return bool(normal.strip(PAUSES + " "))
        return speakable(normal)

    def read(self, text: str, short: str, *, spoken: bool) -> tuple[str, str]:
        """(The text in words, the same in the characters of the vocabulary). spoken: applies the
        pronunciation lists, which training does not. Raises TextError."""
        try:
            return self._normalised(text, short, spoken)
        except ImportError as error:
            raise TextError(
                f"LANGUAGE={short} needs packages that are not installed "
                f"({EXTRAS.get(short, str(error))}). Install them with: "
                f"{commands.install_extra('languages')}"
            ) from error
        except MemoryError:
            raise
        except Exception as error:
            for word in text.split() if " " in text else ():
                self.read(word, short, spoken=False)  # raises an error that names the word
            raise TextError(
                f"{shown(text)} cannot be read in language {short} ({type(error).__name__}). "
                "Write it in words."
            ) from error

    def _normalised(self, text: str, short: str, spoken: bool) -> tuple[str, str]:
        if spoken:
            text = self._said.replace(text, short)
        known_to_coqui = short in LANGUAGES
        rules = None if self._normalizer == COQUI and known_to_coqui else rules_of(short)
        if short in self.added and not known_to_coqui:
            text = self.added[short](text)
        if rules is not None:
            words = rules.read(text)
        elif known_to_coqui:
            # Coqui's rules know only 0 to 9; transcripts stay as they were learned.
            words = in_digits(text) if spoken else text
        elif digits := re.search(r"\d+", text):
            raise NoWordsError(f"{short} has no rules for {digits[0]}")
        else:
            words = text
        if known_to_coqui:
            normal = self.coqui.preprocess_text(lowered(words, short), short)
            words = words if short in _ROMANISED else normal
        else:
            words = normal = " ".join(lowered(words, short).translate(_QUOTES).split())
        if not self._phones:
            return words, normal
        if self.reads_phones(short):
            from xtts.text.phonemes import to_phones

            normal = to_phones(normal)
        normal = self._said.restore(normal, short, phones=True)
        return self._said.restore(words, short, phones=False), normal


def lowered(text: str, short: str) -> str:
    """Lower case as in Coqui's training, which replaces the Turkish İ first. Coqui's inference does
    not, and gets an i with a combining dot, which the model has not learned."""
    if short in _DOTLESS:
        text = text.replace("I", "ı")
    return (text.replace("İ", "i") if short in ("tr", *_DOTLESS) else text).lower()
