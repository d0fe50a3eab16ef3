"""`python -m benchmarks text` counts phrases that Sotaque and Coqui read like a person.

The phrases and their right readings are beside the tests. Chinese, Japanese and Korean are compared
before romanisation: Coqui's reading is then what its normaliser makes of them, for Japanese the
text itself, because it has no normaliser for it.
"""

import argparse
import csv
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from xtts.text import markdown
from xtts.text.normalization.registry import rules_of
from xtts.text.reading import clean_text, tokenizer_class

_ROMANISED = ("zh", "ja", "ko")
FOLDER = Path(__file__).parents[1] / "tests/xtts/text/phrases"
# Stands for a line break in the tables of phrases.
LINE_BREAK = "⏎"
# Two ways to write one sound: ё, the hundred of Arabic, nasal vowels and borrowed sounds of Hindi.
_SPELLINGS = (("ё", "е"), ("مائة", "مئة"), ("مائتان", "مئتان"), ("ँ", "ं"), ("़", ""))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--show", action="store_true", help="print phrases that are read wrong")


def run(arguments: argparse.Namespace) -> dict[str, object]:
    """The share of each set that each side reads right."""
    sets = [FOLDER, *sorted(path for path in FOLDER.iterdir() if path.is_dir())]
    return {folder.name: _judged(folder, show=arguments.show) for folder in sets}


@dataclass(frozen=True)
class Phrase:
    """One line: `expected` are the readings that are right."""

    language: str
    kind: str
    written: str
    expected: tuple[str, ...]

    def is_read(self, reading: str) -> bool:
        """Whether `reading` is one of the right readings, ignoring case, punctuation and spaces."""
        return plain(reading, self.language) in {plain(expected, self.language) for expected in self.expected}


def phrases(folder: Path = FOLDER) -> Iterator[Phrase]:
    """All of them, language by language."""
    for path in sorted(folder.glob("*.tsv")):
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
                expected = tuple(row["expected"].split(" | "))
                written = row["input"].replace(LINE_BREAK, "\n")
                yield Phrase(path.stem.split("-")[0], row["kind"], written, expected)


def plain(text: str, language: str) -> str:
    """The words of a text, for comparing."""
    text = unicodedata.normalize("NFC", text.casefold()).replace("\u00ad", "")
    for spelling, other in _SPELLINGS:
        text = text.replace(spelling, other)
    letters = "".join(character if unicodedata.category(character)[0] in "LMN" else " " for character in text)
    return re.sub(r"\s+", "" if language in _ROMANISED else " ", letters).strip()


def missed(reader: Callable[[str, str], str], folder: Path = FOLDER) -> list[tuple[Phrase, str]]:
    """The phrases that `reader(text, language)` reads wrongly, with its readings."""
    wrong = []
    for phrase in phrases(folder):
        try:
            reading = reader(phrase.written, phrase.language)
        except Exception as error:  # Coqui's raises many kinds
            reading = f"{type(error).__name__}: {error}"
        if not phrase.is_read(reading):
            wrong.append((phrase, reading))
    return wrong


def _judged(folder: Path, *, show: bool) -> dict[str, object]:
    every = list(phrases(folder))
    wrong = {"ours": missed(ours, folder), "coqui": missed(coquis, folder)}
    if show:
        for phrase, reading in wrong["ours"]:
            line = f"{phrase.language} {phrase.kind}: {phrase.written}\n  read: {reading}"
            print(line, file=sys.stderr)
    return {
        "phrases": len(every),
        **{side: 1 - len(lines) / max(1, len(every)) for side, lines in wrong.items()},
        "wrong": {
            side: dict(sorted(Counter(phrase.language for phrase, _ in lines).items()))
            for side, lines in wrong.items()
        },
    }


def ours(text: str, language: str) -> str:
    """As `sotaque-1` reads it in a request, before romanisation."""
    rules = rules_of(language)
    assert rules is not None
    words = rules.read(clean_text(markdown.read_markdown(text)))
    if language in _ROMANISED:
        return words
    reading: str = tokenizer_class()().preprocess_text(words.lower(), language)
    return reading


def coquis(text: str, language: str) -> str:
    """As Coqui's normaliser reads it in training. Raises many kinds of errors."""
    tokenizer_class()
    from TTS.tts.layers.xtts import tokenizer as coqui

    if language == "ja":
        return text
    reading: str = coqui.multilingual_cleaners(text, language)
    return reading
