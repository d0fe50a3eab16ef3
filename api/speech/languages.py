"""Languages as clients write them: a code, a locale, an English name, Kokoro's letter. Pure."""

from collections.abc import Sequence

from api.errors import APIError
from api.validation_messages import shown
from xtts.text.languages import CODE_BY_NAME, NAMES

# Kokoro's `lang_code`; hexgrad/kokoro, kokoro/pipeline.py.
_KOKORO = {
    "a": "en", "b": "en", "e": "es", "f": "fr", "h": "hi", "i": "it", "j": "ja", "p": "pt",
    "z": "zh",
}  # fmt: skip
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


def name_of(language: str) -> str:
    """The English name of a voice's language; the code itself where it has none here."""
    return NAMES.get(language.lower().partition("-")[0], language)
