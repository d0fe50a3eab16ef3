"""Removes Markdown and decodes HTML entities, by the same rules in books and in requests.

Takes linear time: each pattern is bounded, or cannot match across its own beginning.
"""

import re
from collections.abc import Iterator
from html import unescape

from xtts.text.cleaning import speakable

ATX = re.compile(r"^\s{0,3}(#{1,6})\s+(.*)$")
SETEXT = re.compile(r"^\s{0,3}(=+|-+)\s*$")
RULE = re.compile(r"^\s{0,3}(?:[-*_]\s*){3,}$")
ITEM = re.compile(r"^\s*(?:[-*+]|\d{1,4}[.)])\s+")
NOTE = re.compile(r"^\[\^([^\]]+)\]:\s*(.*)$")
TABLE_RULE = re.compile(r"^\s*\|?\s*:?-{2,}:?\s*(?:\|\s*:?-{2,}:?\s*)*\|?\s*$")
_FENCE = re.compile(r"^\s{0,3}(```+|~~~+)")
_QUOTE = re.compile(r"^\s{0,3}(?:>\s?)+")
# `[1]: https://…`, but not `[Anna]: Hello.`
_LINK_PLACE = re.compile(
    r"^\s{0,3}\[[^\]^]+\]:\s*<?(?:[^\s<>]*[/#:][^\s<>]*|[^\s<>]+\.\w{2,5})>?\s*(?:[\"'(].*)?$"
)
_BLANKS = re.compile(r"\s{9,}")
# Without numbers: in a request "3. Platz" is not a list item.
_BULLET = re.compile(r"^\s*[-*+]\s+")
_NO_TAG = r"(?!\s*/?\s*(?:pause|voice|style)\b)"
_LINKS = (
    (re.compile(r"<!--(?:(?!<!--).)*?-->", re.S), " "),
    (re.compile(rf"!\[{_NO_TAG}[^\[\]]*+\]\((?:(?!!\[)[^)])*+\)"), " "),
    (re.compile(r"\[\^[^\[\]]++\]"), ""),
    (
        re.compile(rf"\[{_NO_TAG}([^\[\]]++)\]\((?:(?!\]\()[^)\s])*+(?:\s+\"[^\"]{{0,400}}\")?\)"),
        r"\1",
    ),
    (re.compile(r"<(https?://[^<>\s]++)>"), r"\1"),
)
_HTML_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,200}>")
_STRESS = (
    (re.compile(r"(\*\*|__)(?=\S)(.{1,400}?)(?<=\S)\1"), r"\2"),
    (re.compile(r"~~(?=\S)([^~]{1,400}?)(?<=\S)~~"), r"\1"),
    (re.compile(r"(?<![\w*])\*(?=\S)([^*]{1,400}?)(?<=\S)\*(?![\w*])"), r"\1"),
    (re.compile(r"(?<!\w)_(?=\S)([^_]{1,400}?)(?<=\S)_(?!\w)"), r"\1"),
    (re.compile(r"`([^`]{1,400})`"), r"\1"),
)
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
# Without brackets, because an escaped bracket must not become a tag.
_ESCAPED_IN_REQUEST = re.compile(r"\\([!-/:;=?@^_`{|}~])")
_MARKS = re.compile(r"[*_`~|#>&\\=]|!?\[|<!--|^\s*[-+]", re.M)
_DOCUMENT = re.compile(r"<speak\b", re.I)
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,30});")
# Entities must not become characters that begin a tag.
_NO_TAGS = str.maketrans("<>[]", "  ()")


def spoken(text: str) -> str:
    """The text of a request without Markdown, and with its HTML entities decoded.

    Tags in square and angle brackets stay. Returned unchanged: an SSML document, which decodes its
    entities later, and a text that would become empty.
    """
    if not _MARKS.search(text) or _DOCUMENT.search(text):
        return text
    lines = "\n".join(_spoken_lines(text.replace("\r\n", "\n")))
    said = _ENTITY.sub(_character, without_marks(lines, html=False))
    return said if speakable(said) else text


def _character(entity: re.Match[str]) -> str:
    found = unescape(entity[0])
    return entity[0] if found == entity[0] else found.translate(_NO_TAGS)


def _spoken_lines(text: str) -> Iterator[str]:
    """The lines of a request; headings, list items and table rows become paragraphs."""
    before = ""
    for line in prose_lines(text):
        if heading := heading_of(line):
            yield from ("", heading[1], "")
        elif NOTE.match(line):
            continue
        elif RULE.match(line) or (before and (SETEXT.match(line) or TABLE_RULE.match(line))):
            yield ""
        elif line.lstrip().startswith("|") and line.count("|") > 1:
            yield from ("", row_of(line), "")
        elif _BULLET.match(line):
            yield from ("", _BULLET.sub("", line))
        else:
            yield line
        before = line.strip()


def prose_lines(text: str) -> Iterator[str]:
    """The lines outside code blocks, without quotation marks (`>`)."""
    fence = ""
    for line in text.split("\n"):
        if match := _FENCE.match(line):
            fence = "" if fence and match[1].startswith(fence) else fence or match[1][:3]
        elif not fence and not _LINK_PLACE.match(line):
            yield _BLANKS.sub(" " * 8, _QUOTE.sub("", line))


def heading_of(line: str) -> tuple[int, str] | None:
    """The level and text of a heading; None for any other line."""
    match = ATX.match(line)
    return (len(match[1]), match[2].rstrip().rstrip("#")) if match else None


def row_of(line: str) -> str:
    """The cells of a table row, separated by commas."""
    cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
    return ", ".join(filter(None, cells))


def without_marks(text: str, *, html: bool = True) -> str:
    """A text without inline Markdown. html: also removes HTML tags, and unescapes every escaped
    character instead of all but brackets."""
    for pattern, said in _LINKS:
        text = pattern.sub(said, text)
    if html:
        text = _HTML_TAG.sub(" ", text)
    for pattern, said in _STRESS:
        text = pattern.sub(said, text)
    return (_ESCAPED if html else _ESCAPED_IN_REQUEST).sub(r"\1", text)
