"""Recordings as people upload them, made here in every readable format."""

import io
from functools import cache
from pathlib import Path
from typing import Any

import av
import httpx
import numpy as np
import soundfile

from tests.api.conftest import Running

# ending: FFmpeg's container, its encoder, and the most samples that the encoder adds.
KINDS = {
    "m4a": ("ipod", "aac", 1_024),
    "alac": ("ipod", "alac", 0),
    "aac": ("adts", "aac", 2_048),
    "webm": ("webm", "libopus", 960),
}


def speech(seconds: float = 2.0, rate: int = 22_050) -> np.ndarray:
    return _speech(seconds, rate).copy()


@cache
def _speech(seconds: float, rate: int) -> np.ndarray:
    time_axis = np.arange(int(seconds * rate)) / rate
    syllables = np.clip(np.sin(2 * np.pi * 3 * time_axis) + 0.3, 0, 1)
    pitch = 180 * time_axis + 15 * np.sin(2 * np.pi * 0.7 * time_axis)
    voiced = sum(np.sin(2 * np.pi * k * pitch) / k for k in range(1, 20))
    return (0.15 * syllables * voiced).astype("float32")


def file_of(sound: np.ndarray, rate: int = 22_050, **how: Any) -> bytes:
    """A file by libsndfile, a WAV by default."""
    out = io.BytesIO()
    soundfile.write(out, sound, rate, **({"format": "WAV"} | how))
    return out.getvalue()


def made(kind: str, sound: np.ndarray, rate: int = 48_000, channels: int = 1) -> bytes:
    """A file by FFmpeg from samples `[n]` of -1..1, the same in each channel."""
    container, codec, _ = KINDS[kind]
    return muxed(container, codec, sound, rate, "stereo" if channels == 2 else "mono")


def muxed(
    container: str,
    codec: str,
    sound: np.ndarray,
    rate: int = 48_000,
    layout: str = "mono",
    out: Any = None,
    **options: str,
) -> bytes:
    out = out or io.BytesIO()
    with av.open(out, "w", format=container, options=options) as file:
        stream: Any = file.add_stream(codec, rate=rate, layout=layout)
        write(file, stream, sound, rate, layout)
    return out.getvalue()


def write(file: Any, stream: Any, sound: np.ndarray, rate: int = 48_000, layout: str = "mono") -> None:
    pcm = np.repeat((sound * 32767).astype("<i2"), 1 + (layout == "stereo")).reshape(1, -1)
    frame = av.AudioFrame.from_ndarray(pcm, format="s16", layout=layout)
    frame.sample_rate, frame.pts = rate, 0
    file.mux([*stream.encode(frame), *stream.encode(None)])


def upload(service: Running, data: bytes, name: str = "Anna") -> httpx.Response:
    return service.client.post("/v1/voices", files={"file": ("x.wav", data)}, data={"name": name})


def tone_reference(folder: Path) -> None:
    """Writes a recording for a model whose sound is not checked."""
    soundfile.write(folder / "reference.wav", 0.3 * np.sin(np.arange(88_200) / 25), 22_050)
