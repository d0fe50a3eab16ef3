"""Clips with one known fault each, made from good clips: `train check` once missed them (R6)."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import soundfile
import torch

from xtts.audio import resample

FOUR_SENTENCES = 4


class GoodClip(NamedTuple):
    samples: np.ndarray
    rate: int
    text: str


class PlantedClip(NamedTuple):
    """kinds: the findings that are correct for this clip."""

    name: str
    samples: np.ndarray
    rate: int
    text: str
    kinds: tuple[str, ...]


def read_good(folder: Path) -> list[GoodClip]:
    """The clips of a dataset in LJSpeech's layout."""
    found = []
    for row in (folder / "metadata.csv").read_text(encoding="utf-8").splitlines():
        name, text = row.split("|")
        (path,) = (folder / "wavs").glob(f"{name}.*")
        found.append(GoodClip(*soundfile.read(path, dtype="float32"), text))
    return found


def plant(good: Sequence[GoodClip]) -> list[PlantedClip]:
    """Two clips with each of nine faults. good: 22 clips that are not in the dataset, then two that
    are, which are copied."""
    made: list[PlantedClip] = []
    noise = np.random.default_rng(7)
    for turn in (0, 1):
        sources = iter(good[turn * 10 :])
        four = [next(sources) for _ in range(FOUR_SENTENCES)]
        (first, other), (silent, cut, low) = ([next(sources) for _ in range(n)] for n in (2, 3))
        together = np.concatenate([each.samples for each in four])[: int(11.5 * four[0].rate)]
        time = np.arange(3 * first.rate) / first.rate
        tone = (0.3 * np.sin(2 * np.pi * (440, 1000)[turn] * time)).astype(np.float32)
        hiss = (0.1 * noise.standard_normal(3 * first.rate)).astype(np.float32)
        loud = np.clip(other.samples * (6, 12)[turn], -0.98, 0.98)
        around = np.pad(silent.samples, 3 * silent.rate)
        around = around + (0, 1e-3)[turn] * noise.standard_normal(len(around))
        original = good[-1 - turn]
        for kind, samples, rate, text in (
            ("yes", together, four[0].rate, "Yes."),
            ("words", first.samples, first.rate, other.text),
            ("tone", tone, first.rate, other.text),
            ("noise", hiss, first.rate, other.text),
            ("clipping", loud, other.rate, other.text),
            ("silence", around, silent.rate, silent.text),
            ("cut", _cut(cut, turn), cut.rate, cut.text),
            ("band", *_at_8_khz(low, turn), low.text),
            ("copy", *_copied(original, turn), original.text),
        ):
            kinds = ("rate", "words") if kind == "yes" else (kind,)
            made.append(PlantedClip(f"{kind}-{turn}", samples, rate, text, kinds))
    return made


def write(folder: Path, clips: Sequence[PlantedClip]) -> None:
    """Adds the clips to a dataset in LJSpeech's layout."""
    with (folder / "metadata.csv").open("a", encoding="utf-8") as rows:
        for clip in clips:
            path = folder / "wavs" / f"{clip.name}.wav"
            soundfile.write(path, clip.samples, clip.rate, subtype="PCM_16")
            rows.write(f"{clip.name}|{clip.text}\n")


def _cut(clip: GoodClip, turn: int) -> np.ndarray:
    """Ends in the loudest 50 ms of the last third, or begins in those of the first."""
    third, step = len(clip.samples) // 3, clip.rate // 20
    start = 2 * third if turn == 0 else 0
    power = [
        float(np.square(clip.samples[at : at + step]).mean()) for at in range(start, start + third, step)
    ]
    loudest = start + step * int(np.argmax(power)) + step // 2
    return clip.samples[:loudest] if turn == 0 else clip.samples[loudest:]


def _at_8_khz(clip: GoodClip, turn: int) -> tuple[np.ndarray, int]:
    """A file at 8 kHz, or one resampled from 8 kHz to the rate of the others."""
    low = resample(torch.from_numpy(clip.samples), clip.rate, 8000)
    if turn == 0:
        return low.numpy(), 8000
    return resample(low, 8000, clip.rate).numpy(), clip.rate


def _copied(clip: GoodClip, turn: int) -> tuple[np.ndarray, int]:
    """Quieter with silence before it, or coded with Vorbis at another rate."""
    if turn == 0:
        return np.concatenate((np.zeros(clip.rate // 4, np.float32), 0.5 * clip.samples)), clip.rate
    samples = resample(torch.from_numpy(clip.samples), clip.rate, 24_000).numpy()
    file = io.BytesIO()
    soundfile.write(file, samples, 24_000, format="OGG", subtype="VORBIS")
    file.seek(0)
    return soundfile.read(file, dtype="float32")
