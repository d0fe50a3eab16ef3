"""Compares the recordings of a base, a person and a candidate in three folders."""

import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from extras.accent.hearing import Heard, Listener
from extras.accent.vowel_model import RATE
from extras.accent.way import MIN_SENTENCES, Figure, Way
from machine.errors import SotaqueError
from machine.text import enumeration, quantity, table

_LONGEST_SECONDS = 60.0
_LISTED = 6


def run(base: Path, person: Path, candidate: Path, *, as_json: bool) -> int:
    """Prints how far the candidate is. Raises SotaqueError."""
    folders = (base, person, candidate)
    listener, rows, left_out = Listener(), list[list[Heard]](), list[str]()
    for name, text in _texts(person).items():
        heard = _heard(listener, folders, name, text)
        if heard is None:
            left_out.append(name)
        else:
            rows.append(heard)
    if len(rows) < MIN_SENTENCES:
        raise SotaqueError(
            f"{quantity(len(rows), 'sentence')} can be compared; {MIN_SENTENCES} are needed. Each folder "
            "needs recordings of the same names, and the person's folder their English texts."
        )
    voices = [list(voice) for voice in zip(*rows, strict=True)]
    figure = Way(*voices).figure()
    report = _as_json(figure, len(rows), left_out) if as_json else _in_words(figure, voices[1], left_out)
    sys.stdout.write(f"{report}\n")
    return 0


def _texts(folder: Path) -> dict[str, str]:
    """The text of each of the person's recordings by its name without an ending."""
    from train.dataset.metadata import read_entries

    return {entry.path.stem: entry.text for entry in read_entries(folder, "auto", "en")}


def _heard(listener: Listener, folders: Sequence[Path], name: str, text: str) -> list[Heard] | None:
    """The three voices' vowels of a sentence; None if one is missing or not of the same vowels."""
    from train.dataset.entries import find_recording
    from xtts import audio

    voices = list[Heard]()
    for folder in folders:
        places = [place for place in (folder, folder / "wavs") if place.is_dir()]
        path = find_recording(places, name) if places else folder
        if not path.is_file():
            return None
        heard = listener.hear(audio.read(path, RATE, max_seconds=_LONGEST_SECONDS).numpy(), text)
        if heard is None:
            return None
        voices.append(heard)
    return voices


def _as_json(figure: Figure | None, sentences: int, left_out: Sequence[str]) -> str:
    measured = asdict(figure) if figure else None
    return json.dumps({"sentences": sentences, "left_out": list(left_out), "accent": measured}, indent=2)


def _in_words(figure: Figure | None, person: Sequence[Heard], left_out: Sequence[str]) -> str:
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


def _rows(figure: Figure, person: Sequence[Heard]) -> list[tuple[str, ...]]:
    """The vowels in which the person differs most from the base."""
    words: dict[str, Counter[str]] = {}
    for heard in person:
        for vowel, word in zip(heard.vowels, heard.words, strict=True):
            words.setdefault(vowel, Counter())[word] += 1
    widest = sorted(figure.shares, key=lambda vowel: -figure.shares[vowel][1])[:_LISTED]
    rows: list[tuple[str, ...]] = [("Vowel", "Of the way", "Gone", "As in")]
    for vowel in widest:
        gone, whole = figure.shares[vowel]
        examples = [word for word, _ in words.get(vowel, Counter()).most_common(3)]
        rows.append((vowel, f"{whole:.2f}", f"{gone:.2f}", ", ".join(examples)))
    return rows
