"""Aligns recognised words with the words of a text, and gives units of the text with times.

The recognised words are aligned with the written ones in sections, each with the text after the
last matched word, so that time and memory do not grow with the length of a book. Unspoken text and
unwritten speech cost little, so that the alignment recovers after them. Doubtful sentences, of
which only some words were recognised, are aligned separately and judged word by word. If they stay
doubtful, they are left out.
"""

import bisect
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from extras.cut.manuscript import Manuscript
from extras.cut.planning import PlacedUnit
from extras.cut.recogniser import HeardWord

# Scores of the alignment of words: of equal and of different words, of a recognised word that is not
# written, of a written word that is not spoken, and of one before the first or after the last match.
_MATCH_SCORE, _MISMATCH_SCORE = 1.0, -1.0
_UNWRITTEN_SCORE, _UNSPOKEN_SCORE, _OUTER_SCORE = -0.4, -0.1, -0.01
# Recognised words that are aligned together; the matches of the first of them are final.
_SECTION_WORDS, _FINAL_WORDS = 300, 200
# The text that a section is aligned with, before and after the position.
_WORDS_BEHIND, _WORDS_AHEAD = 20, 500
# If a smaller share of a section matches, the position is lost and the whole text is searched.
_LOST_SHARE, _REGAINED_SHARE = 0.3, 0.5
# The expected words before and after the position, which may be wrong by a few words.
EXPECTED_BEFORE, EXPECTED_AFTER = 300, 1500

# Limits of the certainty, in nats per frame below a free phone loop; chosen on
# benchmarks/choosing.txt (docs/develop/log.md).
MIN_CERTAINTY = -1.4
# The limit for the only doubtful word of a sentence, if at least this many others are certain.
_MIN_LONE_CERTAINTY, _MIN_CERTAIN_WORDS = -2.0, 4
_MIN_RECOGNISED_SHARE = 0.5
# An unwritten word this near to a sentence and this short may be a fragment of its words.
_MAX_FRAGMENT_GAP_SECONDS, _MAX_FRAGMENT_SECONDS = 0.05, 0.3
# A single match may be chance, because short words match everywhere.
_MIN_MATCHES_IN_A_RUN = 3
# A longer silence between two words ends the breath.
MAX_GAP_SECONDS = 0.8
_MIN_DOUBTFUL_SECONDS, _MAX_DOUBTFUL_SECONDS = 0.2, 30.0


class WordMatch(NamedTuple):
    """A word of the manuscript and the recognised word that it equals, by their numbers."""

    word: int
    heard_index: int


class TextFollower:
    """Aligns the recognised words of recordings, added in order; `matches` grows section by
    section."""

    def __init__(self, words: Sequence[str]) -> None:
        self._ids: dict[str, int] = {}
        self._text = np.array([self._id_of(word) for word in words], np.int32)
        self._pending = list[int]()
        self._num_final = 0
        self.position = 0
        self.is_lost = False
        self.matches = list[WordMatch]()

    def add(self, recognised: Sequence[HeardWord]) -> None:
        """Adds recognised words."""
        self._pending += [self._id_of(word.text) for word in recognised]
        while len(self._pending) >= _SECTION_WORDS:
            self._align_pending(_FINAL_WORDS)

    def finish(self) -> None:
        """Ends the words and aligns the pending ones."""
        while self._pending:
            self._align_pending(len(self._pending))

    def _id_of(self, word: str) -> int:
        return self._ids.setdefault(word, len(self._ids))

    def _align_pending(self, num_final: int) -> None:
        """Aligns the pending words, and keeps the matches of the first `num_final` of them."""
        recognised = np.array(self._pending, np.int32)
        first = max(self.position - _WORDS_BEHIND, 0)
        last = self.position + 2 * len(recognised) + _WORDS_AHEAD
        matches = [
            WordMatch(first + word, index) for word, index in match_words(recognised, self._text[first:last])
        ]
        if len(matches) < _LOST_SHARE * len(recognised):
            matches_anywhere = match_words(recognised, self._text)
            if len(matches_anywhere) >= _REGAINED_SHARE * len(recognised):
                matches = matches_anywhere
        self.is_lost = len(matches) < _LOST_SHARE * len(recognised)
        final = [] if self.is_lost else [match for match in matches if match.heard_index < num_final]
        self.matches += [WordMatch(match.word, self._num_final + match.heard_index) for match in final]
        if final:
            self.position = max(self.position, final[-1].word + 1)
        self._pending = self._pending[num_final:]
        self._num_final += num_final


def match_words(recognised: np.ndarray, text: np.ndarray) -> list[WordMatch]:
    """The equal words in the best alignment, by Needleman and Wunsch (1970), row by row. Text
    before and after costs nearly nothing."""
    width = len(text)
    unspoken_costs = np.arange(width + 1) * -_UNSPOKEN_SCORE
    scores = np.arange(width + 1) * _OUTER_SCORE
    steps = np.zeros((len(recognised), width + 1), np.int8)  # 0 unwritten, 1 diagonal, 2 unspoken
    for index, word in enumerate(recognised):
        unwritten = scores + _UNWRITTEN_SCORE
        diagonal = np.full(width + 1, -np.inf)
        mismatch_score = 2 * _UNWRITTEN_SCORE + _MISMATCH_SCORE
        diagonal[1:] = scores[:-1] + np.where(text == word, _MATCH_SCORE, mismatch_score)
        best = np.maximum(unwritten, diagonal)
        # Skips any number of text words: a running maximum, because each costs the same.
        scores = np.maximum.accumulate(best + unspoken_costs) - unspoken_costs
        steps[index] = np.where(scores > best + 1e-9, 2, np.where(diagonal >= unwritten, 1, 0))
    matches, column = list[WordMatch](), int(scores.argmax())
    index = len(recognised) - 1
    while index >= 0:
        step = steps[index, column]
        if step == 2:
            column -= 1
            continue
        if step == 1:
            column -= 1
            if recognised[index] == text[column]:
                matches.append(WordMatch(column, index))
        index -= 1
    return matches[::-1]


@dataclass(frozen=True)
class DoubtfulSentence:
    """The manuscript's words `first` to `last`, spoken between `start` and `end` seconds."""

    first: int
    last: int
    start: float
    end: float


def trusted_matches(
    matches: Sequence[WordMatch], recognised: Sequence[HeardWord], text: Manuscript
) -> dict[int, int]:
    """The matches that are in a run or form whole sentences: number of the word -> index of the
    recognised word."""
    index_of_word = dict[int, int]()
    for run in _runs(_beside_neighbours(matches, recognised, text)):
        matched_words = Counter(text.sentence_of(word) for word, _ in run)
        for word, index in run:
            sentence = text.sentence_of(word)
            is_complete = matched_words[sentence] == len(text.words_of_sentence[sentence])
            if len(run) >= _MIN_MATCHES_IN_A_RUN or is_complete:
                index_of_word[word] = index
    return index_of_word


def _runs(matches: Sequence[WordMatch]) -> Iterator[list[WordMatch]]:
    """Groups matches that follow each other in the text and among the recognised words; one word
    may differ between two of them."""
    run = list[WordMatch]()
    for match in matches:
        if run and (match.word - run[-1].word > 2 or match.heard_index - run[-1].heard_index > 2):
            yield run
            run = []
        run.append(match)
    if run:
        yield run


def _beside_neighbours(
    matches: Sequence[WordMatch], recognised: Sequence[HeardWord], text: Manuscript
) -> list[WordMatch]:
    """Moves a word that was recognised twice next to the following word of its sentence, or else to
    the previous one. The alignment, which counts words, cannot tell the two apart."""
    moved = list(matches)
    for step, order in ((1, range(len(moved) - 2, -1, -1)), (-1, range(1, len(moved)))):
        for position in order:
            match, neighbour = moved[position], moved[position + step]
            if (
                neighbour.word == match.word + step
                and text.sentence_of(match.word) == text.sentence_of(neighbour.word)
                and recognised[neighbour.heard_index - step].text == recognised[match.heard_index].text
            ):
                moved[position] = WordMatch(match.word, neighbour.heard_index - step)
    return moved


def doubtful_sentences(
    text: Manuscript, index_of_word: Mapping[int, int], recognised: Sequence[HeardWord], seconds: float
) -> list[DoubtfulSentence]:
    """The sentences that were recognised in part, with other words among theirs, or with a fragment
    of a word at the start or end."""
    doubtful = list[DoubtfulSentence]()
    used_indices = set(index_of_word.values())
    for number in sorted({text.sentence_of(word) for word in index_of_word}):
        words = text.words_of_sentence[number]
        matched = [word for word in words if word in index_of_word]
        num_between = index_of_word[matched[-1]] - index_of_word[matched[0]] + 1
        if len(matched) == len(words) == num_between:
            sentence = _sentence_with_fragments(words, index_of_word, recognised, used_indices)
        elif len(matched) < _MIN_RECOGNISED_SHARE * len(words):
            continue
        else:
            sentence = _partial_sentence(words, matched, index_of_word, recognised, seconds)
        if sentence is not None:
            doubtful.append(sentence)
    return doubtful


def _partial_sentence(
    words: range,
    matched: Sequence[int],
    index_of_word: Mapping[int, int],
    recognised: Sequence[HeardWord],
    seconds: float,
) -> DoubtfulSentence | None:
    """A sentence of which some words were recognised; None if it is too short or too long.

    Args:
        words, matched: The numbers of its words, and of those that were recognised.
        seconds: The length of the recording.
    """
    first, last = recognised[index_of_word[matched[0]]], recognised[index_of_word[matched[-1]]]
    # Half a second for each missing word, but not past the neighbouring words.
    start = max(first.start - 0.3 - 0.5 * (matched[0] - words[0]), 0.0)
    end = min(last.end + 0.3 + 0.5 * (words[-1] - matched[-1]), seconds)
    if (index_before := index_of_word.get(words[0] - 1)) is not None:
        start = max(start, recognised[index_before].end - 0.02)
    if (index_after := index_of_word.get(words[-1] + 1)) is not None:
        end = min(end, recognised[index_after].start + 0.02)
    if not _MIN_DOUBTFUL_SECONDS < end - start < _MAX_DOUBTFUL_SECONDS:
        return None
    return DoubtfulSentence(words[0], words[-1], start, end)


def _sentence_with_fragments(
    words: range, index_of_word: Mapping[int, int], recognised: Sequence[HeardWord], used_indices: Set[int]
) -> DoubtfulSentence | None:
    """A sentence that was recognised completely, but touches a fragment that may belong to its
    first or last word; None without a fragment."""
    first, last = index_of_word[words[0]], index_of_word[words[-1]]
    before = _fragment_beside(recognised, first, -1, used_indices)
    after = _fragment_beside(recognised, last, 1, used_indices)
    if before is None and after is None:
        return None
    start = before.start if before else recognised[first].start
    end = after.end if after else recognised[last].end
    doubtful = DoubtfulSentence(words[0], words[-1], max(start - 0.1, 0.0), end + 0.1)
    return doubtful if doubtful.end - doubtful.start < _MAX_DOUBTFUL_SECONDS else None


def _fragment_beside(
    recognised: Sequence[HeardWord], index: int, step: int, used_indices: Set[int]
) -> HeardWord | None:
    """The unwritten word before (step -1) or after (1) a word, if it is short and touches no other
    word."""
    if not 0 <= index + step < len(recognised) or index + step in used_indices:
        return None
    fragment, next_index = recognised[index + step], index + 2 * step
    is_long = fragment.end - fragment.start > _MAX_FRAGMENT_SECONDS
    if is_long or _gap(recognised[index], fragment) > _MAX_FRAGMENT_GAP_SECONDS:
        return None
    has_next = 0 <= next_index < len(recognised)
    if has_next and _gap(fragment, recognised[next_index]) <= 2 * _MAX_FRAGMENT_GAP_SECONDS:
        return None
    return fragment


def _gap(first: HeardWord, second: HeardWord) -> float:
    """The seconds between two words, in either order."""
    return max(first.start, second.start) - min(first.end, second.end)


def place_units(
    text: Manuscript,
    index_of_word: Mapping[int, int],
    recognised: Sequence[HeardWord],
    checked: Mapping[int, HeardWord],
) -> list[PlacedUnit]:
    """The certain units, in the order of time.

    Args:
        checked: The words of doubtful sentences by number, with their certainty; they replace
            what was recognised there.
    """
    checked_sentences = {text.sentence_of(word) for word in checked}
    certain = _certain_words(checked, text, index_of_word, recognised)
    placed = {
        word: recognised[index]
        for word, index in index_of_word.items()
        if text.sentence_of(word) not in checked_sentences
    }
    placed |= {word: checked[word] for word in certain}
    used_indices = {index_of_word[word] for word in placed if word in index_of_word}
    spans = [_span_of(checked, text.words_of_sentence[number]) for number in checked_sentences]
    uncertain = _unplaced_words(recognised, used_indices, sorted(spans))
    uncertain += [aligned for word, aligned in checked.items() if word not in certain]
    units = [
        number
        for number, unit in enumerate(text.units)
        if all(word in placed for word in range(unit.first_word, unit.last_word + 1))
    ]
    units.sort(key=lambda number: placed[text.units[number].first_word].start)
    return list(_placed_units(text, units, placed, uncertain))


def _placed_units(
    text: Manuscript, numbers: Sequence[int], placed: Mapping[int, HeardWord], uncertain: Sequence[HeardWord]
) -> Iterator[PlacedUnit]:
    """The units of these numbers, in the order of time, with the speech around each."""
    starts = [placed[text.units[number].first_word].start for number in numbers]
    ends = [placed[text.units[number].last_word].end for number in numbers]
    # The uncertain words before each unit, and after the last.
    between: list[list[HeardWord]] = [[] for _ in range(len(numbers) + 1)]
    for word in sorted(uncertain, key=lambda word: word.start):
        between[bisect.bisect_right(starts, word.start)].append(word)
    for index, number in enumerate(numbers):
        unit, is_last = text.units[number], index + 1 == len(numbers)
        previous_end = ends[index - 1] if index else 0.0
        next_start = float("inf") if is_last else starts[index + 1]
        before = max((word.end for word in between[index]), default=previous_end)
        after = min((word.start for word in between[index + 1]), default=next_start)
        is_followed = not is_last and numbers[index + 1] == number + 1 and not between[index + 1]
        yield PlacedUnit(
            unit.text,
            starts[index],
            ends[index],
            unit.ends,
            is_joined=is_followed and next_start - ends[index] <= MAX_GAP_SECONDS,
            speech_before=min(before, starts[index]),
            speech_after=max(after, ends[index]),
            begins_sentence=unit.first_word == text.words_of_sentence[unit.sentence][0],
        )


def _certain_words(
    checked: Mapping[int, HeardWord],
    text: Manuscript,
    index_of_word: Mapping[int, int],
    recognised: Sequence[HeardWord],
) -> set[int]:
    """The checked words that are certainly spoken where they were aligned. The limit is lower for a
    single doubtful word among certain ones, because nothing else can be there."""
    certain = {word for word in checked if _is_certain(word, checked[word], index_of_word, recognised)}
    for number in {text.sentence_of(word) for word in checked}:
        words = text.words_of_sentence[number]
        doubtful = [checked[word] for word in words if word in checked and word not in certain]
        if len(doubtful) != 1 or len(words) <= _MIN_CERTAIN_WORDS:
            continue
        if (doubtful[0].certainty or 0.0) >= _MIN_LONE_CERTAINTY:
            certain |= set(words) & checked.keys()
    return certain


def _is_certain(
    word: int, aligned: HeardWord, index_of_word: Mapping[int, int], recognised: Sequence[HeardWord]
) -> bool:
    """Whether a checked word is certain. A word that was recognised as written needs no second
    proof if it is aligned with the same sound; elsewhere, another person may have said it."""
    if (aligned.certainty or 0.0) >= MIN_CERTAINTY:
        return True
    heard = recognised[index_of_word[word]] if word in index_of_word else None
    return heard is not None and aligned.start < heard.end and heard.start < aligned.end


def _span_of(checked: Mapping[int, HeardWord], words: range) -> tuple[float, float]:
    """The start and end of a checked sentence, in seconds."""
    aligned = [checked[word] for word in words if word in checked]
    return aligned[0].start, aligned[-1].end


def _unplaced_words(
    recognised: Sequence[HeardWord], used_indices: Set[int], checked_spans: Sequence[tuple[float, float]]
) -> list[HeardWord]:
    """The recognised words that are not placed, outside of the checked sentences."""
    unplaced = list[HeardWord]()
    span = 0
    for index, word in enumerate(recognised):
        while span < len(checked_spans) and checked_spans[span][1] <= word.start:
            span += 1
        is_checked = span < len(checked_spans) and checked_spans[span][0] < (word.start + word.end) / 2
        if index not in used_indices and not is_checked:
            unplaced.append(word)
    return unplaced
