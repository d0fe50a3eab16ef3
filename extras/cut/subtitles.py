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
_GAP_SECONDS = 0.05
# Rolling cues follow each other without a pause.
_FOLLOWS_SECONDS = 0.1
# The share of the cues that repeat words of the cue before, in captions that roll.
_ROLLING = 0.25


@dataclass(frozen=True)
class Shown:
    """A cue of the file. lines: what it shows; start, end: in seconds."""

    start: float
    end: float
    lines: tuple[str, ...]


def spoken_cues(text: str, tags: list[str]) -> list[tuple[str, float, float]]:
    """(text, start, end) of each cue with words, each word once. Appends the left-out tags."""
    cues = [_with_plain_lines(cue) for cue in shown_cues(text)]
    if _roll(cues):
        cues = list(_unroll(cues))
    plain = [" ".join(_without_tags(cue.lines, tags)) for cue in cues]
    plain, names = without_speakers(plain, captions=True)
    tags += names
    return [(text, cue.start, cue.end) for text, cue in zip(plain, cues, strict=True) if text]


def shown_cues(text: str) -> Iterator[Shown]:
    """The cues as they are in the file. Blank lines may stand anywhere, or be missing."""
    lines = text.split("\n")
    places = [row for row, line in enumerate(lines) if TIMES.match(line)]
    for row, following in zip(places, [*places[1:], len(lines)], strict=True):
        times = TIMES.match(lines[row])
        assert times is not None
        last = following
        if following < len(lines) and _is_identifier(lines, row, following - 1):
            last -= 1
        groups = times.groups()
        yield Shown(seconds_of(groups[:4]), seconds_of(groups[4:]), tuple(_cue_lines(lines[row + 1 : last])))


def _is_identifier(lines: Sequence[str], times: int, row: int) -> bool:
    """Whether the line above a line of times is the number or the name of its cue. times: the row
    of the times before it."""
    if row <= times or not lines[row].strip():
        return False
    return lines[row].strip().isdecimal() or (row - 1 > times and not lines[row - 1].strip())


def _cue_lines(lines: Sequence[str]) -> Iterator[str]:
    skipped = False
    for before, line in itertools.pairwise(["x", *lines]):
        if not before.strip():
            skipped = bool(_NO_CUE.match(line)) or (skipped and bool(line.strip()))
        if line.strip() and not skipped:
            yield line.strip()


def seconds_of(groups: Sequence[str | None]) -> float:
    """The seconds of (hours, minutes, seconds, fraction)."""
    hours, minutes, seconds, fraction = groups
    whole = 3600 * int(hours or 0) + 60 * int(minutes or 0) + int(seconds or 0)
    return whole + int(fraction or 0) / 10 ** len(fraction or "0")


def _with_plain_lines(cue: Shown) -> Shown:
    """The cue without formatting. Brackets that span lines are closed in the first."""
    text = unescape(_FORMAT.sub("", _RUBY.sub("", "\n".join(cue.lines))))
    text = _ENCLOSED.sub(lambda match: match[0].replace("\n", " "), text)
    lines = (" ".join(line.split()) for line in text.split("\n"))
    return Shown(cue.start, cue.end, tuple(filter(None, lines)))


def _without_tags(lines: Sequence[str], tags: list[str]) -> Iterator[str]:
    for line in lines:
        plain, removed = without_tags(line, captions=True)
        plain = _DASH.sub("", plain)
        tags += removed
        if any(map(str.isalnum, plain)):
            yield plain


# Rolling captions


def _roll(cues: Sequence[Shown]) -> bool:
    """Whether cues repeat what the cue before them showed, more often than speech does."""
    pairs = list(itertools.pairwise(cues))
    rolled = sum(_continues(before, cue) for before, cue in pairs)
    return rolled > 0 and rolled >= _ROLLING * len(pairs)


def _continues(before: Shown, cue: Shown) -> bool:
    """Whether a cue repeats lines and adds some, or only fills a gap. "No." said twice does not."""
    if cue.start - before.end > _FOLLOWS_SECONDS or not before.lines or not cue.lines:
        return False
    repeated, words = _num_repeated(before, cue), len(_words(cue.lines))
    return repeated > 0 and (repeated < words or cue.end - cue.start <= _GAP_SECONDS)


def _unroll(cues: Sequence[Shown]) -> Iterator[Shown]:
    before = None
    for cue in cues:
        new = cue
        if before and before.lines and cue.start - before.end <= _FOLLOWS_SECONDS:
            words = _words(cue.lines)[_num_repeated(before, cue) :]
            new = Shown(cue.start, cue.end, (" ".join(words),) if words else ())
        if cue.end - cue.start > _GAP_SECONDS and new.lines:
            yield new
        elif new.lines:
            continue  # the next cue shows these words long enough
        if cue.lines:
            before = cue


def _num_repeated(before: Shown, cue: Shown) -> int:
    """The number of words at the beginning of a cue that are the last lines of the cue before."""
    words = _words(cue.lines)
    for first in range(len(before.lines)):
        shown = _words(before.lines[first:])
        if words[: len(shown)] == shown:
            return len(shown)
    return 0


def _words(lines: Sequence[str]) -> list[str]:
    return [word for line in lines for word in line.split()]
