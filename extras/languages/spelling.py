"""Spells new tokens of a vocabulary in old ones, which initialise their rows.

A character is spelled as the letter without its last mark (ế as ê), else as letters of the same
script with the same romanisation (Ukrainian і as Russian и), else as Latin letters.
"""

import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from xtts.text.pronunciations import letters_to_phones
from xtts.text.tokenizer import UNKNOWN

if TYPE_CHECKING:
    from tokenizers import Tokenizer


class OldSpelling:
    """Spells text in the tokens of a BPE tokenizer. phones: whether its Latin letters are
    phones."""

    def __init__(self, tokenizer: "Tokenizer", *, phones: bool) -> None:
        self._tokenizer = tokenizer
        self._phones = phones
        self._ids: Mapping[str, int] = tokenizer.get_vocab()
        letters = sorted((token for token in self._ids if len(token) == 1), key=self._ids.__getitem__)
        self._by_sound: dict[tuple[str, str], str] = {}
        for letter in letters:
            if letter.isalpha():
                self._by_sound.setdefault((_script(letter), romanise(letter)), letter)

    def ids(self, piece: str) -> list[int]:
        """The ids of the old tokens that spell a new one; empty for a sign without a sound."""
        spelled = "".join(
            character if character in self._ids else "".join(self._of_character(character))
            for character in piece
        )
        if not spelled:
            return []
        unknown = self._ids.get(UNKNOWN)
        return [id_ for id_ in self._tokenizer.encode(spelled).ids if id_ != unknown]

    def _of_character(self, character: str) -> Sequence[str]:
        parts = unicodedata.normalize("NFD", character)
        for length in range(len(parts) - 1, 0, -1):
            plainer = unicodedata.normalize("NFC", parts[:length])
            if plainer in self._ids:
                return [plainer]
        latin = romanise(character)
        if self._phones:
            return [phone for phone in letters_to_phones(latin) if phone in self._ids]
        script = _script(character)
        if (alike := self._by_sound.get((script, latin))) is not None:
            return [alike]
        letters = [self._by_sound.get((script, letter), letter) for letter in latin]
        return [letter for letter in letters if letter in self._ids]


@cache
def romanise(text: str) -> str:
    """A text in ASCII letters, in lower case; signs without letters are left out."""
    from anyascii import anyascii

    return "".join(filter(str.isalpha, anyascii(text).lower()))


def _script(letter: str) -> str:
    return unicodedata.name(letter, "").partition(" ")[0]
