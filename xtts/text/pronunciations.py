"""Pronunciation lists of a voice or a request, and the signs of an added language.

No list is built in. A list is a text file, `pronunciations.txt`, with one entry per line: a word,
`=`, a pronunciation.

    # Words that cannot be guessed.
    Nginx = engine x
    Sotaque = /S OW T AA K IY/      phones of CMU, for a voice that reads phones
    [pt]                            from here on, for Portuguese only
    Nginx = êngine équis

Only whole words match, in any case; a longer entry takes precedence over a shorter one.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from machine.storage.reading import decoded_text
from xtts.text.errors import TextError, shown
from xtts.text.phonemes import PHONES

NAME = "pronunciations.txt"
MOST_ENTRIES = 5_000
_MOST_BYTES = 1 << 20
MOST_CHARACTERS = 80
# Private-use characters that mark phones until the other words are phones too. `clean_text` removes
# them from texts.
_FIRST_MARK = 0xE000


@dataclass(frozen=True)
class Pronunciation:
    """The pronunciation of a word: `spoken` as in the list; `phones`, if given, in the model's
    alphabet."""

    word: str
    spoken: str
    phones: str = ""


class Pronunciations:
    """The merged entries of some lists, by language ("" for all languages); a later list wins.
    with_phones: whether the model reads phones. Raises TextError."""

    def __init__(self, paths: Iterable[Path], *, with_phones: bool) -> None:
        self.entries: dict[str, dict[str, Pronunciation]] = {}
        for path in paths:
            read_list(path, self.entries, with_phones=with_phones)
        self._marked = cache(self._with_marks)

    def replace(self, text: str, language: str) -> str:
        """Replaces the words of a text with their pronunciations; phones become marks for
        `restore`."""
        marked, pattern = self._marked(language)

        def spoken(match: re.Match[str]) -> str:
            known, mark = marked[match[0].casefold()]
            return mark if known.phones else known.spoken

        return pattern.sub(spoken, text) if marked else text

    def restore(self, text: str, language: str, *, phones: bool) -> str:
        """Replaces the marks of `replace` with their phones, or with the written words to show a
        text to a person."""
        if not any(_FIRST_MARK <= ord(one) < _FIRST_MARK + MOST_ENTRIES for one in text):
            return text
        for known, mark in self._marked(language)[0].values():
            if known.phones:
                text = text.replace(mark, known.phones if phones else known.word.lower())
        return text

    def _with_marks(
        self, language: str
    ) -> tuple[dict[str, tuple[Pronunciation, str]], re.Pattern[str]]:
        """The entries of a language with their marks, and the pattern of their words."""
        merged = sorted((self.entries.get("", {}) | self.entries.get(language, {})).items())
        marked = {word: (known, chr(_FIRST_MARK + n)) for n, (word, known) in enumerate(merged)}
        ordered = sorted(marked, key=len, reverse=True)
        # In scripts without spaces, words may touch each other.
        letter = "[A-Za-z0-9_\u00c0-\u24ff]"
        words = "|".join(map(re.escape, ordered))
        return marked, re.compile(rf"(?<!{letter})(?:{words})(?!{letter})", re.I)


def replacer(pairs: Iterable[tuple[str, str]]) -> Callable[[str], str]:
    """Replaces the written words and signs of an added language, with spaces between their words
    and adjacent letters or digits. No letter may touch a word, but a digit may (`5км`)."""
    spoken = {written.casefold(): words for written, words in pairs}
    if not spoken:
        return lambda text: text
    letter = r"[^\W\d_]"
    pattern = re.compile("|".join(
        (rf"(?<!{letter})" if one[0].isalpha() else "") + re.escape(one)
        + (rf"(?!{letter})" if one[-1].isalpha() else "")
        for one in sorted(spoken, key=len, reverse=True)
    ), re.IGNORECASE)  # fmt: skip

    def replaced(match: re.Match[str]) -> str:
        before = " " if match.string[: match.start()][-1:].isalnum() else ""
        after = " " if match.string[match.end() :][:1].isalnum() else ""
        return before + spoken[match[0].casefold()] + after

    return lambda text: pattern.sub(replaced, text)


def read_list(
    path: Path,
    entries: dict[str, dict[str, Pronunciation]],
    *,
    with_phones: bool,
    with_signs: bool = False,
) -> None:
    """Adds a list to `entries`, by language. with_phones: allows phones; with_signs: allows entries
    without letters and digits. Raises TextError."""
    try:
        content = path.read_bytes()
        if len(content) > _MOST_BYTES:
            raise TextError(
                f"{path} has {len(content):,} bytes; at most {_MOST_BYTES:,} are allowed."
            )
        lines = decoded_text(content).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise TextError(f"The pronunciation list {path} cannot be read ({error}).") from error
    language = ""
    for number, line in enumerate(lines, start=1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        if section := re.fullmatch(r"\[([a-z]{2})(?:-[a-zA-Z]{2})?\]", line):
            language = section[1]
            continue
        where = f"{path}, line {number}"
        known = _entry(line, where, with_phones, with_signs)
        entries.setdefault(language, {})[known.word.casefold()] = known
    if sum(map(len, entries.values())) > MOST_ENTRIES:
        raise TextError(f"{path}: at most {MOST_ENTRIES:,} pronunciations are allowed.")


def check_entry(word: str, spoken: str) -> None:
    """Raises TextError for an entry that is not allowed in a list."""
    line = f"{word} = {spoken}"
    # As `read_list` does: `splitlines` knows more line ends than the line feed.
    if line.splitlines() != [line]:
        raise TextError(f"names: {shown(line)} has a line break. Write it on one line.")
    _entry(line, "names", with_phones=True)


def _entry(line: str, where: str, with_phones: bool, with_signs: bool = False) -> Pronunciation:
    word, equals, spoken = (part.strip() for part in line.partition("="))
    if not equals or not word or not spoken:
        raise TextError(f"{where}: {shown(line)} is not an entry; write WORD = PRONUNCIATION.")
    if max(len(word), len(spoken)) > MOST_CHARACTERS:
        raise TextError(f"{where}: at most {MOST_CHARACTERS} characters on each side of the =.")
    if not with_signs and not any(map(str.isalnum, word)):
        raise TextError(f"{where}: {shown(word)} has neither letters nor digits.")
    if not (spoken.startswith("/") and spoken.endswith("/") and len(spoken) > 2):
        return Pronunciation(word, spoken)
    if not with_phones:
        raise TextError(
            f"{where}: {spoken} is written in phones, but this voice reads letters. Write it in "
            "plain words."
        )
    return Pronunciation(word, spoken, _phones(spoken[1:-1], where))


def _phones(spoken: str, where: str) -> str:
    """Converts names of CMU phones, with or without stress, to the model's characters."""
    phones = []
    for name in spoken.upper().split():
        plain = "AX" if name == "AH0" else name.rstrip("012")
        if plain not in PHONES:
            raise TextError(
                f"{where}: {shown(name)} is not a phone of the CMU dictionary; allowed are "
                f"{' '.join(PHONES)}."
            )
        phones.append(PHONES[plain])
    return "".join(phones)
