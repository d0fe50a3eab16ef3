"""Tokenises sentences for the model; words that it cannot read are left out and reported."""

from collections.abc import Sequence
from dataclasses import dataclass

from xtts.text.errors import TextError
from xtts.text.reading import speakable
from xtts.text.tokenizer import Piece, Tokenizer


@dataclass(frozen=True)
class ReadSentence:
    """The pieces of a sentence, () if it cannot be read, and the words that cannot be read."""

    pieces: Sequence[Piece]
    left_out: Sequence[str] = ()


def read_sentence(tokenizer: Tokenizer, text: str, language: str) -> ReadSentence:
    """Reads a sentence with markup. Words with letters that are not in the vocabulary, for example
    of another script, are left out."""
    try:
        return ReadSentence(tokenizer.split(text, language, plain=True))
    except TextError:
        pass
    words = text.split()
    unreadable = [word for word in words if not _is_readable(tokenizer, word, language)]
    rest = " ".join(word for word in words if word not in set(unreadable))
    try:
        return ReadSentence(tokenizer.split(rest, language, plain=True), tuple(unreadable))
    except TextError:
        return ReadSentence((), (text,))


def _is_readable(tokenizer: Tokenizer, word: str, language: str) -> bool:
    if "[" in word or "]" in word or not speakable(word):
        return True
    try:
        tokenizer.split(word, language, plain=True)
    except TextError:
        return False
    return True
