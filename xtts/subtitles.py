"""Writes the times of words as JSON, SRT or WebVTT."""

import json
from collections.abc import Sequence
from dataclasses import asdict

from xtts.inference.alignment.words import TimedWord

# The longest subtitle (BBC's guideline is two lines of 37 characters).
CUE_CHARACTERS, CUE_SECONDS = 42, 6.0
# A pause of this length starts a new subtitle.
CUE_PAUSE_SECONDS = 0.6


def written(words: Sequence[TimedWord], form: str) -> str:
    """The words as the content of a file in `form`: json, srt or vtt."""
    if form == "json":
        return json.dumps([asdict(word) for word in words], indent=1, ensure_ascii=False) + "\n"
    mark = "," if form == "srt" else "."
    cues = [
        (_clock(cue[0].start_time, mark), _clock(cue[-1].end_time, mark),
         " ".join(word.word for word in cue))
        for cue in _cues(words)
    ]  # fmt: skip
    blocks = [
        (f"{number}\n" if form == "srt" else "") + f"{start} --> {end}\n{text}\n"
        for number, (start, end, text) in enumerate(cues, start=1)
    ]
    return "\n".join([*(["WEBVTT\n"] if form == "vtt" else []), *blocks])


def _cues(words: Sequence[TimedWord]) -> list[list[TimedWord]]:
    cues: list[list[TimedWord]] = []
    for word in words:
        cue = cues[-1] if cues else []
        length = sum(len(one.word) + 1 for one in cue) + len(word.word)
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
