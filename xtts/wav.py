"""Writes 16-bit PCM WAV files, with or without torch."""

import io
from pathlib import Path
from typing import Any

import numpy as np

from machine.storage.atomic import Written, make_folder, replace_file
from xtts.model.shapes import VOCODER_RATE


def write(path: Path, samples: Any, rate: int = VOCODER_RATE) -> Written:
    """Writes `[samples]` in -1..1, an array or a tensor on the CPU, atomically.

    Raises DiskFull (exit 74), or WriteError for a folder that cannot be written.
    """
    import soundfile

    # First in memory (48 kB per second), because libsndfile seeks back to the header on closing.
    whole = io.BytesIO()
    # soundfile clips what is beyond -1..1.
    soundfile.write(whole, np.asarray(samples, np.float32), rate, subtype="PCM_16", format="WAV")
    make_folder(path.parent)
    return replace_file(path, lambda file: file.write(whole.getbuffer()))
