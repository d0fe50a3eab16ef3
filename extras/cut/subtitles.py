"""Reads subtitles: SubRip, WebVTT and YouTube's SBV, as written by many programs.

Captions that roll show each line twice or more: YouTube's automatic ones repeat the last line above
the new one, with cues of 10 ms in between, and live captions grow word by word. Each cue then gives
only the words that the cue before it did not show.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import unescape
from typing import NamedTuple

from train.dataset.tags import without_speakers, without_tags

_TIME = r"(?:(\d+):)?(\d{1,2}):(\d{2})(?:[.,](\d{1,3}))?"
TIMES = re.compile(rf"^\s*{_TIME}\s*(?:-->|,)\s*{_TIME}", re.M)
# A ruby annotation, which repeats its word by sound.
_RUBY = re.compile(r"<rt\b[^<>]*>[^<>]{0,80}</rt>", re.I)
# Bold, italics, colours, positions, ruby, and the times of single words.
_FORMAT = re.compile(r"</?(?:[biu]|c|font|lang|ruby|rt)\b[^<>]*>|</?[\d:.,]+>|\{\\[^}]*\}", re.I)
_ENCLOSED = re.compile(r"\[[^\[\]]{0,80}\]|\([^()]{0,80}\)")
_DASH = re.compile(r"^\s*[-–—]+\s*(?=[^\W\d])")
# Blocks of WebVTT that hold no cue.
_NO_CUE = re.compile(r"(?:NOTE|STYLE|REGION|WEBVTT)(?:[ \t]|$)")
# A cue of this length only closes the gap before the next one.
_MAX_FILLER_SECONDS = 0.05
# Rolling cues follow each other without a pause.
_MAX_PAUSE_SECONDS = 0.1
# In rolling captions, at least this share of the cues repeats words of the previous cue.
_MIN_ROLLING_SHARE = 0.25


@dataclass(frozen=True)
class ShownCue:
    """A cue as the file shows it, with times in seconds."""

    start: float
    end: float
    lines: tuple[str, ...]


class TimedText(NamedTuple):
    """A text with its times in seconds."""

    text: str
    start: float
    end: float


def spoken_texts(content: str, tags: list[str]) -> list[TimedText]:
    """The text of each cue with words, each word once. Appends the removed tags to `tags`."""
    cues = [_without_format(cue) for cue in shown_cues(content)]
    if _is_rolling(cues):
        cues = list(_unroll(cues))
    texts = [" ".join(_lines_without_tags(cue.lines, tags)) for cue in cues]
    texts, speakers = without_speakers(texts, captions=True)
    tags += speakers
    return [TimedText(text, cue.start, cue.end) for text, cue in zip(texts, cues, strict=True) if text]


def shown_cues(content: str) -> Iterator[ShownCue]:
    """The cues as they are in the file. Blank lines may stand anywhere, or be missing."""
    lines = content.split("\n")
    time_rows = [row for row, line in enumerate(lines) if TIMES.match(line)]
    for row, next_row in zip(time_rows, [*time_rows[1:], len(lines)], strict=True):
        times = TIMES.match(lines[row])
        assert times is not None
        end_row = next_row
        if next_row < len(lines) and _is_identifier(lines, row, next_row - 1):
            end_row -= 1
        start, end = seconds_of(times.groups()[:4]), seconds_of(times.groups()[4:])
        yield ShownCue(start, end, tuple(_cue_lines(lines[row + 1 : end_row])))


def _is_identifier(lines: Sequence[str], time_row: int, row: int) -> bool:
    """Whether the line above the next cue's times is the number or the name of that cue. time_row:
    the row of the previous cue's times."""
    if row <= time_row or not lines[row].strip():
        return False
    return lines[row].strip().isdecimal() or (row - 1 > time_row and not lines[row - 1].strip())


def _cue_lines(lines: Sequence[str]) -> Iterator[str]:
    """The lines of a cue without blank ones, and without blocks of WebVTT that hold no cue."""
    is_skipped = False
    for previous_line, line in itertools.pairwise(["x", *lines]):
        if not previous_line.strip():
            is_skipped = bool(_NO_CUE.match(line)) or (is_skipped and bool(line.strip()))
        if line.strip() and not is_skipped:
            yield line.strip()


def seconds_of(groups: Sequence[str | None]) -> float:
    """The seconds of (hours, minutes, seconds, fraction)."""
    hours, minutes, seconds, fraction = groups
    whole_seconds = 3600 * int(hours or 0) + 60 * int(minutes or 0) + int(seconds or 0)
    return whole_seconds + int(fraction or 0) / 10 ** len(fraction or "0")


def _without_format(cue: ShownCue) -> ShownCue:
    """The cue without formatting. Text in brackets that spans lines moves to the first of them."""
    text = unescape(_FORMAT.sub("", _RUBY.sub("", "\n".join(cue.lines))))
    text = _ENCLOSED.sub(lambda match: match[0].replace("\n", " "), text)
    lines = (" ".join(line.split()) for line in text.split("\n"))
    return ShownCue(cue.start, cue.end, tuple(filter(None, lines)))


def _lines_without_tags(lines: Sequence[str], tags: list[str]) -> Iterator[str]:
    """The lines that have words. Appends the removed tags to `tags`."""
    for line in lines:
        text, removed_tags = without_tags(line, captions=True)
        text = _DASH.sub("", text)
        tags += removed_tags
        if any(map(str.isalnum, text)):
            yield text


# Rolling captions


def _is_rolling(cues: Sequence[ShownCue]) -> bool:
    """Whether cues repeat the lines of the previous cue more often than speech repeats words."""
    pairs = list(itertools.pairwise(cues))
    num_rolled = sum(_rolls(previous, cue) for previous, cue in pairs)
    return num_rolled > 0 and num_rolled >= _MIN_ROLLING_SHARE * len(pairs)


def _rolls(previous: ShownCue, cue: ShownCue) -> bool:
    """Whether a cue repeats lines and adds some, or only fills a gap. A repeated "No." does not."""
    if cue.start - previous.end > _MAX_PAUSE_SECONDS or not previous.lines or not cue.lines:
        return False
    num_repeated, num_words = _num_repeated(previous, cue), len(_words(cue.lines))
    is_filler = cue.end - cue.start <= _MAX_FILLER_SECONDS
    return num_repeated > 0 and (num_repeated < num_words or is_filler)


def _unroll(cues: Sequence[ShownCue]) -> Iterator[ShownCue]:
    """The cues with only the words that are new in each."""
    previous = None
    for cue in cues:
        new = cue
        if previous and previous.lines and cue.start - previous.end <= _MAX_PAUSE_SECONDS:
            words = _words(cue.lines)[_num_repeated(previous, cue) :]
            new = ShownCue(cue.start, cue.end, (" ".join(words),) if words else ())
        if cue.end - cue.start > _MAX_FILLER_SECONDS and new.lines:
            yield new
        elif new.lines:
            continue  # the next cue shows these words long enough
        if cue.lines:
            previous = cue


def _num_repeated(previous: ShownCue, cue: ShownCue) -> int:
    """The number of words at the beginning of a cue that are the last lines of the previous one."""
    words = _words(cue.lines)
    for first in range(len(previous.lines)):
        last_words = _words(previous.lines[first:])
        if words[: len(last_words)] == last_words:
            return len(last_words)
    return 0


def _words(lines: Sequence[str]) -> list[str]:
    return [word for line in lines for word in line.split()]
