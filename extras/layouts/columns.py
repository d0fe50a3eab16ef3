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
from xtts.text.languages import ENGLISH_NAMES, short_code

# The share of a text's words that its normalised form keeps.
_MIN_SHARED_WORDS = 0.5
# Words without digits; in scripts without spaces, characters.
_WORD = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]|[^\W\d_]+")
# The share of rows whose faults do not change what a column holds.
_MAX_FAULTY_SHARE = 0.1
# From this many rows on, one faulty row never does.
_MIN_ROWS_FOR_A_FAULT = 5
_MAX_ROWS_LOOKED_UP = 40
# The limit of speakers per row.
_MAX_SPEAKERS_PER_ROW = 0.75
# The same for speakers that are numbers; numbers that repeat less often are counts.
_MAX_NUMBERS_PER_ROW = 0.5
# With fewer rows, each may have a different speaker.
_MIN_ROWS_TO_REPEAT = 4
# Numbers are durations if their correlation with the length of their texts is above this.
_DURATION_CORRELATION = 0.75
# With fewer rows, no correlation is computed.
_MIN_ROWS_TO_CORRELATE = 10
# Nor with fewer different numbers.
_MIN_NUMBERS_TO_CORRELATE = 3
# If two columns hold short labels, the one with at most half as many different ones names speakers.
_MIN_TEXTS_PER_SPEAKER = 2
# Texts of one to three words may be speakers if each repeats this often.
_MIN_CLIPS_PER_NAME = 3
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
# Kinds of labels that are ignored, and how many other words each allows.
_IGNORED_KINDS: Sequence[tuple[str, Set[str], int]] = (
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
    unjudged = _columns_to_judge(columns, places["path"], source)
    split = next((at for at in unjudged if len(unjudged) > 1 and _are_splits(columns[at])), None)
    if split is not None:
        places["split"] = split
        unjudged.remove(split)
    ignored = _ignored_columns(columns, unjudged)
    unjudged = [at for at in unjudged if at not in ignored]
    languages = _languages_column(columns, unjudged, language)
    if languages is not None:
        places["language"] = languages
        unjudged.remove(languages)
    are_sounds = _nearly_all(columns[places["path"]], names_sound)
    places |= _TextColumns(columns, unjudged, source, are_sounds).text_and_speaker()
    return Columns(places, len(columns), by_rows=True, ignored=ignored)


def _columns_to_judge(columns: Sequence[Sequence[str]], path: int, source: str) -> list[int]:
    """The columns with content, besides that of the recordings. Raises DatasetError if there are none."""
    unjudged = [place for place, column in enumerate(columns) if place != path and any(column)]
    if len(unjudged) > 4 and all(_nearly_all(columns[at], _NUMBER_LIST.fullmatch) for at in unjudged[-2:]):
        unjudged = unjudged[:-3]  # phonemes, tones and phones per word, as in MeloTTS's train.list
    if not unjudged:
        raise DatasetError(
            f"{source}: no row has a text. Write each transcript behind the name of its clip, as "
            "in clip_1|Good morning. For clips of `train cut`, report.html plays them and saves "
            "the file."
        )
    if len(unjudged) > 1 and unjudged[0] == 0 and _is_index(columns[0]):
        unjudged.remove(0)  # the index that pandas writes
    return unjudged


def _ignored_columns(columns: Sequence[Sequence[str]], unjudged: Sequence[int]) -> dict[int, str]:
    """The columns of labels that name no speaker, with their kinds; none if no other column has sentences,
    because these labels may then be the text."""
    ignored = {
        at: kind
        for at in unjudged
        for kind, vocabulary, max_others in _IGNORED_KINDS
        if _are_words_of(columns[at], vocabulary, max_others)
    }
    if len(unjudged) > 2:
        genders = [at for at in unjudged if _are_words_of(columns[at], _GENDERS, 0)]
        ignored |= dict.fromkeys(genders, "genders")
    has_sentences = not all(_are_labels(columns[at]) for at in unjudged if at not in ignored)
    return ignored if has_sentences else {}


@dataclass(frozen=True)
class _TextColumns:
    """The columns that may hold texts or speakers.

    Attributes:
        columns: All columns of the transcript.
        places: The indices of these.
        are_sounds: Whether the column of recordings has names with the ending of a sound file.
    """

    columns: Sequence[Sequence[str]]
    places: Sequence[int]
    source: str
    are_sounds: bool

    def text_and_speaker(self) -> dict[str, int]:
        if len(self.places) == 1:
            self._refuse_names(self.columns[self.places[0]])
            return {"text": self.places[0]}
        if len(self.places) == 2:
            return self._judge_two(*self.places)
        labels = [place for place in self.places if _are_labels(self.columns[place])]
        texts = [place for place in self.places if place not in labels]
        if len(self.places) == 3 and len(labels) == 1 and self._hold_same_texts(*texts):
            return {"speaker": labels[0], "written": texts[0], "text": texts[1]}
        example = "|".join(column[0] for column in self.columns)
        raise DatasetError(
            f"{self.source} has {len(self.columns)} columns whose meaning is not clear, such as "
            f"{short(example)!r}. {HEADER_ADVICE}"
        )

    def _refuse_names(self, column: Sequence[str]) -> None:
        """Refuses a text column that holds a few repeated names."""
        names = set(column)
        if _are_labels(column) and 1 < len(names) <= len(column) / _MIN_CLIPS_PER_NAME:
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
        if not any(labels) and len(column) < _MIN_ROWS_TO_REPEAT and self.are_sounds:
            labels = (_are_labels(column, must_repeat=False), _are_labels(other, must_repeat=False))
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
        num_first, num_second = len(set(self.columns[first])), len(set(self.columns[second]))
        if num_first * _MIN_TEXTS_PER_SPEAKER <= num_second:
            return {"speaker": first, "text": second}
        if num_second * _MIN_TEXTS_PER_SPEAKER <= num_first:
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
    step = max(1, len(columns[0]) // _MAX_ROWS_LOOKED_UP)
    counts = [sum(map(exists, filter(None, column[::step]))) for column in columns]
    return counts.index(max(counts))


def _are_splits(column: Sequence[str]) -> bool:
    """Whether a column names the split of each row."""
    words = {cell.casefold() for cell in column}
    return words <= SPLITS.keys() and any(SPLITS[word] is False for word in words)


def _are_words_of(column: Sequence[str], vocabulary: Set[str], max_others: int) -> bool:
    """Whether the labels of a column are in the vocabulary, except for at most `max_others`. A single
    label does not count: it may be a name, such as Joy."""
    labels = {cell.casefold().strip() for cell in column if cell}
    return len(labels) > 1 and len(labels - vocabulary) <= min(max_others, (len(labels) - 1) // 3)


def _is_index(column: Sequence[str]) -> bool:
    """Whether a column counts: 0, 1, 2, …"""
    if not all(map(str.isdecimal, column)) or len(column) < _MIN_ROWS_TO_REPEAT:
        return False
    numbers = list(map(int, column))
    return all(later > earlier for earlier, later in itertools.pairwise(numbers))


def _are_durations(numbers: Sequence[str], texts: Sequence[str]) -> bool:
    """Whether whole numbers correlate with the length of their texts, as durations do."""
    if not all(NUMBER.fullmatch(number) for number in numbers if number):
        return False
    pairs = [(int(number), len(text)) for number, text in zip(numbers, texts, strict=True) if number]
    if len(pairs) < _MIN_ROWS_TO_CORRELATE:
        return False
    durations, lengths = zip(*pairs, strict=True)
    if len(set(durations)) < _MIN_NUMBERS_TO_CORRELATE or len(set(lengths)) < 2:
        return False
    return statistics.correlation(durations, lengths) > _DURATION_CORRELATION


def _languages_column(columns: Sequence[Sequence[str]], places: Sequence[int], language: str) -> int | None:
    """The column of languages, the last if several qualify: speakers may have names such as EN-US,
    and come first in every known layout."""
    candidates = [
        place
        for place in places
        if _nearly_all(
            columns[place], lambda cell: language_of(cell) or cell.strip().lower() in _UNSTATED_LANGUAGES
        )
    ]
    if not candidates or len(places) < 2:
        return None
    last = candidates[-1]
    languages = {*ENGLISH_NAMES, short_code(language)}
    # One of two columns is the text, and codes such as `li` and `bo` are also people's names.
    has_likely_language = any(language_of(cell) in languages for cell in set(columns[last]))
    return last if has_likely_language or len(places) > 2 else None


def _is_normalised_form(text: str, other: str) -> bool:
    """Whether a field is the normalised form of the other: it keeps most words and spells out
    numbers. Translations and phonemes keep few words."""
    words, others = (_WORD.findall(part.casefold()) for part in (text, other))
    if not is_sentence(text) and not text.endswith(SENTENCE_ENDS):
        return False
    if not words:
        return other.endswith(SENTENCE_ENDS)
    return (Counter(words) & Counter(others)).total() >= _MIN_SHARED_WORDS * len(words)


def _are_labels(column: Sequence[str], *, must_repeat: bool = True) -> bool:
    """Whether a column names speakers: short labels, clearly fewer than rows unless the dataset is
    tiny. Numbers that seldom repeat are counts."""
    filled = [cell for cell in column if cell]
    are_numbers = all(map(NUMBER.fullmatch, filled))
    if not must_repeat:
        return _nearly_all(filled, is_label) and not are_numbers
    num_labels = len(set(filled))
    are_few = num_labels <= (_MAX_NUMBERS_PER_ROW if are_numbers else _MAX_SPEAKERS_PER_ROW) * len(filled)
    any_repeats = num_labels < len(filled) or len(filled) == 1
    # A long label is a name if it repeats more often than sentences do.
    if 4 * num_labels <= len(filled) and _nearly_all(filled, _is_long_name):
        return True
    return any_repeats and (are_few or len(filled) < _MIN_ROWS_TO_REPEAT) and _nearly_all(filled, is_label)


def _is_long_name(cell: str) -> bool:
    has_letters = any(map(str.isalpha, cell))
    return has_letters and not cell.endswith(SENTENCE_ENDS) and not is_sentence(cell)


def _nearly_all(column: Sequence[str], holds: Callable[[str], object]) -> bool:
    """Whether `holds` is true for all but a few of the fields that are not empty."""
    filled = [cell for cell in column if cell]
    num_faults = sum(not holds(cell) for cell in filled)
    allowed = max(_MAX_FAULTY_SHARE * len(filled), len(filled) >= _MIN_ROWS_FOR_A_FAULT)
    return num_faults <= allowed and num_faults < len(filled)
