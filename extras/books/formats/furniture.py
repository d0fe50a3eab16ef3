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
_PAGE = frozenset(
    "pagenum pageno pagenumber pagen pgnum pgno pageref folionum foliono folio xebookmakerpageno "
    "pagebreak pagemarker pagemark numpage pagenr seitenzahl seitennummer paginanummer "
    "numeropagina numerodepagina númeropágina numéropage".split()
)
# These may also name a page of text or a paragraph, so the text must look like a number.
_PAGE_CLASSES = frozenset(("page", "pg", "pb", "pn", "seite", "pagina", "página", "ocrpage", "calibrepb"))
_PAGE_ID = re.compile(r"(?:page|pg|pb)(?:\d{1,4}|[ivxlc]{1,6})")
_PAGE_LINK_ID = re.compile(r"(?:page|pg|pb|p)(?:\d{1,4}|[ivxlc]{1,6})")
_UNREAD = frozenset(
    "noteref fnanchor footnoteref footnotereference msofootnotereference fnref endnoteref "
    "footnoteanchor noteanchor footnotelink notelink footnoteback backlink noteback returnlink "
    "versenum versenumber versenr verseno "
    "linenum linenumber lineno linenr lnum runninghead runninghdr runhead runningheader "
    "runningfooter runningfoot pageheader pagefooter catchword sigmark pagelist navigation "
    "navbar navlinks navlink chapnav pagenav prevnext backtotop returntotop gototoc "
    "xebookmakerdrop transnote transcribernote transcribersnote transcribersnotes tnote tnotes "
    "visuallyhidden sronly".split()
)
_NOTES = frozenset(
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
_LEFT_OUT = {
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
_DROP_CAP = re.compile(
    r"(?:\w*(?:drop|ill|illuminated|big|large|init|decorative|ornate|decorated)caps?"
    r"|lettrine|letra|versal|(?:first|initial|drop)letter|initial|cap|drop|dropc)\d*"
)
_RAISED = frozenset(("sup", "super", "superscript", "exponent"))
_LOWERED = frozenset(("sub", "subscript", "inferior"))
_SHIFT = re.compile(r"vertical-align\s*:\s*(super|sub)\b", re.I)
# Drop caps.
_DROP_CAP_STYLE = re.compile(
    r"float\s*:\s*left.{0,200}font-size|font-size.{0,200}float\s*:\s*left|initial-letter", re.I | re.S
)
_INLINE_MARKS = frozenset(("a", "sup", "sub"))
_HEADINGS = frozenset(f"h{level}" for level in range(1, 7))
_INVISIBLE_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.I)


class PageNumber(Enum):
    """Whether an element is a page number. PERHAPS: only if its text looks like one."""

    NO = 0
    PERHAPS = 1
    YES = 2


@dataclass(frozen=True)
class Furniture:
    """The role of an element, by its names. left_out: why its text is not read aloud, or ""."""

    unread: bool = False
    note: bool = False
    page_number: PageNumber = PageNumber.NO
    left_out: str = ""
    drop_cap: bool = False
    raised: bool = False
    lowered: bool = False


NOTHING = Furniture()
_NAMING = frozenset(("class", "id", "name", "epub:type", "role", "style", "hidden", "aria-hidden"))


def furniture_of(tag: str, attributes: Mapping[str, str]) -> Furniture:
    """The role of an element, by its tag and its attributes (names in lower case)."""
    if tag != "nav" and _NAMING.isdisjoint(attributes):
        return NOTHING
    classes = _plain(attributes.get("class", ""))
    identity = attributes.get("id") or (attributes.get("name", "") if tag == "a" else "")
    types = _plain(f"{attributes.get('epub:type', '')} {attributes.get('role', '')}")
    # Calibre and Kindle's tools append numbers to classes: pagenum1.
    classes += [plain for name in classes if (plain := name.rstrip("0123456789")) != name]
    given = {*classes, *_plain(identity)}
    names = {*given, *types}
    reference = tag in _INLINE_MARKS and bool(names & _NOTES) and not attributes.get("epub:type")
    reason = "" if tag in _HEADINGS else _first(_LEFT_OUT.get(name, "") for name in given)
    if "index" in classes and tag not in _HEADINGS:
        reason = reason or "index"
    reason = reason or _first(reason_to_skip(name) for name in types)
    navigation = tag == "nav" and not reason
    shift = _SHIFT.search(attributes.get("style", ""))
    shifted = shift[1].lower() if shift else ""
    return Furniture(
        unread=bool(names & _UNREAD)
        or "pagebreak" in types
        or reference
        or navigation
        or _is_hidden(attributes),
        note=bool(names & _NOTES) or bool(_NOTE_ID.fullmatch(identity.lstrip("_"))),
        page_number=_page_number(tag, classes, identity),
        left_out="" if reason == "notes" else reason,
        drop_cap=any(map(_DROP_CAP.fullmatch, classes))
        or bool(_DROP_CAP_STYLE.search(attributes.get("style", ""))),
        raised=shifted == "super" or not _RAISED.isdisjoint(classes),
        lowered=shifted == "sub" or not _LOWERED.isdisjoint(classes),
    )


def _is_hidden(attributes: Mapping[str, str]) -> bool:
    style = attributes.get("style", "")
    return (
        "hidden" in attributes
        or attributes.get("aria-hidden") == "true"
        or bool(style and _INVISIBLE_STYLE.search(style))
    )


def _page_number(tag: str, classes: Sequence[str], identity: str) -> PageNumber:
    named = _plain(identity)
    if not _PAGE.isdisjoint([*classes, *named]):
        return PageNumber.YES
    id_of_page = _PAGE_LINK_ID if tag in ("a", "span") else _PAGE_ID
    perhaps = not _PAGE_CLASSES.isdisjoint(classes) or any(map(id_of_page.fullmatch, named))
    return PageNumber.PERHAPS if perhaps and tag not in _HEADINGS else PageNumber.NO


def _plain(names: str) -> list[str]:
    plain = (name.casefold().removeprefix("doc-") for name in names.split())
    return [name.replace("-", "").replace("_", "") for name in plain]


def _first(reasons: Iterable[str]) -> str:
    return next(filter(None, reasons), "")


# Texts

_NUMBER = r"(?:\d{1,4}|[ivxlc]{1,7})"
_PAGE_NUMBER = re.compile(
    rf"\W*(?:(?:pg|page|pag|pág|página|p|s|seite|str)\b\.?\s*)?{_NUMBER}(?:\s*/\s*\d{{1,4}})?\W*", re.I
)
# The limit of a page number. Longer elements were not closed, or are named so for another reason.
# ebookmaker's limit is 10.
_LONGEST_PAGE_NUMBER = 30
# Unambiguous marks of pages; "(p. 12)" and "[12]" may belong to the text.
_PAGE_MARK = re.compile(
    rf"\s*(?:\[\s*(?:pg|page)\.?\s*{_NUMBER}\s*\]|\(\s*pg\.?\s*{_NUMBER}\s*\)"
    rf"|\{{\s*(?:(?:pg|page|p)\.?\s*)?(?:\d{{1,4}}|[ivxlc]{{2,7}})\s*\}})(\s*)",
    re.I,
)
_NOTE_MARK = re.compile(
    r"\s*(?:[\[(](?:\d{1,4}|[a-z]{1,2}|[ivxlc]{1,6})[\])]|[*†‡§¶]{1,4}|[↩↑^]\ufe0e?)\s*", re.I
)
_PLAIN_NOTE_MARK = re.compile(rf"{_NOTE_MARK.pattern}|\s*(?:\d{{1,4}}|[a-z]|[ivx]{{1,5}})\.?\s*", re.I)


def is_page_number(text: str, named: PageNumber) -> bool:
    """Whether the text of an element is a page number. named: the result by its names."""
    if named is PageNumber.YES:
        return len(text) <= _LONGEST_PAGE_NUMBER
    return named is PageNumber.PERHAPS and bool(_PAGE_NUMBER.fullmatch(text))


def without_page_marks(text: str) -> str:
    """Removes page marks such as `[Pg 12]` and `{12}` from a text."""
    if "[" not in text and "{" not in text and "(" not in text:
        return text
    return _PAGE_MARK.sub(lambda mark: " " if mark[1] or mark[0][:1].isspace() else "", text)


def is_note_mark(text: str, *, plain: bool) -> bool:
    """Whether a text refers to a note: `[3]`, `*`. plain: accepts `3` and `b` too."""
    return bool((_PLAIN_NOTE_MARK if plain else _NOTE_MARK).fullmatch(text))


def names_note(href: str) -> bool:
    """Whether the name of a link's target is that of a note: `#Footnote_3`, `notes.xhtml#fn3`."""
    return bool(_NOTE_ID.fullmatch(href.rpartition("#")[2].lstrip("_")))


# Drop caps. Follows the letter until the rest of the word is known.
DROP_CAP_MARK = "\x01"
# Combining accents and the vowel signs of Indic scripts, which are not letters in Python.
_SIGN = r"(?![\x00-\x7f\u00a0-\u00bf\u060c\u061b\u061f\u0964\u0965\u2000-\u2bff\u3000-\u303f\s])\W"
# Viramas, which join letters into one.
_JOINT = "[\u094d\u09cd\u0a4d\u0acd\u0b4d\u0bcd\u0c4d\u0ccd\u0d4d]"
_LETTER = rf"""["“”‘’„«»'¿¡(\[]{{0,2}}[^\W\d_](?:{_SIGN}|(?<={_JOINT})[^\W\d_]){{0,8}}"""
_MARKED = re.compile(rf"({_LETTER}){DROP_CAP_MARK}(\s*)((?:\w|{_SIGN})*)")
_DESCRIBED = re.compile(
    r"drop|initial|capital|letter|illuminated|ornament|ornate|decorat|majuscule|lettrine|versal", re.I
)
# Words of one letter, and common words that begin with these letters: "A man", but "Around", "It".
_ONE_LETTER_WORDS = frozenset("AI")
_BEGUN = frozenset(
    "about above across again ago ahead alike alive all alone along also although always am amid "
    "among an and another any apart are around as aside at away i'd i'll i'm i've if in into is it "
    "its it's itself alice anna".split()
)


def letter_of(alt: str, *, named: bool) -> str:
    """The letter that a picture shows, from its alternative text ("W", "Decorative letter W"); ""
    for other pictures. named: whether its names mark a drop cap."""
    plain = alt.strip().strip("[]")
    if re.fullmatch(_LETTER, plain):
        return plain
    letters = re.findall(r"\b[^\W\d_]\b", alt)
    described = named or bool(_DESCRIBED.search(alt))
    return letters[-1] if letters and described and letters[-1].isupper() else ""


def is_letter(text: str) -> bool:
    """Whether a text is one letter, with or without a quotation mark."""
    return bool(re.fullmatch(_LETTER, text))


def with_drop_caps(text: str) -> str:
    """Joins marked drop caps to their words."""
    return _MARKED.sub(lambda match: join(match[1], match[3]) if match[3] else match[0], text)


def join(letter: str, rest: str) -> str:
    """Joins a first letter to the text after it, with a space only if the letter is a word."""
    word = re.match(r"[\w’']*", rest)
    begun = word[0].casefold() if word else ""
    word_of_its_own = letter[-1:] in _ONE_LETTER_WORDS and is_known(begun)
    if word_of_its_own and letter[-1:].lower() + begun.replace("’", "'") not in _BEGUN:
        return f"{letter} {rest}"
    return letter + rest


def continues(text: str, named: bool, picture: bool) -> bool:
    """Whether a paragraph lacks its first letter, because the letter is a separate paragraph.

    Args:
        text: The text of the paragraph.
        named: Whether the letter's names mark a drop cap.
        picture: Whether the letter is an image.
    """
    word = re.match(r"[^\W\d_]+", text)
    return word is not None and (named or text[0].islower() or (picture and word[0].isupper()))


# Project Gutenberg

START = re.compile(
    r"\*\*\*\s*START OF (?:THE|THIS) PROJECT GUTENBERG(?:[^*]{0,300}\*\*\*|[^\n]*)"
    r"|\*END[ *]*THE SMALL PRINT[^\n]*",
    re.I,
)
END = re.compile(
    r"\*\*\*\s*END OF (?:THE|THIS) PROJECT GUTENBERG|^[ \t*]*End of (?:the )?Project Gutenberg", re.I | re.M
)
CREDITS = re.compile(
    r"\W*(?:(?:this (?:e-?book|e-?text) was )?(?:produced|prepared|transcribed|scanned|digitized)"
    r"|e-?text (?:was )?(?:prepared|produced)|html version|updated editions|credits:"
    r"|transcriber.s? notes?\b|note: project gutenberg|images? generously made)",
    re.I,
)
_TITLES = (
    re.compile(r"(?:The )?Project Gutenberg(?:'s|’s)? (?:e-?(?:book|text) of )?(.+)", re.I | re.S),
    re.compile(r"(.+?)\s*\|\s*Project Gutenberg", re.I | re.S),
)
MAX_CREDITS = 4


def own_title(title: str) -> str:
    """The title of a book without "Project Gutenberg" and the author."""
    for pattern in _TITLES:
        if match := pattern.fullmatch(title.strip()):
            return re.split(r",? by (?=[A-Z])", match[1].rstrip(". "))[0].strip()
    return title


def own_paragraphs(texts: Sequence[str]) -> range:
    """The range of paragraphs between Project Gutenberg's marks, without its credits."""
    start = next((place for place, text in enumerate(texts) if START.search(text)), None)
    first = 0 if start is None else start + 1
    end = next((place for place in range(first, len(texts)) if END.search(texts[place])), len(texts))
    if start is not None:
        while first < min(end, start + 1 + MAX_CREDITS) and CREDITS.match(texts[first]):
            first += 1
    return range(first, end)
