"""Cleans a text: removes characters that are not read, and rejects text that cannot be read."""

import re
import unicodedata

from xtts.text.errors import TextError, excerpt

# The most digits of a number. 24 are enough for every account number; longer ones are typing errors
# or attacks, and num2words fails beyond 10**306.
MOST_DIGITS = 24
_NUMBER = re.compile(r"\d[\d.,]*")


# Between groups of three digits, a space that no line can break at. It joins them into one number.
GROUP = "\u202f"
_GROUPED = re.compile(
    r"(?<![\d.,\u00a0\u2007\u2009])[1-9]\d{0,2}(?:[\u00a0\u2007\u2009]\d{3})+"
    r"(?![\u00a0\u2007\u2009]?\d)"
)
# A line that ends with an amount, before a line that begins with one: a line ends a number.
_LINES = re.compile(r"([\d%€$£¥₹₽])[^\S\n]*\n\s*(?=[^\w\s]?\d)")
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
            text = _GROUPED.sub(lambda number: re.sub(r"\s", GROUP, number[0]), text)
    if "\n" in text:
        text = _LINES.sub(r"\1, ", text)
    characters = (
        " " if character.isspace() and character != GROUP else character
        for character in text
        if character.isspace() or not _invisible(character)
    )
    cleaned = re.sub(r" +", " ", "".join(characters)).strip()
    if not speakable(cleaned):
        seen = text if len(text) <= 40 else text[:40] + "…"
        raise TextError(f"There is nothing to speak in {seen!r}: it has neither letters nor digits.")
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
                f"{excerpt(match[0])} is a number of {digits:,} digits; at most {MOST_DIGITS} are "
                "allowed. Put spaces between its parts, or write it in words."
            )
