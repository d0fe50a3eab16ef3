"""Book: the common representation of books in all formats."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from machine.errors import SotaqueError

MAX_CHAPTERS = 5_000
# Longer titles and lists of authors are shortened.
MAX_TITLE_CHARACTERS = 200


class BookError(SotaqueError):
    """A book that cannot be read or spoken; the message says what is wrong and what to do."""


class Kind(StrEnum):
    """The kind of a paragraph, which decides the pause after it and whether it is read."""

    TEXT = "text"
    HEADING = "heading"
    TABLE = "table"
    FOOTNOTE = "footnote"


@dataclass(frozen=True)
class Paragraph:
    """A paragraph, a heading, a table row, or a footnote. source: its file in the EPUB; "" for
    other formats."""

    text: str
    kind: Kind = Kind.TEXT
    source: str = ""


@dataclass(frozen=True)
class Chapter:
    """One chapter.

    Attributes:
        title: From the contents or from its heading.
        paragraphs: In order.
        left_out: Why it is not read aloud ("contents", "copyright"); "" if it is.
    """

    title: str
    paragraphs: Sequence[Paragraph]
    left_out: str = ""

    @property
    def words(self) -> int:
        """The number of words, without footnotes."""
        return sum(
            len(paragraph.text.split())
            for paragraph in self.paragraphs
            if paragraph.kind is not Kind.FOOTNOTE
        )


@dataclass(frozen=True)
class Book:
    """A book.

    Attributes:
        title: The title.
        author: The author, or authors separated by commas; "" if unknown.
        language: The language of the text, by ISO 639-1; "" if unknown.
        chapters: In reading order, including those that are not read aloud.
        cover: A JPEG or PNG, or None.
        notes: Sentences on problems in the file.
    """

    title: str
    author: str
    language: str
    chapters: Sequence[Chapter]
    cover: bytes | None = None
    notes: Sequence[str] = field(default_factory=tuple)

    @cached_property
    def read_aloud(self) -> list[Chapter]:
        """The chapters that are read aloud."""
        return [chapter for chapter in self.chapters if not chapter.left_out]


# Why parts are not read aloud, by their title, guide type, epub:type or role, reduced to letters.
_REASONS_BY_NAME = {
    **dict.fromkeys(
        (
            "toc contents tableofcontents listofchapters inhalt inhaltsverzeichnis sommaire "
            "tabledesmatières índice indice sumário contenido tabladecontenido tabladecontenidos inhoud "
            "inhoudsopgave spistreści obsah tartalom tartalomjegyzék içindekiler содержание оглавление 目录 "
            "目次 nav landmarks"
        ).split(),
        "contents",
    ),
    **dict.fromkeys(("titlepage", "halftitlepage", "halftitle", "fulltitlepage"), "title page"),
    **dict.fromkeys(
        ("copyright", "copyrightpage", "uncopyright", "imprint", "impressum", "colophon"), "copyright"
    ),
    **dict.fromkeys(("endnotes", "footnotes", "rearnotes", "notes", "fußnoten", "notas"), "notes"),
    **dict.fromkeys(("transcribersnote", "transcribersnotes"), "transcriber's note"),
    **dict.fromkeys(("thefullprojectgutenberglicense", "fulllicense", "projectgutenberglicense"), "licence"),
    "cover": "cover",
    "index": "index",
    "loi": "list of illustrations",
    "lot": "list of tables",
    "listofillustrations": "list of illustrations",
    "illustrations": "list of illustrations",
    "bibliography": "bibliography",
    "otherbooks": "advertisement",
}
_NO_LETTERS = re.compile(r"[\W_]+|tm\b")


def reason_to_skip(*names: str) -> str:
    """Why a part with such a title or epub:type is not read aloud; "" if it is."""
    for name in names:
        if reason := _REASONS_BY_NAME.get(_NO_LETTERS.sub("", name.casefold().removeprefix("doc-"))):
            return reason
    return ""
