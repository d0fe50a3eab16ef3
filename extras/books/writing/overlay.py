"""Writes an EPUB 3 with media overlays: sentences are highlighted while they are spoken.

The book is generated from its chapters, with a span for each sentence, without the pictures and
styles of the original. Format: https://www.w3.org/TR/epub-33/#sec-media-overlays.
"""

import hashlib
import io
import zipfile
from collections.abc import Iterator, Sequence
from html import escape
from typing import BinaryIO

from extras.books.book import Book, Kind
from extras.books.speaking.voice_tags import ANY_TAG
from extras.books.writing.binding import BoundChapter, Span
from xtts.encoding import Encoder

_CONTAINER = (
    '<?xml version="1.0" encoding="utf-8"?>\n<container version="1.0" '
    'xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles><rootfile '
    'full-path="OPS/book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
)
_PAGE_HEAD = (
    '<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE html>\n<html '
    'xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops" '
    'lang="{language}" xml:lang="{language}"><head><title>{title}</title>'
    '<link rel="stylesheet" href="book.css"/></head><body id="all">'
)
_STYLE = ".spoken { background: #ffe9a8 }\n"
# A fixed time, so that the output is reproducible.
_FILE_TIME = (2000, 1, 1, 0, 0, 0)
_MODIFIED_TIME = "2000-01-01T00:00:00Z"


def write_overlay(file: BinaryIO, book: Book, chapters: Sequence[BoundChapter], language: str) -> None:
    """Writes the book with its sound, an MP3 for each chapter, into a seekable file. Holds one
    chapter in memory."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        _add_file(archive, "mimetype", b"application/epub+zip", is_compressed=False)
        _add_file(archive, "META-INF/container.xml", _CONTAINER.encode())
        _add_file(archive, "OPS/book.css", _STYLE.encode())
        if book.cover:
            _add_file(archive, f"OPS/{_cover_name(book.cover)}", book.cover, is_compressed=False)
        for chapter in chapters:
            name = f"c{chapter.number}"
            spans = list(chapter.spans())
            _add_file(archive, f"OPS/{name}.xhtml", _chapter_page(chapter.title, spans, language).encode())
            _add_file(archive, f"OPS/{name}.smil", _chapter_overlay(name, spans).encode())
            _add_file(archive, f"OPS/{name}.mp3", _encode_mp3(chapter), is_compressed=False)
        _add_file(archive, "OPS/nav.xhtml", _contents_page(book, chapters, language).encode())
        _add_file(archive, "OPS/book.opf", _package_document(book, chapters, language).encode())


def _add_file(archive: zipfile.ZipFile, name: str, content: bytes, *, is_compressed: bool = True) -> None:
    entry = zipfile.ZipInfo(name, _FILE_TIME)
    entry.compress_type = zipfile.ZIP_DEFLATED if is_compressed else zipfile.ZIP_STORED
    archive.writestr(entry, content)


def _encode_mp3(chapter: BoundChapter) -> bytes:
    sound = io.BytesIO()
    encoder = Encoder("mp3", sound, mark=chapter.mark)
    for pcm in chapter.pcm():
        encoder.add(pcm)
    encoder.end()
    return sound.getvalue()


def _chapter_page(title: str, spans: Sequence[Span], language: str) -> str:
    parts = [_PAGE_HEAD.format(language=escape(language), title=escape(title))]
    open_paragraph: tuple[int, str] | None = None
    for number, span in enumerate(spans):
        sentence = span.chosen.sentence
        tag = "h1" if sentence.kind is Kind.HEADING else "p"
        if open_paragraph != (sentence.paragraph, tag):
            parts.append((f"</{open_paragraph[1]}>\n" if open_paragraph else "") + f"<{tag}>")
            open_paragraph = sentence.paragraph, tag
        text = escape(" ".join(ANY_TAG.sub(" ", sentence.text).split()))
        parts.append(f'<span id="s{number}">{text}</span> ')
    return "".join([*parts, f"</{open_paragraph[1]}>" if open_paragraph else "<p/>", "</body></html>\n"])


def _chapter_overlay(name: str, spans: Sequence[Span]) -> str:
    lines = [
        f'<par id="p{number}"><text src="{name}.xhtml#s{number}"/><audio src="{name}.mp3" '
        f'clipBegin="{span.start:.3f}s" clipEnd="{span.end:.3f}s"/></par>'
        for number, span in enumerate(spans)
    ]
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n<smil xmlns="http://www.w3.org/ns/SMIL" '
        f'xmlns:epub="http://www.idpf.org/2007/ops" version="3.0"><body>'
        f'<seq id="all" epub:textref="{name}.xhtml#all">\n' + "\n".join(lines) + "\n</seq></body></smil>\n"
    )


def _contents_page(book: Book, chapters: Sequence[BoundChapter], language: str) -> str:
    lines = "\n".join(
        f'<li><a href="c{chapter.number}.xhtml">{escape(chapter.title)}</a></li>' for chapter in chapters
    )
    head = _PAGE_HEAD.format(language=escape(language), title=escape(book.title))
    return (
        f'{head}<nav epub:type="toc"><h1>{escape(book.title)}</h1><ol>\n{lines}\n</ol></nav></body></html>\n'
    )


def _cover_name(cover: bytes) -> str:
    return "cover.png" if cover.startswith(b"\x89PNG") else "cover.jpg"


def _package_document(book: Book, chapters: Sequence[BoundChapter], language: str) -> str:
    identity = hashlib.sha256(f"{book.title}\n{book.author}".encode()).hexdigest()[:32]
    # Without the silence around sentences.
    durations = {
        chapter.number: sum(span.end - span.start for span in chapter.spans()) for chapter in chapters
    }
    metadata = [
        f'<dc:identifier id="id">urn:sotaque:{identity}</dc:identifier>',
        f"<dc:title>{escape(book.title)}</dc:title>",
        f"<dc:language>{escape(language)}</dc:language>",
        f'<meta property="dcterms:modified">{_MODIFIED_TIME}</meta>',
        f'<meta property="media:duration">{sum(durations.values()):.3f}s</meta>',
        '<meta property="media:active-class">spoken</meta>',
    ]
    if book.author:
        metadata.append(f"<dc:creator>{escape(book.author)}</dc:creator>")
    metadata += [
        f'<meta property="media:duration" refines="#o{number}">{seconds:.3f}s</meta>'
        for number, seconds in durations.items()
    ]
    order = "".join(f'<itemref idref="c{chapter.number}"/>' for chapter in chapters)
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n<package xmlns="http://www.idpf.org/2007/opf" '
        'version="3.0" unique-identifier="id"><metadata '
        'xmlns:dc="http://purl.org/dc/elements/1.1/">\n'
        + "\n".join(metadata)
        + "\n</metadata><manifest>\n"
        + "\n".join(_manifest_items(book, chapters))
        + f"\n</manifest><spine>{order}</spine></package>\n"
    )


def _manifest_items(book: Book, chapters: Sequence[BoundChapter]) -> Iterator[str]:
    yield (
        '<item id="nav" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>'
        '<item id="css" href="book.css" media-type="text/css"/>'
    )
    if book.cover:
        name = _cover_name(book.cover)
        kind = "image/png" if name.endswith("png") else "image/jpeg"
        yield f'<item id="cover" href="{name}" media-type="{kind}" properties="cover-image"/>'
    for chapter in chapters:
        name = f"c{chapter.number}"
        yield (
            f'<item id="{name}" href="{name}.xhtml" media-type="application/xhtml+xml" '
            f'media-overlay="o{chapter.number}"/>'
            f'<item id="o{chapter.number}" href="{name}.smil" media-type="application/smil+xml"/>'
            f'<item id="a{chapter.number}" href="{name}.mp3" media-type="audio/mpeg"/>'
        )
