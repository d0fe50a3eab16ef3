"""Roman numerals of centuries and of parts of a book, in figures: Chapter IV, siglo XIX, XIXe."""

import re

_ROMAN = r"(?=[IVX])X{0,3}(?:IX|IV|V?I{0,3})(?![\w'’])"
# The mark that an ordinal has in figures, before the word for a century.
_CENTURIES = {
    "en": (r"(?:th|st|nd|rd)?\s(?=[Cc]entur(?:y|ies)\b)", "{}th "),
    "it": (r"°?\s(?=secol[oi]\b)", "{}º "),
}
# A part of a book, a world war, a century: the word before its number, in any language.
_NUMBERED = re.compile(
    r"((?<!\w)(?:chapter|part|volume|vol\.|ch\.|cap\.|chap\.|kap\.|bd\.|"
    r"book|act|scene|section|article|appendix|phase|world war|"
    r"kapitel|teil|band|buch|akt|szene|abschnitt|chapitre|partie|tome|livre|acte|scène|titre|"
    r"capítulo|parte|tomo|libro|acto|escena|título|siglos?|capitolo|atto|scena|volumen|livro|ato|"
    r"cena|séculos?|hoofdstuk|deel|boek|rozdział|część|tom|księga|akt)\s)"
    # "Part I played" does not number a part.
    rf"(?-i:(?!I\s[\w])({_ROMAN}))",
    re.I,
)
# French and Dutch: XIXe siècle, IIe eeuw.
_ORDINAL = re.compile(
    r"(?<![\w'’])(?=[IVX])(X{0,3}(?:IX|IV|V?I{0,3}))(e|ème|er|re|ère|ᵉ)(?![\w'’])"
)
_ORDINALS = ("fr", "nl")
_ANY = re.compile("[IVX]")
_VALUES = {"I": 1, "V": 5, "X": 10}


def figures(text: str, language: str) -> str:
    """A text with these numerals in figures."""
    if not _ANY.search(text):
        return text
    if language in _ORDINALS:
        text = _ORDINAL.sub(lambda m: f"{value_of(m[1])}{m[2]}", text)
    if language in _CENTURIES:
        behind, form = _CENTURIES[language]
        century = re.compile(rf"(?<!\w)({_ROMAN[: _ROMAN.rindex('(?!')]}){behind}")
        text = century.sub(lambda m: form.format(value_of(m[1])), text)
    return _NUMBERED.sub(lambda m: f"{m[1]}{value_of(m[2])}", text)


def value_of(numeral: str) -> int:
    """The value of a Roman numeral below 40."""
    values = [_VALUES[digit] for digit in numeral]
    return sum(-one if one < then else one
               for one, then in zip(values, [*values[1:], 0], strict=True))  # fmt: skip
