"""Recognises the titles of chapters and of parts, which hold chapters.

A part has chapters below it: `# PART ONE` and `## Chapter 1`. Its chapters are read as chapters,
and its own title, with no text below, belongs to the first of them.
"""

import re
from collections.abc import Sequence

from extras.books.book import MAX_TITLE_CHARACTERS

_PARTS = (
    "part|book|volume|vol|teil|buch|band|partie|livre|tome|parte|libro|livro|volumen|tomo|deel|boek|"
    "część|księga|tom|část|kniha|díl|rész|kötet|bölüm|kısım|kitap|cilt|часть|книга|том"
)
_CHAPTERS = (
    "chapter|chap|ch|story|letter|kapitel|chapitre|capítulo|capitulo|capitolo|hoofdstuk|rozdział|"
    "kapitola|fejezet|глава"
)
NUMBER = (
    r"(?:\d{1,3}|[IVXLC]{1,7}|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
    r"|the \w{3,12}|premi[eè]re?|primer[oa]|primeir[oa]|prim[oa]|eins|uno)"
)
NUMBERED = f"{_PARTS}|act|{_CHAPTERS}"
_ORDINALS = (
    r"(?:first|second|third|fourth|fifth|sixth|erste[rs]?|zweite[rs]?|dritte[rs]?|vierte[rs]?|premi[eè]re?|"
    r"deuxième|seconde?|troisième|primer[oa]?|segund[oa]|tercer[oa]?|primeir[oa]|terceir[oa]|prim[oa]|"
    r"second[oa]|terz[oa]|\d{1,2}\.)"
)
_END = r"(?=$|[\s.:,;–—-])"
_IS_PART = re.compile(rf"(?:(?:{_PARTS})\.?\s+{NUMBER}|{_ORDINALS}\s+(?:{_PARTS})){_END}", re.I)
_IS_CHAPTER = re.compile(
    rf"(?:(?:{_CHAPTERS})\.?\s+{NUMBER}|{_ORDINALS}\s+(?:{_CHAPTERS})){_END}|第.{{1,6}}[章回话話]", re.I
)


def is_part(title: str) -> bool:
    """Whether a title is that of a part by its words, such as "Part One: The Shop" or "Vol. 2"."""
    return bool(_IS_PART.match(title.strip()))


def is_chapter(title: str) -> bool:
    """Whether a title is that of a chapter by its words, such as "Chapter 3" or "Kapitel IV"."""
    return bool(_IS_CHAPTER.match(title.strip()))


def holds_chapters(title: str, below: Sequence[str]) -> bool:
    """Whether a title is that of a part. below: the titles one level below it."""
    if not below or is_chapter(title):
        return False
    return is_part(title) or 2 * sum(map(is_chapter, below)) > len(below)


def chapter_level(headings: Sequence[tuple[int, str]]) -> int:
    """The level of a document's chapters. headings: (level, title), at least one.

    A single heading of the highest level is the title of the book. Levels of parts hold the
    chapters.
    """
    levels = sorted({level for level, _ in headings})
    counts = {depth: sum(level == depth for level, _ in headings) for depth in levels}
    if counts[levels[0]] == 1 and len(levels) > 1:
        levels = levels[1:]
    while len(levels) > 1:
        below = _titles_below(headings, *levels[:2])
        holding = [title for title, titles in below if holds_chapters(title, titles)]
        if 2 * len(holding) <= len([titles for _, titles in below if titles]):
            break
        levels = levels[1:]
    return levels[0]


def _titles_below(headings: Sequence[tuple[int, str]], level: int, lower: int) -> list[tuple[str, list[str]]]:
    """The titles of a level, with those of the lower level below each."""
    sections = list[tuple[str, list[str]]]()
    for depth, title in headings:
        if depth == level:
            sections.append((title, []))
        elif depth == lower and sections:
            sections[-1][1].append(title)
    return sections


def joined_titles(*titles: str) -> str:
    """The title of a chapter that begins with several headings."""
    return " ".join(filter(None, titles))[:MAX_TITLE_CHARACTERS]
