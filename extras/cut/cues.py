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
from extras.cut.subtitles import TIMES, spoken_cues
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
_MIN_TURNS, _MAX_NAME_WORDS = 2, 4
# The names of the list of segments: Whisper, Hugging Face, whisper.cpp.
_SEGMENTS = ("segments", "chunks", "transcription")
_MS_PER_SECOND = 1_000


@dataclass(frozen=True)
class Cue:
    """A piece of text. start, end: seconds in the recording, None in files without times."""

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
    cues = [cue for cue in reader(_text(path), path, language, tags) if cue.text.strip()]
    if not any(letter.isalnum() for cue in cues for letter in cue.text):
        raise CuttingError(f"{path} contains no words. It must be the text of the recording.")
    if tags:
        notes.append(tags_note(path.name, tags))
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
    return re.sub(r"\r+\n|\r", "\n", text)


def _plain(text: str, path: Path, language: str, tags: list[str]) -> list[Cue]:
    """The paragraphs of a plain text, or the cues of another format under this name."""
    lines = [line for line in text.split("\n") if line.strip()]
    if any(TIMES.match(line) and "-->" in line for line in lines):
        return _subtitles(text, path, language, tags)
    labels = [line for line in lines if not _FREQUENCIES.match(line)]
    # Decimals: two whole numbers at the beginning of each line are text.
    if labels and all((label := _LABEL.match(line)) and not label[1].isdigit() for line in labels):
        return _labels(text, path, language, tags)
    paragraphs = [decode_entities(paragraph)[0] for paragraph in _paragraphs(text, language)]
    return [Cue(part) for part in strip_tags(paragraphs, tags)]


def _paragraphs(text: str, language: str) -> list[str]:
    """Paragraphs between blank lines, without the times that transcripts have between them."""
    lines = text.split("\n")
    filled = [line for line in lines if line.strip()]
    turns = {line for line in filled if _is_turn(line)}
    if 2 * sum(bool(_TIMED_LINE.match(line)) for line in filled) > len(filled):
        lines = [_TIMED_LINE.sub("\n", line) for line in lines]
    elif sum(line in turns for line in filled) >= _MIN_TURNS:
        lines = ["" if line in turns else line for line in lines]
    elif 2 * len(without_speakers(filled)[1]) >= len(filled):
        lines = [f"\n{line}" for line in lines]  # a name begins most lines
    joined = joiner(text, language)
    parts = re.split(r"\n\s*\n", "\n".join(lines))
    return [" ".join(joined(part.strip().split("\n")).split()) for part in parts]


def _is_turn(line: str) -> bool:
    """Whether a line is a name and a time, or a time alone, above the words, as in transcripts of
    Otter, Zoom and Word."""
    rest, times = re.subn(rf"(?<!\S){_CLOCK}(?!\S)", " ", line)
    words = rest.replace("-->", " ").strip(" -–—|:>").split()
    return (
        times > 0
        and len(words) <= _MAX_NAME_WORDS
        and not any(word[0].islower() or word[-1] in ".,;!?" for word in words)
    )


def _subtitles(text: str, path: Path, _language: str, tags: list[str]) -> list[Cue]:
    if not TIMES.search(text):
        raise CuttingError(
            f"{path} lacks lines such as `00:00:01,000 --> 00:00:04,000`. Is it a subtitle file?"
        )
    return [_cue(*cue, path) for cue in spoken_cues(text, tags)]


def _labels(text: str, path: Path, _language: str, tags: list[str]) -> list[Cue]:
    """The cues of label files, `start end text` per line: HTK in units of 100 ns, Audacity in
    seconds."""
    timed = list[tuple[str, float, float]]()
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip() or _FREQUENCIES.match(line):
            continue
        fields = _LABEL.match(line)
        if fields is None:
            raise CuttingError(f"{path}, line {number}: {line[:60]!r} is not `start end text`.")
        htk = fields[1].isdigit() and fields[2].isdigit()
        start, end = (float(time.replace(",", ".")) for time in fields.groups()[:2])
        scale = _HTK_PER_SECOND if htk else 1.0
        label = fields[3] or ""
        if label.strip().lower() not in _SILENT_LABELS:
            timed.append((" ".join(label.split()), start / scale, end / scale))
    return _timed_cues(timed, path, tags)


def _text_grid(text: str, path: Path, _language: str, tags: list[str]) -> list[Cue]:
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
        (" ".join(label.replace('""', '"').split()), float(start), float(end))
        for start, end, label in re.findall(pattern, tier)
        if label.strip().lower() not in _SILENT_LABELS
    ]
    return _timed_cues(timed, path, tags)


def _tsv(text: str, path: Path, _language: str, tags: list[str]) -> list[Cue]:
    """Whisper's table: start and end in milliseconds, and the text."""
    header, *rows = (line.split("\t") for line in text.split("\n") if line.strip())
    names = [name.strip().lower() for name in header]
    if not {"start", "end", "text"} <= set(names):
        raise CuttingError(
            f"{path} does not begin with the columns start, end and text, as Whisper writes them."
        )
    timed = list[tuple[str, float, float]]()
    for number, row in enumerate(rows, start=2):
        fields = dict(zip(names, row, strict=False))
        try:
            start, end = float(fields["start"]), float(fields["end"])
        except (KeyError, ValueError):
            raise CuttingError(f"{path}, line {number}: start and end are not numbers.") from None
        scale = 1 if "." in fields["start"] + fields["end"] else _MS_PER_SECOND
        timed.append((fields.get("text", "").strip(), start / scale, end / scale))
    return _timed_cues(timed, path, tags)


def _json(text: str, path: Path, _language: str, tags: list[str]) -> list[Cue]:
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


def _segments(content: object) -> Iterator[tuple[str, float, float]]:
    if isinstance(content, Mapping):
        content = next((content[name] for name in _SEGMENTS if content.get(name)), None)
    for segment in content if isinstance(content, list) else ():
        if isinstance(segment, Mapping) and (times := _times_of(segment)):
            yield (" ".join(str(segment.get("text", "")).split()), *times)


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
            return start / scale, start / scale + len(str(segment.get("text", ""))) / 15
        case [int() | float() as start, int() | float() as end]:
            return start / scale, end / scale
    return None


def _timed_cues(timed: Sequence[tuple[str, float, float]], path: Path, tags: list[str]) -> list[Cue]:
    plain = strip_tags([decode_entities(text)[0] for text, _, _ in timed], tags)
    return [_cue(text, start, end, path) for text, (_, start, end) in zip(plain, timed, strict=True) if text]


def _cue(text: str, start: float, end: float, path: Path) -> Cue:
    if end < start:
        raise CuttingError(f"{path}: {text[:40]!r} ends at {end:g} s, before {start:g} s.")
    return Cue(text, start, end)


READERS: dict[str, Callable[[str, Path, str, list[str]], list[Cue]]] = {
    ".txt": _plain,
    ".srt": _subtitles,
    ".vtt": _subtitles,
    ".sbv": _subtitles,
    ".lab": _labels,
    ".textgrid": _text_grid,
    ".json": _json,
    ".tsv": _tsv,
}
