"""Small synthetic datasets in LJSpeech's layout: voiced sounds, each clip different."""

from pathlib import Path

import numpy as np
import soundfile

WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def make_dataset(
    folder: Path, clips: int = 6, seconds: float = 1.0, rate: int = 22_050, speakers: int = 1
) -> Path:
    """Writes wavs/clip-N.wav and metadata.csv; returns `folder`.

    Clips grow slightly in length, starting at `seconds`, so that batches have something to sort.
    With more than one speaker the rows are `wavs/clip-N.wav|text|speaker-M`, Coqui's layout.
    """
    (folder / "wavs").mkdir(parents=True, exist_ok=True)
    rows = []
    for number in range(clips):
        name = f"clip-{number}"
        speaker = number % speakers
        sound = a_sound(seconds * (1 + 0.02 * number), rate, seed=number, pitch=110 + 60 * speaker)
        soundfile.write(folder / "wavs" / f"{name}.wav", sound, rate, subtype="PCM_16")
        text = f"This is clip {WORDS[number % 10]}, number {WORDS[number // 10 % 10]}."
        rows.append(f"{name}|{text}" if speakers == 1 else f"wavs/{name}.wav|{text}|speaker-{speaker}")
    (folder / "metadata.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return folder


def a_sound(seconds: float, rate: int, *, seed: int = 0, pitch: float = 110.0) -> np.ndarray:
    """A hum with harmonics, changing pitch and loudness, and a little noise: `[samples]`."""
    generator = np.random.default_rng(seed)
    time = np.arange(round(seconds * rate)) / rate
    moving = pitch * (1 + 0.1 * np.sin(2 * np.pi * (1 + seed % 5) * time + seed))
    phase = 2 * np.pi * np.cumsum(moving) / rate
    hum = sum(np.sin(harmonic * phase) / harmonic for harmonic in range(1, 12))
    loudness = 0.6 + 0.4 * np.sin(2 * np.pi * 3 * time + seed)
    return (0.2 * hum * loudness + 0.01 * generator.standard_normal(len(time))).astype(np.float32)
