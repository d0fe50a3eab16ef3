"""What `<say-as interpret-as="…">` makes of a text, by the rules of its language."""

import contextlib
import re
from collections.abc import Callable, Mapping
from datetime import date

from xtts.text.errors import TextError, shown
from xtts.text.normalization.language_rules import LanguageRules
from xtts.text.normalization.spelling import NoWordsError

_MOST_CHARACTERS = 200
_ORDERS = {
    "mdy": "mdy", "dmy": "dmy", "ymd": "ymd", "md": "md", "dm": "dm", "ym": "ym", "my": "my",
    "y": "y", "m": "m", "d": "d", "yyyymmdd": "ymd", "ddmmyyyy": "dmy", "mmddyyyy": "mdy",
}  # fmt: skip


def say_as(kind: str, text: str, form: str, rules: LanguageRules | None) -> str:
    """The words of `text`. kind: one of `KINDS`; form: the order of a date.

    Raises TextError for what cannot be read so.
    """
    if rules is None:
        raise TextError("<say-as> is not known in this language; write it in words.")
    if not text or len(text) > _MOST_CHARACTERS:
        raise TextError(f"<say-as> holds {len(text)} characters; 1 to {_MOST_CHARACTERS} are read.")
    return _READERS[kind](rules, text, form)


def _characters(rules: LanguageRules, text: str, _form: str) -> str:
    return rules.letters(text) or _refused("characters", text)


def _digits(rules: LanguageRules, text: str, _form: str) -> str:
    return rules.digits(text) or _refused("digits", text)


def _telephone(rules: LanguageRules, text: str, _form: str) -> str:
    return rules.phone(text) if re.search(r"\d", text) else _refused("a telephone number", text)


def _cardinal(rules: LanguageRules, text: str, _form: str) -> str:
    found = re.fullmatch(r"([-+]?)([0-9](?:[0-9 .,]*[0-9])?)", text)
    if found is None or sum(character.isdigit() for character in text) > 24:
        return _refused("a number", text)
    sign = {"-": f"{rules.minus} ", "+": f"{rules.plus} "}.get(found[1], "")
    return sign + rules.number(found[2])


def _ordinal(rules: LanguageRules, text: str, _form: str) -> str:
    found = re.fullmatch(r"([0-9]{1,12})\D{0,4}", text)
    with contextlib.suppress(NoWordsError):
        return rules.ordinal(int(found[1])) if found else _refused("an ordinal", text)
    return _refused("an ordinal", text)


def _time(rules: LanguageRules, text: str, _form: str) -> str:
    said = rules.read(text)
    return said if not re.search(r"\d", said) else _refused("a time", text)


def _date(rules: LanguageRules, text: str, form: str) -> str:
    if form and form.lower() not in _ORDERS:
        raise TextError(f"<say-as format={shown(form)}> is no order of a date; dmy, mdy, ymd are.")
    figures = re.findall(r"[0-9]+", text)
    if form and len(figures) == len(_ORDERS[form.lower()]):
        return _dated(rules, dict(zip(_ORDERS[form.lower()], figures, strict=True)), text)
    said = rules.read(text)
    return said if said != text and not re.search(r"\d", said) else _refused("a date", text)


def _dated(rules: LanguageRules, parts: Mapping[str, str], text: str) -> str:
    known = {name: int(value) for name, value in parts.items() if len(value) <= 4}
    day, month, year = known.get("d"), known.get("m"), known.get("y")
    try:
        date(year or 2000, month or 1, day or 1)
    except ValueError:
        return _refused("a date", text)
    if len(known) < len(parts):
        return _refused("a date", text)
    if day is not None and month is not None:
        return rules.date(day, month, year)
    names = [rules.months[month - 1] if rules.months else rules.cardinal(month)] if month else []
    names += [rules.day(day)] if day is not None else []
    return " ".join([*names, *([rules.year(year)] if year is not None else [])])


def _refused(kind: str, text: str) -> str:
    raise TextError(f"<say-as>: {shown(text)} cannot be read as {kind}.")


_READERS: dict[str, Callable[[LanguageRules, str, str], str]] = {
    "characters": _characters, "spell-out": _characters, "verbatim": _characters,
    "digits": _digits, "telephone": _telephone, "cardinal": _cardinal, "number": _cardinal,
    "ordinal": _ordinal, "date": _date, "time": _time,
}  # fmt: skip
KINDS = tuple(_READERS)
