"""Recordings joined from the demo dataset's clips, with pauses between them."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import soundfile

from xtts import audio

DEMO = Path(__file__).parents[1] / "train/data/demo"
RATE = 16_000


def demo_texts() -> list[str]:
    """The transcripts of the demo dataset, in order."""
    lines = (DEMO / "metadata.csv").read_text(encoding="utf-8").splitlines()
    return [line.split("|")[1] for line in lines]


def spoken_by(numbers: Iterable[int]) -> list[str]:
    """The texts of the clips with these numbers (from 1)."""
    return [demo_texts()[number - 1] for number in numbers]


def join_demo(path: Path, numbers: list[int], pause: float = 0.7) -> list[tuple[float, float]]:
    """Writes the clips with these numbers (from 1) one after another, over a little noise.

    Returns start and end of each in seconds.
    """
    generator = np.random.default_rng(1)
    parts, spans, frames = [np.zeros(RATE // 2)], list[tuple[float, float]](), RATE // 2
    for number in numbers:
        samples = audio.read(DEMO / f"wavs/demo-{number:02d}.flac", RATE).numpy()
        spans.append((frames / RATE, (frames + len(samples)) / RATE))
        parts += [samples, np.zeros(round(pause * RATE))]
        frames += len(samples) + round(pause * RATE)
    whole = np.concatenate(parts)
    noise = 2e-4 * generator.standard_normal(len(whole))
    soundfile.write(path, whole + noise, RATE, subtype="PCM_16")
    return spans
