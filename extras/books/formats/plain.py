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

_ALONE = (
    "prologue|epilogue|introduction|preface|foreword|afterword|vorwort|nachwort|einleitung|préface|"
    "épilogue|prólogo|epílogo|introducción|introdução|prefazione|prologo|epilogo|пролог|эпилог"
)
_HEADING_LINE = re.compile(
    rf"(?:{NUMBERED})\.?\s+{NUMBER}(?:\s*[.:,—–-].{{0,60}})?|(?:{_ALONE})[.:]?|[IVXLC]{{1,7}}\.?"
    r"|\d{1,3}\.?",
    re.I,
)
# A line with the number of a chapter, above the line of its title.
_TITLE_BELOW = re.compile(
    rf"(?<=\n)((?:{NUMBERED})[ ]+{NUMBER})\.?\n[ ]*(\S.{{0,58}}[^\s.!?,;])(?=\n[ ]*\n)", re.I
)
# A value may continue in indented lines.
_FACT = re.compile(r"^(Title|Author|Language):[ \t]*(\S.*(?:\n[ \t]+\S.*){0,5})$", re.M)
_FACT_LINE = re.compile(r"[A-Z][\w ]{2,30}:\s|\s+\S")
_PICTURE = re.compile(r"\[(?:Illustration|Image|Abbildung)\b[^\[\]]*+\]", re.I)
_UNDERSCORED = re.compile(r"(?<!\w)_([^_\n]{1,400})_(?!\w)")
_NOTE_TEXT = re.compile(r"\[(?:Footnote|Fußnote|Note)\s+\w{1,4}\s*:\s*", re.I)
_NOTE_MARK = re.compile(r"\s?\[(?:\d{1,3}|[A-Z*])\]")
# YAML between lines of ---, or TOML between lines of +++.
_FRONT_MATTER = re.compile(
    r"(?:---\n(?P<yaml>.{0,10000}?)\n(?:---|\.\.\.)|\+\+\+\n(.{0,10000}?)\n\+\+\+)\n", re.S
)
_LONG_LINE = 100
# Characters.
_LONGEST_TITLE, _LONGEST_HEAD = 80, 2_000


def read_text(name: str, text: str) -> Book:
    """Reads plain text: blank lines divide paragraphs, and a short line such as "Chapter 2" begins
    a chapter. Project Gutenberg's licence is left out. name: the title if the text lacks one."""
    body, facts = _without_licence(_PICTURE.sub(" ", text))
    body = _TITLE_BELOW.sub(r"\1. \2", body)
    language = code_of(facts.get("Language", ""))
    texts = list(_text_paragraphs(body, language))
    blocks = [
        Paragraph(_UNDERSCORED.sub(r"\1", paragraph), Kind.HEADING if _is_heading(paragraph) else Kind.TEXT)
        for paragraph in texts
    ]
    _mark_names_of_parts(blocks)
    title = facts.get("Title") or _title_line(texts)
    if title and blocks and blocks[0].text == _UNDERSCORED.sub(r"\1", title):
        blocks[0] = Paragraph(blocks[0].text, Kind.HEADING)
    title = title or name
    notes = any(map(_NOTE_TEXT.match, texts))
    paragraphs = [_without_notes(block) for block in blocks] if notes else blocks
    return Book(title, facts.get("Author", ""), language, chapters_of(paragraphs, title))


def _mark_names_of_parts(blocks: list[Paragraph]) -> None:
    """Makes the name between the number of a part and its first chapter a heading."""
    for row in range(1, len(blocks) - 1):
        part, name, chapter = blocks[row - 1 : row + 2]
        if (
            part.kind is chapter.kind is Kind.HEADING
            and is_part(part.text)
            and len(name.text) <= _LONGEST_TITLE
            and name.text[-1] not in ".!?"
        ):
            blocks[row] = Paragraph(name.text, Kind.HEADING)


def _title_line(paragraphs: Sequence[str]) -> str:
    """The first line if it looks like a title: short, and not a sentence."""
    if len(paragraphs) < 2:
        return ""
    first = paragraphs[0]
    short = len(first) <= _LONGEST_TITLE and any(map(str.isalpha, first))
    if not short or _is_heading(first) or first[-1] in '.!?…,;:"”’»)-—–*':
        return ""
    return furniture.own_title(first)


def _without_licence(text: str) -> tuple[str, dict[str, str]]:
    """The text of the book, and the facts before it (`Title: …`)."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    start = furniture.START.search(text)
    head, body = (text[: start.start()], text[start.end() :]) if start else _head_of(text)
    if end := furniture.END.search(body):
        body = body[: end.start()]
    if start:
        body = _without_credits(body)
    return body, {name: visible(value) for name, value in _FACT.findall(head)}


def _head_of(text: str) -> tuple[str, str]:
    """The lines `Title: …` at the start of a text, and the rest."""
    head, _, body = text.lstrip("\n").partition("\n\n")
    lines = head.split("\n")
    titled = len(head) < _LONGEST_HEAD and re.search(r"^Title:", head, re.M)
    return (head, body) if titled and all(map(_FACT_LINE.match, lines)) else ("", text)


def _without_credits(body: str) -> str:
    """Removes the paragraphs that credit the makers of the file."""
    for _ in range(furniture.MAX_CREDITS):
        first, _, rest = body.lstrip("\n ").partition("\n\n")
        if not furniture.CREDITS.match(first):
            break
        body = rest
    return body


def _without_notes(paragraph: Paragraph) -> Paragraph:
    """Marks a footnote, `[Footnote 1: …]`, or removes references to footnotes."""
    if note := _NOTE_TEXT.match(paragraph.text):
        return Paragraph(paragraph.text[note.end() :].removesuffix("]"), Kind.FOOTNOTE)
    return Paragraph(_NOTE_MARK.sub("", paragraph.text), paragraph.kind)


def _text_paragraphs(text: str, language: str) -> Iterator[str]:
    lines, joined = text.split("\n"), joiner(text, language)
    full = [len(line) for line in lines if line.strip()]
    # In a text with long lines and without blank ones, each line is a paragraph.
    alone = len(full) == len(lines) and sum(full) > _LONG_LINE * len(full)
    lines_held: list[str] = []
    for line in lines:
        if lines_held and (alone or not line.strip()):
            yield from _read(joined(lines_held))
            lines_held = []
        if line.strip():
            lines_held.append(line)
    yield from _read(joined(lines_held))


def _read(paragraph: str) -> Iterator[str]:
    if text := visible(furniture.without_page_marks(with_meaning(paragraph))):
        yield text


def _is_heading(text: str) -> bool:
    return len(text) <= 80 and bool(_HEADING_LINE.fullmatch(text))


def read_markdown(name: str, text: str) -> Book:
    """Reads Markdown: headings down to those of chapters begin chapters; code is left out. name:
    the title if the text lacks one."""
    text = text.replace("\r\n", "\n")
    facts, body = _front_matter(text)
    blocks = list(_markdown_blocks(body))
    heads = [block for block in blocks if block[0] == 1]
    title = facts.get("title") or (heads[0][1].text if len(heads) == 1 else name)
    headings = [(level, paragraph.text) for level, paragraph in blocks if paragraph.kind is Kind.HEADING]
    most = chapter_level(headings) if headings else 0
    paragraphs = (
        (
            paragraph
            if level <= most or paragraph.kind is not Kind.HEADING
            else Paragraph(paragraph.text, Kind.TEXT)
        )
        for level, paragraph in blocks
    )
    language = code_of(facts.get("language", facts.get("lang", "")))
    return Book(title, facts.get("author", ""), language, chapters_of(paragraphs, title))


def _front_matter(text: str) -> tuple[dict[str, str], str]:
    match = _FRONT_MATTER.match(text)
    if match is None:
        return {}, text
    sign = "=" if match["yaml"] is None else ":"
    lines = re.findall(rf"^(\w+)\s*{sign}\s*(.+)$", match["yaml"] or match[2] or "", re.M)
    return {key.lower(): value.strip(" \"'") for key, value in lines}, text[match.end() :]


def _markdown_blocks(text: str) -> Iterator[tuple[int, Paragraph]]:
    """(the level of a heading, or 9; the paragraph)."""
    lines_held: list[str] = []
    for line in [*markdown.prose_lines(text), ""]:
        under = markdown.SETEXT.match(line) if lines_held else None
        if under:
            yield from _block(lines_held, 1 if "=" in line else 2, Kind.HEADING)
            lines_held = []
            continue
        block = _own_line(line)
        if block is not None or not line.strip() or markdown.ITEM.match(line):
            yield from _block(lines_held, 9, Kind.TEXT)
            lines_held = []
        if block is not None:
            yield from _block(*block)
        elif line.strip():
            lines_held.append(markdown.ITEM.sub("", line))


def _own_line(line: str) -> tuple[list[str], int, Kind] | None:
    """A line that is a block by itself: heading, rule, footnote or table row."""
    if heading := markdown.heading_of(line):
        return [heading[1]], heading[0], Kind.HEADING
    if note := markdown.NOTE.match(line):
        return [note[2]], 9, Kind.FOOTNOTE
    if markdown.RULE.match(line) or markdown.TABLE_RULE.match(line):
        return [], 9, Kind.TEXT
    if line.count("|") > 1:
        return [markdown.row_of(line)], 9, Kind.TABLE
    return None


def _block(lines: list[str], level: int, kind: Kind) -> Iterator[tuple[int, Paragraph]]:
    if text := visible(markdown.without_marks(" ".join(lines))):
        yield level, Paragraph(text, kind)


def chapters_of(paragraphs: Iterable[Paragraph], title: str) -> list[Chapter]:
    """Chapters that begin at their headings; consecutive headings begin one chapter."""
    chapters: list[tuple[str, list[Paragraph]]] = []
    for paragraph in paragraphs:
        new = paragraph.kind is Kind.HEADING
        if new and chapters and chapters[-1][1][-1].kind is Kind.HEADING:
            begun, held = chapters[-1]
            chapters[-1] = (joined_titles(begun, paragraph.text), held)
        elif new or not chapters:
            chapters.append((paragraph.text if new else title, []))
        chapters[-1][1].append(paragraph)
    return [Chapter(name, held, reason_to_skip(name)) for name, held in chapters]
