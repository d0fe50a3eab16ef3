"""Judges what each column of a transcript holds, by all of its rows.

    recordings   names with the ending of a sound file, or of files in the dataset
    languages    every field names a language: `EN`, `pt-br`, `English`
    speakers     a few short labels or numbers that repeat, in rows with sentences
    splits       train, validation, test
    emotions     happy, sad, neutral: ignored, with a note
    text         the sentences; if two columns hold the same ones, the second is spoken

Tools write these in different orders: Coqui `path|text|speaker|language`, Piper and VITS
`path|speaker|text`, MeloTTS and GPT-SoVITS `path|speaker|language|text`. Any other
column is refused with advice to name it in a header.
"""

import itertools
import re
import statistics
from collections import Counter
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass

from train.dataset.entries import DatasetError, names_sound, short
from train.dataset.metadata import HEADER_ADVICE
from train.dataset.tables import NUMBER, SENTENCE_ENDS, SPLITS, Columns, is_label, is_sentence, language_of
from xtts.text.languages import NAMES, short_code

# The share of a text's words that its normalised form keeps.
_SAME_WORDS = 0.5
# Words without digits; in scripts without spaces, characters.
_WORD = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]|[^\W\d_]+")
# The share of rows whose faults do not change what a column holds.
_ODD_SHARE = 0.1
# From this many rows on, one faulty row never does.
_MIN_FOR_AN_ODD_ONE = 5
_MAX_LOOKED_UP = 40
# The limit of speakers per row.
_MAX_NAMES = 0.75
# The same for numbers; those that repeat less often are counts.
_MAX_NUMBERS = 0.5
# With fewer rows, each may have a different speaker.
_FEW_ROWS = 4
# Numbers are durations if their correlation with the length of their texts is above this.
_DURATION_CORRELATION = 0.75
# With fewer rows, no correlation is computed.
_MIN_TO_MEASURE = 10
# Nor with fewer different numbers.
_MIN_MEASURES = 3
# If two columns hold short labels, the one with at most half as many different ones names speakers.
_CLEARLY_FEWER = 2
# Texts of one to three words may be speakers if each repeats this often.
_CLIPS_FOR_A_NAME = 3
# Labels that describe how a clip is spoken or the kind of person, not the speaker, as in ESD,
# RAVDESS, EmoV-DB, CREMA-D, Expresso and Hume.
_EMOTIONS = frozenset(
    "afraid amused amusement anger angry anxious bored boredom calm cheerful confused contempt "
    "disgust disgusted emotional enunciated essentials excited excitement fear fearful happiness "
    "happy joy joyful laughing neutral normal relaxed sad sadness sarcastic scared shouting "
    "sleepiness sleepy surprise surprised tired unfriendly whisper whispering whispered "
    "freude fröhlich glücklich müde traurig traurigkeit wut wütend ängstlich überrascht "
    "alegre alegria alegría enojado enfado feliz miedo triste tristeza tristesse colère "
    "heureux joie peur content arrabbiato felice paura rabbia raiva neutre neutro neutra".split()
)
_GENDERS = frozenset("f female femme fem m male man masc woman".split())
_AGES = frozenset(
    "child teen teens teenager adult elderly senior young old twenties thirties fourties forties "
    "fifties sixties seventies eighties nineties".split()
)
_FLAGS = frozenset("true false yes no y n ok good bad valid invalid clean noisy checked".split())
# Kinds of labels, and how many other words each allows.
_KINDS: Sequence[tuple[str, Set[str], int]] = (
    ("emotions", _EMOTIONS, 1),
    ("ages", _AGES, 0),
    ("marks", _FLAGS, 0),
)
# ISO 639-2: undetermined, several languages, no words.
_UNSTATED_LANGUAGES = frozenset(("und", "mul", "zxx"))
# A list of numbers: the tones and the phones per word that MeloTTS writes after its phonemes.
_NUMBER_LIST = re.compile(r"\d+(\s+\d+)+")


def judge(
    rows: Sequence[Sequence[str]], exists: Callable[[str], bool], language: str, source: str
) -> Columns:
    """The columns of rows without a header; all have the same number of fields.

    Args:
        exists: Whether a recording of that name is in the dataset.
        language: LANGUAGE.
        source: The transcript's name, for messages.

    Raises DatasetError with the possible readings.
    """
    columns = [[row[place] for row in rows] for place in range(len(rows[0]))]
    places = {"path": _recordings_column(columns, exists)}
    rest = [place for place, column in enumerate(columns) if place != places["path"] and any(column)]
    if len(rest) > 4 and all(_nearly_all(columns[at], _NUMBER_LIST.fullmatch) for at in rest[-2:]):
        rest = rest[:-3]  # phonemes, tones and phones per word, as in MeloTTS's train.list
    if not rest:
        raise DatasetError(
            f"{source}: no row has a text. Write each transcript behind the name of its clip, as "
            "in clip_1|Good morning. For clips of `train cut`, report.html plays them and saves "
            "the file."
        )
    if len(rest) > 1 and rest[0] == 0 and _is_index(columns[0]):
        rest.remove(0)  # the index that pandas writes
    split = next((at for at in rest if len(rest) > 1 and _are_splits(columns[at])), None)
    if split is not None:
        places["split"] = split
        rest.remove(split)
    ignored = {
        at: kind for at in rest for kind, words, odd in _KINDS if _are_words_of(columns[at], words, odd)
    }
    if len(rest) > 2:
        genders = [at for at in rest if _are_words_of(columns[at], _GENDERS, 0)]
        ignored |= dict.fromkeys(genders, "genders")
    others = [at for at in rest if at not in ignored]
    if all(_are_labels(columns[at]) for at in others):
        ignored = {}  # without sentences in the rows, these labels may be the text
    else:
        rest = others
    languages = _languages_column(columns, rest, language)
    if languages is not None:
        places["language"] = languages
        rest.remove(languages)
    remaining = _OtherColumns(
        columns, rest, source, is_sound=_nearly_all(columns[places["path"]], names_sound)
    )
    places |= remaining.text_and_speaker()
    return Columns(places, len(columns), by_rows=True, ignored=ignored)


@dataclass(frozen=True)
class _OtherColumns:
    """The columns that hold neither recordings nor languages."""

    columns: Sequence[Sequence[str]]
    rest: Sequence[int]
    source: str
    is_sound: bool

    def text_and_speaker(self) -> dict[str, int]:
        if len(self.rest) == 1:
            self._refuse_names(self.columns[self.rest[0]])
            return {"text": self.rest[0]}
        if len(self.rest) == 2:
            return self._judge_two(*self.rest)
        labels = [place for place in self.rest if _are_labels(self.columns[place])]
        texts = [place for place in self.rest if place not in labels]
        if len(self.rest) == 3 and len(labels) == 1 and self._hold_same_texts(*texts):
            return {"speaker": labels[0], "written": texts[0], "text": texts[1]}
        example = "|".join(column[0] for column in self.columns)
        raise DatasetError(
            f"{self.source} has {len(self.columns)} columns whose meaning is not clear, such as "
            f"{short(example)!r}. {HEADER_ADVICE}"
        )

    def _refuse_names(self, column: Sequence[str]) -> None:
        """Refuses a text column that holds a few repeated names."""
        names = set(column)
        if _are_labels(column) and 1 < len(names) <= len(column) / _CLIPS_FOR_A_NAME:
            raise DatasetError(
                f"{self.source} can be read as file|speaker without texts, and as file|text, where "
                f"{len(column)} clips have {len(names)} texts, such as {short(column[0])!r}. Add "
                "the texts. If these are the texts, write a header line, file_name|text."
            )

    def _judge_two(self, first: int, second: int) -> dict[str, int]:
        if self._hold_same_texts(first, second):
            return {"written": first, "text": second}
        column, other = self.columns[first], self.columns[second]
        labels = (_are_labels(column), _are_labels(other))
        if labels == (True, True):
            return self._judge_two_labels(first, second)
        if not any(labels) and len(column) < _FEW_ROWS and self.is_sound:
            labels = (_are_labels(column, repeated=False), _are_labels(other, repeated=False))
        if labels == (True, False) and not _are_durations(column, other):
            return {"speaker": first, "text": second}
        if labels == (False, True) and not _are_durations(other, column):
            return {"text": first, "speaker": second}
        if _nearly_all(other, is_sentence) and not _nearly_all(column, is_sentence):
            first, second = second, first
        ordinal = {0: "first", 1: "second", 2: "third"}.get(second, f"{second + 1}th")
        raise DatasetError(
            f"{self.source}: the {ordinal} of its {len(self.columns)} columns is neither a "
            f"normalised text nor a speaker: {self._example(second)} beside "
            f"{self._example(first)}. Remove it, or write a header line that names the columns, "
            "such as file_name,text or id|text|duration."
        )

    def _judge_two_labels(self, first: int, second: int) -> dict[str, int]:
        """Judges two columns of labels, as in a dataset of single words: speakers are fewer."""
        labels, other = len(set(self.columns[first])), len(set(self.columns[second]))
        if labels * _CLEARLY_FEWER <= other:
            return {"speaker": first, "text": second}
        if other * _CLEARLY_FEWER <= labels:
            return {"text": first, "speaker": second}
        raise DatasetError(
            f"{self.source} can be read as file|text|speaker, where the text of the first row is "
            f"{self._example(first)}, and as file|speaker|text, where it is "
            f"{self._example(second)}. {HEADER_ADVICE}"
        )

    def _hold_same_texts(self, first: int, second: int) -> bool:
        """Whether most fields of a column are the normalised forms of the other's."""
        pairs = zip(self.columns[first], self.columns[second], strict=True)
        same = [_is_normalised_form(text, other) for text, other in pairs if text and other]
        return 2 * sum(same) > len(same)

    def _example(self, place: int) -> str:
        return repr(short(next((cell for cell in self.columns[place] if cell), "")))


# What a column holds


def _recordings_column(columns: Sequence[Sequence[str]], exists: Callable[[str], bool]) -> int:
    """The column of recordings: by file endings, else by existing files, else the first."""
    for place, column in enumerate(columns):
        if _nearly_all(column, names_sound):
            return place
    step = max(1, len(columns[0]) // _MAX_LOOKED_UP)
    counts = [sum(map(exists, filter(None, column[::step]))) for column in columns]
    return counts.index(max(counts))


def _are_splits(column: Sequence[str]) -> bool:
    """Whether a column names the split of each row."""
    words = {cell.casefold() for cell in column}
    return words <= SPLITS.keys() and any(SPLITS[word] is False for word in words)


def _are_words_of(column: Sequence[str], vocabulary: Set[str], odd: int) -> bool:
    """Whether the labels of a column are known words, except for at most `odd`. A single label does
    not count: it may be a name, such as Joy."""
    kinds = {cell.casefold().strip() for cell in column if cell}
    return len(kinds) > 1 and len(kinds - vocabulary) <= min(odd, (len(kinds) - 1) // 3)


def _is_index(column: Sequence[str]) -> bool:
    """Whether a column counts: 0, 1, 2, …"""
    if not all(map(str.isdecimal, column)) or len(column) < _FEW_ROWS:
        return False
    numbers = list(map(int, column))
    return all(later > earlier for earlier, later in itertools.pairwise(numbers))


def _are_durations(numbers: Sequence[str], texts: Sequence[str]) -> bool:
    """Whether whole numbers correlate with the length of their texts, as durations do."""
    if not all(NUMBER.fullmatch(number) for number in numbers if number):
        return False
    pairs = [(int(number), len(text)) for number, text in zip(numbers, texts, strict=True) if number]
    if len(pairs) < _MIN_TO_MEASURE or len({number for number, _ in pairs}) < _MIN_MEASURES:
        return False
    measured, lengths = zip(*pairs, strict=True)
    return len(set(lengths)) > 1 and statistics.correlation(measured, lengths) > _DURATION_CORRELATION


def _languages_column(columns: Sequence[Sequence[str]], rest: Sequence[int], language: str) -> int | None:
    """The column of languages, the last if several qualify: speakers may have names such as EN-US,
    and come first in every known layout."""
    candidates = [
        place
        for place in rest
        if _nearly_all(
            columns[place], lambda cell: language_of(cell) or cell.strip().lower() in _UNSTATED_LANGUAGES
        )
    ]
    if not candidates or len(rest) < 2:
        return None
    last = candidates[-1]
    languages = {*NAMES, short_code(language)}
    # One of two columns is the text, and codes such as `li` and `bo` are also people's names.
    likely = any(language_of(cell) in languages for cell in set(columns[last]))
    return last if likely or len(rest) > 2 else None


def _is_normalised_form(text: str, other: str) -> bool:
    """Whether a field is the normalised form of the other: it keeps most words and spells out
    numbers. Translations and phonemes keep few words."""
    words, others = (_WORD.findall(part.casefold()) for part in (text, other))
    if not is_sentence(text) and not text.endswith(SENTENCE_ENDS):
        return False
    if not words:
        return other.endswith(SENTENCE_ENDS)
    return (Counter(words) & Counter(others)).total() >= _SAME_WORDS * len(words)


def _are_labels(column: Sequence[str], *, repeated: bool = True) -> bool:
    """Whether a column names speakers: short labels, clearly fewer than rows unless the dataset is
    tiny. Numbers that seldom repeat are counts. repeated: whether a label must repeat."""
    filled = [cell for cell in column if cell]
    numbers = all(map(NUMBER.fullmatch, filled))
    if not repeated:
        return _nearly_all(filled, is_label) and not numbers
    kinds = len(set(filled))
    few = kinds <= (_MAX_NUMBERS if numbers else _MAX_NAMES) * len(filled)
    repeats = kinds < len(filled) or len(filled) == 1
    # A long label is a name if it repeats more often than sentences do.
    if 4 * kinds <= len(filled) and _nearly_all(filled, _is_long_name):
        return True
    return repeats and (few or len(filled) < _FEW_ROWS) and _nearly_all(filled, is_label)


def _is_long_name(cell: str) -> bool:
    ends = cell.endswith(SENTENCE_ENDS)
    return any(map(str.isalpha, cell)) and not ends and not is_sentence(cell)


def _nearly_all(column: Sequence[str], holds: Callable[[str], object]) -> bool:
    """Whether `holds` is true for all but a few of the fields that are not empty."""
    filled = [cell for cell in column if cell]
    odd = sum(not holds(cell) for cell in filled)
    allowed = max(_ODD_SHARE * len(filled), len(filled) >= _MIN_FOR_AN_ODD_ONE)
    return odd <= allowed and odd < len(filled)
