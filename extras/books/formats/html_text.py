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
from extras.books.formats.furniture import DROP_CAP_MARK, NO_FURNITURE, Furniture, PageNumber, furniture_of
from extras.books.formats.raised import subscript, superscript, with_meaning

_HEADING_LEVELS = {f"h{level}": level for level in range(1, 7)}
_BLOCK_TAGS = {
    *_HEADING_LEVELS,
    *(
        "address article aside blockquote body caption center dd details div dl dt fieldset figcaption "
        "figure footer form header hgroup hr html li main nav ol p pre section summary table tbody tfoot "
        "thead tr ul"
    ).split(),
}
_VOID_TAGS = frozenset("area base br col embed hr img input link meta source track wbr".split())
_UNREAD_TAGS = frozenset(
    "audio button canvas head iframe noscript object rp rt script select style svg template textarea "
    "video".split()
)
_BLOCK_PARENTS = _BLOCK_TAGS | _UNREAD_TAGS | {"td", "th", "title"}
# Their missing end tag is implied by the next start tag of the same kind.
_IMPLICITLY_CLOSED_TAGS = {"p", "li", "td", "th", "tr", "dt", "dd", "option"}
# Soft hyphens, zero-width characters and direction marks, which do not change the speech.
_INVISIBLE = re.compile(r"[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\x00-\x08\x0e-\x1f]")
_MAX_DEPTH = 400
_ENTITY_DECLARATION = re.compile(r"<!\s*ENTITY", re.I)
_ENCODING_DECLARATION = re.compile(rb"""(?:encoding|charset)\s*=\s*["']?\s*([A-Za-z0-9_.:-]{2,40})""")
# UTF-32 first, because its byte order mark begins with that of UTF-16.
_BYTE_ORDER_MARKS = (
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
    encoding = unicode_encoding_of(content)
    if not encoding:
        declared = _ENCODING_DECLARATION.search(content[:2048])
        encoding = declared[1].decode() if declared else "utf-8"
    try:
        return content.decode(encoding).removeprefix("\ufeff")
    except (UnicodeError, LookupError) as error:
        raise BookError(f"{where} is not text in {encoding} ({error}). Save it as UTF-8.") from None


def unicode_encoding_of(content: bytes) -> str:
    """The Unicode encoding by byte order mark, or UTF-16 by zero bytes; "" if neither is found."""
    if marked := next((name for mark, name in _BYTE_ORDER_MARKS if content.startswith(mark)), ""):
        return marked
    even, odd = content[:400:2].count(0), content[1:400:2].count(0)
    if even == odd or max(even, odd) < min(len(content), 400) // 5:
        return ""
    return "utf-16-le" if odd > even else "utf-16-be"


def page_of(text: str, where: str) -> Page:
    """Reads a document. Raises BookError for one that defines entities."""
    if _ENTITY_DECLARATION.search(text):
        raise BookError(
            f"{where} defines entities, which could include files of this machine or endless "
            "text. It is refused. Convert the book to a file without them."
        )
    parser = _PageParser()
    parser.feed(text)
    parser.close()
    parser.finish()
    parser.page.blocks = _mark_skipped_sections(parser.page.blocks)
    return parser.page


def _mark_skipped_sections(blocks: list[Block]) -> list[Block]:
    """Marks the paragraphs under a heading such as "Contents" or "Footnotes", up to the next
    heading."""
    reason, level, marked = "", 0, list[Block]()
    for block in blocks:
        # An index and notes may have subheadings; deeper headings after contents may be chapters.
        is_subheading = reason in ("index", "notes", "bibliography") and block.level > level
        if block.kind is Kind.HEADING and not is_subheading:
            reason, level = reason_to_skip(block.text), block.level
        if reason == "notes" and marked:
            block = replace(block, kind=Kind.FOOTNOTE, level=0)
        elif reason:
            block = replace(block, left_out=block.left_out or reason)
        marked.append(block)
    return marked


def mark_licence(blocks: Sequence[Block]) -> list[Block]:
    """Marks the paragraphs that Project Gutenberg added to a book as left out."""
    book_range = furniture.paragraphs_of_book([block.text for block in blocks])
    return [
        block if index in book_range else replace(block, left_out=block.left_out or "licence")
        for index, block in enumerate(blocks)
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
class _OpenElement:
    """An open element and its inherited state.

    Attributes:
        is_block: Whether its start and end are boundaries of paragraphs.
        role: The role by its own names.
        is_unread, is_note, left_out, page_number: The role by its names and those of its ancestors.
        in_link: Whether it is in a link.
        links_to_note: Whether the name of that link's target is that of a note.
        is_raised: Whether it is superscript.
        first_part, first_block: The number of text parts and of blocks at its start.
    """

    tag: str
    is_block: bool = False
    role: Furniture = NO_FURNITURE
    is_unread: bool = False
    is_note: bool = False
    left_out: str = ""
    page_number: PageNumber = PageNumber.NO
    in_link: bool = False
    links_to_note: bool = False
    is_raised: bool = False
    first_part: int = 0
    first_block: int = 0


@dataclass(frozen=True)
class _SeparateLetter:
    """A paragraph of one letter, which may be the first letter of the next paragraph."""

    text: str
    has_drop_cap_class: bool
    is_picture: bool


class _PageParser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.page = Page()
        self._open_elements: list[_OpenElement] = []
        self._num_open = Counter[str]()
        self._parts: list[str] = []
        self._row_cells: list[str] | None = None
        self._heading_level = 0
        self._title: list[str] | None = None
        # Whether the paragraph begins as a note, and the notes inside it.
        self._is_note = False
        self._notes: list[str] = []
        # A drop cap that was a separate paragraph.
        self._separate_letter: _SeparateLetter | None = None
        self._formula: Formula | None = None
        self._parts_at_formula_end = 0  # the number of parts up to the last formula
        # The readings of the open ruby.
        self._ruby_readings: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        if self._start_formula_element(tag.rpartition(":")[2], attributes):  # m:math, mml:math
            return
        role = furniture_of(tag, attributes)
        # A page may end within a paragraph, so its number is not a paragraph.
        is_block = tag in _BLOCK_TAGS and not (role.page_number is PageNumber.YES and self._num_open["p"])
        if is_block:
            self._close_inline_elements()
        if tag in _IMPLICITLY_CLOSED_TAGS and self._open_elements and self._open_elements[-1].tag == tag:
            self.handle_endtag(tag)
        if is_block:
            self._end_paragraph()
        self._read_attributes(tag, attributes)
        self._add_void_element(tag, attributes, role)
        if tag in _VOID_TAGS or len(self._open_elements) >= _MAX_DEPTH:
            return
        self._open_elements.append(self._new_element(tag, attributes, role, is_block))
        self._num_open[tag] += 1
        if tag in _HEADING_LEVELS:
            self._heading_level = _HEADING_LEVELS[tag]
        elif tag == "tr" and self._row_cells is None:
            self._row_cells = []
        elif tag == "title" and not self.page.title:
            self._title = []

    def _add_void_element(self, tag: str, attributes: Mapping[str, str], role: Furniture) -> None:
        if tag == "br":
            self._parts.append(" ")
        elif tag == "img":
            self._add_picture_letter(attributes.get("alt") or attributes.get("title", ""), role)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        # In XHTML, `<p/>` and `<script/>` are complete elements.
        self.handle_starttag(tag, attrs)
        if tag not in _VOID_TAGS:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if self._formula is not None:
            self._end_formula_element(tag)
            return
        if not self._num_open[tag]:
            return
        innermost = next(element for element in reversed(self._open_elements) if element.tag == tag)
        if innermost.is_block:
            self._end_paragraph()
        closed = ""
        while closed != tag:
            closed = self._close_last()

    def _start_formula_element(self, tag: str, attributes: Mapping[str, str]) -> bool:
        """Whether an element begins a formula, or is in one."""
        if self._formula is not None and tag in _BLOCK_TAGS:  # the formula lacks an end
            self._end_formula_element("math")
        elif self._formula is not None:
            self._formula.start(tag)
        elif tag == "math":
            self._formula = Formula(attributes.get("alttext", ""))
        return self._formula is not None

    def _end_formula_element(self, tag: str) -> None:
        assert self._formula is not None
        local_tag = tag.rpartition(":")[2]
        if local_tag == "math" or local_tag in _BLOCK_TAGS:
            text, self._formula = self._formula.as_text(), None
            if text and not (self._open_elements and self._open_elements[-1].is_unread):
                self._parts.append(f" {text} ")
                self._parts_at_formula_end = len(self._parts)
            self.page.num_unread_formulas += not text
        else:
            self._formula.end(local_tag)
        if local_tag in _BLOCK_TAGS:  # the formula lacks an end
            self.handle_endtag(tag)

    def handle_data(self, data: str) -> None:
        if self._formula is not None:
            self._formula.add_text(data)
        elif self._title is not None:
            self._title.append(data)
        elif self._open_elements and self._open_elements[-1].tag == "rt":
            self._ruby_readings.append(data)
        elif not (self._open_elements and self._open_elements[-1].is_unread):
            if len(self._parts) == self._parts_at_formula_end > 0 and data[:1] in tuple(".,;:!?)"):
                self._parts[-1] = self._parts[-1].rstrip()
            self._parts.append(data.replace(DROP_CAP_MARK, ""))

    def finish(self) -> None:
        """Closes all open elements."""
        if self._formula is not None:
            self._end_formula_element("math")
        self._end_paragraph()
        self._end_row()
        self._add_separate_letter()

    def _close_inline_elements(self) -> None:
        """Closes inline elements before a block, which they cannot contain."""
        while self._open_elements and self._open_elements[-1].tag not in _BLOCK_PARENTS:
            self._close_last()

    def _close_last(self) -> str:
        """Closes the innermost element; returns its tag."""
        element = self._open_elements.pop()
        self._num_open[element.tag] -= 1
        self._leave_element(element)
        return element.tag

    def _new_element(
        self, tag: str, attributes: Mapping[str, str], role: Furniture, is_block: bool
    ) -> _OpenElement:
        parent = self._open_elements[-1] if self._open_elements else _OpenElement("")
        is_link = tag == "a" and "href" in attributes
        return _OpenElement(
            tag,
            is_block,
            role,
            is_unread=parent.is_unread or tag in _UNREAD_TAGS or role.is_unread,
            is_note=parent.is_note or role.is_note,
            left_out=parent.left_out or role.left_out * is_block,
            page_number=role.page_number if role.page_number.value > 1 else parent.page_number,
            in_link=is_link or parent.in_link,
            links_to_note=parent.links_to_note or (is_link and furniture.names_note(attributes["href"])),
            is_raised=tag == "sup" or parent.is_raised or role.is_raised,
            first_part=len(self._parts),
            first_block=len(self.page.blocks),
        )

    def _leave_element(self, element: _OpenElement) -> None:
        if element.tag == "tr":
            self._end_row()
        elif element.tag in ("td", "th") and self._row_cells is not None:
            self._row_cells.append(visible("".join(self._parts)))
            self._parts = []
        elif element.tag in _HEADING_LEVELS:
            self._heading_level = 0
        elif element.tag == "title" and self._title is not None:
            title = furniture.title_of_book(visible("".join(self._title)))
            self.page.title, self._title = title, None
        elif element.tag == "ruby":
            # A picture has only its reading.
            if not element.is_unread and not visible("".join(self._parts[element.first_part :])):
                self._parts += self._ruby_readings
            self._ruby_readings = []
        elif not element.is_block:
            self._leave_inline_element(element)

    def _leave_inline_element(self, element: _OpenElement) -> None:
        """Removes page numbers, notes and references to notes from the paragraph."""
        if element.is_unread or (element.role is NO_FURNITURE and element.tag not in ("a", "sup", "sub")):
            return
        text = visible("".join(self._parts[element.first_part :]))
        begins_paragraph = not _has_text(self._parts[: element.first_part])
        self._is_note |= element.role.is_note and begins_paragraph
        if furniture.is_page_number(text, element.role.page_number) or self._is_note_reference(element, text):
            del self._parts[element.first_part :]
        elif text and element.role.is_note and not begins_paragraph and not self._open_elements[-1].is_note:
            self._notes.append(text)
            del self._parts[element.first_part :]
        elif element.role.is_drop_cap and furniture.is_letter(text):
            self._parts.append(DROP_CAP_MARK)
        elif element.tag in ("sup", "sub") or element.role.is_raised or element.role.is_lowered:
            shift = subscript if element.tag == "sub" or element.role.is_lowered else superscript
            if (shifted := shift(text)) != text:
                self._parts[element.first_part :] = [shifted]

    def _is_note_reference(self, element: _OpenElement, text: str) -> bool:
        """Whether an element refers to a note: a superscript link, or a link such as `[3]` or
        `*`."""
        if element.tag not in ("a", "sup") and not element.role.is_note:
            return False
        may_be_bare = element.role.is_note or (
            element.in_link and (element.is_raised or element.links_to_note)
        )
        return furniture.is_note_mark(text, may_be_bare=may_be_bare)

    def _add_picture_letter(self, alt: str, role: Furniture) -> None:
        """Adds the letter of a picture at the beginning of a paragraph."""
        parent = self._open_elements[-1] if self._open_elements else _OpenElement("")
        if parent.is_unread or _has_text(self._parts) or self._row_cells is not None:
            return
        is_drop_cap = role.is_drop_cap or any(element.role.is_drop_cap for element in self._open_elements)
        if letter := furniture.letter_of_picture(alt, is_drop_cap=is_drop_cap):
            self._parts += (letter, DROP_CAP_MARK)

    def _read_attributes(self, tag: str, attributes: Mapping[str, str]) -> None:
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

    def _end_paragraph(self) -> None:
        """Ends a paragraph, or adds a space within a table row."""
        if self._row_cells is not None:
            self._parts.append(" ")
            return
        raw, self._parts = "".join(self._parts), []
        notes, self._notes = self._notes, []
        is_marked = DROP_CAP_MARK in raw
        text = visible(furniture.with_drop_caps(furniture.without_page_marks(raw)))
        if text and not self._is_page_number(text):
            has_class = bool(self._open_elements) and self._open_elements[-1].role.is_drop_cap
            if furniture.is_letter(text) and self._may_begin_a_word(text, is_marked or has_class):
                self._add_separate_letter()
                self._separate_letter = _SeparateLetter(text, has_class, is_marked and not has_class)
            else:
                self._add(text, Kind.HEADING if self._heading_level else Kind.TEXT)
        self._is_note = False
        for note in notes:
            self._append(Block(note, Kind.FOOTNOTE))

    def _is_page_number(self, text: str) -> bool:
        """Whether a paragraph is a page number."""
        if not self._open_elements:
            return False
        element = self._open_elements[-1]
        is_first_block = element.first_block == len(self.page.blocks)
        own_kind = element.role.page_number if is_first_block else PageNumber.NO
        return any(furniture.is_page_number(text, kind) for kind in (element.page_number, own_kind))

    def _may_begin_a_word(self, letter: str, is_drop_cap: bool) -> bool:
        in_list = self._num_open["li"] or self._num_open["dl"]
        return not self._heading_level and (is_drop_cap or (letter[-1].isupper() and not in_list))

    def _end_row(self) -> None:
        if self._row_cells is None:
            return
        cells = [cell for cell in (*self._row_cells, visible("".join(self._parts))) if cell]
        self._row_cells, self._parts = None, []
        if cells:
            row = " ".join(cell if cell[-1] in ".,;:!?" else cell + "," for cell in cells[:-1])
            self._add(f"{row} {cells[-1]}".strip(), Kind.TABLE if row else Kind.TEXT)

    def _add(self, text: str, kind: Kind) -> None:
        letter = self._separate_letter
        if (
            letter
            and kind is Kind.TEXT
            and furniture.lacks_first_letter(text, letter.has_drop_cap_class, letter.is_picture)
        ):
            self._separate_letter, text = None, furniture.join_letter(letter.text, text)
        self._add_separate_letter()
        if self._is_note or (self._open_elements and self._open_elements[-1].is_note):
            kind = Kind.FOOTNOTE
        level = self._heading_level if kind is Kind.HEADING else 0
        self._append(Block(text, kind, level))

    def _add_separate_letter(self) -> None:
        """Adds a letter that did not begin a word as a paragraph, unless it was a picture."""
        letter, self._separate_letter = self._separate_letter, None
        if letter and not letter.is_picture:
            self._append(Block(letter.text))

    def _append(self, block: Block) -> None:
        if not (text := with_meaning(block.text)):
            return
        block = replace(block, text=text)
        reason = self._open_elements[-1].left_out if self._open_elements else ""
        self.page.blocks.append(replace(block, left_out=reason) if reason else block)
