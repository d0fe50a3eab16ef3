"""Removes Markdown and decodes HTML entities, by the same rules in books and in requests.

In requests, the text between `<think>` and `</think>` of chat models is left out, and HTML's tags
of formatting are formatting: `<b>` is silent, `<br>` ends a line, `<li>` begins a paragraph.

Takes linear time: each pattern is bounded, or cannot match across its own beginning.
"""

import re
from collections.abc import Iterator
from html import unescape
from itertools import pairwise

from xtts.text import formulas
from xtts.text.reading import speakable

ATX = re.compile(r"^\s{0,3}(#{1,6})\s+(.*)$")
SETEXT = re.compile(r"^\s{0,3}(=+|-+)\s*$")
RULE = re.compile(r"^\s{0,3}(?:[-*_]\s*){3,}$")
ITEM = re.compile(r"^\s*(?:[-*+]|\d{1,4}[.)])\s+")
NOTE = re.compile(r"^\[\^([^\]]+)\]:\s*(.*)$")
TABLE_RULE = re.compile(r"^\s*\|?\s*:?-{2,}:?\s*(?:\|\s*:?-{2,}:?\s*)*\|?\s*$")
_FENCE = re.compile(r"^\s{0,3}(```+|~~~+)")
_QUOTE = re.compile(r"^\s{0,3}(?:>\s?)+")
# `[1]: https://…`, but not `[Anna]: Hello.`
_LINK_DEFINITION = re.compile(
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
    (re.compile(rf"\[{_NO_TAG}([^\[\]]++)\]\((?:(?!\]\()[^)\s])*+(?:\s+\"[^\"]{{0,400}}\")?\)"), r"\1"),
    (re.compile(r"<(https?://[^<>\s]++)>"), r"\1"),
)
_CODE = re.compile(r"`([^`]{1,400})`")
_CODE_OF_TWO_MARKS = re.compile(r"(?<!`)``([^`]{1,400})``(?!`)")
_TAG_IN_CODE = re.compile(r"</?([a-zA-Z][^<>`]{0,200}?)\s*/?>")
# The thoughts of a chat model. Some begin the answer without the first tag, or break off inside.
_THOUGHT = re.compile(r"<(think|thinking|reasoning)>(?:(?!<\1>).)*?</\1>", re.I | re.S)
_THOUGHT_BEFORE = re.compile(r"\A(?:(?!<think>).)*?</think(?:ing)?>", re.I | re.S)
_THOUGHT_AFTER = re.compile(r"<think(?:ing)?>.*\Z", re.I | re.S)
_END = r"(?:\s[^<>]{0,200})?\s?/?>"
_BREAK = re.compile(rf"<br{_END}", re.I)
_SUPERSCRIPT_TAG = re.compile(r"<sup>\s*([-+]?[0-9]{1,6})\s*</sup>", re.I)
_SUBSCRIPT_TAG = re.compile(r"<sub>([^<>]{1,40})</sub>", re.I)
_FORMAT = re.compile(
    rf"</?(?:a|abbr|b|big|center|cite|code|del|dfn|em|font|i|img|ins|kbd|mark|q|samp|small|span|"
    rf"strike|strong|sup|tt|u|var){_END}",
    re.I,
)
_BLOCK = re.compile(
    rf"</?(?:article|blockquote|body|dd|details|div|dl|dt|footer|h[1-6]|header|hr|html|li|main|ol|"
    rf"section|summary|table|tbody|td|th|thead|tr|ul){_END}",
    re.I,
)
_SUPERSCRIPTS = str.maketrans("0123456789+-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻")
_NUMBERED = re.compile(r"^\s*([0-9]{1,3})[.)]\s+(?=\S)")
_HTML_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,200}>")
_STRESS = (
    (re.compile(r"(\*\*|__)(?=\S)(.{1,400}?)(?<=\S)\1"), r"\2"),
    (re.compile(r"~~(?=\S)([^~]{1,400}?)(?<=\S)~~"), r"\1"),
    (re.compile(r"(?<![\w*])\*(?=\S)([^*]{1,400}?)(?<=\S)\*(?![\w*])"), r"\1"),
    (re.compile(r"(?<!\w)_(?=\S)([^_]{1,400}?)(?<=\S)_(?!\w)"), r"\1"),
    (_CODE, r"\1"),
)
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
# Without brackets, because an escaped bracket must not become a tag.
_ESCAPED_IN_REQUEST = re.compile(r"\\([!-/:;=?@^_`{|}~])")
_MARKS = re.compile(r"[*_`~|#>&\\=$]|!?\[|<!--|^\s*(?:[-+]|[0-9]{1,3}[.)]\s)", re.M)
_DOCUMENT = re.compile(r"<speak\b", re.I)
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,30});")
# Entities must not become characters that begin a tag.
_NO_TAGS = str.maketrans("<>[]", "  ()")


def read_markdown(text: str) -> str:
    """The text of a request without Markdown, and with its HTML entities decoded.

    Tags in square and angle brackets stay. Returned unchanged: an SSML document, which decodes its
    entities later, and a text that would become empty.
    """
    if not _MARKS.search(text) or _DOCUMENT.search(text):
        return text
    prose = without_html(without_thoughts(code_without_tags(text.replace("\r\n", "\n"))))
    lines = "\n".join(_spoken_lines(prose))
    prose = _ENTITY.sub(_decode_entity, without_marks(lines, html=False))
    return prose if speakable(prose) else text


def code_without_tags(text: str) -> str:
    """A text whose inline code has no tags: `<div>` is the word div."""
    if "`" not in text:
        return text
    text = _CODE_OF_TWO_MARKS.sub(r"`\1`", text)
    return _CODE.sub(lambda code: f"`{_TAG_IN_CODE.sub(_tag_name, code[1])}`", text)


def _tag_name(tag: re.Match[str]) -> str:
    return f" {tag[1].translate(_NO_TAGS)} "


def without_thoughts(text: str) -> str:
    """An answer without the thoughts of its chat model."""
    lower = text.casefold()
    if "<think" not in lower and "</think" not in lower and "<reasoning>" not in lower:
        return text
    text = _THOUGHT.sub("\n\n", text)
    return _THOUGHT_AFTER.sub("", _THOUGHT_BEFORE.sub("", text))


def without_html(text: str) -> str:
    """A text without HTML's tags of formatting."""
    if "<" not in text:
        return text
    lines = list[str]()
    for line in text.split("\n"):
        if "<" in line:
            line = _SUPERSCRIPT_TAG.sub(lambda power: power[1].translate(_SUPERSCRIPTS), line)
            line = _BREAK.sub(", " if line.lstrip().startswith("|") else "\n", line)
            line = _BLOCK.sub("\n\n", _FORMAT.sub("", _SUBSCRIPT_TAG.sub(r" \1 ", line)))
        lines.append(line)
    return "\n".join(lines)


def _decode_entity(entity: re.Match[str]) -> str:
    character = unescape(entity[0])
    return entity[0] if character == entity[0] else character.translate(_NO_TAGS)


def _spoken_lines(text: str) -> Iterator[str]:
    """The lines of a request; headings, list items and table rows become paragraphs."""
    previous_line = ""
    lines = list(prose_lines(text))
    numbered = _numbered_items(lines)
    for place, line in enumerate(lines):
        if place in numbered:
            yield from ("", numbered[place])
        elif heading := heading_of(line):
            yield from ("", heading[1], "")
        elif NOTE.match(line):
            continue
        elif RULE.match(line) or (previous_line and (SETEXT.match(line) or TABLE_RULE.match(line))):
            yield ""
        elif line.lstrip().startswith("|") and line.count("|") > 1:
            yield from ("", row_of(line), "")
        elif _BULLET.match(line):
            yield from ("", _BULLET.sub("", line))
        else:
            yield line
        previous_line = line.strip()


def _numbered_items(lines: list[str]) -> dict[int, str]:
    """The items of numbered lists by the places of their lines. A single one ("3. Platz") is not a list."""
    numbered = [(place, match) for place, line in enumerate(lines) if (match := _NUMBERED.match(line))]
    items = dict[int, str]()
    for (first, number), (second, next_number) in pairwise(numbered):
        if int(next_number[1]) == int(number[1]) + 1 and second - first <= 4:
            for place, match in ((first, number), (second, next_number)):
                items[place] = f"{match[1]}. {match.string[match.end() :]}"
    return items


def prose_lines(text: str) -> Iterator[str]:
    """The lines outside code blocks, without quotation marks (`>`)."""
    fence = ""
    for line in text.split("\n"):
        if match := _FENCE.match(line):
            fence = "" if fence and match[1].startswith(fence) else fence or match[1][:3]
        elif not fence and not _LINK_DEFINITION.match(line):
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
    text = formulas.read_formulas(code_without_tags(text))
    for pattern, words in _LINKS:
        text = pattern.sub(words, text)
    if html:
        text = _HTML_TAG.sub(" ", text)
    for pattern, words in _STRESS:
        text = pattern.sub(words, text)
    return (_ESCAPED if html else _ESCAPED_IN_REQUEST).sub(r"\1", text)
