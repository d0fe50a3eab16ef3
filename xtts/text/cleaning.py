"""Cleans a text: removes characters that are not read, and rejects text that cannot be read."""

import re
import unicodedata

from xtts.text.errors import TextError, shown

# The most digits of a number. 24 are enough for every account number; longer ones are typing errors
# or attacks, and num2words fails beyond 10**306.
MOST_DIGITS = 24
_NUMBER = re.compile(r"\d[\d.,]*")


def clean_text(text: str) -> str:
    """Normalises to NFC, removes control characters, zero-width characters and variation selectors,
    and collapses spaces.

    Raises TextError if the result has neither letters nor digits.
    """
    kept = (
        " " if character.isspace() else character
        for character in unicodedata.normalize("NFC", text)
        if character.isspace() or not _invisible(character)
    )
    cleaned = re.sub(r" +", " ", "".join(kept)).strip()
    if not speakable(cleaned):
        seen = text if len(text) <= 40 else text[:40] + "…"
        raise TextError(
            f"There is nothing to speak in {seen!r}: it has neither letters nor digits."
        )
    return cleaned


def _invisible(character: str) -> bool:
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
        if digits > MOST_DIGITS:
            raise TextError(
                f"{shown(match[0])} is a number of {digits:,} digits; at most {MOST_DIGITS} are "
                "allowed. Put spaces between its parts, or write it in words."
            )
