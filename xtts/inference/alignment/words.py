"""When each word is spoken: words of the path through attention, as JSON, SRT or WebVTT."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from xtts.inference.alignment.guarded_piece import SpokenPiece
from xtts.text.tokenizer import WordSpan

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


def timed_words(
    pieces: Iterable[SpokenPiece],
    spans: Sequence[Sequence[WordSpan]],
    spelled: Sequence[str] = (),
    speed: float = 1.0,
) -> list[TimedWord] | None:
    """The words of a speech; None where a piece has no path.

    Args:
        pieces: In their order (`xtts.inference.alignment.guarded_piece.Guard.pieces`).
        spans: Of each piece the words in its ids (`xtts.text.tokenizer.Tokenizer.word_spans`).
        spelled: How the words are written, where ids are phones; used if there are as many.
        speed: As it was spoken.
    """
    found, began = list[TimedWord](), 0.0
    for piece, words in zip(pieces, spans, strict=True):
        if piece.times is None:
            return None
        # What was not reached, or was cut off, is over when the sound is.
        for word in words:
            start = min(float(piece.times[word.first, 0]) / speed, piece.seconds)
            end = min(float(piece.times[word.last, 1]) / speed, piece.seconds)
            found.append(TimedWord(word.text, _rounded(began + start), _rounded(began + end)))
        began += piece.seconds
    if len(spelled) == len(found):
        found = [
            TimedWord(text, word.start_time, word.end_time)
            for text, word in zip(spelled, found, strict=True)
        ]
    return found


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


def _rounded(seconds: float) -> float:
    return round(seconds, 3)
