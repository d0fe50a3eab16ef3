"""Keeps the meaning of superscripts and subscripts, and removes the numbers of notes.

10<sup>6</sup>  5 m<sup>2</sup>  H<sub>2</sub>O     10⁶  5 m²  H₂O
1<sup>1</sup>/<sub>2</sub>                           1½
1<sup>st</sup>  M<sup>lle</sup>                      1st  Mlle
He said so.<sup>3</sup>  in 1984<sup>12</sup>        He said so.  in 1984
"""

import re

_UP = str.maketrans("0123456789+-−–", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁻")
_DOWN = str.maketrans("0123456789+-−–", "₀₁₂₃₄₅₆₇₈₉₊₋₋₋")
_PLAIN = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻₀₁₂₃₄₅₆₇₈₉₊₋", "0123456789+-0123456789+-")
_NUMBER = re.compile(r"[-+−–]?\d{1,4}")
_NUMBERS = re.compile(r"\d{1,4}(?:\s*[,;–-]\s*\d{1,4})+")
# The exponents that are letters; others, such as `e` and `o`, belong to ordinals and titles.
_LETTER_POWERS = frozenset("nxk")
_SUM = re.compile(r"(?=.*[a-z])[0-9]?[a-z0-9]\s?[+−–-]\s?[0-9]?[a-z0-9]")
_INDICES = frozenset(("i", "j", "k", "m", "n", "max", "min"))
_HIGH, _LOW = "⁰¹²³⁴⁵⁶⁷⁸⁹", "₀₁₂₃₄₅₆₇₈₉"
_FRACTION = re.compile(
    rf"(?<!\d)(?P<whole>\d{{0,6}})(?P<top>[{_HIGH}]{{1,3}})\s?[/⁄∕]\s?(?:(?P<low>[{_LOW}]{{1,4}})"
    r"|(?P<plain>\d{1,3})(?!\d))"
)
_VULGAR = {
    (1, 2): "½",
    (1, 3): "⅓",
    (2, 3): "⅔",
    (1, 4): "¼",
    (3, 4): "¾",
    (1, 5): "⅕",
    (2, 5): "⅖",
    (3, 5): "⅗",
    (4, 5): "⅘",
    (1, 6): "⅙",
    (5, 6): "⅚",
    (1, 8): "⅛",
    (3, 8): "⅜",
    (5, 8): "⅝",
    (7, 8): "⅞",
}
_RAISED = re.compile(rf"\s?[⁺⁻]?[{_HIGH}]+(?:\s*[,;–-]\s*[{_HIGH}]+)*")
_WORD = re.compile(r"[^\W\d_]+$")
_YEAR = re.compile(r"(?<![\d.,])(?:1[0-9]|20)\d\d$")
_GROUPED = re.compile(r"\d[.,\s]\d{3}$")
_UNITS = frozenset(
    "m cm mm km dm nm µm μm um ft yd mi s ms min h hr kg g cd mol м см мм км дм с 米 公里 厘米".split()
)
# A word of the text without a number before it.
_UNITS_AFTER_NUMBERS = frozenset(("in", "a", "ha"))
_FUNCTIONS = frozenset("sin cos tan cot sec csc log ln exp sinh cosh tanh".split())
# `mc²` and `πr²`, but not `by²`, `Dr²` and `BBC²`.
_PRODUCT = re.compile(r"[b-df-hj-np-tv-xzα-ω]{2}")
_ABBREVIATIONS = frozenset(("dr", "mr", "ms", "st", "vs", "tv", "pm", "bc", "fr", "nr"))
_VARIABLE = re.compile(r"[A-Za-zα-ωΑ-Ω]")
_OPERATOR = "+-−–=*/×·÷<>≤≥±^("
_FORMULA = re.compile(r"\(([^()]{1,40})\)$")
# The characters beside a superscript that decide about it.
_NEAR = 80
_ELEMENT = re.compile(r"[A-Z][a-z]?\b")


def superscript(text: str) -> str:
    """A superscript as characters, if it is a number or a power; else the text itself."""
    if _NUMBER.fullmatch(text):
        return text.translate(_UP)
    if _NUMBERS.fullmatch(text):
        return "".join(character.translate(_UP) if character.isdigit() else character for character in text)
    if _SUM.fullmatch(text):
        return f"^({text})"
    return f"^{text}" if text in _LETTER_POWERS else text


def subscript(text: str) -> str:
    """A subscript as characters if it is a number, as a separate word if it is an index; else the
    text itself."""
    if _NUMBER.fullmatch(text):
        return text.translate(_DOWN)
    return f" {text}" if text in _INDICES else text


def with_meaning(text: str) -> str:
    """A paragraph whose fractions are one number, and without the numbers of notes."""
    if not re.search(f"[{_HIGH}]", text):
        return text
    text = _FRACTION.sub(_fraction, text)
    pieces, place, before = list[str](), 0, ""
    for match in _RAISED.finditer(text):
        before = (before + text[place : match.start()])[-_NEAR:]
        spoken = _replacement(before, match[0], text[match.end() : match.end() + _NEAR])
        pieces += (text[place : match.start()], spoken)
        before, place = before + spoken, match.end()
    return "".join([*pieces, text[place:]]).strip()


def _fraction(match: re.Match[str]) -> str:
    whole, top = match["whole"], int(match["top"].translate(_PLAIN))
    if match["low"] is None and whole:
        return match[0]  # 10³/2
    bottom = int((match["low"] or match["plain"]).translate(_PLAIN))
    if vulgar := _VULGAR.get((top, bottom)):
        return whole + vulgar
    return f"{whole} {top}/{bottom}" if whole else f"{top}/{bottom}"


def _replacement(before: str, marks: str, after: str) -> str:
    """What stands for a superscript: itself if it is a power, or nothing if it numbers a note or a
    verse."""
    base, marks, spaced = before.rstrip(), marks.strip(), marks[0].isspace()
    gap = " " if spaced and after[:1].isalnum() else ""
    spaced = spaced or base != before
    if not base or not marks.lstrip("⁺⁻").isdigit():
        return gap
    if spaced and base[-1].isalpha() and _ELEMENT.match(after):
        return f" {marks.translate(_PLAIN)}"  # carbon ¹⁴C
    return marks if _is_power(base, marks.translate(_PLAIN), after, spaced) else gap


def _is_power(base: str, exponent: str, after: str, spaced: bool) -> bool:
    last = base[-1]
    if last in _LOW:
        return False
    if last.isdigit():
        # A year has notes, and no power.
        noted = bool(_YEAR.search(base) or _GROUPED.search(base))
        return not noted and (not spaced or base.endswith("10"))
    if spaced:
        return False
    if last == ")":
        inside = _FORMULA.search(base)
        return inside is not None and _is_formula(inside[1])
    word = _WORD.search(base)
    return word is not None and _has_power(base[: word.start()], word[0], exponent, after)


def _has_power(before: str, word: str, exponent: str, after: str) -> bool:
    """Whether a number above the end of a word is its power."""
    calculated = after.lstrip()[:1] in tuple(_OPERATOR) or before.rstrip()[-1:] in tuple(_OPERATOR)
    if word in _UNITS:
        return exponent.lstrip("+-") in ("1", "2", "3")
    if word in _UNITS_AFTER_NUMBERS and before.rstrip()[-1:].isdigit():
        return exponent in ("2", "3")
    if word.lower() in _FUNCTIONS:
        return True
    if len(word) == 1 and before.endswith("°"):
        return False
    if len(word) == 1:
        return bool(_VARIABLE.match(word)) and (calculated or word not in ("a", "A", "I", "y", "e"))
    return bool(_PRODUCT.fullmatch(word)) and word not in _ABBREVIATIONS


def _is_formula(inside: str) -> bool:
    return bool(re.search(r"[\d+\-−=*/×·]", inside)) or len(inside.strip()) == 1
