"""Reads web and mail addresses aloud: example dot com slash page, ann at example dot org."""

import re
from collections.abc import Callable

from xtts.text.normalization.nouns import pairs

# The words for the dot, the at sign and the slash.
_WORDS = pairs("""en = dot at slash, de = Punkt ät Schrägstrich, nl = punt apenstaartje slash,
    fr = point arobase slash, es = punto arroba barra, pt = ponto arroba barra,
    it = punto chiocciola barra, pl = kropka małpa ukośnik, cs = tečka zavináč lomítko,
    ru = точка собака слэш, tr = nokta et eğik_çizgi, hu = pont kukac perjel""")
_NAME = r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.){1,6}"
# Top-level domains that need neither https:// nor www: "end.It" is a missing space.
_SURE = "com|org|net|edu|gov|io|dev|app|info|co\\.uk|com\\.br"
_MAIL = re.compile(
    rf"(?<![\w.+@-])([a-z0-9_](?:[a-z0-9_.+-]{{0,62}}[a-z0-9_])?)@({_NAME}[a-z]{{2,24}})(?![\w@])", re.I
)
_WEB = re.compile(
    rf"(?<![\w.@/-])(?:https?://({_NAME}[a-z]{{2,24}}|localhost)|(www\.{_NAME}[a-z]{{2,24}})|({_NAME}(?:{_SURE})))"
    r"(?![\w@])(?::[0-9]{1,5})?((?:/[^\s<>\"'()\[\]/?#]{0,80}){0,8})(?:[?#][^\s<>\"'()\[\]]{0,400})?",
    re.I,
)
MARK = re.compile(r"\.[a-zA-Z]{2}|@|://")


def reader(language: str) -> Callable[[str], str]:
    """A function that spells out the addresses in a text, without scheme, port, query and fragment."""
    if language not in _WORDS:
        return lambda text: text
    dot, at, slash = (f" {word.replace('_', ' ')} " for word in _WORDS[language].split())

    def mail(match: re.Match[str]) -> str:
        return f"{match[1].replace('.', dot)}{at}{match[2].replace('.', dot)}"

    def web(match: re.Match[str]) -> str:
        host, path = match[1] or match[2] or match[3], match[4]
        end = re.search(r"[.,;:!?]*$", match[0])
        assert end is not None
        parts = [part for part in path.rstrip(".,;:!?").split("/") if part]
        spoken = [re.sub(r"[_+%~=-]+", " ", part).replace(".", dot) for part in parts]
        return slash.join([host.replace(".", dot), *spoken]) + end[0]

    return lambda text: _WEB.sub(web, _MAIL.sub(mail, text))
