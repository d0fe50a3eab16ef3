"""Writes EPUBs for the tests: version 2 with an NCX, version 3 with a nav, and broken ones."""

import zipfile
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

CONTAINER = (
    '<?xml version="1.0"?><container version="1.0" '
    'xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    '<rootfile full-path="OPS/book.opf" media-type="application/oebps-package+xml"/>'
    "</rootfiles></container>"
)
# 1 x 1 pixel.
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8cf"
    "c000000301010018dd8db00000000049454e44ae426082"
)


def page(body: str, title: str = "", kind: str = "") -> str:
    """An XHTML document."""
    return (
        '<?xml version="1.0" encoding="utf-8"?><!DOCTYPE html>'
        '<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops">'
        f'<head><title>{title}</title></head><body epub:type="{kind}">{body}</body></html>'
    )


def nav(lines: Sequence[tuple[str, str]]) -> str:
    """The table of contents of EPUB 3."""
    items = "".join(f'<li><a href="{href}">{escape(title)}</a></li>' for title, href in lines)
    return page(f'<nav epub:type="toc"><h1>Contents</h1><ol>{items}</ol></nav>')


def ncx(lines: Sequence[tuple[str, str]]) -> str:
    """The table of contents of EPUB 2, with the usual DOCTYPE."""
    points = "".join(
        f'<navPoint id="n{number}" playOrder="{number}">'
        f'<navLabel><text>{escape(title)}</text></navLabel><content src="{href}"/></navPoint>'
        for number, (title, href) in enumerate(lines, start=1)
    )
    return (
        '<?xml version="1.0"?><!DOCTYPE ncx PUBLIC "-//NISO//DTD ncx 2005-1//EN" '
        '"http://www.daisy.org/z3986/2005/ncx-2005-1.dtd">'
        '<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/" version="2005-1"><navMap>'
        f"{points}</navMap></ncx>"
    )


def write_epub(
    path: Path,
    documents: Mapping[str, str],
    contents: Sequence[tuple[str, str]] | None = (),
    *,
    version: int = 3,
    title: str = "A Small Book",
    author: str = "A. Writer",
    spine: Sequence[str] | None = None,
    others: Mapping[str, str | bytes] | None = None,
    guide: Mapping[str, str] | None = None,
    languages: Sequence[str] = ("en-GB",),
) -> Path:
    """Writes an EPUB of `documents` (file name -> XHTML), in their order or in that of `spine`."""
    names = list(documents)
    items = "".join(
        f'<item id="d{number}" href="{name}" media-type="application/xhtml+xml"/>'
        for number, name in enumerate(names)
    )
    order = "".join(
        f'<itemref idref="d{names.index(name)}"/>' for name in (names if spine is None else spine)
    )
    toc = (
        '<item id="toc" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>'
        if version == 3
        else '<item id="toc" href="toc.ncx" media-type="application/x-dtbncx+xml"/>'
    )
    cover = '<item id="pic" href="cover.png" media-type="image/png" properties="cover-image"/>'
    named = "".join(f"<dc:language>{language}</dc:language>" for language in languages)
    references = "".join(f'<reference type="{kind}" href="{href}"/>' for kind, href in (guide or {}).items())
    opf = (
        f'<?xml version="1.0"?><package xmlns="http://www.idpf.org/2007/opf" version="{version}.0">'
        '<metadata xmlns:dc="http://purl.org/dc/elements/1.1/">'
        f"<dc:title>{title}</dc:title><dc:creator>{author}</dc:creator>"
        f'{named}<meta name="cover" content="pic"/></metadata>'
        f'<manifest>{toc}{cover}{items}</manifest><spine toc="toc">{order}</spine>'
        f"<guide>{references}</guide></package>"
    )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("mimetype", "application/epub+zip", zipfile.ZIP_STORED)
        made.writestr("META-INF/container.xml", CONTAINER)
        made.writestr("OPS/book.opf", opf)
        made.writestr("OPS/cover.png", PNG)
        if contents is not None:
            made.writestr("OPS/nav.xhtml", nav(contents))
            made.writestr("OPS/toc.ncx", ncx(contents))
        for name, text in documents.items():
            made.writestr(f"OPS/{name}", text)
        for name, content in (others or {}).items():
            made.writestr(name, content)
    return path


def chapter(number: int, words: str = "The cat sat on the mat. It was warm.") -> str:
    """A document with a heading and a paragraph."""
    return page(f"<h1>Chapter {number}</h1><p>{words}</p>")
