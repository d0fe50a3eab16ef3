"""Emergency and short service numbers, read digit by digit: call 911, dial 999 or 112."""

import re
from collections.abc import Callable

_SHORT = (
    "000|061|062|080|091|10[1-4]|11[0-9]|144|19[0-3]|211|311|411|511|811|911|988|999|116 ?1[0-9]{2}"
)
# 1300 555 019, 1800 123 456: numbers that are free to call.
_FREE = re.compile(r"(?<![\w.,+-])1[38]00 [0-9]{3} [0-9]{3}(?![\d-])(?![.,]\d)")
_ANY = re.compile(rf"(?<![\w.,-])(?:{_SHORT})(?![\w/%])|(?:[Tt]ext|SMS|sms)\s")
# Words after which any short number is dialled, and the noun before which 911 is one.
_DIALLED = "call|dial|text|sms|ring|phone|telephone|emergency|emergencies|hotline|helpline"
_EMERGENCY = (
    "notfall|emergencias?|emergências?|emergenz[ae]|alarmnummer|noodnummer|alarmowy|ratunkowy|"
    "nouzi|экстренных случаях|acil"
)
_CALLS = r"(?=\s(?:calls?|operators?|dispatch(?:er|ers)?|emergency)\b)"
_COUNTING = r"|\s(?:people|times|users|years|days|minutes|seconds|hours)\b"
# Languages that read them as whole numbers.
_AS_NUMBERS = ("fr",)


def reader(
    language: str, calling: str, phone: Callable[[str], str], digits: Callable[[str], str]
) -> Callable[[str], str]:
    """The step that reads service numbers. calling: the words before a telephone number."""
    words = f"{calling}|{_DIALLED if language == 'en' else _EMERGENCY}"
    called = re.compile(
        rf"((?<!\w)(?:{words})(?!\w)[^\d\n+(.!?]{{0,14}})(?<![\w.,-])({_SHORT})"
        rf"(?![\w/%€$°-]|[.,:]\d|\s[0-9%€$£]{_COUNTING})",
        re.IGNORECASE,
    )
    again = re.compile(
        rf"({_SAID}(?:,|,?\s\w{{1,5}})\s(?:the\s)?)({_SHORT})(?![\w/%-]|[.,:]\d{_COUNTING})"
    )
    text_code = re.compile(
        r"(?<!\w)((?:text|sms)\s(?:\w+\s(?:to|at)\s)?)([0-9]{4,6})(?![\w.,]?\d)", re.I
    )
    emergency = re.compile(rf"(?<![\w.,$€£-])911{_CALLS}")

    def said(match: re.Match[str]) -> str:
        return f"{match[1]}{digits(match[2])}{_SAID}"

    def step(text: str) -> str:
        text = _FREE.sub(lambda match: phone(match[0]), text)
        if language in _AS_NUMBERS or not _ANY.search(text):
            return text
        text = called.sub(said, text)
        if _SAID in text:
            text = again.sub(said, text).replace(_SAID, "")
        if language == "en":
            text = text_code.sub(lambda m: m[1] + digits(m[2]), text)
            text = emergency.sub(lambda m: digits(m[0]), text)
        return text

    return step


# Behind a number that was read, so that "or 112" after it is one, too.
_SAID = "\ue8fc"
