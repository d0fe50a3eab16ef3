"""Phrases with what a person reads them as, and how a reading is compared with that."""

import csv
import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "tests/xtts/text/phrases"
# Two ways to write one sound: ё, the hundred of Arabic, nasal vowels and borrowed sounds of Hindi.
_SPELLINGS = (("ё", "е"), ("مائة", "مئة"), ("مائتان", "مئتان"), ("ँ", "ं"), ("़", ""))
_WITHOUT_SPACES = ("zh", "ja", "ko")


@dataclass(frozen=True)
class Phrase:
    """One line: `expected` are the readings that are right."""

    language: str
    kind: str
    written: str
    expected: tuple[str, ...]

    def is_read(self, said: str) -> bool:
        """Whether `said` is one of them, but for case, punctuation and spaces."""
        return plain(said, self.language) in {plain(one, self.language) for one in self.expected}


def phrases(folder: Path = FOLDER) -> Iterator[Phrase]:
    """All of them, language by language."""
    for path in sorted(folder.glob("*.tsv")):
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
                expected = tuple(row["expected"].split(" | "))
                yield Phrase(path.stem.split("-")[0], row["kind"], row["input"], expected)


def plain(text: str, language: str) -> str:
    """The words of a text, for comparing."""
    text = unicodedata.normalize("NFC", text.casefold()).replace("\u00ad", "")
    for one, other in _SPELLINGS:
        text = text.replace(one, other)
    kept = "".join(
        character if unicodedata.category(character)[0] in "LMN" else " " for character in text
    )
    return re.sub(r"\s+", "" if language in _WITHOUT_SPACES else " ", kept).strip()


def missed(reader: Callable[[str, str], str], folder: Path = FOLDER) -> list[tuple[Phrase, str]]:
    """The phrases that `reader(text, language)` reads otherwise, with what it says."""
    found = []
    for phrase in phrases(folder):
        try:
            said = reader(phrase.written, phrase.language)
        except Exception as error:  # Coqui's raises many kinds
            said = f"{type(error).__name__}: {error}"
        if not phrase.is_read(said):
            found.append((phrase, said))
    return found
