"""Reads the text of a recording: txt, or with times: SubRip, WebVTT, HTK and Audacity labels,
Praat TextGrid.

A reader gives cues, pieces of text in the order of the file; those of a txt have no times.
"""

import html
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from train.cutting.errors import CuttingError

_TIME = r"(?:(\d+):)?(\d{1,2}):(\d{2})[.,](\d{1,3})"
_TIMES = re.compile(rf"^\s*{_TIME}\s*-->\s*{_TIME}")
_TAG = re.compile(r"<[^>]*>|\{\\[^}]*\}")
# HTK writes whole hundreds of nanoseconds, Audacity seconds with a point.
_HTK_PER_SECOND = 1e7
_SILENT_LABELS = {"", "sil", "sp", "pau", "spn", "<eps>", "<sil>", "#"}


@dataclass(frozen=True)
class Cue:
    """A piece of text; start, end: seconds in the recording, None where the file has no times."""

    text: str
    start: float | None = None
    end: float | None = None


def read_cues(path: Path) -> list[Cue]:
    """The pieces of a text file, by its ending.

    Raises CuttingError for a missing, unknown, unreadable or empty file.
    """
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise CuttingError(
            f"{path} is no text that is read; the endings are {', '.join(_READERS)}."
        )
    cues = [cue for cue in reader(_text(path), path) if cue.text.strip()]
    if not any(letter.isalnum() for cue in cues for letter in cue.text):
        raise CuttingError(f"{path} holds no words; write into it what the recording says.")
    return cues


def _text(path: Path) -> str:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise CuttingError(f"{path} does not exist.") from None
    except OSError as error:
        raise CuttingError(f"{path} cannot be read ({error.strerror}).") from error
    wide = content[:2] in (b"\xff\xfe", b"\xfe\xff")
    try:
        found = content.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise CuttingError(
            f"{path}, line {line}: byte {content[error.start]:#x} is no UTF-8. Save it as UTF-8."
        ) from error
    return found.replace("\r\n", "\n").replace("\r", "\n")


def _plain(text: str, _path: Path) -> list[Cue]:
    """Paragraphs; a line break inside one is a space."""
    return [Cue(" ".join(part.split())) for part in re.split(r"\n\s*\n", text)]


def _subtitles(text: str, path: Path) -> list[Cue]:
    """SubRip and WebVTT: a line of times, then lines of text up to an empty one."""
    cues = list[Cue]()
    for block in re.split(r"\n\s*\n", text):
        lines = block.strip().split("\n")
        place = next((row for row, line in enumerate(lines) if _TIMES.match(line)), None)
        if place is None:
            continue
        found = _TIMES.match(lines[place])
        assert found is not None
        start, end = _seconds(found.groups()[:4]), _seconds(found.groups()[4:])
        said = html.unescape(_TAG.sub("", " ".join(lines[place + 1 :])))
        cues.append(_cue(" ".join(said.split()), start, end, path))
    if not cues:
        raise CuttingError(
            f"{path} holds no line such as `00:00:01,000 --> 00:00:04,000`: is it a subtitle file?"
        )
    return cues


def _seconds(groups: tuple[str | None, ...]) -> float:
    hours, minutes, seconds, fraction = groups
    whole = 3600 * int(hours or 0) + 60 * int(minutes or 0) + int(seconds or 0)
    return whole + int(fraction or 0) / 10 ** len(fraction or "0")


def _labels(text: str, path: Path) -> list[Cue]:
    """`start end text` a line: HTK in units of 100 ns, Audacity in seconds."""
    cues = list[Cue]()
    for number, line in enumerate(text.split("\n"), start=1):
        fields = line.split(maxsplit=2)
        if not fields:
            continue
        try:
            start, end = float(fields[0]), float(fields[1])
        except (ValueError, IndexError):
            raise CuttingError(
                f"{path}, line {number}: {line[:60]!r} is no `start end text`."
            ) from None
        htk = "." not in fields[0] and "." not in fields[1]
        scale = _HTK_PER_SECOND if htk else 1.0
        said = fields[2] if len(fields) > 2 else ""
        if said.strip().lower() not in _SILENT_LABELS:
            cues.append(_cue(" ".join(said.split()), start / scale, end / scale, path))
    return cues


def _text_grid(text: str, path: Path) -> list[Cue]:
    """The first tier of intervals in Praat's long form; a tier called words is not taken where
    there is another."""
    tiers = [tier for tier in re.split(r"item\s*\[\d+\]\s*:", text)[1:] if '"IntervalTier"' in tier]
    if not tiers:
        raise CuttingError(
            f"{path} holds no IntervalTier in Praat's long text form; save it so from Praat."
        )
    tier = next(
        (one for one in tiers if not re.search(r'name\s*=\s*"(words|phones)"', one)), tiers[0]
    )
    pattern = r'xmin\s*=\s*([\d.]+)\s*\n\s*xmax\s*=\s*([\d.]+)\s*\n\s*text\s*=\s*"((?:[^"]|"")*)"'
    return [
        _cue(" ".join(said.replace('""', '"').split()), float(start), float(end), path)
        for start, end, said in re.findall(pattern, tier)
        if said.strip().lower() not in _SILENT_LABELS
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
