"""Synthetic files that are not usable recordings, each with the expected reason."""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
import soundfile

from tests.datasets import a_sound

RATE = 22_050
_SOUND = a_sound(2.0, RATE)


@dataclass(frozen=True)
class Bad:
    """name: of the file; content: its bytes; seen: a part of the expected refusal."""

    name: str
    content: Callable[[], bytes]
    seen: str


def write_all(folder: Path) -> list[Bad]:
    """Writes every bad file into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for bad in FILES:
        (folder / bad.name).write_bytes(bad.content())
    return FILES


def encoded(samples: np.ndarray, form: str = "WAV", subtype: str = "PCM_16", rate: int = RATE) -> bytes:
    """`[samples]` or `[samples, channels]` as the bytes of a file."""
    file = BytesIO()
    soundfile.write(file, samples, rate, format=form, subtype=subtype)
    return file.getvalue()


def _patched(at: int, form: str, value: int, length: int | None = None) -> bytes:
    """A good WAV with one field of its header replaced, cut to `length` bytes."""
    content = bytearray(encoded(_SOUND))
    struct.pack_into(form, content, at, value)
    return bytes(content[:length])


def _flac(total_samples: int) -> bytes:
    """A good FLAC whose header states another number of samples (the last 36 bits of 8 bytes)."""
    content = bytearray(encoded(_SOUND, "FLAC"))
    packed = int.from_bytes(content[18:26], "big")
    content[18:26] = ((packed >> 36 << 36) | total_samples).to_bytes(8, "big")
    return bytes(content)


def _half(form: str, subtype: str) -> bytes:
    content = encoded(_SOUND, form, subtype)
    return content[: len(content) // 2]


def _flipped() -> bytes:
    content = bytearray(encoded(_SOUND, "FLAC"))
    content[len(content) // 2] ^= 0xFF
    return bytes(content)


def _with(value: float) -> bytes:
    samples = _SOUND.copy()
    samples[1000] = value
    return encoded(samples, subtype="FLOAT")


def _in_integers() -> bytes:
    return encoded(_SOUND * 32_768, subtype="FLOAT")


FILES = [
    Bad("empty.wav", lambda: b"", "cannot be decoded"),
    Bad("html.wav", lambda: b"<html><body>404 Not Found</body></html>", "cannot be decoded"),
    Bad("text.flac", lambda: b"version https://git-lfs example\nsize 1234\n", "cannot be decoded"),
    Bad("zeros.wav", lambda: bytes(4096), "cannot be decoded"),
    Bad("noise.mp3", lambda: np.random.default_rng(0).bytes(4096), "cannot be decoded"),
    Bad("header_only.wav", lambda: encoded(_SOUND)[:44], "no samples"),
    Bad("half_header.wav", lambda: encoded(_SOUND)[:20], "cannot be decoded"),
    Bad("no_frames.wav", lambda: encoded(_SOUND[:0]), "no samples"),
    Bad("no_frames.flac", lambda: encoded(_SOUND[:0], "FLAC"), ""),
    Bad("one_sample.wav", lambda: encoded(_SOUND[:1]), "0.00 s"),
    Bad("short.wav", lambda: encoded(_SOUND[: RATE // 3]), "0.33 s"),
    Bad("long.wav", lambda: encoded(np.tile(_SOUND, 6)), "12.00 s"),
    Bad("hour.flac", lambda: encoded(np.zeros(3600 * 8000), "FLAC", rate=8000), "silence"),
    Bad("silence.wav", lambda: encoded(np.zeros(RATE)), "silence"),
    Bad("whisper.wav", lambda: encoded(_SOUND * 1e-3), "silence"),
    Bad("against_itself.wav", lambda: encoded(np.stack([_SOUND, -_SOUND], 1)), "silence"),
    Bad("nan.wav", lambda: _with(np.nan), "non-finite"),
    Bad("infinite.wav", lambda: _with(-np.inf), "non-finite"),
    Bad("huge_values.wav", lambda: _with(1e30), "a peak of 1.0e+30"),
    Bad("integers_as_floats.wav", _in_integers, "a peak of"),
    Bad("no_channels.wav", lambda: _patched(22, "<H", 0), "cannot be decoded"),
    Bad("65535_channels.wav", lambda: _patched(22, "<H", 65_535), "cannot be decoded"),
    Bad("12_channels.wav", lambda: encoded(np.stack([_SOUND] * 12, 1)), "12 channels"),
    Bad("rate_0.wav", lambda: _patched(24, "<I", 0), "cannot be decoded"),
    Bad("rate_22051.wav", lambda: encoded(_SOUND, rate=22_051), "22051 Hz"),
    Bad("0_bits.wav", lambda: _patched(34, "<H", 0), "cannot be decoded"),
    Bad("4_gigabytes.wav", lambda: _patched(40, "<I", 0xFFFF_FFF0, 44 + 200), "bytes promised"),
    Bad("cut_off.wav", lambda: _half("WAV", "PCM_16"), "bytes promised"),
    Bad("cut_off.flac", lambda: _half("FLAC", "PCM_16"), "cannot be decoded"),
    Bad("cut_off.ogg", lambda: _half("OGG", "VORBIS"), ""),
    Bad("cut_off.mp3", lambda: _half("MP3", "MPEG_LAYER_III"), "promised"),
    Bad("flipped.flac", _flipped, "cannot be decoded"),
    Bad("years.flac", lambda: _flac(2**36 - 1), "cannot be decoded"),
    Bad("twice.flac", lambda: _flac(4 * RATE), "cannot be decoded"),
]
