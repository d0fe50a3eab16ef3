"""Takes of sentences as a browser sends them, good and bad, spoken by flite's awb.

`python -m tests.api.datasets.spoken_takes` prints what is found in takes of the sentences on which
the limits of `api.datasets.take_checks` were chosen: the demo dataset's, which no figure is of.
"""

import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import soundfile

from api.datasets.take_checks import checked
from api.voices.decoding import read_mono
from api.voices.resampling import resampled
from tests.api.sounds import made
from xtts.evaluation.recogniser import Pocketsphinx

RATE = 48_000
VOICE = "awb"
_ROOM = 3e-4
DEMO = Path(__file__).parents[3] / "train/data/demo/metadata.csv"


def spoken(text: str) -> np.ndarray:
    """`[n]` at RATE, without the silence that flite adds; its loudest sample is 0.5."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/said.wav"
        subprocess.run(["flite", "-voice", VOICE, "-t", text, path], check=True)
        sound, rate = soundfile.read(path, dtype="float32")
    loud = np.flatnonzero(np.abs(sound) > 0.02 * np.abs(sound).max())
    sound = resampled(sound[loud[0] : loud[-1]], rate, RATE)
    return (sound / np.abs(sound).max() * 0.5).astype(np.float32)


def in_a_room(sound: np.ndarray, seed: int, before: float = 0.5, after: float = 0.5) -> np.ndarray:
    padded = np.pad(sound, (int(before * RATE), int(after * RATE)))
    noise = np.random.default_rng(seed).normal(0, _ROOM, len(padded))
    return (padded + noise).astype(np.float32)


def good(text: str, seed: int) -> np.ndarray:
    """Louder and softer, with more and less silence around."""
    draw = np.random.default_rng(seed)
    gain, before, after = draw.uniform(0.3, 1.6), *draw.uniform(0.2, 1.0, 2)
    return in_a_room(gain * spoken(text), seed, before, after)


def silent(_text: str, seed: int) -> np.ndarray:
    """Of a microphone that is muted, or hears the room alone."""
    room = in_a_room(np.zeros(3 * RATE, np.float32), seed)
    return room * (0.3 if seed % 2 else 3)


def clipped(text: str, seed: int) -> np.ndarray:
    gain = np.random.default_rng(seed).uniform(4, 12)
    return np.clip(gain * in_a_room(spoken(text), seed), -1, 1).astype(np.float32)


def cut_start(text: str, seed: int) -> np.ndarray:
    return _cut(text, seed)


def cut_end(text: str, seed: int) -> np.ndarray:
    return _cut(text, seed, at_end=True)


def _cut(text: str, seed: int, *, at_end: bool = False) -> np.ndarray:
    """A tenth to a half of the sentence is missing; the cut is wherever that is, so it may be in
    the closure of a stop."""
    sound = spoken(text)
    missing = int(np.random.default_rng(seed).uniform(0.1, 0.5) * len(sound))
    if at_end:
        return in_a_room(sound, seed)[: -(missing + RATE // 2)]
    return in_a_room(sound, seed)[missing + RATE // 2 :]


def as_sent(sound: np.ndarray) -> tuple[np.ndarray, int]:
    """As it arrives from a browser: MediaRecorder's Opus, decoded again, and no more than full
    scale, as in the 16 bits that the page sends."""
    mono, rate = read_mono(made("webm", sound.clip(-1, 1)), "matroska", 60.0)
    return mono.clip(-1, 1), rate


def found_in(sound: np.ndarray, text: str, hear: Callable[[np.ndarray], str] | None) -> list[str]:
    """The kinds of what is found in it."""
    told = checked(*as_sent(sound), text, "en", hear)[1]
    return [one["kind"] for one in told["findings"]]


def hearing() -> Callable[[np.ndarray], str]:
    recogniser = Pocketsphinx()
    return lambda samples: recogniser.hear([samples])[0]


def main() -> int:
    """Of forty sentences, each in each way."""
    texts = [line.split("|")[1] for line in DEMO.read_text(encoding="utf-8").splitlines()]
    texts = texts[100:140]
    for make in (good, silent, clipped, cut_start, cut_end):
        kinds = Counter[str]()
        for seed, text in enumerate(texts):
            found = found_in(make(text, seed), text, None)
            kinds[" ".join(found) or "nothing"] += 1
        sys.stdout.write(f"{make.__name__}: {dict(kinds)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
