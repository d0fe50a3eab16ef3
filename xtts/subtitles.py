"""Writes the times of words as JSON, SRT or WebVTT."""

import json
from collections.abc import Sequence
from dataclasses import asdict

from xtts.inference.alignment.guarded_piece import TimedWord

# The longest subtitle (BBC's guideline is two lines of 37 characters).
CUE_CHARACTERS, CUE_SECONDS = 42, 6.0
# A pause of this length starts a new subtitle.
CUE_PAUSE_SECONDS = 0.6


def written(words: Sequence[TimedWord], form: str) -> str:
    """The words as the content of a file in `form`: json, srt or vtt."""
    if form == "json":
        return json.dumps([asdict(word) for word in words], indent=1, ensure_ascii=False) + "\n"
    mark = "," if form == "srt" else "."
    blocks = ["WEBVTT\n"] if form == "vtt" else []
    for number, cue in enumerate(_cues(words), start=1):
        start, end = _clock(cue[0].start_time, mark), _clock(cue[-1].end_time, mark)
        head = f"{number}\n" if form == "srt" else ""
        blocks.append(f"{head}{start} --> {end}\n{' '.join(word.word for word in cue)}\n")
    return "\n".join(blocks)


def _cues(words: Sequence[TimedWord]) -> list[list[TimedWord]]:
    cues: list[list[TimedWord]] = []
    for word in words:
        cue = cues[-1] if cues else []
        length = sum(len(earlier.word) + 1 for earlier in cue) + len(word.word)
        full = cue and (
            length > CUE_CHARACTERS
            or word.end_time - cue[0].start_time > CUE_SECONDS
            or word.start_time - cue[-1].end_time > CUE_PAUSE_SECONDS
        )
        if full or not cues:
            cues.append([])
        cues[-1].append(word)
    return cues


def _clock(seconds: float, mark: str) -> str:
    milliseconds = round(seconds * 1000)
    minutes, milliseconds = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    whole, rest = divmod(milliseconds, 1000)
    return f"{hours:02}:{minutes:02}:{whole:02}{mark}{rest:03}"
