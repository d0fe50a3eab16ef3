"""Words with the times at which they are spoken, as JSON, SRT or WebVTT."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

# Of one subtitle: what is read in one glance (BBC's guideline is two lines of 37), and no longer.
CUE_CHARACTERS, CUE_SECONDS = 42, 6.0
# A pause as long as this begins another subtitle.
CUE_PAUSE_SECONDS = 0.6
FORMATS = ("json", "srt", "vtt")


@dataclass(frozen=True)
class TimedWord:
    """A word as it is read, in seconds from the beginning of the speech. The names are those of
    Kokoro-FastAPI's captioned speech."""

    word: str
    start_time: float
    end_time: float


def written(words: Sequence[TimedWord], form: str) -> str:
    """The words as a file of this form, one of FORMATS."""
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
