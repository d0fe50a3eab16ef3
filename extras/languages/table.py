"""The user's table that writes signs and abbreviations of an added language in words.

`normalization.txt` in the dataset folder has the format of a pronunciation list (`WRITTEN = IN
WORDS`, sections in brackets) and may also contain signs. `train extend` stores its entries in the
config.json of the extended base. They are applied before numbers are read.

    № = номер
    ₴ = гривень
    км = кілометрів
"""

from pathlib import Path

from xtts.text.pronunciations import Pronunciation, read_list

TABLE_FILE = "normalization.txt"

Pairs = tuple[tuple[str, str], ...]


def read_table(path: Path, language: str) -> Pairs:
    """The entries of a table for a language, sorted; none if the file does not exist.

    Raises TextError, with the line, for a file that cannot be read.
    """
    if not path.is_file():
        return ()
    entries: dict[str, dict[str, Pronunciation]] = {}
    read_list(path, entries, with_phones=False, with_signs=True)
    chosen = entries.get("", {}) | entries.get(language, {})
    return tuple(sorted((entry.word, entry.spoken) for entry in chosen.values()))
