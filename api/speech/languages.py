"""Languages as clients write them: a code, a locale, an English name, Kokoro's letter. Pure."""

import re
from collections.abc import Sequence

from api.errors import APIError, shown
from xtts.text.languages import CODE_BY_NAME, NAMES

# Kokoro's `lang_code`; hexgrad/kokoro, kokoro/pipeline.py.
_KOKORO = {
    "a": "en", "b": "en", "e": "es", "f": "fr", "h": "hi", "i": "it", "j": "ja", "p": "pt",
    "z": "zh",
}  # fmt: skip
# A code, or a code with a region or script.
LOCALE = r"^[a-zA-Z]{2,3}(-[a-zA-Z0-9]{2,8})?$"
# The client leaves the choice to the server.
_ANY = frozenset({"", "auto"})


def code_of(asked: str | None) -> str:
    """The ISO 639-1 code of what a client wrote: `en`, `en-US`, `en_us`, `English` or Kokoro's `a`;
    "" where it leaves the choice to the server."""
    word = " ".join((asked or "").casefold().split())
    if word in _ANY:
        return ""
    short = word.replace("_", "-").partition("-")[0]
    return CODE_BY_NAME.get(word) or _KOKORO.get(word) or short


def language_of(asked: str | None, known: Sequence[str], param: str = "language") -> str:
    """The voice's own word for the language asked for; "" where none was.

    known: the languages of the voice; empty where it is not open yet, and the text is refused then
    where it is read. Raises APIError (400) naming `param`.
    """
    short = code_of(asked)
    if not short or not known:
        return short
    for language in known:
        if language.lower().partition("-")[0] == short:
            return language
    text = f"{param} is {shown(asked)}; this voice speaks {', '.join(known)}."
    raise APIError(400, "language_unsupported", text, param=param)


def recorded_language(asked: str, more: Sequence[str]) -> str:
    """The language of recordings in small letters: XTTS-v2's, or one of `more`, as a code or a
    locale. Raises APIError (422)."""
    known = sorted({*NAMES, *(one.lower().partition("-")[0] for one in more)})
    language = asked.lower()
    if not re.fullmatch(LOCALE, language) or language.partition("-")[0] not in known:
        text = (
            f"language is {shown(asked)}; known are {', '.join(known)}, also with a region, such "
            "as pt-br."
        )
        raise APIError(422, "invalid_request", text, param="language")
    return language


def name_of(language: str) -> str:
    """The English name of a voice's language; the code itself where it has none here."""
    return NAMES.get(language.lower().partition("-")[0], language)
