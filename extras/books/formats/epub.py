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
from extras.books.formats.html_text import (
    Block,
    Page,
    decode,
    formula_notes,
    page_of,
    visible,
    without_licence,
)
from extras.books.formats.safe_xml import children, parse, within
from xtts.text.languages import code_of

MAX_DOCUMENTS = 20_000
_CONTAINER = "META-INF/container.xml"
_OTHER_FILE = "Download it again, or convert it to EPUB with Calibre."
_PAGES = ("application/xhtml+xml", "text/html", "text/x-oeb1-document", "application/xml")
# Obfuscation of fonts with the book's identifier, which leaves the text readable.
_FONT_SCRAMBLING = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")
_PROTECTED_BY = {
    "META-INF/rights.xml": "Adobe's",
    "META-INF/license.lcpl": "Readium's",
    "META-INF/sinf.xml": "Apple's",
}
# The number of blocks in which the heading of a document is searched.
_HEADING_WITHIN = 3
MAX_COVER_BYTES = 16 << 20


@dataclass(frozen=True)
class Item:
    """A part listed in the package. path: in the archive."""

    path: str
    media_type: str
    properties: frozenset[str]


@dataclass
class Entry:
    """A line of the contents. fragment: the anchor in the document; depth: 0 for the top level."""

    title: str
    path: str
    fragment: str
    depth: int


@dataclass(frozen=True)
class Package:
    """The package document: the parts and their reading order."""

    root: Element
    items: Mapping[str, Item]
    spine: Sequence[Item]
    guide: Mapping[str, str]


@dataclass
class _Part:
    """A chapter under construction.

    Attributes:
        title: The title.
        left_out: Why it is not read aloud; "" if it is.
        continues: Whether a document without a title may continue it.
    """

    title: str
    left_out: str = ""
    continues: bool = True
    paragraphs: list[Paragraph] = field(default_factory=list)


def read_epub(path: Path) -> Book:
    """Reads a book. Raises BookError for a file that is damaged, protected, hostile or empty."""
    with Archive(path) as archive:
        _refuse_protected(archive)
        package = _package(archive)
        notes: list[str] = []
        entries = _contents(archive, package, notes)
        chapters, spoken = _chapters(archive, package, entries, notes)
        cover = _cover(archive, package, notes)
    if not any(chapter.paragraphs for chapter in chapters):
        raise BookError(f"{path} contains no text; it may be a picture book. Name another file.")
    meta = package.root
    return Book(
        _first(meta, "title") or path.stem,
        ", ".join(_all(meta, "creator")),
        next(filter(None, map(code_of, [*_all(meta, "language"), *spoken])), ""),
        chapters,
        cover,
        tuple(notes),
    )


def _refuse_protected(archive: Archive) -> None:
    for name, whose in _PROTECTED_BY.items():
        if archive.find_below(name):
            raise BookError(f"{archive.path} has {whose} protection ({name}). {DRM_REMEDY}")
    listed = archive.find_below("META-INF/encryption.xml")
    if listed is None:
        return
    for data in within(parse(archive.read(listed), listed), "EncryptedData"):
        methods = [method.get("Algorithm", "") for method in children(data, "EncryptionMethod")]
        if not methods or any(method not in _FONT_SCRAMBLING for method in methods):
            parts = [reference.get("URI", "") for reference in within(data, "CipherReference")]
            raise BookError(f"{archive.path}: {', '.join(parts) or 'a part'} is encrypted. {DRM_REMEDY}")


def _package(archive: Archive) -> Package:
    container = archive.find_below(_CONTAINER)
    if container is None:
        raise BookError(
            f"{archive.path} is not an EPUB: it is a ZIP file without {_CONTAINER}. {_OTHER_FILE}"
        )
    rootfiles = within(parse(archive.read(container), container), "rootfile")
    if not rootfiles or not rootfiles[0].get("full-path"):
        raise BookError(f"{archive.path} is not an EPUB: {container} names no package. {_OTHER_FILE}")
    path = _resolve(archive, container[: -len(_CONTAINER)], rootfiles[0].get("full-path", ""))
    if archive.find(path) is None:
        raise BookError(
            f"{archive.path} is not complete: {container} names {path}, which is missing. {_OTHER_FILE}"
        )
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
        if not _fragment(href := reference.get("href", ""))
    }
    return Package(root, items, spine, guide)


def _resolve(archive: Archive, base: str, href: str) -> str:
    """The name in the archive of a document's link; the path if there is no such part."""
    place = posixpath.dirname(base)
    plain = urldefrag(href.replace("\\", "/"))[0]
    paths = [posixpath.normpath(posixpath.join(place, link)).lstrip("/") for link in (unquote(plain), plain)]
    return next(filter(None, map(archive.find, paths)), paths[0])


def _contents(archive: Archive, package: Package, notes: list[str]) -> list[Entry]:
    """The lines of the contents. If they cannot be read, adds a note; only the spine is then
    used."""
    nav = next((item for item in package.items.values() if "nav" in item.properties), None)
    try:
        if nav is not None and (entries := _of_nav(archive, nav.path)):
            return _unwrap(entries)
        ncx = _ncx(package)
        if ncx is not None:
            root = parse(archive.read(ncx.path), ncx.path)
            maps = within(root, "navMap")
            return _unwrap(list(_of_ncx(archive, maps[0], ncx.path)) if maps else [])
    except BookError as error:
        if "entit" in str(error) or "unpack" in str(error):
            raise
        notes.append(f"The contents cannot be read, so titles come from headings: {error}")
    return []


def _ncx(package: Package) -> Item | None:
    spines = within(package.root, "spine")
    named = package.items.get(spines[0].get("toc", "")) if spines else None
    others = (item for item in package.items.values() if item.media_type == "application/x-dtbncx+xml")
    return named or next(others, None)


def _of_ncx(archive: Archive, nav_map: Element, path: str) -> Iterator[Entry]:
    """The lines of an NCX. Not recursive, because a malicious NCX may nest a million of them."""
    waiting = [(point, 0) for point in reversed(children(nav_map, "navPoint"))]
    while waiting:
        point, depth = waiting.pop()
        waiting += ((child, depth + 1) for child in reversed(children(point, "navPoint")))
        labels, contents = children(point, "navLabel"), children(point, "content")
        if labels and contents:
            title, href = visible("".join(labels[0].itertext())), contents[0].get("src", "")
            yield Entry(title, _resolve(archive, path, href), _fragment(href), depth)


def _of_nav(archive: Archive, path: str) -> list[Entry]:
    """The list of a navigation document, which is HTML: `nav epub:type="toc"`."""
    reader = _NavReader()
    reader.feed(decode(archive.read(path), path))
    reader.close()
    return [
        Entry(visible(title), _resolve(archive, path, href), _fragment(href), depth)
        for title, href, depth in reader.links
        if visible(title)
    ]


class _NavReader(HTMLParser):
    """links: (title, href, depth) of the contents."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.links: list[tuple[str, str, int]] = []
        self._inside = False
        self._depth = 0
        self._href: str | None = None
        self._text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        types = {*attributes.get("epub:type", "").split(), attributes.get("role", "")}
        if tag == "nav":
            self._inside = bool(types & {"toc", "doc-toc"})
        elif self._inside and tag == "ol":
            self._depth += 1
        elif self._inside and tag == "a" and attributes.get("href"):
            self._href, self._text = attributes["href"], []

    def handle_endtag(self, tag: str) -> None:
        if tag == "nav":
            self._inside, self._depth = False, 0
        elif tag == "ol":
            self._depth = max(0, self._depth - 1)
        elif tag == "a" and self._href is not None:
            self.links.append(("".join(self._text), self._href, max(0, self._depth - 1)))
            self._href = None

    def handle_data(self, data: str) -> None:
        if self._href is not None:
            self._text.append(data)


def _fragment(href: str) -> str:
    return unquote(urldefrag(href)[1])


def _unwrap(entries: list[Entry]) -> list[Entry]:
    """Removes a single top-level line, which is the title of the book."""
    outermost = [entry for entry in entries if entry.depth == 0]
    if len(outermost) == 1 and len(entries) > 2:
        return [Entry(entry.title, entry.path, entry.fragment, max(0, entry.depth - 1)) for entry in entries]
    return entries


def _chapters(
    archive: Archive, package: Package, entries: Sequence[Entry], notes: list[str]
) -> tuple[list[Chapter], list[str]]:
    """The chapters, and the languages of the documents."""
    by_path: dict[str, list[Entry]] = {}
    for entry in entries:
        by_path.setdefault(entry.path, []).append(entry)
    pages = dict[str, Page]()
    for item in package.spine:
        if "nav" in item.properties or item.media_type not in _PAGES or item.path in pages:
            continue
        if (page := _page(archive, item, notes)) is not None:
            page.types.append(package.guide.get(item.path, ""))
            pages[item.path] = page
    notes += formula_notes(pages.values())
    marked = iter(without_licence([block for page in pages.values() for block in page.blocks]))
    parts: list[_Part] = []
    for path, page in pages.items():
        page.blocks = list(itertools.islice(marked, len(page.blocks)))
        _add_document(parts, path, page, by_path.get(path, []))
    chapters = [
        Chapter(part.title or f"Part {number}", part.paragraphs, part.left_out)
        for number, part in enumerate(parts, start=1)
        if part.paragraphs
    ]
    return chapters, [page.language for page in pages.values()]


def _page(archive: Archive, item: Item, notes: list[str]) -> Page | None:
    if archive.find(item.path) is None:
        notes.append(f"The book lists {item.path}, which is missing.")
        return None
    return page_of(decode(archive.read(item.path), item.path), item.path)


def _add_document(parts: list[_Part], path: str, page: Page, entries: Sequence[Entry]) -> None:
    """Adds a document's paragraphs to the chapters, and begins the chapters of the contents."""
    starts = _starts(page, entries)
    reason = reason_to_skip(*page.types)
    readable = [block for block in page.blocks if not block.left_out]
    heading, current = _first_heading(readable), _chapter_before(parts)
    if 0 not in starts and readable and (current is None or heading or reason):
        # An unlisted document with a heading or epub:types is a chapter.
        title = heading or ("" if parts and current else page.title)
        current = _begin(parts, title, reason)
    waiting = ""
    for number, block in enumerate(page.blocks):
        paragraph = Paragraph(block.text, block.kind, path)
        title = starts.get(number, "")
        if block.left_out:
            _add_aside(parts, title, block, paragraph)
            waiting = title or waiting
            continue
        if number not in starts and not reason_to_skip(waiting):
            title = waiting
        if title or number in starts or current is None:
            current = _begin(parts, title, reason)
        waiting = ""
        current.paragraphs.append(paragraph)


def _begin(parts: list[_Part], title: str, reason: str) -> _Part:
    """Begins a chapter. reason: why its document is not read aloud, or ""."""
    parts.append(_Part(title, reason_to_skip(title) or reason, continues=not reason))
    return parts[-1]


def _chapter_before(parts: Sequence[_Part]) -> _Part | None:
    """The chapter that a document without a title continues."""
    return next((part for part in reversed(parts) if part.continues), None)


def _add_aside(parts: list[_Part], title: str, block: Block, paragraph: Paragraph) -> None:
    """Adds a paragraph that is not read aloud to a separate part for its kind."""
    if title or not parts or parts[-1].continues or parts[-1].left_out != block.left_out:
        parts.append(_Part(title or block.left_out.capitalize(), block.left_out, continues=False))
    parts[-1].paragraphs.append(paragraph)


def _starts(page: Page, entries: Sequence[Entry]) -> dict[int, str]:
    """The number of a block -> the title of the chapter that begins with it.

    The first line for a document begins a chapter, and so do each top-level line and the lines
    below a part; deeper lines are sections. Without lines below it, a part has the chapters that
    the document's headings name.
    """
    starts: dict[int, str] = {}
    deepest = min((line.depth for line in entries), default=0)
    for number, entry in enumerate(entries):
        below = list(_lines_below(entries, number))
        is_start = not number or entry.depth <= deepest
        if is_start and holds_chapters(entry.title, [line.title for line in below]):
            deepest = max(deepest, entry.depth + 1)
        place = page.anchors.get(entry.fragment, 0) if entry.fragment else 0
        if not number and place <= _HEADING_WITHIN and not _words(page.blocks[:place]):
            place = 0
        if is_start and place < len(page.blocks):
            _add_start(page, starts, place, entry.title)
    if len(entries) < 2 or all(is_part(line.title) for line in entries):
        _add_named_chapters(page, starts)
    return starts


def _add_named_chapters(page: Page, starts: dict[int, str]) -> None:
    """Adds the chapters that headings name, such as "Chapter 2", if there are several."""
    named = [
        at
        for at, block in enumerate(page.blocks)
        if block.kind is Kind.HEADING and not block.left_out and is_chapter(block.text)
    ]
    if len(named) < 2:
        return
    first = page.blocks[0]
    if first.kind is Kind.HEADING and not first.left_out:
        starts.setdefault(0, first.text)
    for place in named:
        _add_start(page, starts, place, page.blocks[place].text)


def _lines_below(entries: Sequence[Entry], number: int) -> Iterator[Entry]:
    """The lines of the contents one level below a line."""
    depth = entries[number].depth
    for entry in itertools.takewhile(lambda line: line.depth > depth, entries[number + 1 :]):
        if entry.depth == depth + 1:
            yield entry


def _add_start(page: Page, starts: dict[int, str], place: int, title: str) -> None:
    """Adds the beginning of a chapter. A title directly above it, such as that of a part, is joined
    to its title."""
    above = max((number for number in starts if number <= place), default=None)
    if above == place:
        return
    if above is not None and all(block.kind is Kind.HEADING for block in page.blocks[above:place]):
        starts[above] = joined_titles(starts[above], title)
    else:
        starts[place] = title


def _words(blocks: Sequence[Block]) -> int:
    return sum(len(block.text.split()) for block in blocks if block.kind is Kind.TEXT)


def _first_heading(blocks: Sequence[Block]) -> str:
    for block in blocks[:_HEADING_WITHIN]:
        if block.kind is Kind.HEADING and block.level <= 3:
            return block.text
    return ""


def _cover(archive: Archive, package: Package, notes: list[str]) -> bytes | None:
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


def _all(root: Element, name: str) -> list[str]:
    texts = [
        visible("".join(element.itertext()))
        for metadata in within(root, "metadata")
        for element in within(metadata, name)
    ]
    return [text for text in texts if text]


def _first(root: Element, name: str) -> str:
    return next(iter(_all(root, name)), "")
