"""flite's voices, which speak what the judges compare with, and tell when each phone sounds."""

import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch

from machine.errors import SotaqueError
from xtts.audio import SPEAKER_RATE, resample
from xtts.text.phonemes import PHONES

RATE = SPEAKER_RATE
# The phones, by flite's names.
SILENCE = "pau"
NAMES = (SILENCE, *(name.lower() for name in PHONES))


class TeacherError(SotaqueError):
    """A synthesiser's program is missing, or did not speak."""


@dataclass(frozen=True)
class SpeakingStyle:
    """A pseudo-speaker: a voice, `shift` of pitch and formants together (tempo stays), and flite
    settings of its own."""

    name: str
    voice: str
    shift: Fraction
    settings: tuple[str, ...] = ()


def speak(text: str, manner: SpeakingStyle) -> np.ndarray:
    """`text` as int16 samples [n] at 16 kHz. Raises TeacherError."""
    with tempfile.NamedTemporaryFile(suffix=".wav") as file:
        _flite(text, manner, "-o", file.name)
        return played(Path(file.name), manner.shift)


def phone_times(text: str, manner: SpeakingStyle) -> list[tuple[str, float]]:
    """The phones of a clip, by flite's names, with their ends in seconds. Raises TeacherError."""
    pairs = (entry.rsplit(":", 1) for entry in _flite(text, manner, "-psdur", "-o", "none").split())
    # Faster playback shortens the times.
    return [(phone, float(end) / float(manner.shift)) for phone, end in pairs]


def _flite(text: str, manner: SpeakingStyle, *options: str) -> str:
    settings = [f"duration_stretch={float(manner.shift)}", *manner.settings]
    flags = [flag for setting in settings for flag in ("--setf", setting)]
    return run(["flite", "-voice", manner.voice, *flags, *options, "-t", text], text, "flite")


def run(command: Sequence[str], text: str, packages: str, given: str = "") -> str:
    """The output of a program that speaks `text`. given: its input. Raises TeacherError."""
    try:
        done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise TeacherError(
            f"{command[0]} is not installed, whose voices the judges compare with. "
            f"Install it with: apt-get install {packages}"
        ) from None
    if done.returncode:
        raise TeacherError(f"{command[0]} did not speak {text!r}: {done.stderr.strip()}")
    return done.stdout


def played(path: Path, shift: Fraction) -> np.ndarray:
    """A recording as int16 samples [n] at 16 kHz, played `shift` times as fast."""
    samples, rate = soundfile.read(path, dtype="float32")
    wave = np.asarray(resample(torch.from_numpy(samples), int(rate * shift), RATE))
    return (np.clip(wave, -1, 1) * 32767).astype(np.int16)


def hear(decoder: Any, sound: bytes) -> None:
    """Recognises PCM16 at 16 kHz in a fresh state; otherwise the noise estimate of the clip before
    would be used."""
    decoder.reinit_feat()
    decoder.start_utt()
    decoder.process_raw(sound, full_utt=True)
    decoder.end_utt()


def open_recogniser() -> Any:
    """A new pocketsphinx decoder with its English model. Raises TeacherError."""
    try:
        from pocketsphinx import Decoder
    except ImportError as error:
        raise TeacherError(
            "pocketsphinx is missing, which hears words and finds the phones of voices that do not "
            "tell them; it has wheels for Python 3.11 and 3.13. Install it with: "
            ".venv/bin/python -m pip install pocketsphinx"
        ) from error
    return Decoder(samprate=RATE, loglevel="FATAL")
