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

import numpy as np

from extras.cut.manuscript import Manuscript
from extras.cut.planning import PlacedUnit
from extras.cut.recogniser import HeardWord

_MATCH, _OTHER = 1.0, -1.0
_UNWRITTEN, _UNSPOKEN, _AHEAD = -0.4, -0.1, -0.01
_SECTION_WORDS, _SETTLED_WORDS = 300, 200
_BEHIND_WORDS, _BEYOND_WORDS = 20, 500
# If a smaller share of a section matches, the position is lost and the whole text is searched.
_LOST_SHARE, _FOUND_SHARE = 0.3, 0.5
# The expected words before and after the position, which may be wrong by a few words.
EXPECTED_BEFORE, EXPECTED_AFTER = 300, 1500

# Limits of the certainty, in nats per frame below a free phone loop; chosen on
# benchmarks/choosing.txt (docs/develop/log.md).
MIN_CERTAINTY = -1.4
# The limit for a sentence's only doubtful word, if at least this many others are certain.
_MIN_ALONE, _MIN_SURE = -2.0, 4
_MIN_HEARD_SHARE = 0.5
# An unwritten word this near to a sentence and this short may be a fragment of its words.
_ABUTTING_SECONDS, _FRAGMENT_SECONDS = 0.05, 0.3
# A single match may be chance, because short words match everywhere.
_MIN_IN_A_ROW = 3
# A longer silence between two words ends the breath.
LONGEST_GAP_SECONDS = 0.8
_LONGEST_DOUBT_SECONDS = 30.0


# The number of a word of the manuscript, and its index among the recognised words.
WordMatch = tuple[int, int]


class TextFollower:
    """Aligns the recognised words of recordings, added in order; `matches` grows section by
    section."""

    def __init__(self, words: Sequence[str]) -> None:
        self._numbers: dict[str, int] = {}
        self._text = np.array([self._number(word) for word in words], np.int32)
        self._pending = list[int]()
        self._heard = 0
        self.position = 0
        self.lost = False
        self.matches = list[WordMatch]()

    def add(self, recognised: Sequence[HeardWord]) -> None:
        """Adds recognised words."""
        self._pending += [self._number(word.text) for word in recognised]
        while len(self._pending) >= _SECTION_WORDS:
            self._settle(_SETTLED_WORDS)

    def finish(self) -> None:
        """Ends the words and aligns the rest."""
        while self._pending:
            self._settle(len(self._pending))

    def _number(self, word: str) -> int:
        return self._numbers.setdefault(word, len(self._numbers))

    def _settle(self, count: int) -> None:
        recognised = np.array(self._pending, np.int32)
        first = max(self.position - _BEHIND_WORDS, 0)
        last = self.position + 2 * len(recognised) + _BEYOND_WORDS
        pairs = [(number, first + place) for number, place in match_words(recognised, self._text[first:last])]
        if len(pairs) < _LOST_SHARE * len(recognised):
            everywhere = match_words(recognised, self._text)
            if len(everywhere) >= _FOUND_SHARE * len(recognised):
                pairs = everywhere
        self.lost = len(pairs) < _LOST_SHARE * len(recognised)
        settled = [] if self.lost else [pair for pair in pairs if pair[0] < count]
        self.matches += [(place, self._heard + number) for number, place in settled]
        if settled:
            self.position = max(self.position, settled[-1][1] + 1)
        self._pending = self._pending[count:]
        self._heard += count


def match_words(recognised: np.ndarray, text: np.ndarray) -> list[tuple[int, int]]:
    """The indices (recognised, written) of equal words in the best alignment, by Needleman and
    Wunsch (1970), row by row. Text before and after costs nearly nothing."""
    width = len(text)
    steps = np.arange(width + 1) * -_UNSPOKEN
    row = np.arange(width + 1) * _AHEAD
    came = np.zeros((len(recognised), width + 1), np.int8)  # 0 unwritten, 1 diagonal, 2 unspoken
    for place, word in enumerate(recognised):
        down = row + _UNWRITTEN
        across = np.full(width + 1, -np.inf)
        across[1:] = row[:-1] + np.where(text == word, _MATCH, 2 * _UNWRITTEN + _OTHER)
        best = np.maximum(down, across)
        # Skips any number of text words: a running maximum, because each costs the same.
        row = np.maximum.accumulate(best + steps) - steps
        came[place] = np.where(row > best + 1e-9, 2, np.where(across >= down, 1, 0))
    pairs, column = list[tuple[int, int]](), int(row.argmax())
    line = len(recognised) - 1
    while line >= 0:
        step = came[line, column]
        if step == 2:
            column -= 1
            continue
        if step == 1:
            column -= 1
            if recognised[line] == text[column]:
                pairs.append((line, column))
        line -= 1
    return pairs[::-1]


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
    """The trusted matches, which are in a row or form whole sentences: number of the word -> index
    of the recognised word."""
    trusted_places = dict[int, int]()
    for row in _rows(_beside_neighbours(matches, recognised, text)):
        sentences = Counter(text.sentence_of(word) for word, _ in row)
        for word, place in row:
            number = text.sentence_of(word)
            whole = sentences[number] == len(text.words_of_sentence[number])
            if len(row) >= _MIN_IN_A_ROW or whole:
                trusted_places[word] = place
    return trusted_places


def _beside_neighbours(
    matches: Sequence[WordMatch], recognised: Sequence[HeardWord], text: Manuscript
) -> list[WordMatch]:
    """Moves a word that was recognised twice next to the following word of its sentence, or else to
    the one before. The alignment, which counts words, cannot tell the two apart."""
    moved = list(matches)
    for step, places in ((1, range(len(moved) - 2, -1, -1)), (-1, range(1, len(moved)))):
        for place in places:
            (word, spot), (other, neighbour) = moved[place], moved[place + step]
            if (
                other == word + step
                and text.sentence_of(word) == text.sentence_of(other)
                and recognised[neighbour - step].text == recognised[spot].text
            ):
                moved[place] = (word, neighbour - step)
    return moved


def doubts(
    text: Manuscript, places: Mapping[int, int], recognised: Sequence[HeardWord], seconds: float
) -> list[DoubtfulSentence]:
    """The sentences that were recognised in part, with other words among theirs, or with a fragment
    of a word at the start or end."""
    doubtful = list[DoubtfulSentence]()
    used = set(places.values())
    for number in sorted({text.sentence_of(word) for word in places}):
        words = text.words_of_sentence[number]
        placed = [word for word in words if word in places]
        inside = places[placed[-1]] - places[placed[0]] + 1
        if len(placed) == len(words) == inside:
            if sentence := _with_fragments(words, places, recognised, used):
                doubtful.append(sentence)
            continue
        if len(placed) < _MIN_HEARD_SHARE * len(words):
            continue
        earlier, later = places.get(words[0] - 1), places.get(words[-1] + 1)
        first, last = recognised[places[placed[0]]], recognised[places[placed[-1]]]
        # Half a second for each missing word, but not past the neighbouring words.
        start = max(first.start - 0.3 - 0.5 * (placed[0] - words[0]), 0.0)
        end = min(last.end + 0.3 + 0.5 * (words[-1] - placed[-1]), seconds)
        if earlier is not None:
            start = max(start, recognised[earlier].end - 0.02)
        if later is not None:
            end = min(end, recognised[later].start + 0.02)
        if 0.2 < end - start < _LONGEST_DOUBT_SECONDS:
            doubtful.append(DoubtfulSentence(words[0], words[-1], start, end))
    return doubtful


def _with_fragments(
    words: range, places: Mapping[int, int], recognised: Sequence[HeardWord], used: Set[int]
) -> DoubtfulSentence | None:
    """A sentence that was recognised completely, but touches a fragment that may belong to its
    first or last word; None without one."""
    first, last = places[words[0]], places[words[-1]]
    before, after = _fragment(recognised, first, -1, used), _fragment(recognised, last, 1, used)
    if before is None and after is None:
        return None
    start = before.start if before else recognised[first].start
    end = after.end if after else recognised[last].end
    doubtful = DoubtfulSentence(words[0], words[-1], max(start - 0.1, 0.0), end + 0.1)
    return doubtful if doubtful.end - doubtful.start < _LONGEST_DOUBT_SECONDS else None


def _fragment(recognised: Sequence[HeardWord], edge: int, step: int, used: Set[int]) -> HeardWord | None:
    """The unwritten word next to the one at `edge`, if it is short and touches no other word."""
    if not 0 <= edge + step < len(recognised) or edge + step in used:
        return None
    fragment, further = recognised[edge + step], edge + 2 * step
    if (
        fragment.end - fragment.start > _FRAGMENT_SECONDS
        or _gap(recognised[edge], fragment) > _ABUTTING_SECONDS
    ):
        return None
    if 0 <= further < len(recognised) and _gap(fragment, recognised[further]) <= 2 * _ABUTTING_SECONDS:
        return None
    return fragment


def _gap(word: HeardWord, other: HeardWord) -> float:
    """The seconds between two words, in either order."""
    return max(word.start, other.start) - min(word.end, other.end)


def place_units(
    text: Manuscript,
    places: Mapping[int, int],
    recognised: Sequence[HeardWord],
    checked: Mapping[int, HeardWord],
) -> list[PlacedUnit]:
    """The certain units, in the order of time.

    Args:
        checked: The words of doubtful sentences by number, with their certainty; they replace
            what was recognised there.
    """
    sentences = {text.sentence_of(word) for word in checked}
    times: dict[int, HeardWord] = {}
    for word, place in places.items():
        if text.sentence_of(word) not in sentences:
            times[word] = recognised[place]
    certain = _sure_words(checked, text, places, recognised)
    times |= {word: checked[word] for word in certain}
    matched_places = {places[word] for word in times if word in places}
    strangers = _strangers(recognised, matched_places, checked, text, sentences, certain)
    sure = [
        number
        for number, unit in enumerate(text.units)
        if all(word in times for word in range(unit.first_word, unit.last_word + 1))
    ]
    sure.sort(key=lambda number: times[text.units[number].first_word].start)
    return list(_place(text, sure, times, strangers))


def _place(
    text: Manuscript, sure: Sequence[int], times: Mapping[int, HeardWord], strangers: Sequence[HeardWord]
) -> Iterator[PlacedUnit]:
    ends = [times[text.units[number].last_word].end for number in sure]
    starts = [times[text.units[number].first_word].start for number in sure]
    # One value before each unit, and one after the last.
    between: list[list[HeardWord]] = [[] for _ in range(len(sure) + 1)]
    for stranger in strangers:
        between[bisect.bisect_right(starts, stranger.start)].append(stranger)
    for place, number in enumerate(sure):
        unit = text.units[number]
        others_before, others_after = between[place], between[place + 1]
        before = max((stranger.end for stranger in others_before), default=ends[place - 1] if place else 0.0)
        next_start = starts[place + 1] if place + 1 < len(sure) else float("inf")
        after = min((stranger.start for stranger in others_after), default=next_start)
        follows = place + 1 < len(sure) and sure[place + 1] == number + 1 and not others_after
        gap = starts[place + 1] - ends[place] if follows else 0.0
        yield PlacedUnit(
            unit.text,
            starts[place],
            ends[place],
            unit.ends,
            follows and gap <= LONGEST_GAP_SECONDS,
            min(before, starts[place]),
            max(after, ends[place]),
            begins=unit.first_word == text.words_of_sentence[unit.sentence][0],
        )


def _sure_words(
    checked: Mapping[int, HeardWord],
    text: Manuscript,
    places: Mapping[int, int],
    recognised: Sequence[HeardWord],
) -> set[int]:
    """The checked words that are certainly spoken where they were aligned. The limit is lower for a
    single doubtful word among certain ones, because nothing else can be there."""
    sure = {word for word, aligned in checked.items() if _is_sure(word, aligned, places, recognised)}
    for number in {text.sentence_of(word) for word in checked}:
        words = text.words_of_sentence[number]
        doubtful = [checked[word] for word in words if word in checked and word not in sure]
        if len(doubtful) != 1 or len(words) <= _MIN_SURE:
            continue
        if (doubtful[0].certainty or 0.0) >= _MIN_ALONE:
            sure |= set(words) & checked.keys()
    return sure


def _is_sure(
    word: int, aligned: HeardWord, places: Mapping[int, int], recognised: Sequence[HeardWord]
) -> bool:
    """Whether a checked word is certain. A word that was recognised as written needs no second
    proof if it is aligned with the same sound; elsewhere, another person may have said it."""
    if (aligned.certainty or 0.0) >= MIN_CERTAINTY:
        return True
    heard = recognised[places[word]] if word in places else None
    return heard is not None and aligned.start < heard.end and heard.start < aligned.end


def _strangers(
    recognised: Sequence[HeardWord],
    used: set[int],
    checked: Mapping[int, HeardWord],
    text: Manuscript,
    sentences: set[int],
    certain: Set[int],
) -> list[HeardWord]:
    """The recognised words that are not placed, and the checked words that are not certain."""
    spans = []
    for number in sentences:
        words = [checked[word] for word in text.words_of_sentence[number] if word in checked]
        spans.append((words[0].start, words[-1].end))
    spans.sort()
    unsure = [aligned for word, aligned in checked.items() if word not in certain]
    place = 0
    for number, heard in enumerate(recognised):
        while place < len(spans) and spans[place][1] <= heard.start:
            place += 1
        inside = place < len(spans) and spans[place][0] < (heard.start + heard.end) / 2
        if number not in used and not inside:
            unsure.append(heard)
    return sorted(unsure, key=lambda word: word.start)


def _rows(matches: Sequence[WordMatch]) -> Iterator[list[WordMatch]]:
    """Groups matches that follow each other in the text and among the recognised words; one word
    may differ between two of them."""
    row = list[WordMatch]()
    for word, place in matches:
        if row and (word - row[-1][0] > 2 or place - row[-1][1] > 2):
            yield row
            row = []
        row.append((word, place))
    if row:
        yield row
