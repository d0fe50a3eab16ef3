"""Keeps the meaning of superscripts and subscripts, and removes the numbers of notes.

10<sup>6</sup>  5 m<sup>2</sup>  H<sub>2</sub>O     10⁶  5 m²  H₂O
1<sup>1</sup>/<sub>2</sub>                           1½
1<sup>st</sup>  M<sup>lle</sup>                      1st  Mlle
He said so.<sup>3</sup>  in 1984<sup>12</sup>        He said so.  in 1984
"""

import re
import unicodedata

_TO_SUPERSCRIPT = str.maketrans("0123456789+-−–", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁻")
_TO_SUBSCRIPT = str.maketrans("0123456789+-−–", "₀₁₂₃₄₅₆₇₈₉₊₋₋₋")
_TO_DIGITS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻₀₁₂₃₄₅₆₇₈₉₊₋", "0123456789+-0123456789+-")
_NUMBER = re.compile(r"[-+−–]?\d{1,4}")
_NUMBERS = re.compile(r"\d{1,4}(?:\s*[,;–-]\s*\d{1,4})+")
# The exponents that are letters; others, such as `e` and `o`, belong to ordinals and titles.
_LETTER_POWERS = frozenset("nxk")
_SUM_OF_LETTERS = re.compile(r"(?=.*[a-z])[0-9]?[a-z0-9]\s?[+−–-]\s?[0-9]?[a-z0-9]")
_INDEX_NAMES = frozenset(("i", "j", "k", "m", "n", "max", "min"))
_SUPERSCRIPT_DIGITS, _SUBSCRIPT_DIGITS = "⁰¹²³⁴⁵⁶⁷⁸⁹", "₀₁₂₃₄₅₆₇₈₉"
_FRACTION = re.compile(
    rf"(?<!\d)(?P<whole>\d{{0,6}})(?P<top>[{_SUPERSCRIPT_DIGITS}]{{1,3}})\s?[/⁄∕]\s?(?:(?P<low>[{_SUBSCRIPT_DIGITS}]{{1,4}})"
    r"|(?P<plain>\d{1,3})(?!\d))"
)
# For example (1, 2): "½", whose decomposition is "1⁄2".
_FRACTION_SIGNS = {
    tuple(map(int, unicodedata.normalize("NFKD", sign).split("⁄"))): sign for sign in "½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞"
}
_RAISED = re.compile(rf"\s?[⁺⁻]?[{_SUPERSCRIPT_DIGITS}]+(?:\s*[,;–-]\s*[{_SUPERSCRIPT_DIGITS}]+)*")
_WORD = re.compile(r"[^\W\d_]+$")
_YEAR = re.compile(r"(?<![\d.,])(?:1[0-9]|20)\d\d$")
_GROUPED_NUMBER = re.compile(r"\d[.,\s]\d{3}$")
_UNITS = frozenset(
    "m cm mm km dm nm µm μm um ft yd mi s ms min h hr kg g cd mol м см мм км дм с 米 公里 厘米".split()
)
# A word of the text without a number before it.
_UNITS_AFTER_NUMBERS = frozenset(("in", "a", "ha"))
_FUNCTIONS = frozenset("sin cos tan cot sec csc log ln exp sinh cosh tanh".split())
# `mc²` and `πr²`, but not `by²`, `Dr²` and `BBC²`.
_PRODUCT = re.compile(r"[b-df-hj-np-tv-xzα-ω]{2}")
_NO_PRODUCTS = frozenset(("dr", "mr", "ms", "st", "vs", "tv", "pm", "bc", "fr", "nr"))
_VARIABLE = re.compile(r"[A-Za-zα-ωΑ-Ω]")
_OPERATORS = "+-−–=*/×·÷<>≤≥±^("
_BRACKETED = re.compile(r"\(([^()]{1,40})\)$")
# The characters beside a superscript that decide about it.
_CONTEXT_CHARACTERS = 80
_ELEMENT = re.compile(r"[A-Z][a-z]?\b")


def superscript(text: str) -> str:
    """A superscript as characters, if it is a number or a power; else the text itself."""
    if _NUMBER.fullmatch(text):
        return text.translate(_TO_SUPERSCRIPT)
    if _NUMBERS.fullmatch(text):
        return "".join(
            character.translate(_TO_SUPERSCRIPT) if character.isdigit() else character for character in text
        )
    if _SUM_OF_LETTERS.fullmatch(text):
        return f"^({text})"
    return f"^{text}" if text in _LETTER_POWERS else text


def subscript(text: str) -> str:
    """A subscript as characters if it is a number, as a separate word if it is an index; else the
    text itself."""
    if _NUMBER.fullmatch(text):
        return text.translate(_TO_SUBSCRIPT)
    return f" {text}" if text in _INDEX_NAMES else text


def with_meaning(text: str) -> str:
    """A paragraph whose fractions are one number, and without the numbers of notes."""
    if not re.search(f"[{_SUPERSCRIPT_DIGITS}]", text):
        return text
    text = _FRACTION.sub(_read_fraction, text)
    pieces, position, before = list[str](), 0, ""
    for match in _RAISED.finditer(text):
        before = (before + text[position : match.start()])[-_CONTEXT_CHARACTERS:]
        after = text[match.end() : match.end() + _CONTEXT_CHARACTERS]
        replacement = _replacement(before, match[0], after)
        pieces += (text[position : match.start()], replacement)
        before, position = before + replacement, match.end()
    return "".join([*pieces, text[position:]]).strip()


def _read_fraction(match: re.Match[str]) -> str:
    whole, top = match["whole"], int(match["top"].translate(_TO_DIGITS))
    if match["low"] is None and whole:
        return match[0]  # 10³/2
    bottom = int((match["low"] or match["plain"]).translate(_TO_DIGITS))
    if sign := _FRACTION_SIGNS.get((top, bottom)):
        return whole + sign
    return f"{whole} {top}/{bottom}" if whole else f"{top}/{bottom}"


def _replacement(before: str, marks: str, after: str) -> str:
    """What replaces a superscript: the superscript itself if it is a power, or nothing if it numbers
    a note or a verse."""
    base, marks, has_space = before.rstrip(), marks.strip(), marks[0].isspace()
    gap = " " if has_space and after[:1].isalnum() else ""
    has_space = has_space or base != before
    if not base or not marks.lstrip("⁺⁻").isdigit():
        return gap
    if has_space and base[-1].isalpha() and _ELEMENT.match(after):
        return f" {marks.translate(_TO_DIGITS)}"  # carbon ¹⁴C
    return marks if _is_power(base, marks.translate(_TO_DIGITS), after, has_space) else gap


def _is_power(base: str, exponent: str, after: str, has_space: bool) -> bool:
    last = base[-1]
    if last in _SUBSCRIPT_DIGITS:
        return False
    if last.isdigit():
        # A year has notes, and no power.
        has_note = bool(_YEAR.search(base) or _GROUPED_NUMBER.search(base))
        return not has_note and (not has_space or base.endswith("10"))
    if has_space:
        return False
    if last == ")":
        inside = _BRACKETED.search(base)
        return inside is not None and _is_formula(inside[1])
    word = _WORD.search(base)
    return word is not None and _has_power(base[: word.start()], word[0], exponent, after)


def _has_power(before: str, word: str, exponent: str, after: str) -> bool:
    """Whether a number above the end of a word is its power."""
    is_in_formula = after.lstrip()[:1] in tuple(_OPERATORS) or before.rstrip()[-1:] in tuple(_OPERATORS)
    if word in _UNITS:
        return exponent.lstrip("+-") in ("1", "2", "3")
    if word in _UNITS_AFTER_NUMBERS and before.rstrip()[-1:].isdigit():
        return exponent in ("2", "3")
    if word.lower() in _FUNCTIONS:
        return True
    if len(word) == 1 and before.endswith("°"):
        return False
    if len(word) == 1:
        return bool(_VARIABLE.match(word)) and (is_in_formula or word not in ("a", "A", "I", "y", "e"))
    return bool(_PRODUCT.fullmatch(word)) and word not in _NO_PRODUCTS


def _is_formula(inside: str) -> bool:
    return bool(re.search(r"[\d+\-−=*/×·]", inside)) or len(inside.strip()) == 1
