"""Reads a manuscript: its sentences and their spoken words.

Files are plain text, or have times: SubRip, WebVTT, HTK and Audacity labels, Praat TextGrid. A cue
is a piece of text in the file. A unit is the shortest piece of written text that is spoken as whole
words: `$5` is one unit of two words, and is never cut. The normaliser of `xtts.text` reads numbers
and abbreviations.
"""

import bisect
import difflib
import html
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from extras.cut.recordings import CuttingError
from train.dataset.entries import DatasetError, read_text
from xtts.text.normalization.registry import rules_of

_TIME = r"(?:(\d+):)?(\d{1,2}):(\d{2})[.,](\d{1,3})"
_TIMES = re.compile(rf"^\s*{_TIME}\s*-->\s*{_TIME}")
_TAG = re.compile(r"<[^>]*>|\{\\[^}]*\}")
# HTK writes integers in units of 100 ns, Audacity seconds with a decimal point.
_HTK_PER_SECOND = 1e7
_SILENT_LABELS = {"", "sil", "sp", "pau", "spn", "<eps>", "<sil>", "#"}

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
class Cue:
    """A piece of text. start, end: seconds in the recording, None in files without times."""

    text: str
    start: float | None = None
    end: float | None = None


def read_cues(path: Path) -> list[Cue]:
    """Reads the cues of a text file, whose extension names its format.

    Raises CuttingError for a missing, unknown, unreadable or empty file.
    """
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise CuttingError(f"{path} is not a supported text file. Use {', '.join(_READERS)}.")
    cues = [cue for cue in reader(_text(path), path) if cue.text.strip()]
    if not any(letter.isalnum() for cue in cues for letter in cue.text):
        raise CuttingError(f"{path} contains no words. It must be the text of the recording.")
    return cues


def _text(path: Path) -> str:
    try:
        text = read_text(path)
    except DatasetError as error:
        raise CuttingError(str(error)) from error
    except FileNotFoundError:
        raise CuttingError(f"{path} does not exist.") from None
    except OSError as error:
        raise CuttingError(f"{path} cannot be read ({error.strerror}).") from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _plain(text: str, _path: Path) -> list[Cue]:
    """The paragraphs of a plain text; a line break inside one is a space."""
    return [Cue(" ".join(part.split())) for part in re.split(r"\n\s*\n", text)]


def _subtitles(text: str, path: Path) -> list[Cue]:
    """The cues of SubRip and WebVTT: a line of times, then lines of text up to an empty line."""
    cues = list[Cue]()
    for block in re.split(r"\n\s*\n", text):
        lines = block.strip().split("\n")
        place = next((row for row, line in enumerate(lines) if _TIMES.match(line)), None)
        if place is None:
            continue
        times = _TIMES.match(lines[place])
        assert times is not None
        start, end = _seconds(times.groups()[:4]), _seconds(times.groups()[4:])
        plain = html.unescape(_TAG.sub("", " ".join(lines[place + 1 :])))
        cues.append(_cue(" ".join(plain.split()), start, end, path))
    if not cues:
        raise CuttingError(
            f"{path} lacks lines such as `00:00:01,000 --> 00:00:04,000`. Is it a subtitle file?"
        )
    return cues


def _seconds(groups: tuple[str | None, ...]) -> float:
    hours, minutes, seconds, fraction = groups
    whole = 3600 * int(hours or 0) + 60 * int(minutes or 0) + int(seconds or 0)
    return whole + int(fraction or 0) / 10 ** len(fraction or "0")


def _labels(text: str, path: Path) -> list[Cue]:
    """The cues of label files, `start end text` per line: HTK in units of 100 ns, Audacity in
    seconds."""
    cues = list[Cue]()
    for number, line in enumerate(text.split("\n"), start=1):
        fields = line.split(maxsplit=2)
        if not fields:
            continue
        try:
            start, end = float(fields[0]), float(fields[1])
        except (ValueError, IndexError):
            raise CuttingError(
                f"{path}, line {number}: {line[:60]!r} is not `start end text`."
            ) from None
        htk = "." not in fields[0] and "." not in fields[1]
        scale = _HTK_PER_SECOND if htk else 1.0
        label = fields[2] if len(fields) > 2 else ""
        if label.strip().lower() not in _SILENT_LABELS:
            cues.append(_cue(" ".join(label.split()), start / scale, end / scale, path))
    return cues


def _text_grid(text: str, path: Path) -> list[Cue]:
    """The first interval tier of a TextGrid in Praat's long format; a tier called words is used
    only if there is no other."""
    tiers = [tier for tier in re.split(r"item\s*\[\d+\]\s*:", text)[1:] if '"IntervalTier"' in tier]
    if not tiers:
        raise CuttingError(
            f"{path} lacks an IntervalTier in Praat's long text format. Save it in that format."
        )
    tier = next(
        (one for one in tiers if not re.search(r'name\s*=\s*"(words|phones)"', one)), tiers[0]
    )
    pattern = r'xmin\s*=\s*([\d.]+)\s*\n\s*xmax\s*=\s*([\d.]+)\s*\n\s*text\s*=\s*"((?:[^"]|"")*)"'
    return [
        _cue(" ".join(label.replace('""', '"').split()), float(start), float(end), path)
        for start, end, label in re.findall(pattern, tier)
        if label.strip().lower() not in _SILENT_LABELS
    ]


def _cue(text: str, start: float, end: float, path: Path) -> Cue:
    if end < start:
        raise CuttingError(f"{path}: {text[:40]!r} ends at {end:g} s, before {start:g} s.")
    return Cue(text, start, end)


_READERS: dict[str, Callable[[str, Path], list[Cue]]] = {
    ".txt": _plain,
    ".srt": _subtitles,
    ".vtt": _subtitles,
    ".lab": _labels,
    ".textgrid": _text_grid,
}


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
    sentences, kept, ranges = list[str](), list[Cue](), list[range]()
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
                kept.append(cue)
                ranges.append(range(begins, len(words)))
    return Manuscript(tuple(words), tuple(units), tuple(sentences), tuple(kept), tuple(ranges))


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
    return _grouped(tokens, words_of, joined)


def _grouped(
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
