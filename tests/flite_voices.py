"""Recordings by flite's voices, and how far two recordings of a text are from each other.

It shares nothing with the model: statistics of the sound alone.
"""

import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from machine.errors import SotaqueError
from xtts.audio import SPEAKER_RATE as RATE
from xtts.audio import read


class TeacherError(SotaqueError):
    """flite is missing, or did not speak."""


def teacher(voice: str, text: str) -> Tensor:
    """`text` by one of flite's voices: [samples] at 16 kHz. Raises TeacherError."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "spoken.wav"
        command = ["flite", "-voice", voice, "-o", str(path), "-t", text]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise TeacherError(
                "flite is not installed, whose voices the test speaks with. Install it with: "
                "apt-get install flite"
            ) from None
        if done.returncode:
            raise TeacherError(f"flite did not speak {text!r}: {done.stderr.strip()}")
        return read(path, RATE)


def distance(found: Tensor, wanted: Tensor) -> float:
    """Mean Euclidean distance of `mfccs` along the cheapest path of dynamic time warping, of
    [samples] at 16 kHz each.

    Loudness counts: flite's awb is about 45 to 50 from what speaks like him, 65 from others.
    """
    from librosa.sequence import dtw

    costs = torch.cdist(mfccs(found).double(), mfccs(wanted).double()).numpy()
    path = dtw(C=costs)[1]
    return float(costs[path[:, 0], path[:, 1]].mean())


def mfccs(waveform: Tensor) -> Tensor:
    """[frames, 24] of [samples] at 16 kHz, 10 ms apart, of 80 mel bands in dB, at most 80 dB under
    the loudest."""
    found: Tensor = _mfcc()(waveform)
    return found.T


@cache
def _mfcc() -> Any:
    from torchaudio.transforms import MFCC

    shape = {"n_fft": 512, "hop_length": RATE // 100, "win_length": 400, "n_mels": 80}
    return MFCC(RATE, n_mfcc=24, melkwargs=shape)
