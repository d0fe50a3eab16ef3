"""Writes the times of words as JSON, SRT or WebVTT."""

import html
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, replace

from xtts.inference.alignment.guarded_piece import TimedWord

# The longest subtitle (BBC's guideline is two lines of 37 characters).
CUE_CHARACTERS, CUE_SECONDS = 42, 6.0
# A pause of this length starts a new subtitle.
CUE_PAUSE_SECONDS = 0.6
# The most characters between two words of a text.
_FURTHEST = 200
_CLOSING = re.compile(r"[^\w\s]*")
_OPENING = "\"'([{<«“„‘‚¿¡（「『《"


def render(words: Sequence[TimedWord], form: str, text: str = "") -> str:
    """The words as the content of a file in `form`: json, srt or vtt.

    text: the spoken text without markup, whose punctuation the subtitles show.
    """
    if form == "json":
        return json.dumps([asdict(word) for word in words], indent=1, ensure_ascii=False) + "\n"
    mark = "," if form == "srt" else "."
    blocks = ["WEBVTT\n"] if form == "vtt" else []
    for number, cue in enumerate(_cues(_punctuate(words, text)), start=1):
        start, end = _clock(cue[0].start_time, mark), _clock(cue[-1].end_time, mark)
        head = f"{number}\n" if form == "srt" else ""
        line = _line(cue).replace("-->", "→")  # what separates two times
        if form == "vtt":
            line = html.escape(line, quote=False)
        blocks.append(f"{head}{start} --> {end}\n{line}\n")
    return "\n".join(blocks)


def _punctuate(words: Sequence[TimedWord], text: str) -> list[TimedWord]:
    """The words with the punctuation and the spaces of the text. A word that is not in the text gets
    a space."""
    shown, behind, lost = list[str](), 0, False
    for word in (timed.word for timed in words):
        at = text.find(word, behind, behind + len(word) + _FURTHEST)
        end = at + len(word)
        closing, opening = _divide(text[behind:at] if at >= 0 else "")
        # A letter between two words is part of a word that was not found.
        skipped = opening + text[end : end + 1] if lost else closing + opening
        if at < 0 or any(map(str.isalnum, skipped)):
            if shown and not lost:
                shown[-1] += f"{_closing_at(text, behind)} "
            shown.append(f"{word} ")
            lost = True
            continue
        if shown and not lost:
            shown[-1] += closing
        elif not shown:
            opening = (closing + opening).lstrip()
        shown.append(opening + word)
        behind, lost = end, False
    if shown and not lost:
        shown[-1] += _closing_at(text, behind)
    return [replace(word, word=part) for word, part in zip(words, shown, strict=True)]


def _divide(between: str) -> tuple[str, str]:
    """The characters between two words: those that follow the first, and those before the second."""
    spaced = re.match(r"(.*\s)(.*)", between, re.S)
    if spaced:
        return spaced[1], spaced[2]
    closing = between.rstrip(_OPENING)
    return closing, between[len(closing) :]


def _closing_at(text: str, place: int) -> str:
    match = _CLOSING.match(text, place)
    return match[0] if match else ""


def _line(cue: Sequence[TimedWord]) -> str:
    return " ".join("".join(word.word for word in cue).split())


def _cues(words: Sequence[TimedWord]) -> list[list[TimedWord]]:
    cues: list[list[TimedWord]] = []
    for word in words:
        cue = cues[-1] if cues else []
        full = cue and (
            len(_line([*cue, word])) > CUE_CHARACTERS
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
