"""Writes the times of words as JSON, SRT or WebVTT."""

import html
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, replace

from xtts.inference.alignment.guarded_piece import TimedWord

# The bounds of a subtitle (BBC's guideline is two lines of 37 characters).
MAX_CUE_CHARACTERS, MAX_CUE_SECONDS = 42, 6.0
# A longer pause starts a new subtitle.
MAX_CUE_PAUSE_SECONDS = 0.6
# How far after a word of the text the next one is looked for.
_MAX_GAP_CHARACTERS = 200
_CLOSING = re.compile(r"[^\w\s]*")
_OPENING = "\"'([{<«“„‘‚¿¡（「『《"


def render(words: Sequence[TimedWord], form: str, text: str = "") -> str:
    """The words as the content of a file in `form`: json, srt or vtt.

    text: the spoken text without markup, whose punctuation the subtitles show.
    """
    if form == "json":
        return json.dumps([asdict(word) for word in words], indent=1, ensure_ascii=False) + "\n"
    decimal_mark = "," if form == "srt" else "."
    blocks = ["WEBVTT\n"] if form == "vtt" else []
    for number, cue in enumerate(_cues(_punctuate(words, text)), start=1):
        start = _timestamp(cue[0].start_time, decimal_mark)
        end = _timestamp(cue[-1].end_time, decimal_mark)
        head = f"{number}\n" if form == "srt" else ""
        line = _line(cue).replace("-->", "→")  # --> separates the times
        if form == "vtt":
            line = html.escape(line, quote=False)
        blocks.append(f"{head}{start} --> {end}\n{line}\n")
    return "\n".join(blocks)


def _punctuate(words: Sequence[TimedWord], text: str) -> list[TimedWord]:
    """The words with the punctuation and the spaces of the text. A word that is not in the text gets
    a space."""
    # `position` is the end of the last word that was found.
    shown, position, is_lost = list[str](), 0, False
    for word in (timed.word for timed in words):
        start = text.find(word, position, position + len(word) + _MAX_GAP_CHARACTERS)
        end = start + len(word)
        closing, opening = _split_gap(text[position:start] if start >= 0 else "")
        # A letter between two words is part of a word that was not found.
        skipped = opening + text[end : end + 1] if is_lost else closing + opening
        if start < 0 or any(map(str.isalnum, skipped)):
            if shown and not is_lost:
                shown[-1] += f"{_closing_at(text, position)} "
            shown.append(f"{word} ")
            is_lost = True
            continue
        if shown and not is_lost:
            shown[-1] += closing
        elif not shown:
            opening = (closing + opening).lstrip()
        shown.append(opening + word)
        position, is_lost = end, False
    if shown and not is_lost:
        shown[-1] += _closing_at(text, position)
    return [replace(word, word=part) for word, part in zip(words, shown, strict=True)]


def _split_gap(between: str) -> tuple[str, str]:
    """The characters between two words: those that follow the first, and those before the second."""
    spaced = re.match(r"(.*\s)(.*)", between, re.S)
    if spaced:
        return spaced[1], spaced[2]
    closing = between.rstrip(_OPENING)
    return closing, between[len(closing) :]


def _closing_at(text: str, position: int) -> str:
    match = _CLOSING.match(text, position)
    return match[0] if match else ""


def _line(cue: Sequence[TimedWord]) -> str:
    return " ".join("".join(word.word for word in cue).split())


def _cues(words: Sequence[TimedWord]) -> list[list[TimedWord]]:
    cues: list[list[TimedWord]] = []
    for word in words:
        cue = cues[-1] if cues else []
        is_full = cue and (
            len(_line([*cue, word])) > MAX_CUE_CHARACTERS
            or word.end_time - cue[0].start_time > MAX_CUE_SECONDS
            or word.start_time - cue[-1].end_time > MAX_CUE_PAUSE_SECONDS
        )
        if is_full or not cues:
            cues.append([])
        cues[-1].append(word)
    return cues


def _timestamp(time_seconds: float, decimal_mark: str) -> str:
    minutes, milliseconds = divmod(round(time_seconds * 1000), 60_000)
    hours, minutes = divmod(minutes, 60)
    seconds, milliseconds = divmod(milliseconds, 1000)
    return f"{hours:02}:{minutes:02}:{seconds:02}{decimal_mark}{milliseconds:03}"
