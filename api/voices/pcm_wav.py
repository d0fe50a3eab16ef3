"""WAV files in memory as voices are kept: 16-bit PCM, mono."""

import io
import wave
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
_FULL = 32_767


def written(samples: Array, rate: int) -> bytes:
    """The file of samples `[n]`, of which only -1..1 is kept."""
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((samples.clip(-1.0, 1.0) * _FULL).round().astype("<i2").tobytes())
    return out.getvalue()


def read(data: bytes) -> tuple[Array, int]:
    """Samples `[n]` of such a file, float32, -1..1, and how many make a second; written again they
    are the same bytes."""
    with wave.open(io.BytesIO(data)) as file:
        pcm = np.frombuffer(file.readframes(file.getnframes()), "<i2")
        return pcm.astype(np.float32) / _FULL, file.getframerate()
