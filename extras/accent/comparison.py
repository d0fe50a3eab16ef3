"""Compares the recordings of a base, a person and a candidate in three folders."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from extras.accent.chart import most_frequent_words
from extras.accent.hearing import HeardVowels, Listener
from extras.accent.vowel_model import RATE
from extras.accent.way import MIN_SENTENCES, AccentFigure, VowelSums
from machine.errors import SotaqueError
from machine.text import enumeration, quantity, table

_MAX_RECORDING_SECONDS = 60.0
_MAX_LISTED_VOWELS = 6


def run(base: Path, person: Path, candidate: Path, *, as_json: bool) -> int:
    """Prints the candidate's accent figure. Raises SotaqueError."""
    folders = (base, person, candidate)
    listener, rows, left_out = Listener(), list[list[HeardVowels]](), list[str]()
    for name, text in _read_texts(person).items():
        row = _hear_voices(listener, folders, name, text)
        if row is None:
            left_out.append(name)
        else:
            rows.append(row)
    if len(rows) < MIN_SENTENCES:
        raise SotaqueError(
            f"{quantity(len(rows), 'sentence')} can be compared; {MIN_SENTENCES} are needed. Each folder "
            "needs recordings of the same names, and the person's folder their English texts."
        )
    voices = [list(voice) for voice in zip(*rows, strict=True)]
    figure = VowelSums(*voices).accent_figure()
    report = _as_json(figure, len(rows), left_out) if as_json else _as_text(figure, voices[1], left_out)
    sys.stdout.write(f"{report}\n")
    return 0


def _read_texts(folder: Path) -> dict[str, str]:
    """The texts of the person's recordings, by the recording's name without its ending."""
    from train.dataset.metadata import read_entries

    return {entry.path.stem: entry.text for entry in read_entries(folder, "auto", "en")}


def _hear_voices(
    listener: Listener, folders: Sequence[Path], name: str, text: str
) -> list[HeardVowels] | None:
    """The three voices' vowels of a sentence; None if one is missing or not of the same vowels."""
    from train.dataset.entries import find_recording
    from xtts import audio

    voices = list[HeardVowels]()
    for folder in folders:
        places = [place for place in (folder, folder / "wavs") if place.is_dir()]
        path = find_recording(places, name) if places else folder
        if not path.is_file():
            return None
        heard = listener.hear(audio.read(path, RATE, max_seconds=_MAX_RECORDING_SECONDS).numpy(), text)
        if heard is None:
            return None
        voices.append(heard)
    return voices


def _as_json(figure: AccentFigure | None, sentences: int, left_out: Sequence[str]) -> str:
    measured = asdict(figure) if figure else None
    return json.dumps({"sentences": sentences, "left_out": list(left_out), "accent": measured}, indent=2)


def _as_text(figure: AccentFigure | None, person: Sequence[HeardVowels], left_out: Sequence[str]) -> str:
    count = quantity(len(person), "sentence")
    if figure is None:
        lines = [f"{count} do not distinguish the accents of base and person."]
    else:
        low, high = figure.interval
        lines = [
            f"Accent: {figure.place:.2f} ({low:.2f} to {high:.2f}), by {count}. 0 is the base, 1 the person.",
            "",
            *table(_rows(figure, person)),
        ]
    if left_out:
        lines += ["", f"Left out, missing or with unknown words: {enumeration(left_out)}."]
    return "\n".join(lines)


def _rows(figure: AccentFigure, person: Sequence[HeardVowels]) -> list[tuple[str, ...]]:
    """The vowels in which the person differs most from the base."""
    widest = sorted(figure.shares, key=lambda vowel: -figure.shares[vowel][1])[:_MAX_LISTED_VOWELS]
    rows: list[tuple[str, ...]] = [("Vowel", "Of the way", "Gone", "As in")]
    for vowel in widest:
        candidate_share, person_share = figure.shares[vowel]
        examples = ", ".join(most_frequent_words(person, vowel))
        rows.append((vowel, f"{person_share:.2f}", f"{candidate_share:.2f}", examples))
    return rows
