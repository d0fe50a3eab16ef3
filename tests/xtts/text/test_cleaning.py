"""What `clean_text` makes of characters that are letters in another dress."""

import unicodedata

import pytest

from xtts.text.reading import clean_text

# The names of Unicode's mathematical alphabets, and of the letters that were there before them.
STYLES = (
    "MATHEMATICAL BOLD",
    "MATHEMATICAL ITALIC",
    "MATHEMATICAL BOLD ITALIC",
    "MATHEMATICAL SCRIPT",
    "MATHEMATICAL BOLD SCRIPT",
    "MATHEMATICAL FRAKTUR",
    "MATHEMATICAL DOUBLE-STRUCK",
    "MATHEMATICAL BOLD FRAKTUR",
    "MATHEMATICAL SANS-SERIF",
    "MATHEMATICAL SANS-SERIF BOLD",
    "MATHEMATICAL SANS-SERIF ITALIC",
    "MATHEMATICAL SANS-SERIF BOLD ITALIC",
    "MATHEMATICAL MONOSPACE",
    "FULLWIDTH LATIN",
)
HOLES = {
    "MATHEMATICAL SCRIPT": "SCRIPT",
    "MATHEMATICAL FRAKTUR": "BLACK-LETTER",
    "MATHEMATICAL DOUBLE-STRUCK": "DOUBLE-STRUCK",
}


def styled(style: str, letter: str) -> str:
    size = "CAPITAL" if letter.isupper() else "SMALL"
    names = [f"{style} {size} {letter.upper()}"]
    names.append(names[0].replace("LATIN CAPITAL", "LATIN CAPITAL LETTER"))
    names.append(names[0].replace("LATIN SMALL", "LATIN SMALL LETTER"))
    if style in HOLES:
        names.append(f"{HOLES[style]} {size} {letter.upper()}")
    for name in names:
        try:
            return unicodedata.lookup(name)
        except KeyError:
            continue
    assert (style, letter) == ("MATHEMATICAL ITALIC", "h")
    return "ℎ"


@pytest.mark.parametrize("style", STYLES)
def test_every_letter_in_a_style_of_mathematics_is_the_plain_letter(style):
    plain = "The Quick Brown Fox Jumps over the lazy DOG VWXYZ ABCEFHILMNPQR"
    written = "".join(styled(style, letter) if letter.isalpha() else letter for letter in plain)
    assert written != plain
    assert clean_text(written) == plain


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ("𝐛𝐨𝐥𝐝 𝟏𝟐", "bold 12"),
        ("𝒽ℯ𝓁𝓁ℴ", "hello"),
        ("Ⓑⓞⓛⓓ", "Bold"),
        ("🄱🄾🄻🄳", "BOLD"),
        ("ＡＢ３４", "AB34"),
        # These have readings of their own.
        ("10² № 5 ½ 20 ℃ 3 ①", "10² № 5 ½ 20 ℃ 3 ①"),
    ],
)
def test_a_text_in_styled_letters_is_read_as_plain_text(written, plain):
    assert clean_text(written) == plain
