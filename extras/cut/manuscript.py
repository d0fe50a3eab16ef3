"""Divides a manuscript into its sentences and their spoken words.

`extras.cut.cues` reads its file. A unit is the shortest piece of written text that is spoken as
whole words: `$5` is one unit of two words, and is never cut. The normaliser of `xtts.text` reads
numbers and abbreviations.
"""

import bisect
import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from extras.cut.cues import Cue
from xtts.text.normalization.registry import rules_of

# At most two closing quotes or brackets belong to the sentence before them. Chinese and Japanese
# do not write a space after a sentence.
_CLOSING = '["”’»)\\]]'
_SENTENCE_BOUNDARY = re.compile(
    rf"(?<=[.!?…])\s+|(?<=[.!?…]{_CLOSING})\s+|(?<=[.!?…]{_CLOSING}{_CLOSING})\s+"
    "|(?<=[。！？])(?![」』”’）。！？])\\s*"
)
_ENGLISH_WORD = re.compile(r"[a-z]+(?:'[a-z]+)*")
_ANY_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_CLAUSE_MARKS = ",;:)—–"
# What a unit ends; the end of a cue counts as that of a paragraph.
NO_END, CLAUSE_END, SENTENCE_END, PARAGRAPH_END = range(4)


@dataclass(frozen=True)
class TextUnit:
    """Written text that is never cut.

    Attributes:
        first_word, last_word: The numbers of its words in the manuscript.
        sentence: The number of its sentence.
        ends: NO_END, CLAUSE_END, SENTENCE_END or PARAGRAPH_END.
    """

    text: str
    first_word: int
    last_word: int
    sentence: int
    ends: int


@dataclass(frozen=True)
class Manuscript:
    """A text for cutting.

    Attributes:
        words: As spoken, in lower case.
        sentences: As written.
        cues: The cue of each sentence, with its times.
        words_of_sentence: The numbers of each sentence's words.
    """

    words: tuple[str, ...]
    units: tuple[TextUnit, ...]
    sentences: tuple[str, ...]
    cues: tuple[Cue, ...]
    words_of_sentence: tuple[range, ...] = field(repr=False)

    @property
    def is_timed(self) -> bool:
        """Whether the file says when each sentence is spoken."""
        return all(cue.start is not None for cue in self.cues)

    def sentence_of(self, word: int) -> int:
        """The number of the sentence that contains a word."""
        return bisect.bisect_right(self.words_of_sentence, word, key=lambda words: words.start) - 1


def manuscript_of(cues: Sequence[Cue], language: str) -> Manuscript:
    """Makes a manuscript from cues. Only cues without times are split into sentences."""
    words, units = list[str](), list[TextUnit]()
    sentences, cue_of_sentence, words_of_sentence = list[str](), list[Cue](), list[range]()
    for cue in cues:
        parts = [cue.text] if cue.start is not None else _SENTENCE_BOUNDARY.split(cue.text)
        for part, sentence in enumerate(parts, start=1):
            sentence_units, first_word = _units(sentence.strip(), language), len(words)
            for number, (text, spoken) in enumerate(sentence_units, start=1):
                ends = CLAUSE_END if text.rstrip("\"'”’")[-1:] in _CLAUSE_MARKS else NO_END
                if number == len(sentence_units):
                    ends = PARAGRAPH_END if part == len(parts) else SENTENCE_END
                first, last = len(words), len(words) + len(spoken) - 1
                units.append(TextUnit(text, first, last, len(sentences), ends))
                words += spoken
            if sentence_units:
                sentences.append(sentence.strip())
                cue_of_sentence.append(cue)
                words_of_sentence.append(range(first_word, len(words)))
    return Manuscript(
        tuple(words), tuple(units), tuple(sentences), tuple(cue_of_sentence), tuple(words_of_sentence)
    )


class _Unit(NamedTuple):
    """Written text, and its words as spoken."""

    text: str
    words: list[str]


def spoken_words(text: str, language: str) -> list[str]:
    """The words of a text as they are spoken, in lower case."""
    rules = rules_of(language)
    read = (rules.read(text) if rules else text).lower().replace("’", "'")
    return (_ENGLISH_WORD if language == "en" else _ANY_WORD).findall(read)


def _units(sentence: str, language: str) -> list[_Unit]:
    """The units of a sentence. Equal written and spoken words belong to each other, and other
    spoken words to all tokens of the words in their place."""
    tokens = sentence.split()
    written = [
        (word, token_index)
        for token_index, token in enumerate(tokens)
        for word in _ANY_WORD.findall(token.lower().replace("’", "'"))
    ]
    spoken = spoken_words(sentence, language)
    words_of: list[list[str]] = [[] for _ in tokens]
    is_joined = [False] * len(tokens)  # with the token before
    matcher = difflib.SequenceMatcher(None, [word for word, _ in written], spoken, autojunk=False)
    for kind, start, end, first, last in matcher.get_opcodes():
        if kind == "equal":
            for (_, token_index), word in zip(written[start:end], spoken[first:last]):
                words_of[token_index].append(word)
            continue
        replaced = [token_index for _, token_index in written[start:end]]
        if not replaced and written:  # spoken, but not written: belongs to the previous unit
            replaced = [written[max(start - 1, 0)][1]]
        if replaced:
            words_of[replaced[0]] += spoken[first:last]
            for token_index in range(replaced[0] + 1, replaced[-1] + 1):
                is_joined[token_index] = True
    return _group(tokens, words_of, is_joined)


def _group(tokens: Sequence[str], words_of: Sequence[list[str]], is_joined: Sequence[bool]) -> list[_Unit]:
    """Groups tokens into units. A token without spoken words joins the previous token or, at the
    start, the first token with words."""
    groups = list[_Unit]()
    for token, words, joins_previous in zip(tokens, words_of, is_joined):
        if groups and (joins_previous or not words or not groups[-1].words):
            text, earlier_words = groups[-1]
            groups[-1] = _Unit(f"{text} {token}", earlier_words + words)
        else:
            groups.append(_Unit(token, list(words)))
    return [group for group in groups if group.words]
