"""Book: what every format is read into: title, author, language, cover, chapters, paragraphs."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from machine.errors import SotaqueError

MOST_CHAPTERS = 5_000
# Characters of a title of a book or of a chapter, and of its authors.
MOST_TITLE = 200


class BookError(SotaqueError):
    """A book that cannot be read or spoken; the text says what is wrong and what to do."""


class Kind(StrEnum):
    """What a paragraph is, which decides the pause after it and whether it is read."""

    TEXT = "text"
    HEADING = "heading"
    TABLE = "table"
    FOOTNOTE = "footnote"


@dataclass(frozen=True)
class Paragraph:
    """A paragraph, a heading, a row of a table, or a footnote. source: the file in the EPUB that
    holds it; "" for other formats."""

    text: str
    kind: Kind = Kind.TEXT
    source: str = ""


@dataclass(frozen=True)
class Chapter:
    """One chapter.

    Attributes:
        title: Its title, from the contents or from its heading.
        paragraphs: What it holds, in order.
        left_out: Why a reader would not read it aloud ("contents", "copyright"); "" if they would.
    """

    title: str
    paragraphs: Sequence[Paragraph]
    left_out: str = ""

    @property
    def words(self) -> int:
        """How many words it has, without footnotes."""
        return sum(
            len(one.text.split()) for one in self.paragraphs if one.kind is not Kind.FOOTNOTE
        )


@dataclass(frozen=True)
class Book:
    """A book as it is read.

    Attributes:
        title: Its title.
        author: Its author, or authors with commas; "" if unknown.
        language: Of its text, by ISO 639-1; "" if the book does not say.
        chapters: In reading order, with those that are left out.
        cover: A JPEG or PNG; None without one.
        notes: What was odd about the file, in sentences.
    """

    title: str
    author: str
    language: str
    chapters: Sequence[Chapter]
    cover: bytes | None = None
    notes: Sequence[str] = field(default_factory=tuple)

    @cached_property
    def read_aloud(self) -> list[Chapter]:
        """The chapters that a reader would read."""
        return [chapter for chapter in self.chapters if not chapter.left_out]


# What a reader does not read aloud, by titles, types of the guide, epub:type and role: the letters
# alone.
_LEFT_OUT = {
    **dict.fromkeys((
        "toc", "contents", "tableofcontents", "listofchapters", "inhalt", "inhaltsverzeichnis",
        "sommaire", "tabledesmatières", "índice", "indice", "sumário", "contenido",
        "tabladecontenido", "tabladecontenidos", "inhoud", "inhoudsopgave", "spistreści", "obsah",
        "tartalom", "tartalomjegyzék", "içindekiler", "содержание", "оглавление", "目录", "目次",
        "nav", "landmarks",
    ), "contents"),
    **dict.fromkeys(("titlepage", "halftitlepage", "halftitle", "fulltitlepage"), "title page"),
    **dict.fromkeys((
        "copyright", "copyrightpage", "uncopyright", "imprint", "impressum", "colophon",
    ), "copyright"),
    **dict.fromkeys(("endnotes", "footnotes", "rearnotes", "notes", "fußnoten", "notas"), "notes"),
    **dict.fromkeys(("transcribersnote", "transcribersnotes"), "transcriber's note"),
    **dict.fromkeys((
        "thefullprojectgutenberglicense", "fulllicense", "projectgutenberglicense",
    ), "licence"),
    "cover": "cover", "index": "index", "loi": "list of illustrations", "lot": "list of tables",
    "listofillustrations": "list of illustrations", "illustrations": "list of illustrations",
    "bibliography": "bibliography", "otherbooks": "advertisement",
}  # fmt: skip
_SIGNS = re.compile(r"[\W_]+|tm\b")


def left_out(*names: str) -> str:
    """Why a part with such a title or epub:type is not read aloud; "" if it is."""
    for name in names:
        if reason := _LEFT_OUT.get(_SIGNS.sub("", name.casefold().removeprefix("doc-"))):
            return reason
    return ""
