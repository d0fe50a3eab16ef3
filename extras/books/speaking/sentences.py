"""Divides a chapter into the sentences to speak, without footnotes, and the pauses after them.

Sentences are spoken separately, so that a changed word does not change other sentences. A very
short sentence is joined to its neighbour, because voices speak single words badly.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from extras.books.book import Chapter, Kind
from extras.books.speaking.voice_tags import ANY_TAG, tag_of, voice_at_end, with_brackets_as_words
from xtts.text.languages import short_code
from xtts.text.markup import PARAGRAPH_SECONDS
from xtts.text.normalization.registry import sentence_ends
from xtts.text.reading import speakable
from xtts.text.sentences import SentenceEnds
from xtts.text.splitting import Limits, cut

SENTENCE_PAUSE_SECONDS = 0.2
HEADING_PAUSE_SECONDS = 1.2
# A longer sentence is divided at its clauses. The model's pieces are shorter.
MAX_SENTENCE_CHARACTERS = 600
# A sentence with fewer characters is joined to its neighbour.
MIN_SENTENCE_CHARACTERS = 25
# The characters of two joined sentences stay below this.
MAX_JOINED_CHARACTERS = 220


@dataclass(frozen=True)
class Sentence:
    """A sentence to speak.

    Attributes:
        text: The words, after the tag of the current voice.
        pause_seconds: The silence after it.
        paragraph: The number of its paragraph in the chapter, from 0.
        kind: The kind of the paragraph.
    """

    text: str
    pause_seconds: float
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
        parts = _join_short(
            [sentence for sentence in split_sentences(text, ends) if speakable(ANY_TAG.sub(" ", sentence))]
        )
        paragraph_pause = HEADING_PAUSE_SECONDS if paragraph.kind is Kind.HEADING else PARAGRAPH_SECONDS
        for index, part in enumerate(parts):
            pause = paragraph_pause if index == len(parts) - 1 else SENTENCE_PAUSE_SECONDS
            yield Sentence(tag_of(voice) + part, pause, number, paragraph.kind)
            voice = voice_at_end(part, voice)
        if not parts:
            voice = voice_at_end(text, voice)


def split_sentences(text: str, ends: SentenceEnds | None = None) -> list[str]:
    """The sentences of a paragraph; joined by spaces, they equal its text."""
    ends = ends or sentence_ends("en")
    tag_spans = [tag.span() for tag in ANY_TAG.finditer(text)] if "[" in text else []
    parts, start = list[str](), 0
    for end in (*ends.places(text), len(text)):
        if not any(tag_start < end < tag_end for tag_start, tag_end in tag_spans):
            parts.append(text[start:end].strip())
            start = end
    limits = Limits(MAX_SENTENCE_CHARACTERS, 10**9, sentences=ends)
    return [
        piece.strip()
        for part in parts
        if part
        for piece in (cut(part, limits) if len(part) > MAX_SENTENCE_CHARACTERS else [part])
    ]


def _join_short(parts: list[str]) -> list[str]:
    """Joins a short sentence to the previous one, or the first one to the next."""
    joined: list[str] = []
    for part in parts:
        is_short = len(part) < MIN_SENTENCE_CHARACTERS
        follows_short_first = len(joined) == 1 and len(joined[0]) < MIN_SENTENCE_CHARACTERS
        if (
            joined
            and (is_short or follows_short_first)
            and len(joined[-1]) + len(part) < MAX_JOINED_CHARACTERS
        ):
            joined[-1] += " " + part
        else:
            joined.append(part)
    return joined
