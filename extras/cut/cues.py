"""Reads the text files of recordings: plain ones, and those with times.

    .txt                    paragraphs; or the labels, subtitles or transcript of another program
    .srt, .vtt, .sbv        subtitles: `extras.cut.subtitles`
    .lab, Audacity's .txt   labels: `start end text`
    .TextGrid               Praat
    .json, .tsv             Whisper's transcripts

A cue is a piece of text in the file. Tags of other tools, such as `[laughs]`, are left out.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from extras.common.line_breaks import joiner
from extras.cut.recordings import CuttingError
from extras.cut.subtitles import TIMES, TimedText, spoken_texts
from train.dataset.entries import DatasetError, read_text
from train.dataset.tags import decode_entities, strip_tags, tags_note, without_speakers

# HTK writes integers in units of 100 ns, Audacity seconds with a decimal point.
_HTK_PER_SECOND = 1e7
_SILENT_LABELS = {"", "sil", "sp", "pau", "spn", "<eps>", "<sil>", "#"}
_LABEL = re.compile(r"\s*(\d+(?:[.,]\d+)?)\s+(\d+(?:[.,]\d+)?)(?:\s+(.*))?$")
# Audacity writes a second line below a label with a spectral selection: its frequencies.
_FREQUENCIES = re.compile(r"\s*\\\s")
_CLOCK = r"[\[(]?(?:\d{1,2}:)?\d{1,2}:\d{2}(?:[.,]\d{1,3})?[\])]?"
_TIMED_LINE = re.compile(rf"\s*{_CLOCK}(?:\s*(?:[-–—]|-->)\s*{_CLOCK})?\s*[-–—|:]?\s+(?=\S)")
_MIN_SPEAKER_LINES, _MAX_NAME_WORDS = 2, 4
# The names of the list of segments: Whisper, Hugging Face, whisper.cpp.
_SEGMENT_LISTS = ("segments", "chunks", "transcription")
_MS_PER_SECOND = 1_000
# The pace by which the end of a segment is guessed if it is missing.
_CHARACTERS_PER_SECOND = 15


@dataclass(frozen=True)
class Cue:
    """A piece of text. start, end: seconds in the recording; None in files without times."""

    text: str
    start: float | None = None
    end: float | None = None


def read_cues(path: Path, language: str, notes: list[str]) -> list[Cue]:
    """Reads the cues of a text file, whose extension names its format.

    Args:
        path: The file.
        language: The text's language, which decides about words divided at the ends of lines.
        notes: Receives a sentence about left-out tags.

    Raises CuttingError for a missing, unknown, unreadable or empty file.
    """
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise CuttingError(f"{path} is not a supported text file. Use {', '.join(READERS)}.")
    tags = list[str]()
    cues = [cue for cue in reader(_read_text(path), path, language, tags) if cue.text.strip()]
    if not any(letter.isalnum() for cue in cues for letter in cue.text):
        raise CuttingError(f"{path} contains no words. It must be the text of the recording.")
    if tags:
        notes.append(tags_note(path.name, tags))
    return cues


def _read_text(path: Path) -> str:
    try:
        text = read_text(path)
    except DatasetError as error:
        raise CuttingError(str(error)) from error
    except FileNotFoundError:
        raise CuttingError(f"{path} does not exist.") from None
    except OSError as error:
        raise CuttingError(f"{path} cannot be read ({error.strerror}).") from error
    return re.sub(r"\r+\n|\r", "\n", text)


def _read_plain(text: str, path: Path, language: str, tags: list[str]) -> list[Cue]:
    """The paragraphs of a plain text, or the cues of another format with this extension."""
    lines = [line for line in text.split("\n") if line.strip()]
    if any(TIMES.match(line) and "-->" in line for line in lines):
        return _read_subtitles(text, path, language, tags)
    labels = [line for line in lines if not _FREQUENCIES.match(line)]
    # Decimals: two whole numbers at the beginning of each line are text.
    if labels and all((label := _LABEL.match(line)) and not label[1].isdigit() for line in labels):
        return _read_labels(text, path, language, tags)
    paragraphs = [decode_entities(paragraph)[0] for paragraph in _paragraphs(text, language)]
    return [Cue(part) for part in strip_tags(paragraphs, tags)]


def _paragraphs(text: str, language: str) -> list[str]:
    """Paragraphs between blank lines, without the times that transcripts have between them."""
    lines = text.split("\n")
    filled_lines = [line for line in lines if line.strip()]
    speaker_lines = {line for line in filled_lines if _is_speaker_line(line)}
    if 2 * sum(bool(_TIMED_LINE.match(line)) for line in filled_lines) > len(filled_lines):
        lines = [_TIMED_LINE.sub("\n", line) for line in lines]
    elif sum(line in speaker_lines for line in filled_lines) >= _MIN_SPEAKER_LINES:
        lines = ["" if line in speaker_lines else line for line in lines]
    elif 2 * len(without_speakers(filled_lines)[1]) >= len(filled_lines):
        lines = [f"\n{line}" for line in lines]  # a name begins most lines
    join_lines = joiner(text, language)
    parts = re.split(r"\n\s*\n", "\n".join(lines))
    return [" ".join(join_lines(part.strip().split("\n")).split()) for part in parts]


def _is_speaker_line(line: str) -> bool:
    """Whether a line is a name and a time, or a time alone, above the words, as in transcripts of
    Otter, Zoom and Word."""
    name, num_times = re.subn(rf"(?<!\S){_CLOCK}(?!\S)", " ", line)
    words = name.replace("-->", " ").strip(" -–—|:>").split()
    return (
        num_times > 0
        and len(words) <= _MAX_NAME_WORDS
        and not any(word[0].islower() or word[-1] in ".,;!?" for word in words)
    )


def _read_subtitles(text: str, path: Path, _language: str, tags: list[str]) -> list[Cue]:
    if not TIMES.search(text):
        raise CuttingError(
            f"{path} lacks lines such as `00:00:01,000 --> 00:00:04,000`. Is it a subtitle file?"
        )
    return [_checked_cue(cue, path) for cue in spoken_texts(text, tags)]


def _read_labels(text: str, path: Path, _language: str, tags: list[str]) -> list[Cue]:
    """The cues of label files, `start end text` per line: HTK in units of 100 ns, Audacity in
    seconds."""
    timed = list[TimedText]()
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip() or _FREQUENCIES.match(line):
            continue
        fields = _LABEL.match(line)
        if fields is None:
            raise CuttingError(f"{path}, line {number}: {line[:60]!r} is not `start end text`.")
        is_htk = fields[1].isdigit() and fields[2].isdigit()
        start, end = (float(time.replace(",", ".")) for time in fields.groups()[:2])
        scale = _HTK_PER_SECOND if is_htk else 1.0
        label = fields[3] or ""
        if label.strip().lower() not in _SILENT_LABELS:
            timed.append(TimedText(" ".join(label.split()), start / scale, end / scale))
    return _timed_cues(timed, path, tags)


def _read_text_grid(text: str, path: Path, _language: str, tags: list[str]) -> list[Cue]:
    """The first interval tier of a TextGrid in Praat's long format; a tier called words is used
    only if there is no other."""
    tiers = [tier for tier in re.split(r"item\s*\[\d+\]\s*:", text)[1:] if '"IntervalTier"' in tier]
    if not tiers:
        raise CuttingError(
            f"{path} lacks an IntervalTier in Praat's long text format. Save it in that format."
        )
    tier = next(
        (candidate for candidate in tiers if not re.search(r'name\s*=\s*"(words|phones)"', candidate)),
        tiers[0],
    )
    pattern = r'xmin\s*=\s*([\d.]+)\s*\n\s*xmax\s*=\s*([\d.]+)\s*\n\s*text\s*=\s*"((?:[^"]|"")*)"'
    timed = [
        TimedText(" ".join(label.replace('""', '"').split()), float(start), float(end))
        for start, end, label in re.findall(pattern, tier)
        if label.strip().lower() not in _SILENT_LABELS
    ]
    return _timed_cues(timed, path, tags)


def _read_tsv(text: str, path: Path, _language: str, tags: list[str]) -> list[Cue]:
    """Whisper's table: start and end in milliseconds, and the text."""
    header, *rows = (line.split("\t") for line in text.split("\n") if line.strip())
    names = [name.strip().lower() for name in header]
    if not {"start", "end", "text"} <= set(names):
        raise CuttingError(
            f"{path} does not begin with the columns start, end and text, as Whisper writes them."
        )
    timed = list[TimedText]()
    for number, row in enumerate(rows, start=2):
        fields = dict(zip(names, row, strict=False))
        try:
            start, end = float(fields["start"]), float(fields["end"])
        except (KeyError, ValueError):
            raise CuttingError(f"{path}, line {number}: start and end are not numbers.") from None
        scale = 1 if "." in fields["start"] + fields["end"] else _MS_PER_SECOND
        timed.append(TimedText(fields.get("text", "").strip(), start / scale, end / scale))
    return _timed_cues(timed, path, tags)


def _read_json(text: str, path: Path, _language: str, tags: list[str]) -> list[Cue]:
    """The segments of Whisper and its relatives, with their times."""
    try:
        content = json.loads(text)
    except ValueError as error:
        raise CuttingError(f"{path} is not JSON ({error}).") from error
    if timed := list(_segments(content)):
        return _timed_cues(timed, path, tags)
    if isinstance(content, Mapping) and isinstance(content.get("text"), str):
        return [Cue(part) for part in strip_tags([content["text"]], tags)]
    raise CuttingError(
        f"{path} has no list of segments with start, end and text, as Whisper writes it. Export "
        "the transcript as .srt instead."
    )


def _segments(content: object) -> Iterator[TimedText]:
    if isinstance(content, Mapping):
        content = next((content[name] for name in _SEGMENT_LISTS if content.get(name)), None)
    for segment in content if isinstance(content, list) else ():
        if isinstance(segment, Mapping) and (times := _times_of(segment)):
            yield TimedText(" ".join(str(segment.get("text", "")).split()), *times)


def _times_of(segment: Mapping[str, object]) -> tuple[float, float] | None:
    """The start and end of a segment, in seconds: Whisper's, whisper.cpp's, Hugging Face's."""
    offsets, pair = segment.get("offsets"), segment.get("timestamp")
    if isinstance(offsets, Mapping):
        pair = [offsets.get("from"), offsets.get("to")]
        scale = _MS_PER_SECOND
    else:
        scale = 1
        pair = pair or [segment.get("start"), segment.get("end")]
    match pair:
        # Hugging Face leaves the end of the last segment open.
        case [int() | float() as start, None]:
            return start / scale, start / scale + len(str(segment.get("text", ""))) / _CHARACTERS_PER_SECOND
        case [int() | float() as start, int() | float() as end]:
            return start / scale, end / scale
    return None


def _timed_cues(timed: Sequence[TimedText], path: Path, tags: list[str]) -> list[Cue]:
    """The cues without tags, which are appended to `tags`."""
    texts = strip_tags([decode_entities(text)[0] for text, _, _ in timed], tags)
    return [
        _checked_cue(times._replace(text=text), path)
        for text, times in zip(texts, timed, strict=True)
        if text
    ]


def _checked_cue(timed: TimedText, path: Path) -> Cue:
    text, start, end = timed
    if end < start:
        raise CuttingError(f"{path}: {text[:40]!r} ends at {end:g} s, before {start:g} s.")
    return Cue(text, start, end)


READERS: dict[str, Callable[[str, Path, str, list[str]], list[Cue]]] = {
    ".txt": _read_plain,
    ".srt": _read_subtitles,
    ".vtt": _read_subtitles,
    ".sbv": _read_subtitles,
    ".lab": _read_labels,
    ".textgrid": _read_text_grid,
    ".json": _read_json,
    ".tsv": _read_tsv,
}
