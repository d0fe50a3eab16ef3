"""`python -m benchmarks cutting` measures `python -m train cut` on recordings with known truth.

It measures how much speech is kept, where the cuts are, how the transcripts differ, and the cost.
Each voice has one recording of sentences that no limit of `cut` was chosen on (the reporting set),
with pauses, breaths, noise, music and another person between them. flite gives the time of each
phone. The cut runs as a child process, as a user starts it.
"""

import argparse
import csv
import itertools
import json
import random
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from benchmarks import flite, texts
from benchmarks.flite import RATE, SpeakingStyle
from benchmarks.measuring import ChildFailed, memory_bytes, watched
from extras.cut.manuscript import said_words
from xtts.text.phonemes import to_phones

# Nearer to a phone's edge than this is at its edge: what flite prints is rounded.
_EDGE_SECONDS = 0.005
_POLL_SECONDS = 0.02
_WITHOUT_POCKETSPHINX = (
    "import sys; sys.modules['pocketsphinx'] = None; from train.__main__ import main; "
    "sys.exit(main())"
)
# Said by the other person between the sentences; not in the text.
OTHERS = (
    "It was a long way to the river and nobody had brought a map.",
    "Please remember to lock the garage before you leave tonight.",
    "The committee will publish its findings in the second week of March.",
)
# In the text but not in the recording.
UNSAID = (
    "The astronomers photographed a comet above the southern desert.",
    "Eleven violins were stolen from the concert hall in August.",
    "My grandmother never trusted the elevator in our building.",
    "A frozen lake is no place for a heavy truck.",
    "Cheap umbrellas rarely survive their second storm.",
)
PAUSE_SECONDS = (0.15, 1.6)
# Cumulative chances of what follows a sentence; otherwise only a pause follows.
_MUSIC, _NOISE, _OTHER, _BREATH = itertools.accumulate((0.05, 0.05, 0.05, 0.10))
_SCALE = (0, 2, 4, 5, 7, 9, 12)


@dataclass(frozen=True)
class SpokenWord:
    """A spoken word with its begin and end in seconds."""

    text: str
    start: float
    end: float


@dataclass(frozen=True)
class KnownRecording:
    """samples: `[n]` at 16 kHz; phones: begin and end in seconds, of the speaker alone; text: what
    the speaker says, with the sentences of `UNSAID` in it."""

    samples: np.ndarray
    phones: list[tuple[float, float]]
    words: list[SpokenWord]
    text: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--voices", default="awb,slt,kal16", help="voices of flite, separated by commas"
    )
    parser.add_argument("--other", default="rms", help="the voice between them")
    parser.add_argument("--set", default="reporting", choices=("choosing", "reporting"))
    parser.add_argument(
        "--by", default="words", choices=("words", "base"),
        help="words: pocketsphinx; base: the base model, as where pocketsphinx is missing",
    )  # fmt: skip
    parser.add_argument("--sentences", type=int, default=60, help="number of sentences of the set")
    parser.add_argument("--times", type=int, default=1, help="repeats the sentences, for memory")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--recording", type=Path, help="folder for recordings and cuts")


def run(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """One row for each voice."""
    # The set is sorted by length, unlike a real text.
    lines = texts.sentences(arguments.set)
    said = random.Random(arguments.seed).sample(lines, len(lines))
    said = said[: arguments.sentences] * arguments.times
    with tempfile.TemporaryDirectory() as name:
        folder = arguments.recording or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        rows = []
        for voice in arguments.voices.split(","):
            known = make(said, voice, arguments.other, arguments.seed)
            rows.append(measure(known, voice, folder, arguments.by))
        return rows


def measure(known: KnownRecording, voice: str, folder: Path, by: str) -> dict[str, Any]:
    """Writes the recording, cuts it and compares. Raises ChildFailed.

    Args:
        by: What aligns, `words` (pocketsphinx) or `base` (BASE_MODEL's GPT).

    Returns:
        kept: Share of the speaker's phones, by time, that are in a clip.
        cuts_in_words: Starts and ends of clips inside a phone of the speaker; cuts: all of them.
        character_errors: Of the transcripts against what is said in the clips, per character.
        named: Sentences of the text that are not said; named_wrongly: others.
        cpu_seconds, peak_bytes: Of the process that cuts; cpu_share: over the recording's length.
    """
    recording, text, to = (folder / f"{voice}{end}" for end in (".wav", ".txt", ""))
    soundfile.write(recording, known.samples, RATE, subtype="PCM_16")
    text.write_text(known.text, encoding="utf-8")
    cpu_seconds, peak = _cut(recording, text, to, by)
    with (to / "account.csv").open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["reason"] == "in a clip"]
    clips = [(float(row["start"]), float(row["end"]), row["text"]) for row in rows]
    told = json.loads((to / "cut.json").read_text(encoding="utf-8"))["unheard_sentences"]
    edges = [edge for start, end, _ in clips for edge in (start, end)]
    return {
        "voice": voice,
        "seconds": len(known.samples) / RATE,
        "clips": len(clips),
        "kept": kept(known.phones, [(start, end) for start, end, _ in clips]),
        "cuts": len(edges),
        "cuts_in_words": sum(in_a_phone(edge, known.phones) for edge in edges),
        "character_errors": character_errors(known, clips),
        "named": sum(line in UNSAID for line in told),
        "named_wrongly": sum(line not in UNSAID for line in told),
        "cpu_seconds": cpu_seconds,
        "cpu_share": cpu_seconds / (len(known.samples) / RATE),
        "peak_bytes": peak,
    }


def kept(phones: Sequence[tuple[float, float]], clips: Sequence[tuple[float, float]]) -> float:
    """Share of the phones' time that is inside clips; all in seconds."""
    inside, place = 0.0, 0
    for start, end in phones:
        while place < len(clips) and clips[place][1] <= start:
            place += 1
        for first, last in clips[place : place + 2]:
            inside += max(min(end, last) - max(start, first), 0.0)
    return inside / sum(end - start for start, end in phones)


def in_a_phone(moment: float, phones: Sequence[tuple[float, float]]) -> bool:
    """Whether this second is inside a phone and not at its edge."""
    return any(start + _EDGE_SECONDS < moment < end - _EDGE_SECONDS for start, end in phones)


def character_errors(known: KnownRecording, clips: Sequence[tuple[float, float, str]]) -> float:
    """Insertions, deletions and substitutions per character that the speaker says in the clips,
    numbers in words; a word belongs to the clip that its middle is in."""
    import jiwer

    truth, written = list[str](), list[str]()
    for start, end, text in clips:
        said = [one.text for one in known.words if start <= (one.start + one.end) / 2 < end]
        truth.append(" ".join(said) or "-")
        written.append(" ".join(said_words(text, "en")))
    return float(jiwer.cer(truth, written)) if truth else 1.0


def _cut(recording: Path, text: Path, to: Path, by: str) -> tuple[float, int]:
    """Cuts in a child on one thread; its CPU seconds, and its peak in bytes. Raises ChildFailed."""
    program = ["-m", "train"] if by == "words" else ["-c", _WITHOUT_POCKETSPHINX]
    command = ["env", "OMP_NUM_THREADS=1", sys.executable, *program, "cut", str(recording)]
    peaks = [0]
    code, usage = watched(
        [*command, "--text", str(text), "--to", str(to)],
        lambda pid: peaks.append(memory_bytes("VmHWM", pid)),
        _POLL_SECONDS,
    )
    if code:
        raise ChildFailed(f"Cutting {recording} ended with {code}; its message stands above.")
    return usage.ru_utime + usage.ru_stime, max(peaks)


def make(sentences: Sequence[str], voice: str, other: str, seed: int) -> KnownRecording:
    """The sentences one after the other, with pauses, and here and there a breath, noise, music or
    another person, over hum and hiss. Raises TeacherError."""
    draw, noise = random.Random(seed), np.random.default_rng(seed)
    parts, count = list[np.ndarray](), 0
    phones, words = list[tuple[float, float]](), list[SpokenWord]()
    for sentence in sentences:
        spoken = _spoken(sentence, voice)
        told = _phones(flite.phone_times(sentence, _manner(voice)), count / RATE)
        phones += told
        words += _words(sentence, told)
        added = [spoken, _between(draw, noise, other), _silence(draw.uniform(*PAUSE_SECONDS))]
        parts += added
        count += sum(map(len, added))
    whole = np.concatenate(parts)
    hum = 0.002 * np.sin(2 * np.pi * 50 * np.arange(len(whole)) / RATE)
    whole += (hum + 0.0005 * noise.standard_normal(len(whole))).astype(np.float32)
    written = list(sentences)
    for number, wrong in enumerate(UNSAID, start=1):
        written.insert(number * len(sentences) // (len(UNSAID) + 1) + number - 1, wrong)
    return KnownRecording(whole, phones, words, " ".join(written))


def _between(draw: random.Random, noise: np.random.Generator, other: str) -> np.ndarray:
    chance = draw.random()
    if chance < _MUSIC:
        return _music(draw, draw.uniform(2, 5))
    if chance < _NOISE:
        burst = noise.standard_normal(int(draw.uniform(0.5, 3) * RATE))
        return (0.03 * burst).astype(np.float32)
    if chance < _OTHER:
        return _spoken(draw.choice(OTHERS), other)
    if chance < _BREATH:
        count = int(0.4 * RATE)
        return (0.02 * np.hanning(count) * noise.standard_normal(count)).astype(np.float32)
    return _silence(0)


def _music(draw: random.Random, seconds: float) -> np.ndarray:
    """Decaying notes with overtones, two a second."""
    time = np.arange(int(seconds * RATE)) / RATE
    found = np.zeros(len(time))
    for begin in np.arange(0, seconds, 0.5):
        hertz = 220 * 2 ** (draw.choice(_SCALE) / 12)
        swell = np.exp(-3 * np.clip(time - begin, 0, None)) * (time >= begin)
        for strength, multiple in ((1.0, 1.0), (0.5, 2.0), (0.3, 1.5)):
            found += strength * swell * np.sin(2 * np.pi * multiple * hertz * time)
    return (0.1 * found).astype(np.float32)


def _manner(voice: str) -> SpeakingStyle:
    return SpeakingStyle(voice, voice, Fraction(1))


def _spoken(text: str, voice: str) -> np.ndarray:
    return flite.speak(text, _manner(voice)).astype(np.float32) / 32768


def _silence(seconds: float) -> np.ndarray:
    return np.zeros(int(seconds * RATE), np.float32)


def _phones(told: Sequence[tuple[str, float]], start: float) -> list[tuple[float, float]]:
    begins = [0.0, *(end for _, end in told)]
    return [
        (start + begin, start + end)
        for begin, (phone, end) in zip(begins, told)
        if phone != flite.SILENCE
    ]


def _words(sentence: str, phones: Sequence[tuple[float, float]]) -> list[SpokenWord]:
    """Words get their share of flite's phones by how many the dictionary gives them."""
    words = said_words(sentence, "en")
    sizes = [max(len(re.sub(r"\W", "", to_phones(word))), 1) for word in words]
    bounds = np.rint(np.cumsum([0, *sizes]) / sum(sizes) * len(phones)).astype(int)
    return [
        SpokenWord(word, phones[first][0], phones[max(last, first + 1) - 1][1])
        for word, first, last in zip(words, bounds.clip(max=len(phones) - 1), bounds[1:])
    ]
