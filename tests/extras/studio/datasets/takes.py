"""Good and bad takes of sentences, checked as the page sends them.

flite's awb reads the sentences. Bad takes have faults of the source: silence, other words,
clipping, a missing part, noise, a low level. Each is coded with Opus, as by a browser's
MediaRecorder, and checked as in `PUT …/take` (`extras.studio.datasets.take_checks`), with
pocketsphinx as the recogniser.
"""

import io
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import soundfile

from api.voices.decoding import decode_mono
from api.voices.samples import resampled
from extras.studio.datasets.prompts import built_in_sentences
from extras.studio.datasets.take_checks import check
from xtts.evaluation.recogniser import Pocketsphinx

RATE = 48_000
VOICE = "awb"
_DEMO = Path(__file__).parents[4] / "train/data/demo/metadata.csv"
_ROOM = 3e-4
_LONGEST_SECONDS = 60.0
# Each bad take must have one of these findings.
_CUT = {"cut_start", "cut_end"}
WANTED = {
    "silence": {"silent", "no_speech"},
    "other words": {"words"},
    "clipped": {"clipped"},
    "cut": _CUT,
    "noisy": {"noisy"},
    "quiet": {"quiet"},
}
# None of these may be missed.
SERIOUS = ("silence", "other words", "clipped", "cut")


def misjudged(lines: Sequence[str], each: int, num_good: int) -> dict[str, list[str]]:
    """The findings for each misjudged take: bad ones, `each` of every kind, without the right
    finding, and good ones with any finding."""
    hear = Pocketsphinx().hear
    missed: dict[str, list[str]] = {kind: [] for kind in (*WANTED, "good")}
    for place, (kind, expected) in enumerate(WANTED.items()):
        for seed in range(each):
            text = lines[(place * each + seed) % len(lines)]
            other = lines[(lines.index(text) + len(lines) // 2) % len(lines)]
            found = found_in(_BAD[kind](other if kind == "other words" else text, seed), text, hear)
            if not expected & set(found):
                missed[kind].append(" ".join(found) or "nothing")
    for seed, text in enumerate(lines[:num_good]):
        if found := found_in(good(text, seed), text, hear):
            missed["good"].append(" ".join(found))
    return missed


def sentences(which: str) -> list[str]:
    """Sixty sentences. `choosing`: from the demo dataset; the limits of the checks were chosen on
    them. `reporting`: those of the page; no limit was."""
    if which == "reporting":
        return list(built_in_sentences("en"))
    rows = _DEMO.read_text(encoding="utf-8").splitlines()
    return [row.split("|")[1] for row in rows[100:160]]


def found_in(sound: np.ndarray, text: str, hear: Callable[[np.ndarray], str] | None) -> list[str]:
    """The kinds of the findings in a take of samples `[n]` at `RATE`."""
    out = io.BytesIO()
    soundfile.write(out, sound.clip(-1, 1), RATE, format="OGG", subtype="OPUS")
    mono, rate = decode_mono(out.getvalue(), _LONGEST_SECONDS)
    # At most full scale, as in the 16-bit samples of the page.
    told = check(mono.clip(-1, 1), rate, text, "en", hear)[1]
    return [finding["kind"] for finding in told["findings"]]


# ---- takes: samples `[n]` at RATE, -1..1, of a text and a seed ----


def spoken(text: str) -> np.ndarray:
    """Speech without the silence that flite adds; the loudest sample is 0.5."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/said.wav"
        subprocess.run(["flite", "-voice", VOICE, "-t", text, path], check=True)
        sound, rate = soundfile.read(path, dtype="float32")
    loud = np.flatnonzero(np.abs(sound) > 0.02 * np.abs(sound).max())
    sound = resampled(sound[loud[0] : loud[-1]], rate, RATE)
    return (sound / np.abs(sound).max() * 0.5).astype(np.float32)


def in_a_room(
    sound: np.ndarray, seed: int, before: float = 0.5, after: float = 0.5, noise: float = _ROOM
) -> np.ndarray:
    """With silence around it, in seconds, and room noise, as a standard deviation."""
    padded = np.pad(sound, (int(before * RATE), int(after * RATE)))
    room = np.random.default_rng(seed).normal(0, noise, len(padded))
    return (padded + room).astype(np.float32)


def good(text: str, seed: int) -> np.ndarray:
    """Louder or softer, with more or less silence around it."""
    draw = np.random.default_rng(seed)
    gain, before, after = draw.uniform(0.3, 1.6), *draw.uniform(0.2, 1.0, 2)
    return in_a_room(gain * spoken(text), seed, before, after)


def silent(_text: str, seed: int) -> np.ndarray:
    """From a muted microphone, or from one in a silent room."""
    room = in_a_room(np.zeros(3 * RATE, np.float32), seed)
    return room * (0.3 if seed % 2 else 3)


def clipped(text: str, seed: int) -> np.ndarray:
    """Amplified 4 to 12 times."""
    gain = np.random.default_rng(seed).uniform(4, 12)
    return np.clip(gain * in_a_room(spoken(text), seed), -1, 1).astype(np.float32)


def cut(text: str, seed: int) -> np.ndarray:
    """A tenth to a half of the sentence is missing at its start or, for odd seeds, at its end; the
    cut may be anywhere, even in the closure of a stop."""
    sound = spoken(text)
    missing = int(np.random.default_rng(seed).uniform(0.1, 0.5) * len(sound)) + RATE // 2
    take = in_a_room(sound, seed)
    return take[:-missing] if seed % 2 else take[missing:]


def noisy(text: str, seed: int) -> np.ndarray:
    """In noise like that of a fan, 10 to 15 dB below the speech."""
    sound = spoken(text)
    below = np.random.default_rng(seed).uniform(10, 15)
    rms = float(np.sqrt(np.mean(sound**2)))
    return in_a_room(sound, seed, noise=rms * 10 ** (-below / 20))


def quiet(text: str, seed: int) -> np.ndarray:
    """From far away: a fiftieth to a hundredth of the level."""
    return in_a_room(spoken(text) / np.random.default_rng(seed).uniform(50, 100), seed, noise=1e-5)


_BAD: dict[str, Callable[[str, int], np.ndarray]] = {
    "silence": silent,
    "other words": lambda text, seed: in_a_room(spoken(text), seed),
    "clipped": clipped,
    "cut": cut,
    "noisy": noisy,
    "quiet": quiet,
}
