"""Recognises page furniture in a book's markup: page numbers, headers, notes, licence, contents.

Books mark it by class, id, `epub:type` or `role`, with various names. Sources: EPUB's
structural semantics (https://www.w3.org/TR/epub-ssv-11), DPUB-ARIA, Standard Ebooks' manual, and
Project Gutenberg's ebookmaker with the classes of Distributed Proofreaders.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from extras.books.book import reason_to_skip
from xtts.text.pronunciations import is_known

# Names without hyphens and underscores, in lower case.
_PAGE_NUMBER_NAMES = frozenset(
    "pagenum pageno pagenumber pagen pgnum pgno pageref folionum foliono folio xebookmakerpageno "
    "pagebreak pagemarker pagemark numpage pagenr seitenzahl seitennummer paginanummer "
    "numeropagina numerodepagina númeropágina numéropage".split()
)
# These may also name a page of text or a paragraph, so the text must look like a number.
_POSSIBLE_PAGE_NUMBER_CLASSES = frozenset(
    ("page", "pg", "pb", "pn", "seite", "pagina", "página", "ocrpage", "calibrepb")
)
_PAGE_ID = re.compile(r"(?:page|pg|pb)(?:\d{1,4}|[ivxlc]{1,6})")
_PAGE_LINK_ID = re.compile(r"(?:page|pg|pb|p)(?:\d{1,4}|[ivxlc]{1,6})")
_UNREAD_NAMES = frozenset(
    "noteref fnanchor footnoteref footnotereference msofootnotereference fnref endnoteref "
    "footnoteanchor noteanchor footnotelink notelink footnoteback backlink noteback returnlink "
    "versenum versenumber versenr verseno "
    "linenum linenumber lineno linenr lnum runninghead runninghdr runhead runningheader "
    "runningfooter runningfoot pageheader pagefooter catchword sigmark pagelist navigation "
    "navbar navlinks navlink chapnav pagenav prevnext backtotop returntotop gototoc "
    "xebookmakerdrop transnote transcribernote transcribersnote transcribersnotes tnote tnotes "
    "visuallyhidden sronly".split()
)
_NOTE_NAMES = frozenset(
    "footnote footnotes footnotetext msofootnotetext endnote endnotes endnotetext rearnote "
    "rearnotes fnote fnotes notetx notetext notepara sidenote sidenotes marginnote marginalnote "
    "marginalia".split()
)
_NOTE_ID = re.compile(
    r"(?:foot|end|rear)note[-_.:]?[a-z0-9]{1,4}(?:[-_]\d{1,4})*"
    r"|(?:note|fn|ftn|edn)[-_.:]?\d{1,4}(?:[-_]\d{1,4})*",
    re.I,
)
# By class or id; for `epub:type` and `role` see `extras.books.book.reason_to_skip`.
_REASONS_BY_NAME = {
    "titlepage": "title page",
    "halftitlepage": "title page",
    "halftitle": "title page",
    "copyright": "copyright",
    "copyrightpage": "copyright",
    "uncopyright": "copyright",
    "imprint": "copyright",
    "colophon": "copyright",
    "toc": "contents",
    "tableofcontents": "contents",
    "loi": "list of illustrations",
    **dict.fromkeys(
        ("pgheader", "pgfooter", "pgboilerplate", "pgmachineheader", "pgstartseparator", "pgendseparator"),
        "licence",
    ),
}
_DROP_CAP_CLASS = re.compile(
    r"(?:\w*(?:drop|ill|illuminated|big|large|init|decorative|ornate|decorated)caps?"
    r"|lettrine|letra|versal|(?:first|initial|drop)letter|initial|cap|drop|dropc)\d*"
)
_RAISED_CLASSES = frozenset(("sup", "super", "superscript", "exponent"))
_LOWERED_CLASSES = frozenset(("sub", "subscript", "inferior"))
_SHIFT_STYLE = re.compile(r"vertical-align\s*:\s*(super|sub)\b", re.I)
# Drop caps.
_DROP_CAP_STYLE = re.compile(
    r"float\s*:\s*left.{0,200}font-size|font-size.{0,200}float\s*:\s*left|initial-letter", re.I | re.S
)
_NOTE_MARK_TAGS = frozenset(("a", "sup", "sub"))
_HEADING_TAGS = frozenset(f"h{level}" for level in range(1, 7))
_INVISIBLE_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.I)


class PageNumber(Enum):
    """Whether an element is a page number. PERHAPS: only if its text looks like one."""

    NO = 0
    PERHAPS = 1
    YES = 2


@dataclass(frozen=True)
class Furniture:
    """The role of an element, by its names. left_out: why its text is not read aloud, or ""."""

    is_unread: bool = False
    is_note: bool = False
    page_number: PageNumber = PageNumber.NO
    left_out: str = ""
    is_drop_cap: bool = False
    is_raised: bool = False
    is_lowered: bool = False


NO_FURNITURE = Furniture()
_NAMING_ATTRIBUTES = frozenset(("class", "id", "name", "epub:type", "role", "style", "hidden", "aria-hidden"))


def furniture_of(tag: str, attributes: Mapping[str, str]) -> Furniture:
    """The role of an element, by its tag and its attributes (names in lower case)."""
    if tag != "nav" and _NAMING_ATTRIBUTES.isdisjoint(attributes):
        return NO_FURNITURE
    classes = _plain_names(attributes.get("class", ""))
    identity = attributes.get("id") or (attributes.get("name", "") if tag == "a" else "")
    types = _plain_names(f"{attributes.get('epub:type', '')} {attributes.get('role', '')}")
    # Calibre and Kindle's tools append numbers to classes: pagenum1.
    classes += [base for name in classes if (base := name.rstrip("0123456789")) != name]
    own_names = {*classes, *_plain_names(identity)}
    names = {*own_names, *types}
    is_note = not names.isdisjoint(_NOTE_NAMES)
    is_note_reference = tag in _NOTE_MARK_TAGS and is_note and not attributes.get("epub:type")
    reason = ""
    if tag not in _HEADING_TAGS:
        reason = _first_reason(_REASONS_BY_NAME.get(name, "") for name in own_names)
        reason = reason or ("index" if "index" in classes else "")
    reason = reason or _first_reason(reason_to_skip(name) for name in types)
    is_navigation = tag == "nav" and not reason
    style = attributes.get("style", "")
    shift = _SHIFT_STYLE.search(style)
    direction = shift[1].lower() if shift else ""
    return Furniture(
        is_unread=not names.isdisjoint(_UNREAD_NAMES)
        or "pagebreak" in types
        or is_note_reference
        or is_navigation
        or _is_hidden(attributes),
        is_note=is_note or bool(_NOTE_ID.fullmatch(identity.lstrip("_"))),
        page_number=_page_number(tag, classes, identity),
        left_out="" if reason == "notes" else reason,
        is_drop_cap=any(map(_DROP_CAP_CLASS.fullmatch, classes)) or bool(_DROP_CAP_STYLE.search(style)),
        is_raised=direction == "super" or not _RAISED_CLASSES.isdisjoint(classes),
        is_lowered=direction == "sub" or not _LOWERED_CLASSES.isdisjoint(classes),
    )


def _is_hidden(attributes: Mapping[str, str]) -> bool:
    style = attributes.get("style", "")
    return (
        "hidden" in attributes
        or attributes.get("aria-hidden") == "true"
        or bool(style and _INVISIBLE_STYLE.search(style))
    )


def _page_number(tag: str, classes: Sequence[str], identity: str) -> PageNumber:
    ids = _plain_names(identity)
    if not _PAGE_NUMBER_NAMES.isdisjoint([*classes, *ids]):
        return PageNumber.YES
    id_pattern = _PAGE_LINK_ID if tag in ("a", "span") else _PAGE_ID
    is_possible = not _POSSIBLE_PAGE_NUMBER_CLASSES.isdisjoint(classes) or any(map(id_pattern.fullmatch, ids))
    return PageNumber.PERHAPS if is_possible and tag not in _HEADING_TAGS else PageNumber.NO


def _plain_names(names: str) -> list[str]:
    """Names in the form of the tables above."""
    plain = (name.casefold().removeprefix("doc-") for name in names.split())
    return [name.replace("-", "").replace("_", "") for name in plain]


def _first_reason(reasons: Iterable[str]) -> str:
    return next(filter(None, reasons), "")


# Texts

_NUMBER = r"(?:\d{1,4}|[ivxlc]{1,7})"
_PAGE_NUMBER = re.compile(
    rf"\W*(?:(?:pg|page|pag|pág|página|p|s|seite|str)\b\.?\s*)?{_NUMBER}(?:\s*/\s*\d{{1,4}})?\W*", re.I
)
# Longer elements were not closed, or have this name for another reason. ebookmaker's limit is 10.
_MAX_PAGE_NUMBER_CHARACTERS = 30
# Unambiguous marks of pages; "(p. 12)" and "[12]" may belong to the text.
_PAGE_MARK = re.compile(
    rf"\s*(?:\[\s*(?:pg|page)\.?\s*{_NUMBER}\s*\]|\(\s*pg\.?\s*{_NUMBER}\s*\)"
    rf"|\{{\s*(?:(?:pg|page|p)\.?\s*)?(?:\d{{1,4}}|[ivxlc]{{2,7}})\s*\}})(\s*)",
    re.I,
)
_NOTE_MARK = re.compile(
    r"\s*(?:[\[(](?:\d{1,4}|[a-z]{1,2}|[ivxlc]{1,6})[\])]|[*†‡§¶]{1,4}|[↩↑^]\ufe0e?)\s*", re.I
)
_BARE_NOTE_MARK = re.compile(rf"{_NOTE_MARK.pattern}|\s*(?:\d{{1,4}}|[a-z]|[ivx]{{1,5}})\.?\s*", re.I)


def is_page_number(text: str, by_names: PageNumber) -> bool:
    """Whether the text of an element is a page number. by_names: the result by its names."""
    if by_names is PageNumber.YES:
        return len(text) <= _MAX_PAGE_NUMBER_CHARACTERS
    return by_names is PageNumber.PERHAPS and bool(_PAGE_NUMBER.fullmatch(text))


def without_page_marks(text: str) -> str:
    """Removes page marks such as `[Pg 12]` and `{12}` from a text."""
    if "[" not in text and "{" not in text and "(" not in text:
        return text
    return _PAGE_MARK.sub(lambda mark: " " if mark[1] or mark[0][:1].isspace() else "", text)


def is_note_mark(text: str, *, may_be_bare: bool) -> bool:
    """Whether a text refers to a note: `[3]`, `*`. may_be_bare: whether `3` and `b` do, too."""
    return bool((_BARE_NOTE_MARK if may_be_bare else _NOTE_MARK).fullmatch(text))


def names_note(href: str) -> bool:
    """Whether the name of a link's target is that of a note: `#Footnote_3`, `notes.xhtml#fn3`."""
    return bool(_NOTE_ID.fullmatch(href.rpartition("#")[2].lstrip("_")))


# Drop caps. Follows the letter until the rest of the word is known.
DROP_CAP_MARK = "\x01"
# Combining accents and the vowel signs of Indic scripts, which are not letters in Python.
_COMBINING_SIGN = r"(?![\x00-\x7f\u00a0-\u00bf\u060c\u061b\u061f\u0964\u0965\u2000-\u2bff\u3000-\u303f\s])\W"
# Viramas, which join letters into one.
_VIRAMA = "[\u094d\u09cd\u0a4d\u0acd\u0b4d\u0bcd\u0c4d\u0ccd\u0d4d]"
_LETTER = rf"""["“”‘’„«»'¿¡(\[]{{0,2}}[^\W\d_](?:{_COMBINING_SIGN}|(?<={_VIRAMA})[^\W\d_]){{0,8}}"""
_MARKED_DROP_CAP = re.compile(rf"({_LETTER}){DROP_CAP_MARK}(\s*)((?:\w|{_COMBINING_SIGN})*)")
_LETTER_DESCRIPTION = re.compile(
    r"drop|initial|capital|letter|illuminated|ornament|ornate|decorat|majuscule|lettrine|versal", re.I
)
# Words of one letter, and common words that begin with these letters: "A man", but "Around", "It".
_ONE_LETTER_WORDS = frozenset("AI")
_WORDS_FROM_A_AND_I = frozenset(
    "about above across again ago ahead alike alive all alone along also although always am amid "
    "among an and another any apart are around as aside at away i'd i'll i'm i've if in into is it "
    "its it's itself alice anna".split()
)


def letter_of_picture(alt: str, *, is_drop_cap: bool) -> str:
    """The letter that a picture shows, from its alternative text ("W", "Decorative letter W"); ""
    for other pictures. is_drop_cap: whether its names mark a drop cap."""
    text = alt.strip().strip("[]")
    if re.fullmatch(_LETTER, text):
        return text
    letters = re.findall(r"\b[^\W\d_]\b", alt)
    is_described = is_drop_cap or bool(_LETTER_DESCRIPTION.search(alt))
    return letters[-1] if letters and is_described and letters[-1].isupper() else ""


def is_letter(text: str) -> bool:
    """Whether a text is one letter, with or without a quotation mark."""
    return bool(re.fullmatch(_LETTER, text))


def with_drop_caps(text: str) -> str:
    """Joins marked drop caps to their words."""
    return _MARKED_DROP_CAP.sub(lambda match: join_letter(match[1], match[3]) if match[3] else match[0], text)


def join_letter(letter: str, text: str) -> str:
    """Joins a first letter to the text after it, with a space only if the letter is a word."""
    match = re.match(r"[\w’']*", text)
    next_word = match[0].casefold() if match else ""
    may_be_word = letter[-1:] in _ONE_LETTER_WORDS and is_known(next_word)
    if may_be_word and letter[-1:].lower() + next_word.replace("’", "'") not in _WORDS_FROM_A_AND_I:
        return f"{letter} {text}"
    return letter + text


def lacks_first_letter(text: str, has_drop_cap_class: bool, is_picture: bool) -> bool:
    """Whether a paragraph lacks its first letter, because the letter is a separate paragraph.

    Args:
        text: The text of the paragraph.
        has_drop_cap_class: Whether the letter's names mark a drop cap.
        is_picture: Whether the letter is an image.
    """
    word = re.match(r"[^\W\d_]+", text)
    return word is not None and (
        has_drop_cap_class or text[0].islower() or (is_picture and word[0].isupper())
    )


# Project Gutenberg

START_MARK = re.compile(
    r"\*\*\*\s*START OF (?:THE|THIS) PROJECT GUTENBERG(?:[^*]{0,300}\*\*\*|[^\n]*)"
    r"|\*END[ *]*THE SMALL PRINT[^\n]*",
    re.I,
)
END_MARK = re.compile(
    r"\*\*\*\s*END OF (?:THE|THIS) PROJECT GUTENBERG|^[ \t*]*End of (?:the )?Project Gutenberg", re.I | re.M
)
CREDITS_LINE = re.compile(
    r"\W*(?:(?:this (?:e-?book|e-?text) was )?(?:produced|prepared|transcribed|scanned|digitized)"
    r"|e-?text (?:was )?(?:prepared|produced)|html version|updated editions|credits:"
    r"|transcriber.s? notes?\b|note: project gutenberg|images? generously made)",
    re.I,
)
_TITLE_PATTERNS = (
    re.compile(r"(?:The )?Project Gutenberg(?:'s|’s)? (?:e-?(?:book|text) of )?(.+)", re.I | re.S),
    re.compile(r"(.+?)\s*\|\s*Project Gutenberg", re.I | re.S),
)
MAX_CREDITS = 4


def title_of_book(title: str) -> str:
    """The title of a book without "Project Gutenberg" and the author."""
    for pattern in _TITLE_PATTERNS:
        if match := pattern.fullmatch(title.strip()):
            return re.split(r",? by (?=[A-Z])", match[1].rstrip(". "))[0].strip()
    return title


def paragraphs_of_book(texts: Sequence[str]) -> range:
    """The range of paragraphs between Project Gutenberg's marks, without its credits."""
    start = next((index for index, text in enumerate(texts) if START_MARK.search(text)), None)
    first = 0 if start is None else start + 1
    end = next((index for index in range(first, len(texts)) if END_MARK.search(texts[index])), len(texts))
    if start is not None:
        while first < min(end, start + 1 + MAX_CREDITS) and CREDITS_LINE.match(texts[first]):
            first += 1
    return range(first, end)
