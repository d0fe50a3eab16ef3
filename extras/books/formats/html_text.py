"""Reads HTML and XHTML into paragraphs for reading aloud.

References to footnotes, page numbers, scripts and hidden elements are left out; footnotes, and
parts such as a licence or contents, are marked; the cells of a table row become one paragraph; a
drop cap is joined to its word. The standard library's parser accepts broken HTML as browsers do,
does not expand entities that a document defines, and does not fetch anything.
"""

import codecs
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser

from extras.books.book import BookError, Kind, reason_to_skip
from extras.books.formats import furniture
from extras.books.formats.formulas import Formula
from extras.books.formats.furniture import DROP_CAP_MARK, NOTHING, Furniture, PageNumber, furniture_of
from extras.books.formats.raised import subscript, superscript, with_meaning

_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_BLOCKS = {
    "address",
    "article",
    "aside",
    "blockquote",
    "body",
    "caption",
    "center",
    "dd",
    "details",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "header",
    "hgroup",
    "hr",
    "html",
    "li",
    "main",
    "nav",
    "ol",
    "p",
    "pre",
    "section",
    "summary",
    "table",
    "tbody",
    "tfoot",
    "thead",
    "tr",
    "ul",
    *_HEADINGS,
}
_VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
_UNREAD = {
    "audio",
    "button",
    "canvas",
    "head",
    "iframe",
    "noscript",
    "object",
    "rp",
    "rt",
    "script",
    "select",
    "style",
    "svg",
    "template",
    "textarea",
    "video",
}
_HOLD_BLOCKS = _BLOCKS | _UNREAD | {"td", "th", "title"}
# Elements whose missing end tag is implied by the next of these tags.
_IMPLIED = {"p", "li", "td", "th", "tr", "dt", "dd", "option"}
# Soft hyphens, zero-width characters and direction marks, which do not change the speech.
_INVISIBLE = re.compile(r"[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\x00-\x08\x0e-\x1f]")
_DEEPEST = 400
_ENTITY = re.compile(r"<!\s*ENTITY", re.I)
_DECLARED = re.compile(rb"""(?:encoding|charset)\s*=\s*["']?\s*([A-Za-z0-9_.:-]{2,40})""")
# UTF-32 first, because its byte order mark begins with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


@dataclass(frozen=True)
class Block:
    """A paragraph. level: of a heading, 1 to 6; left_out: why it is not read aloud, as in
    `Chapter`."""

    text: str
    kind: Kind = Kind.TEXT
    level: int = 0
    left_out: str = ""


@dataclass
class Page:
    """The content of a document.

    Attributes:
        blocks: The paragraphs.
        anchors: `id` -> the number of the block at or after it.
        title, author, language: From the document's head, or "".
        types: The epub:type and role of the body, or of a section of notes at its beginning.
        num_unread_formulas: The number of formulas that cannot be read as text.
    """

    blocks: list[Block] = field(default_factory=list)
    anchors: dict[str, int] = field(default_factory=dict)
    title: str = ""
    author: str = ""
    language: str = ""
    types: list[str] = field(default_factory=list)
    num_unread_formulas: int = 0


def decode(content: bytes, where: str) -> str:
    """Decodes a document by its byte order mark, its declaration, or as UTF-8.

    Raises BookError for bytes that are not text in that encoding.
    """
    encoding = unicode_of(content)
    if not encoding:
        declared = _DECLARED.search(content[:2048])
        encoding = declared[1].decode() if declared else "utf-8"
    try:
        return content.decode(encoding).removeprefix("\ufeff")
    except (UnicodeError, LookupError) as error:
        raise BookError(f"{where} is not text in {encoding} ({error}). Save it as UTF-8.") from None


def unicode_of(content: bytes) -> str:
    """The Unicode encoding by byte order mark, or UTF-16 by zero bytes; "" if neither is found."""
    if marked := next((name for mark, name in _MARKS if content.startswith(mark)), ""):
        return marked
    even, odd = content[:400:2].count(0), content[1:400:2].count(0)
    if even == odd or max(even, odd) < min(len(content), 400) // 5:
        return ""
    return "utf-16-le" if odd > even else "utf-16-be"


def page_of(text: str, where: str) -> Page:
    """Reads a document. Raises BookError for one that defines entities."""
    if _ENTITY.search(text):
        raise BookError(
            f"{where} defines entities, which could include files of this machine or endless "
            "text. It is refused. Convert the book to a file without them."
        )
    reader = _Reader()
    reader.feed(text)
    reader.close()
    reader.finish()
    reader.page.blocks = _under_headings(reader.page.blocks)
    return reader.page


def _under_headings(blocks: list[Block]) -> list[Block]:
    """Marks the paragraphs under a heading such as "Contents" or "Footnotes", up to the next
    heading."""
    reason, level, marked = "", 0, list[Block]()
    for block in blocks:
        # An index and notes may have subheadings; deeper headings after contents may be chapters.
        inner = reason in ("index", "notes", "bibliography") and block.level > level
        if block.kind is Kind.HEADING and not inner:
            reason, level = reason_to_skip(block.text), block.level
        if reason == "notes" and marked:
            block = replace(block, kind=Kind.FOOTNOTE, level=0)
        elif reason:
            block = replace(block, left_out=block.left_out or reason)
        marked.append(block)
    return marked


def without_licence(blocks: Sequence[Block]) -> list[Block]:
    """Marks the paragraphs that Project Gutenberg added to a book."""
    book_range = furniture.own_paragraphs([block.text for block in blocks])
    return [
        block if place in book_range else replace(block, left_out=block.left_out or "licence")
        for place, block in enumerate(blocks)
    ]


def formula_notes(pages: Iterable[Page]) -> list[str]:
    """A note about formulas that are left out; empty without any."""
    if not (count := sum(page.num_unread_formulas for page in pages)):
        return []
    are = "formula is" if count == 1 else "formulas are"
    return [f"{count} {are} left out, because only simple ones can be read as words."]


def visible(text: str) -> str:
    """A text with single spaces and without invisible characters."""
    return " ".join(_INVISIBLE.sub("", text).split())


def _has_text(parts: Iterable[str]) -> bool:
    """Whether a paragraph has more than a quotation mark so far."""
    return any(part.strip("\"'“‘«„ \t\r\n\xa0") for part in parts)


@dataclass
class _Open:
    """An open element and its inherited state.

    Attributes:
        block: Whether its start and end are boundaries of paragraphs.
        role: The role by its own names.
        unread, note, left_out, page_number: The role by its names and those of its ancestors.
        linked: Whether it is in a link.
        to_note: Whether that link's target is a note, by name.
        raised: Whether it is superscript.
        parts, blocks: The number of text parts and of blocks at its start.
    """

    tag: str
    block: bool = False
    role: Furniture = NOTHING
    unread: bool = False
    note: bool = False
    left_out: str = ""
    page_number: PageNumber = PageNumber.NO
    linked: bool = False
    to_note: bool = False
    raised: bool = False
    parts: int = 0
    blocks: int = 0


@dataclass(frozen=True)
class _Letter:
    """A paragraph of one letter. named: whether its class marks a drop cap; picture: whether it is
    an image."""

    text: str
    named: bool
    picture: bool


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.page = Page()
        self._open: list[_Open] = []
        self._names = Counter[str]()
        self._parts: list[str] = []
        self._cells: list[str] | None = None
        self._heading = 0
        self._title: list[str] | None = None
        # Whether the paragraph begins as a note, and the notes inside it.
        self._is_note = False
        self._notes: list[str] = []
        # A drop cap that was a separate paragraph.
        self._letter: _Letter | None = None
        self._formula: Formula | None = None
        self._end_of_formula = 0  # the number of parts up to the last formula
        # The readings of the open ruby.
        self._ruby: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        if self._start_in_formula(tag.rpartition(":")[2], attributes):  # m:math, mml:math
            return
        role = furniture_of(tag, attributes)
        # A page may end within a paragraph, so its number is not a paragraph.
        block = tag in _BLOCKS and not (role.page_number is PageNumber.YES and self._names["p"])
        if block:
            self._leave_inline()
        if tag in _IMPLIED and self._open and self._open[-1].tag == tag:
            self.handle_endtag(tag)
        if block:
            self._boundary()
        self._note_facts(tag, attributes)
        self._empty_element(tag, attributes, role)
        if tag in _VOID or len(self._open) >= _DEEPEST:
            return
        self._open.append(self._opened(tag, attributes, role, block))
        self._names[tag] += 1
        if tag in _HEADINGS:
            self._heading = _HEADINGS[tag]
        elif tag == "tr" and self._cells is None:
            self._cells = []
        elif tag == "title" and not self.page.title:
            self._title = []

    def _empty_element(self, tag: str, attributes: Mapping[str, str], role: Furniture) -> None:
        if tag == "br":
            self._parts.append(" ")
        elif tag == "img":
            self._picture(attributes.get("alt") or attributes.get("title", ""), role)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        # In XHTML, `<p/>` and `<script/>` are complete elements.
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if self._formula is not None:
            self._end_in_formula(tag)
            return
        if not self._names[tag]:
            return
        opened = next(element for element in reversed(self._open) if element.tag == tag)
        if opened.block:
            self._boundary()
        closed = ""
        while closed != tag:
            closed = self._close_last()

    def _start_in_formula(self, tag: str, attributes: Mapping[str, str]) -> bool:
        """Whether an element begins a formula, or is in one."""
        if self._formula is not None and tag in _BLOCKS:  # the formula lacks an end
            self._end_in_formula("math")
        elif self._formula is not None:
            self._formula.start(tag)
        elif tag == "math":
            self._formula = Formula(attributes.get("alttext", ""))
        return self._formula is not None

    def _end_in_formula(self, tag: str) -> None:
        assert self._formula is not None
        plain = tag.rpartition(":")[2]
        if plain == "math" or plain in _BLOCKS:
            text, self._formula = self._formula.spoken(), None
            if text and not (self._open and self._open[-1].unread):
                self._parts.append(f" {text} ")
                self._end_of_formula = len(self._parts)
            self.page.num_unread_formulas += not text
        else:
            self._formula.end(plain)
        if plain in _BLOCKS:  # the formula lacks an end
            self.handle_endtag(tag)

    def handle_data(self, data: str) -> None:
        if self._formula is not None:
            self._formula.data(data)
        elif self._title is not None:
            self._title.append(data)
        elif self._open and self._open[-1].tag == "rt":
            self._ruby.append(data)
        elif not (self._open and self._open[-1].unread):
            if len(self._parts) == self._end_of_formula > 0 and data[:1] in tuple(".,;:!?)"):
                self._parts[-1] = self._parts[-1].rstrip()
            self._parts.append(data.replace(DROP_CAP_MARK, ""))

    def finish(self) -> None:
        """Closes all open elements."""
        if self._formula is not None:
            self._end_in_formula("math")
        self._boundary()
        self._end_row()
        self._emit_letter()

    def _leave_inline(self) -> None:
        """Closes inline elements before a block, which they cannot contain."""
        while self._open and self._open[-1].tag not in _HOLD_BLOCKS:
            self._close_last()

    def _close_last(self) -> str:
        """Closes the innermost element; returns its tag."""
        element = self._open.pop()
        self._names[element.tag] -= 1
        self._closed(element)
        return element.tag

    def _opened(self, tag: str, attributes: Mapping[str, str], role: Furniture, block: bool) -> _Open:
        above = self._open[-1] if self._open else _Open("")
        link = tag == "a" and "href" in attributes
        return _Open(
            tag,
            block,
            role,
            unread=above.unread or tag in _UNREAD or role.unread,
            note=above.note or role.note,
            left_out=above.left_out or role.left_out * block,
            page_number=role.page_number if role.page_number.value > 1 else above.page_number,
            linked=link or above.linked,
            to_note=above.to_note or (link and furniture.names_note(attributes["href"])),
            raised=tag == "sup" or above.raised or role.raised,
            parts=len(self._parts),
            blocks=len(self.page.blocks),
        )

    def _closed(self, element: _Open) -> None:
        if element.tag == "tr":
            self._end_row()
        elif element.tag in ("td", "th") and self._cells is not None:
            self._cells.append(visible("".join(self._parts)))
            self._parts = []
        elif element.tag in _HEADINGS:
            self._heading = 0
        elif element.tag == "title" and self._title is not None:
            title = furniture.own_title(visible("".join(self._title)))
            self.page.title, self._title = title, None
        elif element.tag == "ruby":
            # A picture has only its reading.
            if not element.unread and not visible("".join(self._parts[element.parts :])):
                self._parts += self._ruby
            self._ruby = []
        elif not element.block:
            self._close_inline(element)

    def _close_inline(self, element: _Open) -> None:
        """Removes page numbers, notes and references to notes from the paragraph."""
        if element.unread or (element.role is NOTHING and element.tag not in ("a", "sup", "sub")):
            return
        text = visible("".join(self._parts[element.parts :]))
        begins = not _has_text(self._parts[: element.parts])
        self._is_note |= element.role.note and begins
        if furniture.is_page_number(text, element.role.page_number) or self._is_mark(element, text):
            del self._parts[element.parts :]
        elif text and element.role.note and not begins and not self._open[-1].note:
            self._notes.append(text)
            del self._parts[element.parts :]
        elif element.role.drop_cap and furniture.is_letter(text):
            self._parts.append(DROP_CAP_MARK)
        elif element.tag in ("sup", "sub") or element.role.raised or element.role.lowered:
            shifted = subscript if element.tag == "sub" or element.role.lowered else superscript
            if (mark := shifted(text)) != text:
                self._parts[element.parts :] = [mark]

    def _is_mark(self, element: _Open, text: str) -> bool:
        """Whether an element refers to a note: a superscript link, or a link such as `[3]` or
        `*`."""
        if element.tag not in ("a", "sup") and not element.role.note:
            return False
        plain = element.role.note or (element.linked and (element.raised or element.to_note))
        return furniture.is_note_mark(text, plain=plain)

    def _picture(self, alt: str, role: Furniture) -> None:
        """Adds the letter of a picture at the beginning of a paragraph."""
        above = self._open[-1] if self._open else _Open("")
        if above.unread or _has_text(self._parts) or self._cells is not None:
            return
        named = role.drop_cap or any(element.role.drop_cap for element in self._open)
        if letter := furniture.letter_of(alt, named=named):
            self._parts += (letter, DROP_CAP_MARK)

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
            types = f"{attributes.get('epub:type', '')} {attributes.get('role', '')}".split()
            # Sections of notes also make the document a chapter of notes.
            self.page.types += [name for name in types if tag == "body" or reason_to_skip(name) == "notes"]

    def _boundary(self) -> None:
        """Ends a paragraph, or adds a space within a table row."""
        if self._cells is not None:
            self._parts.append(" ")
            return
        raw, self._parts = "".join(self._parts), []
        notes, self._notes = self._notes, []
        marked = DROP_CAP_MARK in raw
        text = visible(furniture.with_drop_caps(furniture.without_page_marks(raw)))
        if text and not self._is_number(text):
            named = bool(self._open) and self._open[-1].role.drop_cap
            if furniture.is_letter(text) and self._may_begin_a_word(text, marked or named):
                self._emit_letter()
                self._letter = _Letter(text, named, marked and not named)
            else:
                self._add(text, Kind.HEADING if self._heading else Kind.TEXT)
        self._is_note = False
        for note in notes:
            self._append(Block(note, Kind.FOOTNOTE))

    def _is_number(self, text: str) -> bool:
        """Whether a paragraph is a page number."""
        if not self._open:
            return False
        element = self._open[-1]
        page_number = element.role.page_number if element.blocks == len(self.page.blocks) else PageNumber.NO
        return any(furniture.is_page_number(text, named) for named in (element.page_number, page_number))

    def _may_begin_a_word(self, letter: str, drop_cap: bool) -> bool:
        listed = self._names["li"] or self._names["dl"]
        return not self._heading and (drop_cap or (letter[-1].isupper() and not listed))

    def _end_row(self) -> None:
        if self._cells is None:
            return
        cells = [cell for cell in (*self._cells, visible("".join(self._parts))) if cell]
        self._cells, self._parts = None, []
        if cells:
            row = " ".join(cell if cell[-1] in ".,;:!?" else cell + "," for cell in cells[:-1])
            self._add(f"{row} {cells[-1]}".strip(), Kind.TABLE if row else Kind.TEXT)

    def _add(self, text: str, kind: Kind) -> None:
        letter = self._letter
        if letter and kind is Kind.TEXT and furniture.continues(text, letter.named, letter.picture):
            self._letter, text = None, furniture.join(letter.text, text)
        self._emit_letter()
        if self._is_note or (self._open and self._open[-1].note):
            kind = Kind.FOOTNOTE
        level = self._heading if kind is Kind.HEADING else 0
        self._append(Block(text, kind, level))

    def _emit_letter(self) -> None:
        """Adds a letter that did not begin a word as a paragraph, unless it was a picture."""
        letter, self._letter = self._letter, None
        if letter and not letter.picture:
            self._append(Block(letter.text))

    def _append(self, block: Block) -> None:
        if not (text := with_meaning(block.text)):
            return
        block = replace(block, text=text)
        reason = self._open[-1].left_out if self._open else ""
        self.page.blocks.append(replace(block, left_out=reason) if reason else block)
