"""User tables that write signs and abbreviations of an added language in words.

`normalization.txt` in the dataset folder has the format of a pronunciation list (`WRITTEN = IN
WORDS`, sections in brackets) and may also contain signs. `train extend` stores its entries in the
config.json of the extended base. They are applied before numbers are read.

    № = номер
    ₴ = гривень
    км = кілометрів
"""

import re
from collections.abc import Iterable
from pathlib import Path

from xtts.text.pronunciations import Pronunciation, read_list

NAME = "normalization.txt"

Pairs = tuple[tuple[str, str], ...]


def read(path: Path, language: str) -> Pairs:
    """The entries of a table for a language, sorted; none if the file does not exist.

    Raises TextError, with the line, for a file that cannot be read.
    """
    if not path.is_file():
        return ()
    entries: dict[str, dict[str, Pronunciation]] = {}
    read_list(path, entries, with_phones=False, with_signs=True)
    found = entries.get("", {}) | entries.get(language, {})
    return tuple(sorted((one.word, one.spoken) for one in found.values()))


class Replacements:
    """Replaces whole words and signs of a text; a longer entry wins."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self._spoken = {written.casefold(): spoken for written, spoken in pairs}
        ordered = sorted(self._spoken, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(_whole, ordered)), re.IGNORECASE)

    def replace(self, text: str) -> str:
        """Replaces the entries in a text, with spaces between the words and adjacent letters or
        digits."""
        if not self._spoken:
            return text

        def spoken(match: re.Match[str]) -> str:
            before = " " if text[: match.start()][-1:].isalnum() else ""
            after = " " if text[match.end() :][:1].isalnum() else ""
            return before + self._spoken[match[0].casefold()] + after

        return self._pattern.sub(spoken, text)


def _whole(written: str) -> str:
    """The pattern of an entry: no letter may touch its ends, but a digit may (`5км`)."""
    letter = r"[^\W\d_]"
    before = rf"(?<!{letter})" if written[0].isalpha() else ""
    after = rf"(?!{letter})" if written[-1].isalpha() else ""
    return before + re.escape(written) + after
