"""Divides a chapter into the sentences to speak, without footnotes, and the pauses after them.

Sentences are spoken separately, so that a changed word does not change other sentences. A very
short sentence is joined to its neighbour, because voices speak single words badly.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from extras.books.book import Chapter, Kind
from extras.books.speaking.voice_tags import tag_of, voice_at_end, with_brackets_as_words
from xtts.text.languages import short_code
from xtts.text.markup import PARAGRAPH_SECONDS
from xtts.text.normalization.registry import sentence_ends
from xtts.text.reading import speakable
from xtts.text.sentences import SentenceEnds
from xtts.text.splitting import Limits, cut

SENTENCE_SECONDS = 0.2
HEADING_SECONDS = 1.2
# Characters. A longer sentence is divided at its clauses; the model's pieces are shorter.
LONGEST = 600
# A sentence shorter than the first value is joined to its neighbour, up to the second.
SHORTEST, LONGEST_JOINED = 25, 220
_TAG = re.compile(r"\[[^\[\]\n]{1,110}\]")


@dataclass(frozen=True)
class Sentence:
    """A sentence to speak. pause: seconds of silence after it; written: (number of the paragraph,
    kind); text: with the tag of the current voice."""

    text: str
    pause: float
    paragraph: int
    kind: Kind = Kind.TEXT


def sentences_of(chapter: Chapter, language: str, *, footnotes: bool = False) -> Iterator[Sentence]:
    """The sentences of a chapter, in order. footnotes: whether they are spoken too.

    A voice or style named in the text applies until the next such tag in the chapter.
    """
    ends = sentence_ends(short_code(language))
    voice = ""
    for number, paragraph in enumerate(chapter.paragraphs):
        if paragraph.kind is Kind.FOOTNOTE and not footnotes:
            continue
        text = with_brackets_as_words(paragraph.text)
        parts = _join([sentence for sentence in divide(text, ends) if speakable(_TAG.sub(" ", sentence))])
        heading = paragraph.kind is Kind.HEADING
        for place, part in enumerate(parts):
            last = place == len(parts) - 1
            after = HEADING_SECONDS if heading else PARAGRAPH_SECONDS
            yield Sentence(tag_of(voice) + part, after if last else SENTENCE_SECONDS, number, paragraph.kind)
            voice = voice_at_end(part, voice)
        if not parts:
            voice = voice_at_end(text, voice)


def divide(text: str, ends: SentenceEnds | None = None) -> list[str]:
    """The sentences of a paragraph; joined by spaces, they equal its text."""
    ends = ends or sentence_ends("en")
    tags = [tag.span() for tag in _TAG.finditer(text)] if "[" in text else []
    parts, start = list[str](), 0
    for place in (*ends.places(text), len(text)):
        if not any(first < place < last for first, last in tags):
            parts.append(text[start:place].strip())
            start = place
    limits = Limits(LONGEST, 10**9, sentences=ends)
    return [
        piece.strip()
        for part in parts
        if part
        for piece in (cut(part, limits) if len(part) > LONGEST else [part])
    ]


def _join(parts: list[str]) -> list[str]:
    """Joins a short sentence to the previous one, or the first one to the next."""
    joined: list[str] = []
    for part in parts:
        short = bool(joined) and min(len(part), len(joined[-1])) < SHORTEST
        first = len(joined) == 1 and len(joined[0]) < SHORTEST
        if short and (len(part) < SHORTEST or first) and (len(joined[-1]) + len(part) < LONGEST_JOINED):
            joined[-1] += " " + part
        else:
            joined.append(part)
    return joined
