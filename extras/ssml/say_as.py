"""Reads the content of `<say-as interpret-as="…">` by the rules of its language."""

import contextlib
import re
from datetime import date

from xtts.text.errors import TextError, excerpt
from xtts.text.normalization.registry import LanguageRules, NoWordsError
from xtts.text.reading import MAX_DIGITS

_MAX_CHARACTERS = 200
# The values of interpret-as, and the noun for the error "is not …".
_CALLED = {
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
KINDS = tuple(_CALLED)
_ORDERS = {order: order for order in "mdy dmy ymd md dm ym my y m d".split()}
_ORDERS |= {"yyyymmdd": "ymd", "ddmmyyyy": "dmy", "mmddyyyy": "mdy"}


def say_as(kind: str, text: str, form: str, rules: LanguageRules | None) -> str:
    """The words of `text`. kind: one of `KINDS`; form: the order of a date.

    Raises TextError if the text cannot be read in this way.
    """
    if rules is None:
        raise TextError("<say-as> is not supported in this language; write it in words.")
    if not text or len(text) > _MAX_CHARACTERS:
        raise TextError(f"<say-as> has {len(text)} characters; 1 to {_MAX_CHARACTERS} are allowed.")
    spoken = _words_of(_CALLED[kind], text, form, rules)
    if not spoken:
        raise TextError(f"<say-as>: {excerpt(text)} cannot be read as {_CALLED[kind]}.")
    return spoken


def _words_of(what: str, text: str, form: str, rules: LanguageRules) -> str:
    """The words, or "" if the text cannot be read in this way."""
    match what:
        case "characters":
            return rules.letters(text)
        case "digits":
            return rules.digits(text)
        case "a telephone number":
            return rules.phone(text) if re.search(r"\d", text) else ""
        case "a number":
            return _cardinal(rules, text)
        case "an ordinal":
            match = re.fullmatch(r"([0-9]{1,12})\D{0,4}", text)
            with contextlib.suppress(NoWordsError):
                return rules.ordinal(int(match[1])) if match else ""
            return ""
        case "a time":
            spoken = rules.read(text)
            return "" if re.search(r"\d", spoken) else spoken
        case _:
            return _date(rules, text, form)


def _cardinal(rules: LanguageRules, text: str) -> str:
    match = re.fullmatch(r"([-+]?)([0-9](?:[0-9 .,]*[0-9])?)", text)
    if match is None or sum(map(str.isdigit, text)) > MAX_DIGITS:
        return ""
    sign = {"-": f"{rules.minus} ", "+": f"{rules.plus} "}.get(match[1], "")
    return sign + rules.number(match[2])


def _date(rules: LanguageRules, text: str, form: str) -> str:
    if form and form.lower() not in _ORDERS:
        raise TextError(f"<say-as format={excerpt(form)}> is not a date order; allowed are dmy, mdy and ymd.")
    order, figures = _ORDERS.get(form.lower(), ""), re.findall(r"[0-9]+", text)
    if not form or len(figures) != len(order):
        spoken = rules.read(text)
        return "" if spoken == text or re.search(r"\d", spoken) else spoken
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
    names = [rules.months[month - 1] if rules.months else rules.cardinal(month)] if month else []
    names += [rules.day(day)] if day is not None else []
    return " ".join([*names, *([rules.year(year)] if year is not None else [])])
