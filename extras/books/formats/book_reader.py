"""Reads a book of any supported format."""

from dataclasses import replace
from itertools import groupby
from pathlib import Path

from extras.books.book import MAX_CHAPTERS, MAX_TITLE_CHARACTERS, Book, BookError, Chapter, Kind, Paragraph
from extras.books.formats.epub import read_epub
from extras.books.formats.headings import chapter_level
from extras.books.formats.html_text import decode, formula_notes, mark_licence, page_of, unicode_encoding_of
from extras.books.formats.plain import chapters_of, read_markdown, read_text
from xtts.text.languages import code_of

FORMATS = (".epub", ".txt", ".md", ".markdown", ".html", ".htm", ".xhtml")
MAX_FILE_BYTES = 1 << 30
MAX_TEXT_BYTES = 64 << 20
# The limit of a book's text, five times that of the Bible.
MAX_CHARACTERS = 20_000_000
MAX_NOTES, MAX_NOTE_CHARACTERS = 50, 300


def read_book(path: Path, called: str = "") -> Book:
    """Reads a book, by the extension of its file.

    called: the original file name, used as the title of a book without one.

    Raises BookError for another extension, and for a file that is missing, damaged, protected, too
    large or without text.
    """
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise BookError(
            f"{path} is not a book that can be read here; allowed are {', '.join(FORMATS)}. "
            "Convert it, for example to EPUB with Calibre."
        )
    is_epub = suffix == ".epub"
    _check_size(path, MAX_FILE_BYTES if is_epub else MAX_TEXT_BYTES)
    title = Path(called or path).stem.replace("_", " ").strip()
    book = _within_bounds(path, read_epub(path) if is_epub else _read_text_file(path, suffix, title))
    if not book.read_aloud:
        raise BookError(f"{path} has no chapter to read aloud; it may consist of contents only.")
    return book


def _within_bounds(path: Path, book: Book) -> Book:
    """Shortens titles. Raises BookError for a book that is too large."""
    characters = sum(len(paragraph.text) for chapter in book.chapters for paragraph in chapter.paragraphs)
    for name, count, limit in (
        ("chapters", len(book.chapters), MAX_CHAPTERS),
        ("characters of text", characters, MAX_CHARACTERS),
    ):
        if count > limit:
            raise BookError(f"{path} has {count:,} {name}; at most {limit:,} are read. Split it.")
    return replace(
        book,
        title=book.title[:MAX_TITLE_CHARACTERS],
        author=book.author[:MAX_TITLE_CHARACTERS],
        chapters=[replace(chapter, title=chapter.title[:MAX_TITLE_CHARACTERS]) for chapter in book.chapters],
        notes=[note[:MAX_NOTE_CHARACTERS] for note in book.notes[:MAX_NOTES]],
    )


def _check_size(path: Path, max_bytes: int) -> None:
    try:
        size = path.stat().st_size
    except OSError as error:
        raise BookError(f"{path} cannot be read: {error.strerror}.") from error
    if size > max_bytes:
        raise BookError(f"{path} has {size:,} bytes; at most {max_bytes:,} are read. Split it.")


def _read_text_file(path: Path, suffix: str, title: str) -> Book:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BookError(f"{path} cannot be read: {error.strerror}.") from error
    if suffix == ".txt":
        return read_text(title, _decode_text(content, path))
    if suffix in (".md", ".markdown"):
        return read_markdown(title, _decode_text(content, path))
    page = page_of(decode(content, str(path)), str(path))
    title = page.title or title
    blocks = mark_licence(page.blocks)
    headings = [(block.level, block.text) for block in blocks if block.level and not block.left_out]
    max_level = max(2, chapter_level(headings)) if headings else 2
    paragraphs = [
        Paragraph(block.text, block.kind if block.level <= max_level else Kind.TEXT)
        for block in blocks
        if not block.left_out
    ]
    left_out = [
        Chapter(reason.capitalize(), [Paragraph(block.text, block.kind) for block in group], reason)
        for reason, group in groupby(blocks, lambda block: block.left_out)
        if reason
    ]
    chapters = [*chapters_of(paragraphs, title), *left_out]
    notes = formula_notes([page])
    return Book(title, page.author, code_of(page.language), chapters, notes=notes)


def _decode_text(content: bytes, path: Path) -> str:
    """The text of a file in UTF-8, or in UTF-16 as Windows writes it. Raises BookError."""
    encoding = unicode_encoding_of(content) or "utf-8"
    try:
        return content.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise BookError(
            f"{path} is not {encoding.upper()} (byte {error.start:,}). Save it as UTF-8, or type "
            f"`iconv -f windows-1252 -t utf-8 {path.name} -o book.txt`."
        ) from None
