"""Reads HTML and XHTML into paragraphs, as a reader would say them aloud.

References to footnotes, page numbers, scripts and what is hidden are left out; footnotes are marked
as such; the cells of a row of a table become one paragraph. The standard library's parser is used:
it takes broken HTML as browsers do, expands no entity that a document defines, and fetches nothing.
"""

import codecs
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser

from xtts.books.book import BookError, Kind

_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_BLOCKS = {
    "address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "details",
    "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "header", "hgroup",
    "hr", "html", "li", "main", "nav", "ol", "p", "pre", "section", "summary", "table", "tbody",
    "tfoot", "thead", "tr", "ul", *_HEADINGS,
}  # fmt: skip
_VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source",
         "track", "wbr"}  # fmt: skip
_UNREAD = {"audio", "button", "canvas", "head", "iframe", "math", "noscript", "object", "rp", "rt",
           "script", "select", "style", "svg", "template", "textarea", "video"}  # fmt: skip
_HOLD_BLOCKS = _BLOCKS | _UNREAD | {"td", "th", "title"}
# An end tag that is missing is implied by the next tag of these.
_IMPLIED = {"p", "li", "td", "th", "tr", "dt", "dd", "option"}
_UNREAD_TYPES = {"noteref", "doc-noteref", "pagebreak", "doc-pagebreak", "page-list", "backlink",
                 "doc-backlink", "doc-pagelist"}  # fmt: skip
_NOTE_TYPES = {"footnote", "footnotes", "endnote", "endnotes", "rearnote", "rearnotes",
               "doc-footnote", "doc-endnote", "doc-endnotes"}  # fmt: skip
_NOTE_MARK = re.compile(r"\s*(?:[\[(](?:\d{1,4}|[a-z])[\])]|[*†‡§¶]{1,4}|[↩↑^]\ufe0e?)\s*")
_RAISED_MARK = re.compile(rf"{_NOTE_MARK.pattern}|\s*(?:\d{{1,4}}|[a-z])\s*")
# Soft hyphens, marks of no width, and controls of direction: no sound depends on them.
_INVISIBLE = re.compile(r"[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\x00-\x08\x0e-\x1f]")
_DEEPEST = 400
_ENTITY = re.compile(r"<!\s*ENTITY", re.I)
_DECLARED = re.compile(rb"""(?:encoding|charset)\s*=\s*["']?\s*([A-Za-z0-9_.:-]{2,40})""")
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16"),
          (codecs.BOM_UTF16_BE, "utf-16"))  # fmt: skip


@dataclass(frozen=True)
class Block:
    """A paragraph. level: of a heading, 1 to 6."""

    text: str
    kind: Kind = Kind.TEXT
    level: int = 0


@dataclass
class Page:
    """What a document holds.

    Attributes:
        blocks: Its paragraphs.
        anchors: An `id` -> the number of the block that begins at it or after it.
        title, author, language: As the document names them; "" without.
        types: The epub:type of its body and outermost sections.
    """

    blocks: list[Block] = field(default_factory=list)
    anchors: dict[str, int] = field(default_factory=dict)
    title: str = ""
    author: str = ""
    language: str = ""
    types: list[str] = field(default_factory=list)


def decoded(content: bytes, where: str) -> str:
    """The text of a document, by its byte order mark, its own declaration, or UTF-8.

    Raises BookError for bytes that are not text in that encoding.
    """
    encoding = next((name for mark, name in _MARKS if content.startswith(mark)), "")
    if not encoding:
        declared = _DECLARED.search(content[:2048])
        encoding = declared[1].decode() if declared else "utf-8"
    try:
        return content.decode(encoding).removeprefix("\ufeff")
    except (UnicodeError, LookupError) as error:
        raise BookError(f"{where} is not text in {encoding} ({error}). Save it as UTF-8.") from None


def page_of(text: str, where: str) -> Page:
    """Reads a document. Raises BookError for one that defines entities."""
    if _ENTITY.search(text):
        raise BookError(
            f"{where} defines entities. They may stand for files of this machine or for endless "
            "text; it is not read. Convert the book without them."
        )
    reader = _Reader()
    reader.feed(text)
    reader.close()
    reader.finish()
    return reader.page


def visible(text: str) -> str:
    """A text with single spaces and without invisible characters."""
    return " ".join(_INVISIBLE.sub("", text).split())


@dataclass
class _Open:
    """An element that is open, and what holds in it. parts: how many parts of text there were when
    it began, where it may prove to be the mark of a footnote."""

    tag: str
    unread: bool = False
    note: bool = False
    linked: bool = False
    raised: bool = False
    parts: int = -1


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.page = Page()
        self._open: list[_Open] = []
        self._names = Counter[str]()
        self._parts: list[str] = []
        self._cells: list[str] | None = None
        self._heading = 0
        self._note = False
        self._title: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        if tag in _BLOCKS:
            self._leave_inline()
        if tag in _IMPLIED and self._open and self._open[-1].tag == tag:
            self.handle_endtag(tag)
        if tag in _BLOCKS:
            self._boundary()
        self._note_facts(tag, attributes)
        if tag == "br":
            self._parts.append(" ")
        if tag in _VOID or len(self._open) >= _DEEPEST:
            return
        self._open.append(self._opened(tag, attributes))
        self._names[tag] += 1
        if tag in _HEADINGS:
            self._heading = _HEADINGS[tag]
        elif tag == "tr" and self._cells is None:
            self._cells = []
        elif tag == "title" and not self.page.title:
            self._title = []

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        # `<p/>` and `<script/>` are whole elements in XHTML.
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self._names[tag]:
            return
        if tag in _BLOCKS:
            self._boundary()
        closed = ""
        while closed != tag:
            closed = self._close_last()

    def handle_data(self, data: str) -> None:
        if self._title is not None:
            self._title.append(data)
        elif not (self._open and self._open[-1].unread):
            self._parts.append(data)

    def finish(self) -> None:
        """Ends what is still open."""
        self._boundary()
        self._end_row()

    def _leave_inline(self) -> None:
        """No inline element holds a block: one that was not closed ends here."""
        while self._open and self._open[-1].tag not in _HOLD_BLOCKS:
            self._close_last()

    def _close_last(self) -> str:
        """Closes the innermost element; returns its tag."""
        one = self._open.pop()
        self._names[one.tag] -= 1
        self._closed(one)
        return one.tag

    def _opened(self, tag: str, attributes: Mapping[str, str]) -> _Open:
        above = self._open[-1] if self._open else _Open("")
        types = {*attributes.get("epub:type", "").split(), *attributes.get("role", "").split()}
        hidden = "hidden" in attributes or attributes.get("aria-hidden") == "true"
        unread = above.unread or tag in _UNREAD or bool(types & _UNREAD_TYPES) or hidden
        link = tag == "a" and "href" in attributes
        return _Open(
            tag, unread, above.note or bool(types & _NOTE_TYPES), link or above.linked,
            tag == "sup" or above.raised, len(self._parts) if link or tag == "sup" else -1,
        )  # fmt: skip

    def _closed(self, one: _Open) -> None:
        if one.tag == "tr":
            self._end_row()
        elif one.tag in ("td", "th") and self._cells is not None:
            self._cells.append(visible("".join(self._parts)))
            self._parts = []
        elif one.tag in _HEADINGS:
            self._heading = 0
        elif one.tag == "title" and self._title is not None:
            self.page.title, self._title = visible("".join(self._title)), None
        elif one.parts >= 0:
            self._drop_mark(one)

    def _drop_mark(self, one: _Open) -> None:
        """Leaves out the mark of a footnote: a raised link, or a link in brackets or of a sign."""
        text = "".join(self._parts[one.parts :])
        raised = one.linked and one.raised and _RAISED_MARK.fullmatch(text)
        if raised or (one.tag == "a" and _NOTE_MARK.fullmatch(text)):
            del self._parts[one.parts :]

    def _note_facts(self, tag: str, attributes: Mapping[str, str]) -> None:
        anchor = attributes.get("id") or (attributes.get("name", "") if tag == "a" else "")
        if anchor:
            self.page.anchors.setdefault(anchor, len(self.page.blocks))
        if tag == "html":
            language = attributes.get("xml:lang") or attributes.get("lang", "")
            self.page.language = self.page.language or language
        elif tag == "meta" and attributes.get("name", "").lower() == "author":
            self.page.author = self.page.author or visible(attributes.get("content", ""))
        elif tag in ("body", "section") and len(self.page.blocks) == 0:
            self.page.types += attributes.get("epub:type", "").split()

    def _boundary(self) -> None:
        """The end of a paragraph, or a space within a row of a table."""
        if self._cells is not None:
            self._parts.append(" ")
            return
        text, self._parts = visible("".join(self._parts)), []
        if text:
            self._add(text, Kind.HEADING if self._heading else Kind.TEXT)

    def _end_row(self) -> None:
        if self._cells is None:
            return
        cells = [cell for cell in (*self._cells, visible("".join(self._parts))) if cell]
        self._cells, self._parts = None, []
        if cells:
            said = " ".join(cell if cell[-1] in ".,;:!?" else cell + "," for cell in cells[:-1])
            self._add(f"{said} {cells[-1]}".strip(), Kind.TABLE if said else Kind.TEXT)

    def _add(self, text: str, kind: Kind) -> None:
        if self._open and self._open[-1].note:
            kind = Kind.FOOTNOTE
        level = self._heading if kind is Kind.HEADING else 0
        self.page.blocks.append(Block(text, kind, level))
