"""Cleans a text, and reads it in words, and in the characters that a model has learned.

Cleaning removes characters that are not read, and rejects text that cannot be read.

A model may name a front-end in config.json: `cmu_phones` converts English to phones, at the point
at which XTTS converts Chinese to pinyin. Its `normalizer` names the rules that write numbers and
symbols in words: `coqui` for models that were trained with Coqui's, otherwise `sotaque-1`
(`xtts.text.normalization`). In both cases, Coqui's abbreviations, lower case and romanisation
follow. Added languages have the rules of `extras/languages` and their own signs, in lower case.

Coqui's normaliser does not check its input: it raises a dozen kinds of errors, and its patterns
take seconds for a thousand digits. So its input is limited first, and each of its errors becomes a
TextError that names the word.

Coqui's module uses torch in one `isinstance`, and its parent packages import all of Coqui: 0.4 GB
for a few regular expressions and `tokenizers`. So if torch is not loaded, the import skips the
packages' `__init__` files and puts an empty module in place of `torch`. This works with coqui-tts
0.28; `tests/xtts/text/test_reading.py` fails if another version needs more.
"""

import contextlib
import importlib
import importlib.util
import re
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from functools import cache, cached_property, lru_cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from machine import commands
from xtts.model.config import ModelConfig
from xtts.text.errors import TextError, excerpt
from xtts.text.normalization.registry import COQUI, GROUP, LANGUAGES, NoWordsError, in_digits, rules_of
from xtts.text.pronunciations import PAUSES, Pronunciations, to_phones

if TYPE_CHECKING:
    from TTS.tts.layers.xtts.tokenizer import VoiceBpeTokenizer

EXTRAS = {"zh": "pypinyin", "ja": "cutlet and fugashi[unidic-lite]"}
_COQUI_MODULE = "TTS.tts.layers.xtts.tokenizer"
_COQUI_PACKAGES = (
    "TTS",
    "TTS.tts",
    "TTS.tts.layers",
    "TTS.tts.layers.xtts",
    "TTS.tts.utils",
    "TTS.tts.utils.text",
)
# Bounded, because callers choose the numbers.
_CACHED_NUMBERS = 4_096
# Coqui romanises these languages; people are shown the text before that.
_ROMANISED = ("zh", "ja", "ko")
# In these languages, the lower case of I is dotless.
_DOTLESS = ("az", "crh", "gag", "tt")
# Variants of the apostrophe; and double quotes, which are not read.
_QUOTES = str.maketrans("\u2019\u02bc\uff07", "'''", '"')
# The most digits of a number. 24 are enough for every account number; longer ones are typing errors
# or attacks, and num2words fails beyond 10**306.
MAX_DIGITS = 24
_NUMBER = re.compile(r"\d[\d.,]*")
_GROUPED_NUMBER = re.compile(
    r"(?<![\d.,\u00a0\u2007\u2009])[1-9]\d{0,2}(?:[\u00a0\u2007\u2009]\d{3})+"
    r"(?![\u00a0\u2007\u2009]?\d)"
)
# A line that ends with an amount, before a line that begins with one: a line ends a number.
_LINE_BREAK_BETWEEN_AMOUNTS = re.compile(r"([\d%€$£¥₹₽])[^\S\n]*\n\s*(?=[^\w\s]?\d)")
# Letters and digits of mathematics, whose styles lack the letters that Unicode had before them (ℎ,
# ℯ), of full width, in circles and in squares: 𝐛𝐨𝐥𝐝, 𝒽ℯ𝓁𝓁ℴ, Ⓑⓞⓛⓓ.
_STYLED = re.compile(
    "[\U0001d400-\U0001d7ff\u2102\u210a-\u2115\u2119-\u211d\u2124\u2128\u212c\u212d"
    "\u212f-\u2131\u2133\u2134\uff10-\uff19\uff21-\uff5a\u24b6-\u24e9\U0001f130-\U0001f149]"
)


def clean_text(text: str) -> str:
    """Normalises to NFC, removes control characters, zero-width characters and variation selectors,
    and collapses spaces. A line break between two amounts becomes a comma, a space that groups
    digits `GROUP`, and letters in the styles of mathematics plain ones.

    Raises TextError if the result has neither letters nor digits.
    """
    text = unicodedata.normalize("NFC", text)
    if not text.isascii():
        text = _STYLED.sub(lambda letter: unicodedata.normalize("NFKC", letter[0]), text)
        if GROUP in text or "\u00a0" in text or "\u2009" in text or "\u2007" in text:
            text = text.replace(GROUP, "\u2009")
            text = _GROUPED_NUMBER.sub(lambda number: re.sub(r"\s", GROUP, number[0]), text)
    if "\n" in text:
        text = _LINE_BREAK_BETWEEN_AMOUNTS.sub(r"\1, ", text)
    characters = (
        " " if character.isspace() and character != GROUP else character
        for character in text
        if character.isspace() or not _is_invisible(character)
    )
    cleaned = re.sub(r" +", " ", "".join(characters)).strip()
    if not speakable(cleaned):
        seen = text if len(text) <= 40 else text[:40] + "…"
        raise TextError(f"There is nothing to speak in {seen!r}: it has neither letters nor digits.")
    return cleaned


def _is_invisible(character: str) -> bool:
    return (
        unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co")
        # They select a variant of a symbol, such as a black or a red heart.
        or "\ufe00" <= character <= "\ufe0f"
        or "\U000e0100" <= character <= "\U000e01ef"
    )


def speakable(text: str) -> bool:
    """Whether the text has a letter or a digit."""
    return any(unicodedata.category(character)[0] in "LN" for character in text)


def is_spoken(piece: str) -> bool:
    """Whether the piece has letters, digits or combining marks. Anything else (symbols,
    punctuation, emoji) can be left out without changing the speech."""
    return any(
        unicodedata.category(character)[0] in "LNM" and unicodedata.category(character) != "Me"
        for character in piece
    )


def check_numbers(text: str) -> None:
    """Raises TextError for a number of more than 24 digits."""
    for match in _NUMBER.finditer(text):
        digits = sum(character.isdigit() for character in match[0])
        if digits > MAX_DIGITS:
            raise TextError(
                f"{excerpt(match[0])} is a number of {digits:,} digits; at most {MAX_DIGITS} are "
                "allowed. Put spaces between its parts, or write it in words."
            )


class Reader:
    """Reads texts for one model."""

    def __init__(self, config: ModelConfig, pronunciations: Pronunciations) -> None:
        self._normalizer, self._pronunciations = config.normalizer, pronunciations
        self._phones = config.text_frontend == "cmu_phones"
        # Added languages are spelled, whatever the front-end of the others.
        self.added = {extension.language: replacer(extension.replacements) for extension in config.extensions}

    @cached_property
    def coqui(self) -> "VoiceBpeTokenizer":
        """Coqui's tokenizer, for its normaliser and limits; imported in 0.3 s."""
        return tokenizer_class()()

    def reads_phones(self, language_code: str) -> bool:
        """Whether a language is read as phones, each of which is one character."""
        return self._phones and language_code not in self.added

    def has_words(self, normal: str) -> bool:
        """Whether normalised text has more than punctuation."""
        if self._phones:
            return bool(normal.strip(PAUSES + " "))
        return speakable(normal)

    def read(self, text: str, language_code: str, *, spoken: bool) -> tuple[str, str]:
        """(The text in words, the same in the characters of the vocabulary). spoken: applies the
        pronunciation lists, which training does not. Raises TextError."""
        try:
            return self._normalise(text, language_code, spoken)
        except ImportError as error:
            raise TextError(
                f"LANGUAGE={language_code} needs packages that are not installed "
                f"({EXTRAS.get(language_code, str(error))}). Install them with: "
                f"{commands.install_extra('languages')}"
            ) from error
        except MemoryError:
            raise
        except Exception as error:
            for word in text.split() if " " in text else ():
                self.read(word, language_code, spoken=False)  # raises an error that names the word
            raise TextError(
                f"{excerpt(text)} cannot be read in language {language_code} ({type(error).__name__}). "
                "Write it in words."
            ) from error

    def _normalise(self, text: str, language_code: str, spoken: bool) -> tuple[str, str]:
        uses_lists = spoken and bool(self._pronunciations.entries)
        if uses_lists:
            text = self._pronunciations.replace(text, language_code)
        words = self._in_words(text, language_code, spoken)
        if language_code in LANGUAGES:
            normal = self.coqui.preprocess_text(lower(words, language_code), language_code)
            words = words if language_code in _ROMANISED else normal
        else:
            words = normal = " ".join(lower(words, language_code).translate(_QUOTES).split())
        if self.reads_phones(language_code):
            normal = to_phones(normal)
        if uses_lists and self._phones:
            normal = self._pronunciations.restore(normal, language_code, phones=True)
            words = self._pronunciations.restore(words, language_code, phones=False)
        return words, normal

    def _in_words(self, text: str, language_code: str, spoken: bool) -> str:
        """The text with its numbers and signs in words."""
        is_known_to_coqui = language_code in LANGUAGES
        if language_code in self.added and not is_known_to_coqui:
            text = self.added[language_code](text)
        rules = None if self._normalizer == COQUI and is_known_to_coqui else rules_of(language_code)
        if rules is not None:
            return rules.read(text)
        if is_known_to_coqui:
            # Coqui's rules know only 0 to 9; transcripts stay as they were learned.
            return in_digits(text) if spoken else text
        if digits := re.search(r"\d+", text):
            raise NoWordsError(f"{language_code} has no rules for {digits[0]}")
        return text


def replacer(pairs: Iterable[tuple[str, str]]) -> Callable[[str], str]:
    """Replaces the written words and signs of an added language, with spaces between their words
    and adjacent letters or digits. No letter may touch a word, but a digit may (`5км`)."""
    spoken = {written.casefold(): words for written, words in pairs}
    if not spoken:
        return lambda text: text
    letter = r"[^\W\d_]"
    alternatives = (
        (rf"(?<!{letter})" if sign[0].isalpha() else "")
        + re.escape(sign)
        + (rf"(?!{letter})" if sign[-1].isalpha() else "")
        for sign in sorted(spoken, key=len, reverse=True)
    )
    pattern = re.compile("|".join(alternatives), re.IGNORECASE)

    def replaced(match: re.Match[str]) -> str:
        before = " " if match.string[: match.start()][-1:].isalnum() else ""
        after = " " if match.string[match.end() :][:1].isalnum() else ""
        return before + spoken[match[0].casefold()] + after

    return lambda text: pattern.sub(replaced, text)


def lower(text: str, language_code: str) -> str:
    """Lower case as in Coqui's training, which replaces the Turkish İ first. Coqui's inference does
    not, and gets an i with a combining dot, which the model has not learned."""
    if language_code in _DOTLESS:
        text = text.replace("I", "ı")
    return (text.replace("İ", "i") if language_code in ("tr", *_DOTLESS) else text).lower()


@cache
def tokenizer_class() -> "type[VoiceBpeTokenizer]":
    """Coqui's `VoiceBpeTokenizer`. Raises ImportError without coqui-tts."""
    with contextlib.nullcontext() if "torch" in sys.modules else _without_packages():
        module = importlib.import_module(_COQUI_MODULE)
    # Cached, because a number takes 0.2 ms and a text may repeat one two thousand times. Typed,
    # because 2 and 2.0 are read differently.
    module.num2words = lru_cache(_CACHED_NUMBERS, typed=True)(module.num2words)  # type: ignore[attr-defined]
    return module.VoiceBpeTokenizer


@contextlib.contextmanager
def _without_packages() -> Iterator[None]:
    """Stands in for torch and Coqui's packages. At the end, removes Coqui's modules from
    `sys.modules`, because they are incomplete."""
    spec = importlib.util.find_spec("TTS")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError("coqui-tts is not installed")
    root = Path(spec.submodule_search_locations[0]).parent
    stand_in = ModuleType("torch")
    stand_in.Tensor = type("Tensor", (), {})  # type: ignore[attr-defined]
    sys.modules["torch"] = stand_in
    for name in _COQUI_PACKAGES:
        package = ModuleType(name)
        package.__path__ = [str(root.joinpath(*name.split(".")))]
        sys.modules[name] = package
    try:
        yield
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] in ("TTS", "torch")]:
            del sys.modules[name]
