"""Reads plain text and Markdown into chapters."""

import re
from collections.abc import Iterable, Iterator, Sequence

from extras.books.book import Book, Chapter, Kind, Paragraph, reason_to_skip
from extras.books.formats import furniture
from extras.books.formats.headings import NUMBER, NUMBERED, chapter_level, is_part, joined_titles
from extras.books.formats.html_text import visible
from extras.books.formats.raised import with_meaning
from extras.common.line_breaks import joiner
from xtts.text import markdown
from xtts.text.languages import code_of

_UNNUMBERED = (
    "prologue|epilogue|introduction|preface|foreword|afterword|vorwort|nachwort|einleitung|préface|"
    "épilogue|prólogo|epílogo|introducción|introdução|prefazione|prologo|epilogo|пролог|эпилог"
)
_HEADING_LINE = re.compile(
    rf"(?:{NUMBERED})\.?\s+{NUMBER}(?:\s*[.:,—–-].{{0,60}})?|(?:{_UNNUMBERED})[.:]?|[IVXLC]{{1,7}}\.?"
    r"|\d{1,3}\.?",
    re.I,
)
# A line with the number of a chapter, above the line of its title.
_NUMBER_ABOVE_TITLE = re.compile(
    rf"(?<=\n)((?:{NUMBERED})[ ]+{NUMBER})\.?\n[ ]*(\S.{{0,58}}[^\s.!?,;])(?=\n[ ]*\n)", re.I
)
# A value may continue in indented lines.
_HEADER_FIELD = re.compile(r"^(Title|Author|Language):[ \t]*(\S.*(?:\n[ \t]+\S.*){0,5})$", re.M)
_HEADER_LINE = re.compile(r"[A-Z][\w ]{2,30}:\s|\s+\S")
_PICTURE_NOTE = re.compile(r"\[(?:Illustration|Image|Abbildung)\b[^\[\]]*+\]", re.I)
_EMPHASIS = re.compile(r"(?<!\w)_([^_\n]{1,400})_(?!\w)")
_NOTE_BEGINNING = re.compile(r"\[(?:Footnote|Fußnote|Note)\s+\w{1,4}\s*:\s*", re.I)
_NOTE_MARK = re.compile(r"\s?\[(?:\d{1,3}|[A-Z*])\]")
# YAML between lines of ---, or TOML between lines of +++.
_FRONT_MATTER = re.compile(
    r"(?:---\n(?P<yaml>.{0,10000}?)\n(?:---|\.\.\.)|\+\+\+\n(.{0,10000}?)\n\+\+\+)\n", re.S
)
# If lines have more characters on average, each one is a paragraph.
_MIN_PARAGRAPH_CHARACTERS = 100
_MAX_TITLE_CHARACTERS, _MAX_HEADER_CHARACTERS = 80, 2_000
# The level of paragraphs that are not headings.
_NO_HEADING = 9


def read_text(name: str, text: str) -> Book:
    """Reads plain text: blank lines divide paragraphs, and a short line such as "Chapter 2" begins
    a chapter. Project Gutenberg's licence is left out. name: the title if the text lacks one."""
    body, header = _without_licence(_PICTURE_NOTE.sub(" ", text))
    body = _NUMBER_ABOVE_TITLE.sub(r"\1. \2", body)
    language = code_of(header.get("Language", ""))
    texts = list(_text_paragraphs(body, language))
    blocks = [
        Paragraph(_EMPHASIS.sub(r"\1", paragraph), Kind.HEADING if _is_heading(paragraph) else Kind.TEXT)
        for paragraph in texts
    ]
    _mark_part_titles(blocks)
    title = header.get("Title") or _title_line(texts)
    if title and blocks and blocks[0].text == _EMPHASIS.sub(r"\1", title):
        blocks[0] = Paragraph(blocks[0].text, Kind.HEADING)
    title = title or name
    has_notes = any(map(_NOTE_BEGINNING.match, texts))
    paragraphs = [_without_note_marks(block) for block in blocks] if has_notes else blocks
    return Book(title, header.get("Author", ""), language, chapters_of(paragraphs, title))


def _mark_part_titles(blocks: list[Paragraph]) -> None:
    """Makes the paragraph between the number of a part and its first chapter a heading."""
    for index in range(1, len(blocks) - 1):
        part, title, chapter = blocks[index - 1 : index + 2]
        if (
            part.kind is chapter.kind is Kind.HEADING
            and is_part(part.text)
            and len(title.text) <= _MAX_TITLE_CHARACTERS
            and title.text[-1] not in ".!?"
        ):
            blocks[index] = Paragraph(title.text, Kind.HEADING)


def _title_line(paragraphs: Sequence[str]) -> str:
    """The first line if it looks like a title: short, and not a sentence."""
    if len(paragraphs) < 2:
        return ""
    first = paragraphs[0]
    is_short = len(first) <= _MAX_TITLE_CHARACTERS and any(map(str.isalpha, first))
    if not is_short or _is_heading(first) or first[-1] in '.!?…,;:"”’»)-—–*':
        return ""
    return furniture.title_of_book(first)


def _without_licence(text: str) -> tuple[str, dict[str, str]]:
    """The text of the book, and the fields of the header before it (`Title: …`)."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    start = furniture.START_MARK.search(text)
    header, body = (text[: start.start()], text[start.end() :]) if start else _split_header(text)
    if end := furniture.END_MARK.search(body):
        body = body[: end.start()]
    if start:
        body = _without_credits(body)
    return body, {name: visible(value) for name, value in _HEADER_FIELD.findall(header)}


def _split_header(text: str) -> tuple[str, str]:
    """The lines `Title: …` at the start of a text, and the text after them."""
    header, _, body = text.lstrip("\n").partition("\n\n")
    lines = header.split("\n")
    has_title = len(header) < _MAX_HEADER_CHARACTERS and re.search(r"^Title:", header, re.M)
    return (header, body) if has_title and all(map(_HEADER_LINE.match, lines)) else ("", text)


def _without_credits(body: str) -> str:
    """Removes the paragraphs that credit the makers of the file."""
    for _ in range(furniture.MAX_CREDITS):
        paragraph, _, following = body.lstrip("\n ").partition("\n\n")
        if not furniture.CREDITS_LINE.match(paragraph):
            break
        body = following
    return body


def _without_note_marks(paragraph: Paragraph) -> Paragraph:
    """Marks a footnote, `[Footnote 1: …]`, or removes references to footnotes."""
    if note := _NOTE_BEGINNING.match(paragraph.text):
        return Paragraph(paragraph.text[note.end() :].removesuffix("]"), Kind.FOOTNOTE)
    return Paragraph(_NOTE_MARK.sub("", paragraph.text), paragraph.kind)


def _text_paragraphs(text: str, language: str) -> Iterator[str]:
    lines, join_lines = text.split("\n"), joiner(text, language)
    lengths = [len(line) for line in lines if line.strip()]
    # In a text with long lines and without blank ones, each line is a paragraph.
    has_line_paragraphs = len(lengths) == len(lines) and sum(lengths) > _MIN_PARAGRAPH_CHARACTERS * len(
        lengths
    )
    paragraph: list[str] = []
    for line in lines:
        if paragraph and (has_line_paragraphs or not line.strip()):
            yield from _readable_text(join_lines(paragraph))
            paragraph = []
        if line.strip():
            paragraph.append(line)
    yield from _readable_text(join_lines(paragraph))


def _readable_text(paragraph: str) -> Iterator[str]:
    """The paragraph without page marks and note numbers, unless nothing remains."""
    if text := visible(furniture.without_page_marks(with_meaning(paragraph))):
        yield text


def _is_heading(text: str) -> bool:
    return len(text) <= _MAX_TITLE_CHARACTERS and bool(_HEADING_LINE.fullmatch(text))


def read_markdown(name: str, text: str) -> Book:
    """Reads Markdown: headings down to those of chapters begin chapters; code is left out. name:
    the title if the text lacks one."""
    text = text.replace("\r\n", "\n")
    fields, body = _front_matter(text)
    blocks = list(_markdown_blocks(body))
    top_headings = [paragraph.text for level, paragraph in blocks if level == 1]
    title = fields.get("title") or (top_headings[0] if len(top_headings) == 1 else name)
    headings = [(level, paragraph.text) for level, paragraph in blocks if paragraph.kind is Kind.HEADING]
    max_level = chapter_level(headings) if headings else 0
    paragraphs = (
        (
            paragraph
            if level <= max_level or paragraph.kind is not Kind.HEADING
            else Paragraph(paragraph.text, Kind.TEXT)
        )
        for level, paragraph in blocks
    )
    language = code_of(fields.get("language", fields.get("lang", "")))
    return Book(title, fields.get("author", ""), language, chapters_of(paragraphs, title))


def _front_matter(text: str) -> tuple[dict[str, str], str]:
    match = _FRONT_MATTER.match(text)
    if match is None:
        return {}, text
    sign = "=" if match["yaml"] is None else ":"
    lines = re.findall(rf"^(\w+)\s*{sign}\s*(.+)$", match["yaml"] or match[2] or "", re.M)
    return {key.lower(): value.strip(" \"'") for key, value in lines}, text[match.end() :]


def _markdown_blocks(text: str) -> Iterator[tuple[int, Paragraph]]:
    """(the level of a heading, or `_NO_HEADING`; the paragraph)."""
    paragraph: list[str] = []
    for line in [*markdown.prose_lines(text), ""]:
        if paragraph and markdown.SETEXT.match(line):
            yield from _block(paragraph, 1 if "=" in line else 2, Kind.HEADING)
            paragraph = []
            continue
        block = _line_block(line)
        if block is not None or not line.strip() or markdown.ITEM.match(line):
            yield from _block(paragraph, _NO_HEADING, Kind.TEXT)
            paragraph = []
        if block is not None:
            yield from _block(*block)
        elif line.strip():
            paragraph.append(markdown.ITEM.sub("", line))


def _line_block(line: str) -> tuple[list[str], int, Kind] | None:
    """A line that is a block by itself: heading, rule, footnote or table row."""
    if heading := markdown.heading_of(line):
        return [heading[1]], heading[0], Kind.HEADING
    if note := markdown.NOTE.match(line):
        return [note[2]], _NO_HEADING, Kind.FOOTNOTE
    if markdown.RULE.match(line) or markdown.TABLE_RULE.match(line):
        return [], _NO_HEADING, Kind.TEXT
    if line.count("|") > 1:
        return [markdown.row_of(line)], _NO_HEADING, Kind.TABLE
    return None


def _block(lines: list[str], level: int, kind: Kind) -> Iterator[tuple[int, Paragraph]]:
    if text := visible(markdown.without_marks(" ".join(lines))):
        yield level, Paragraph(text, kind)


def chapters_of(paragraphs: Iterable[Paragraph], title: str) -> list[Chapter]:
    """Chapters that begin at their headings; consecutive headings begin one chapter."""
    chapters: list[tuple[str, list[Paragraph]]] = []
    for paragraph in paragraphs:
        is_heading = paragraph.kind is Kind.HEADING
        if is_heading and chapters and chapters[-1][1][-1].kind is Kind.HEADING:
            title_above, headings = chapters[-1]
            chapters[-1] = (joined_titles(title_above, paragraph.text), headings)
        elif is_heading or not chapters:
            chapters.append((paragraph.text if is_heading else title, []))
        chapters[-1][1].append(paragraph)
    return [Chapter(name, content, reason_to_skip(name)) for name, content in chapters]
