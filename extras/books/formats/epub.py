"""Reads EPUB 2 and 3, and refuses protected books.

The spine gives the documents in reading order. The contents (EPUB 3's navigation document, or EPUB
2's NCX) give the beginnings and titles of chapters, but often list only some documents. An unlisted
document is a separate chapter if it begins with a heading, and otherwise continues the previous
one. Formats: https://www.w3.org/TR/epub-33/ and OPF 2.0.1 of the IDPF.
"""

import itertools
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag
from xml.etree.ElementTree import Element

from extras.books.book import Book, BookError, Chapter, Kind, Paragraph, reason_to_skip
from extras.books.formats.archive import DRM_REMEDY, Archive
from extras.books.formats.headings import holds_chapters, is_chapter, is_part, joined_titles
from extras.books.formats.html_text import Block, Page, decode, formula_notes, mark_licence, page_of, visible
from extras.books.formats.safe_xml import children, parse, within
from xtts.text.languages import code_of

MAX_DOCUMENTS = 20_000
_CONTAINER = "META-INF/container.xml"
_REMEDY = "Download it again, or convert it to EPUB with Calibre."
_PAGE_MEDIA_TYPES = ("application/xhtml+xml", "text/html", "text/x-oeb1-document", "application/xml")
# Obfuscation of fonts with the book's identifier, which leaves the text readable.
_FONT_SCRAMBLING = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")
_PROTECTED_BY = {
    "META-INF/rights.xml": "Adobe's",
    "META-INF/license.lcpl": "Readium's",
    "META-INF/sinf.xml": "Apple's",
}
# The heading of a document is one of its first blocks.
_HEADING_BLOCKS = 3
MAX_COVER_BYTES = 16 << 20


@dataclass(frozen=True)
class Item:
    """A part of the archive that the package lists. path: in the archive."""

    path: str
    media_type: str
    properties: frozenset[str]


@dataclass
class Entry:
    """An entry of the contents. fragment: the anchor in the document; depth: 0 for the top level."""

    title: str
    path: str
    fragment: str
    depth: int


@dataclass(frozen=True)
class Package:
    """The package document.

    Attributes:
        root: Its XML, with the metadata.
        items: The listed parts, by id.
        spine: The documents in reading order.
        guide: The types of documents, by their paths; from EPUB 2.
    """

    root: Element
    items: Mapping[str, Item]
    spine: Sequence[Item]
    guide: Mapping[str, str]


@dataclass
class _ChapterDraft:
    """A chapter under construction.

    Attributes:
        title: The title.
        left_out: Why it is not read aloud; "" if it is.
        may_continue: Whether a document without a title may continue it.
    """

    title: str
    left_out: str = ""
    may_continue: bool = True
    paragraphs: list[Paragraph] = field(default_factory=list)


def read_epub(path: Path) -> Book:
    """Reads a book. Raises BookError for a file that is damaged, protected, hostile or empty."""
    with Archive(path) as archive:
        _refuse_protected(archive)
        package = _read_package(archive)
        notes: list[str] = []
        entries = _read_contents(archive, package, notes)
        chapters, languages = _chapters(archive, package, entries, notes)
        cover = _read_cover(archive, package, notes)
    if not any(chapter.paragraphs for chapter in chapters):
        raise BookError(f"{path} contains no text; it may be a picture book. Name another file.")
    return Book(
        next(iter(_metadata_texts(package.root, "title")), path.stem),
        ", ".join(_metadata_texts(package.root, "creator")),
        next(filter(None, map(code_of, [*_metadata_texts(package.root, "language"), *languages])), ""),
        chapters,
        cover,
        tuple(notes),
    )


def _refuse_protected(archive: Archive) -> None:
    for name, vendor in _PROTECTED_BY.items():
        if archive.find_below(name):
            raise BookError(f"{archive.path} has {vendor} protection ({name}). {DRM_REMEDY}")
    encryption = archive.find_below("META-INF/encryption.xml")
    if encryption is None:
        return
    for data in within(parse(archive.read(encryption), encryption), "EncryptedData"):
        methods = [method.get("Algorithm", "") for method in children(data, "EncryptionMethod")]
        if not methods or any(method not in _FONT_SCRAMBLING for method in methods):
            parts = [reference.get("URI", "") for reference in within(data, "CipherReference")]
            raise BookError(f"{archive.path}: {', '.join(parts) or 'a part'} is encrypted. {DRM_REMEDY}")


def _read_package(archive: Archive) -> Package:
    path = _package_path(archive)
    root = parse(archive.read(path), path)
    items = {
        item.get("id", ""): Item(
            _resolve(archive, path, item.get("href", "")),
            item.get("media-type", "").lower(),
            frozenset(item.get("properties", "").split()),
        )
        for item in within(root, "item")
    }
    spine = [
        items[reference.get("idref", "")]
        for reference in within(root, "itemref")
        if reference.get("linear") != "no" and reference.get("idref", "") in items
    ]
    if not spine:
        raise BookError(
            f"{archive.path} lacks a spine: {path} does not list the documents in reading order. "
            "Repair it, for example by converting it to EPUB with Calibre."
        )
    if len(spine) > MAX_DOCUMENTS:
        raise BookError(f"{archive.path} has {len(spine):,} documents; at most {MAX_DOCUMENTS:,}.")
    # Links to an anchor are skipped, because they do not describe the whole document.
    guide = {
        _resolve(archive, path, href): reference.get("type", "")
        for reference in within(root, "reference")
        if not _fragment_of(href := reference.get("href", ""))
    }
    return Package(root, items, spine, guide)


def _package_path(archive: Archive) -> str:
    """The path of the package document, which the container names. Raises BookError."""
    container = archive.find_below(_CONTAINER)
    if container is None:
        raise BookError(f"{archive.path} is not an EPUB: it is a ZIP file without {_CONTAINER}. {_REMEDY}")
    rootfiles = within(parse(archive.read(container), container), "rootfile")
    if not rootfiles or not rootfiles[0].get("full-path"):
        raise BookError(f"{archive.path} is not an EPUB: {container} names no package. {_REMEDY}")
    path = _resolve(archive, container[: -len(_CONTAINER)], rootfiles[0].get("full-path", ""))
    if archive.find(path) is None:
        raise BookError(
            f"{archive.path} is not complete: {container} names {path}, which is missing. {_REMEDY}"
        )
    return path


def _resolve(archive: Archive, base: str, href: str) -> str:
    """The name in the archive of a document's link; the path if there is no such part."""
    folder = posixpath.dirname(base)
    link = urldefrag(href.replace("\\", "/"))[0]
    paths = [posixpath.normpath(posixpath.join(folder, name)).lstrip("/") for name in (unquote(link), link)]
    return next(filter(None, map(archive.find, paths)), paths[0])


def _read_contents(archive: Archive, package: Package, notes: list[str]) -> list[Entry]:
    """The entries of the contents. If they cannot be read, adds a note; only the spine is then
    used."""
    nav = next((item for item in package.items.values() if "nav" in item.properties), None)
    try:
        if nav is not None and (entries := _entries_of_nav(archive, nav.path)):
            return _below_book_title(entries)
        ncx = _find_ncx(package)
        if ncx is not None:
            root = parse(archive.read(ncx.path), ncx.path)
            maps = within(root, "navMap")
            return _below_book_title(list(_entries_of_ncx(archive, maps[0], ncx.path)) if maps else [])
    except BookError as error:
        if "entit" in str(error) or "unpack" in str(error):
            raise
        notes.append(f"The contents cannot be read, so titles come from headings: {error}")
    return []


def _find_ncx(package: Package) -> Item | None:
    spines = within(package.root, "spine")
    named = package.items.get(spines[0].get("toc", "")) if spines else None
    ncx_items = (item for item in package.items.values() if item.media_type == "application/x-dtbncx+xml")
    return named or next(ncx_items, None)


def _entries_of_ncx(archive: Archive, nav_map: Element, path: str) -> Iterator[Entry]:
    """The entries of an NCX. Not recursive, because a malicious NCX may nest a million of them."""
    pending = [(point, 0) for point in reversed(children(nav_map, "navPoint"))]
    while pending:
        point, depth = pending.pop()
        pending += ((child, depth + 1) for child in reversed(children(point, "navPoint")))
        labels, contents = children(point, "navLabel"), children(point, "content")
        if labels and contents:
            title, href = visible("".join(labels[0].itertext())), contents[0].get("src", "")
            yield Entry(title, _resolve(archive, path, href), _fragment_of(href), depth)


def _entries_of_nav(archive: Archive, path: str) -> list[Entry]:
    """The entries of a navigation document, which is HTML: `nav epub:type="toc"`."""
    parser = _NavParser()
    parser.feed(decode(archive.read(path), path))
    parser.close()
    return [
        Entry(visible(title), _resolve(archive, path, href), _fragment_of(href), depth)
        for title, href, depth in parser.links
        if visible(title)
    ]


class _NavParser(HTMLParser):
    """links: (title, href, depth) of the contents."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.links: list[tuple[str, str, int]] = []
        self._in_contents = False
        self._depth = 0
        self._href: str | None = None
        self._text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        types = {*attributes.get("epub:type", "").split(), attributes.get("role", "")}
        if tag == "nav":
            self._in_contents = bool(types & {"toc", "doc-toc"})
        elif self._in_contents and tag == "ol":
            self._depth += 1
        elif self._in_contents and tag == "a" and attributes.get("href"):
            self._href, self._text = attributes["href"], []

    def handle_endtag(self, tag: str) -> None:
        if tag == "nav":
            self._in_contents, self._depth = False, 0
        elif tag == "ol":
            self._depth = max(0, self._depth - 1)
        elif tag == "a" and self._href is not None:
            self.links.append(("".join(self._text), self._href, max(0, self._depth - 1)))
            self._href = None

    def handle_data(self, data: str) -> None:
        if self._href is not None:
            self._text.append(data)


def _fragment_of(href: str) -> str:
    return unquote(urldefrag(href)[1])


def _below_book_title(entries: list[Entry]) -> list[Entry]:
    """Moves all entries up if there is a single top-level one, which is the title of the book."""
    num_outermost = sum(entry.depth == 0 for entry in entries)
    if num_outermost == 1 and len(entries) > 2:
        return [Entry(entry.title, entry.path, entry.fragment, max(0, entry.depth - 1)) for entry in entries]
    return entries


def _chapters(
    archive: Archive, package: Package, entries: Sequence[Entry], notes: list[str]
) -> tuple[list[Chapter], list[str]]:
    """The chapters, and the languages of the documents."""
    entries_of: dict[str, list[Entry]] = {}
    for entry in entries:
        entries_of.setdefault(entry.path, []).append(entry)
    pages = dict[str, Page]()
    for item in package.spine:
        if "nav" in item.properties or item.media_type not in _PAGE_MEDIA_TYPES or item.path in pages:
            continue
        if (page := _read_page(archive, item, notes)) is not None:
            page.types.append(package.guide.get(item.path, ""))
            pages[item.path] = page
    notes += formula_notes(pages.values())
    blocks = iter(mark_licence([block for page in pages.values() for block in page.blocks]))
    drafts: list[_ChapterDraft] = []
    for path, page in pages.items():
        page.blocks = list(itertools.islice(blocks, len(page.blocks)))
        _add_document(drafts, path, page, entries_of.get(path, []))
    chapters = [
        Chapter(draft.title or f"Part {number}", draft.paragraphs, draft.left_out)
        for number, draft in enumerate(drafts, start=1)
        if draft.paragraphs
    ]
    return chapters, [page.language for page in pages.values()]


def _read_page(archive: Archive, item: Item, notes: list[str]) -> Page | None:
    if archive.find(item.path) is None:
        notes.append(f"The book lists {item.path}, which is missing.")
        return None
    return page_of(decode(archive.read(item.path), item.path), item.path)


def _add_document(drafts: list[_ChapterDraft], path: str, page: Page, entries: Sequence[Entry]) -> None:
    """Adds a document's paragraphs to the chapters, and begins the chapters of the contents."""
    starts = _chapter_starts(page, entries)
    reason = reason_to_skip(*page.types)
    readable = [block for block in page.blocks if not block.left_out]
    heading, current = _first_heading(readable), _chapter_to_continue(drafts)
    if 0 not in starts and readable and (current is None or heading or reason):
        # An unlisted document with a heading or epub:types is a chapter.
        title = heading or ("" if drafts and current else page.title)
        current = _begin_chapter(drafts, title, reason)
    title_of_aside = ""
    for number, block in enumerate(page.blocks):
        paragraph = Paragraph(block.text, block.kind, path)
        title = starts.get(number, "")
        if block.left_out:
            _add_aside(drafts, title, block, paragraph)
            title_of_aside = title or title_of_aside
            continue
        if number not in starts and not reason_to_skip(title_of_aside):
            title = title_of_aside
        if title or number in starts or current is None:
            current = _begin_chapter(drafts, title, reason)
        title_of_aside = ""
        current.paragraphs.append(paragraph)


def _begin_chapter(drafts: list[_ChapterDraft], title: str, reason: str) -> _ChapterDraft:
    """Begins a chapter. reason: why its document is not read aloud, or ""."""
    drafts.append(_ChapterDraft(title, reason_to_skip(title) or reason, may_continue=not reason))
    return drafts[-1]


def _chapter_to_continue(drafts: Sequence[_ChapterDraft]) -> _ChapterDraft | None:
    """The chapter that a document without a title continues."""
    return next((draft for draft in reversed(drafts) if draft.may_continue), None)


def _add_aside(drafts: list[_ChapterDraft], title: str, block: Block, paragraph: Paragraph) -> None:
    """Adds a paragraph that is not read aloud to a separate chapter for its reason."""
    if title or not drafts or drafts[-1].may_continue or drafts[-1].left_out != block.left_out:
        title = title or block.left_out.capitalize()
        drafts.append(_ChapterDraft(title, block.left_out, may_continue=False))
    drafts[-1].paragraphs.append(paragraph)


def _chapter_starts(page: Page, entries: Sequence[Entry]) -> dict[int, str]:
    """The number of a block -> the title of the chapter that begins with it.

    The first entry for a document begins a chapter, and so do each top-level entry and the entries
    below a part; deeper entries are sections. Without entries below it, a part has the chapters
    that the document's headings name.
    """
    starts: dict[int, str] = {}
    max_depth = min((entry.depth for entry in entries), default=0)
    for number, entry in enumerate(entries):
        titles_below = [below.title for below in _entries_below(entries, number)]
        is_start = not number or entry.depth <= max_depth
        if is_start and holds_chapters(entry.title, titles_below):
            max_depth = max(max_depth, entry.depth + 1)
        block = page.anchors.get(entry.fragment, 0) if entry.fragment else 0
        if not number and block <= _HEADING_BLOCKS and not _num_words(page.blocks[:block]):
            block = 0
        if is_start and block < len(page.blocks):
            _add_start(page, starts, block, entry.title)
    if len(entries) < 2 or all(is_part(entry.title) for entry in entries):
        _add_named_chapters(page, starts)
    return starts


def _add_named_chapters(page: Page, starts: dict[int, str]) -> None:
    """Adds the chapters that headings name, such as "Chapter 2", if there are several."""
    chapter_headings = [
        number
        for number, block in enumerate(page.blocks)
        if block.kind is Kind.HEADING and not block.left_out and is_chapter(block.text)
    ]
    if len(chapter_headings) < 2:
        return
    first = page.blocks[0]
    if first.kind is Kind.HEADING and not first.left_out:
        starts.setdefault(0, first.text)
    for number in chapter_headings:
        _add_start(page, starts, number, page.blocks[number].text)


def _entries_below(entries: Sequence[Entry], number: int) -> Iterator[Entry]:
    """The entries of the contents one level below an entry."""
    depth = entries[number].depth
    for entry in itertools.takewhile(lambda deeper: deeper.depth > depth, entries[number + 1 :]):
        if entry.depth == depth + 1:
            yield entry


def _add_start(page: Page, starts: dict[int, str], block: int, title: str) -> None:
    """Adds the beginning of a chapter. A title directly above it, such as that of a part, is joined
    to its title."""
    previous = max((number for number in starts if number <= block), default=None)
    if previous == block:
        return
    if previous is not None and all(heading.kind is Kind.HEADING for heading in page.blocks[previous:block]):
        starts[previous] = joined_titles(starts[previous], title)
    else:
        starts[block] = title


def _num_words(blocks: Sequence[Block]) -> int:
    return sum(len(block.text.split()) for block in blocks if block.kind is Kind.TEXT)


def _first_heading(blocks: Sequence[Block]) -> str:
    for block in blocks[:_HEADING_BLOCKS]:
        if block.kind is Kind.HEADING and block.level <= 3:
            return block.text
    return ""


def _read_cover(archive: Archive, package: Package, notes: list[str]) -> bytes | None:
    """The cover picture, by EPUB 3's property or EPUB 2's meta element."""
    item = next(
        (candidate for candidate in package.items.values() if "cover-image" in candidate.properties), None
    )
    for meta in within(package.root, "meta"):
        if item is None and meta.get("name") == "cover":
            item = package.items.get(meta.get("content", ""))
    if item is None or item.media_type not in ("image/jpeg", "image/png", "image/jpg"):
        return None
    try:
        picture = archive.read(item.path)
    except BookError as error:
        notes.append(f"The cover is left out: {error}")
        return None
    if len(picture) > MAX_COVER_BYTES or not picture.startswith((b"\xff\xd8\xff", b"\x89PNG")):
        notes.append(f"The cover {item.path} is left out: not a JPEG or PNG of at most 16 MB.")
        return None
    return picture


def _metadata_texts(root: Element, name: str) -> list[str]:
    texts = [
        visible("".join(element.itertext()))
        for metadata in within(root, "metadata")
        for element in within(metadata, name)
    ]
    return [text for text in texts if text]
