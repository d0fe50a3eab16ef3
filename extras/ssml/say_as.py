"""Reads the content of `<say-as interpret-as="…">` by the rules of its language."""

import contextlib
import re
from datetime import date

from xtts.text.errors import TextError, excerpt
from xtts.text.normalization.registry import LanguageRules, NoWordsError
from xtts.text.reading import MAX_DIGITS

_MAX_CHARACTERS = 200
# The values of interpret-as, each with the noun for the error "cannot be read as …".
_NOUNS = {
    "characters": "characters",
    "spell-out": "characters",
    "verbatim": "characters",
    "digits": "digits",
    "telephone": "a telephone number",
    "cardinal": "a number",
    "number": "a number",
    "ordinal": "an ordinal",
    "date": "a date",
    "time": "a time",
}
KINDS = tuple(_NOUNS)
_DATE_ORDERS = {order: order for order in "mdy dmy ymd md dm ym my y m d".split()}
_DATE_ORDERS |= {"yyyymmdd": "ymd", "ddmmyyyy": "dmy", "mmddyyyy": "mdy"}


def say_as(kind: str, text: str, form: str, rules: LanguageRules | None) -> str:
    """The words of `text`. kind: one of `KINDS`; form: the order of a date.

    Raises TextError if the text cannot be read in this way.
    """
    if rules is None:
        raise TextError("<say-as> is not supported in this language; write it in words.")
    if not text or len(text) > _MAX_CHARACTERS:
        raise TextError(f"<say-as> has {len(text)} characters; 1 to {_MAX_CHARACTERS} are allowed.")
    words = _words_of(_NOUNS[kind], text, form, rules)
    if not words:
        raise TextError(f"<say-as>: {excerpt(text)} cannot be read as {_NOUNS[kind]}.")
    return words


def _words_of(noun: str, text: str, form: str, rules: LanguageRules) -> str:
    """The words, or "" if the text cannot be read in this way. noun: one of `_NOUNS`."""
    match noun:
        case "characters":
            return rules.letters(text)
        case "digits":
            return rules.digits(text)
        case "a telephone number":
            return rules.phone(text) if re.search(r"\d", text) else ""
        case "a number":
            return _read_cardinal(rules, text)
        case "an ordinal":
            match = re.fullmatch(r"([0-9]{1,12})\D{0,4}", text)
            with contextlib.suppress(NoWordsError):
                return rules.ordinal(int(match[1])) if match else ""
            return ""
        case "a time":
            words = rules.read(text)
            return "" if re.search(r"\d", words) else words
        case _:
            return _read_date(rules, text, form)


def _read_cardinal(rules: LanguageRules, text: str) -> str:
    match = re.fullmatch(r"([-+]?)([0-9](?:[0-9 .,]*[0-9])?)", text)
    if match is None or sum(map(str.isdigit, text)) > MAX_DIGITS:
        return ""
    sign = {"-": f"{rules.minus} ", "+": f"{rules.plus} "}.get(match[1], "")
    return sign + rules.number_words(match[2])


def _read_date(rules: LanguageRules, text: str, form: str) -> str:
    if form and form.lower() not in _DATE_ORDERS:
        raise TextError(f"<say-as format={excerpt(form)}> is not a date order; allowed are dmy, mdy and ymd.")
    order, figures = _DATE_ORDERS.get(form.lower(), ""), re.findall(r"[0-9]+", text)
    if not form or len(figures) != len(order):
        words = rules.read(text)
        return "" if words == text or re.search(r"\d", words) else words
    values = {name: int(value) for name, value in zip(order, figures, strict=True) if len(value) <= 4}
    day, month, year = values.get("d"), values.get("m"), values.get("y")
    try:
        date(year or 2000, month or 1, day or 1)
    except ValueError:
        return ""
    if len(values) < len(order):
        return ""
    if day is not None and month is not None:
        return rules.date(day, month, year)
    parts = [rules.months[month - 1] if rules.months else rules.cardinal(month)] if month else []
    parts += [rules.day(day)] if day is not None else []
    parts += [rules.year(year)] if year is not None else []
    return " ".join(parts)
