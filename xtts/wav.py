"""Writes 16-bit PCM WAV files, with or without torch."""

import io
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from machine.storage.files import Written, make_folder, replace_file
from xtts.encoding import wav_header
from xtts.marks import Mark
from xtts.model.shapes import VOCODER_RATE

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor


def write(
    path: Path, samples: "NDArray[np.float32] | Tensor", rate: int = VOCODER_RATE, mark: Mark | None = None
) -> Written:
    """Writes `[samples]` in -1..1, an array or a tensor on the CPU, atomically. mark: of synthetic
    speech; None for a recording.

    Raises DiskFull (exit 74), or WriteError for a folder that cannot be written.
    """
    import soundfile

    whole, samples = io.BytesIO(), np.asarray(samples, np.float32)
    whole.write(wav_header(2 * len(samples), rate, mark))
    # soundfile clips what is beyond -1..1.
    soundfile.write(whole, samples, rate, subtype="PCM_16", format="RAW", endian="LITTLE")
    make_folder(path.parent)
    return replace_file(path, lambda file: file.write(whole.getbuffer()))
