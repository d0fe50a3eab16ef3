"""What a recording should say: sentences, and what can be heard of them word by word.

A unit is the shortest piece of the written text that has words of its own: `$5` is one unit and two
words, and is never cut. Numbers and abbreviations are read by the normaliser of `xtts.text`.
"""

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from train.cutting.alignment.text_files import Cue
from xtts.text.normalization.registry import rules_of

# Closing quotes and brackets, at most two, belong to the sentence before. Chinese and Japanese
# leave no space behind a sentence.
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
    """words: as they are said, in lower case; unit_of: the unit of each word; sentences: as they
    are written; cues: the times that the file gives, by sentence."""

    words: tuple[str, ...]
    units: tuple[TextUnit, ...]
    sentences: tuple[str, ...]
    cues: tuple[Cue, ...]
    unit_of: tuple[int, ...] = field(repr=False)
    words_of_sentence: tuple[range, ...] = field(repr=False)

    @property
    def is_timed(self) -> bool:
        """Whether the file says when each sentence is spoken."""
        return all(cue.start is not None for cue in self.cues)

    def sentence_of(self, word: int) -> int:
        """The number of the sentence that a word is in."""
        return self.units[self.unit_of[word]].sentence


def manuscript_of(cues: Sequence[Cue], language: str) -> Manuscript:
    """The words of a text. Cues without times are divided into sentences; timed ones are kept."""
    words, units, unit_of = list[str](), list[TextUnit](), list[int]()
    sentences, kept, ranges = list[str](), list[Cue](), list[range]()
    for cue in cues:
        parts = [cue.text] if cue.start is not None else _SENTENCE_END.split(cue.text)
        for part, sentence in enumerate(parts, start=1):
            found = _units(sentence.strip(), language)
            begins = len(words)
            for place, (text, said) in enumerate(found):
                last = place == len(found) - 1
                ends = (
                    2 + (part == len(parts))
                    if last
                    else int(text.rstrip("\"'”’")[-1:] in _CLAUSE_END)
                )
                unit_of += [len(units)] * len(said)
                first = len(words)
                words += said
                units.append(TextUnit(text, first, len(words) - 1, len(sentences), ends))
            if found:
                sentences.append(sentence.strip())
                kept.append(cue)
                ranges.append(range(begins, len(words)))
    return Manuscript(
        tuple(words), tuple(units), tuple(sentences), tuple(kept), tuple(unit_of), tuple(ranges)
    )


def said_words(text: str, language: str) -> list[str]:
    """The words of a text as they are spoken, in lower case."""
    rules = rules_of(language)
    read = (rules.read(text) if rules else text).lower().replace("’", "'")
    return (_ENGLISH_WORD if language == "en" else _ANY_WORD).findall(read)


def _units(sentence: str, language: str) -> list[tuple[str, list[str]]]:
    """(Written, words) of each unit of a sentence."""
    tokens = sentence.split()
    plain = [
        (word, place)
        for place, token in enumerate(tokens)
        for word in _ANY_WORD.findall(token.lower().replace("’", "'"))
    ]
    said = said_words(sentence, language)
    written = [word for word, _ in plain]
    words_of: list[list[str]] = [[] for _ in tokens]
    joined = [False] * len(tokens)  # with the token before
    matcher = difflib.SequenceMatcher(None, written, said, autojunk=False)
    for kind, start, end, first, last in matcher.get_opcodes():
        if kind == "equal":
            for (_, place), word in zip(plain[start:end], said[first:last]):
                words_of[place].append(word)
            continue
        places = [place for _, place in plain[start:end]]
        if not places and plain:  # said and not written: it belongs to what is before
            places = [plain[max(start - 1, 0)][1]]
        if places:
            words_of[places[0]] += said[first:last]
            for place in range(places[0] + 1, places[-1] + 1):
                joined[place] = True
    return _grouped(tokens, words_of, joined)


def _grouped(
    tokens: Sequence[str], words_of: Sequence[list[str]], joined: Sequence[bool]
) -> list[tuple[str, list[str]]]:
    """Tokens without words of their own go with the one before, or with the first that has."""
    found = list[tuple[str, list[str]]]()
    for token, words, with_last in zip(tokens, words_of, joined):
        if found and (with_last or not words or not found[-1][1]):
            text, before = found[-1]
            found[-1] = (f"{text} {token}", before + words)
        else:
            found.append((token, list(words)))
    return [(text, words) for text, words in found if words]
