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

from extras.cut.cues import Cue
from xtts.text.normalization.registry import rules_of

# At most two closing quotes or brackets belong to the sentence before them. Chinese and Japanese
# do not write a space after a sentence.
_CLOSING = '["”’»)\\]]'
_SENTENCE_END = re.compile(
    rf"(?<=[.!?…])\s+|(?<=[.!?…]{_CLOSING})\s+|(?<=[.!?…]{_CLOSING}{_CLOSING})\s+"
    "|(?<=[。！？])(?![」』”’）。！？])\\s*"
)
_ENGLISH_WORD = re.compile(r"[a-z]+(?:'[a-z]+)*")
_ANY_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_CLAUSE_END = ",;:)—–"


@dataclass(frozen=True)
class TextUnit:
    """Written text that is never cut. words: the range of its words in the manuscript; ends: 3 at
    the end of a paragraph or cue, 2 of a sentence, 1 of a clause, else 0."""

    text: str
    first_word: int
    last_word: int
    sentence: int
    ends: int


@dataclass(frozen=True)
class Manuscript:
    """A text for cutting. words: as spoken, in lower case; sentences: as written; cues: the times
    in the file, by sentence; words_of_sentence: the range of each sentence's words."""

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
    sentences, sources, ranges = list[str](), list[Cue](), list[range]()
    for cue in cues:
        parts = [cue.text] if cue.start is not None else _SENTENCE_END.split(cue.text)
        for part, sentence in enumerate(parts, start=1):
            read, begins = _units(sentence.strip(), language), len(words)
            for place, (text, spoken) in enumerate(read, start=1):
                ends = int(text.rstrip("\"'”’")[-1:] in _CLAUSE_END)
                if place == len(read):
                    ends = 2 + (part == len(parts))
                first, last = len(words), len(words) + len(spoken) - 1
                units.append(TextUnit(text, first, last, len(sentences), ends))
                words += spoken
            if read:
                sentences.append(sentence.strip())
                sources.append(cue)
                ranges.append(range(begins, len(words)))
    return Manuscript(tuple(words), tuple(units), tuple(sentences), tuple(sources), tuple(ranges))


def said_words(text: str, language: str) -> list[str]:
    """The words of a text as they are spoken, in lower case."""
    rules = rules_of(language)
    read = (rules.read(text) if rules else text).lower().replace("’", "'")
    return (_ENGLISH_WORD if language == "en" else _ANY_WORD).findall(read)


def _units(sentence: str, language: str) -> list[tuple[str, list[str]]]:
    """The units of a sentence: (written text, spoken words) of each."""
    tokens = sentence.split()
    plain = [
        (word, place)
        for place, token in enumerate(tokens)
        for word in _ANY_WORD.findall(token.lower().replace("’", "'"))
    ]
    spoken = said_words(sentence, language)
    written = [word for word, _ in plain]
    words_of: list[list[str]] = [[] for _ in tokens]
    joined = [False] * len(tokens)  # with the token before
    matcher = difflib.SequenceMatcher(None, written, spoken, autojunk=False)
    for kind, start, end, first, last in matcher.get_opcodes():
        if kind == "equal":
            for (_, place), word in zip(plain[start:end], spoken[first:last]):
                words_of[place].append(word)
            continue
        places = [place for _, place in plain[start:end]]
        if not places and plain:  # spoken, but not written: belongs to the previous unit
            places = [plain[max(start - 1, 0)][1]]
        if places:
            words_of[places[0]] += spoken[first:last]
            for place in range(places[0] + 1, places[-1] + 1):
                joined[place] = True
    return _group(tokens, words_of, joined)


def _group(
    tokens: Sequence[str], words_of: Sequence[list[str]], joined: Sequence[bool]
) -> list[tuple[str, list[str]]]:
    """Groups tokens: one without spoken words joins the previous token or, at the start, the first
    with words."""
    groups = list[tuple[str, list[str]]]()
    for token, words, with_last in zip(tokens, words_of, joined):
        if groups and (with_last or not words or not groups[-1][1]):
            text, before = groups[-1]
            groups[-1] = (f"{text} {token}", before + words)
        else:
            groups.append((token, list(words)))
    return [(text, words) for text, words in groups if words]
