"""Complete recordings whose headers give no length, or a wrong one."""

import io
import struct
from collections.abc import Callable

import av
import numpy as np

from tests.bad_audio import encoded
from tests.datasets import a_sound
from xtts.encoding import without_length

RATE = 24_000
SECONDS = 3.3
SOUND = a_sound(SECONDS, RATE)
COVER_BYTES = 2_000_000


def wav(riff: int, data: int, form: str = "WAV", subtype: str = "PCM_16") -> bytes:
    """A WAV with these sizes in its header."""
    content = bytearray(encoded(SOUND, form, subtype, RATE))
    at = content.index(b"data")
    struct.pack_into("<I", content, 4, riff)
    struct.pack_into("<I", content, at + 4, data)
    return bytes(content)


def wav_with_a_list() -> bytes:
    """FFmpeg's WAV: a LIST chunk precedes the samples."""
    content = wav(0, 0)
    at = content.index(b"data")
    return content[:at] + b"LIST" + struct.pack("<I", 26) + b"INFOISFT\x0e\0\0\0" + bytes(14) + (content[at:])


def rf64() -> bytes:
    """From a recorder that lost power before it wrote the sizes."""
    content = bytearray(encoded(SOUND, "RF64", "PCM_16", RATE))
    content[20:44] = bytes(24)
    return bytes(content)


def flac() -> bytes:
    """As `flac -` and `ffmpeg … -f flac -` write into a pipe: the total is 0."""
    content = bytearray(encoded(SOUND, "FLAC", "PCM_16", RATE))
    packed = int.from_bytes(content[18:26], "big")
    content[18:26] = (packed >> 36 << 36).to_bytes(8, "big")
    return bytes(content)


def mp3() -> bytes:
    """Without a Xing header, as in streams; its first frame is far from the mean."""
    return without_length(encoded(SOUND, "MP3", "MPEG_LAYER_III", RATE))


def cover() -> bytes:
    """An ID3v2 tag with a picture."""
    size = COVER_BYTES
    seven = bytes((size >> shift) & 127 for shift in (21, 14, 7, 0))
    return b"ID3\x03\0\0" + seven + (b"APIC" + struct.pack(">I", size - 10)).ljust(size, b"\xff")


def webm() -> bytes:
    """A browser's recording: Opus in WebM, without a length."""
    return by_av("webm", "libopus", 48_000)


def by_av(form: str, codec: str, rate: int) -> bytes:
    """The sound as encoded by FFmpeg."""
    file = io.BytesIO()
    with av.open(file, "w", format=form) as container:
        stream = container.add_stream(codec, rate=rate, layout="mono")
        samples = (SOUND * 32_767).astype("<i2")[None]
        frame = av.AudioFrame.from_ndarray(samples, format="s16", layout="mono")
        frame.sample_rate = RATE
        container.mux([*stream.encode(frame), *stream.encode(None)])
    return file.getvalue()


# Each holds the whole sound; the second value is the seconds that an encoder may add.
FILES: dict[str, tuple[Callable[[], bytes], float]] = {
    "zero.wav": (lambda: wav(0, 0), 0),
    "riff_only.wav": (lambda: wav(36, 0), 0),
    "floats.wav": (lambda: wav(0, 0, subtype="FLOAT"), 0),
    "all_ones.wav": (lambda: wav(0xFFFF_FFFF, 0xFFFF_FFFF), 0),
    "stale.wav": (lambda: wav(1036, 1000), 0),
    "list.wav": (wav_with_a_list, 0),
    "rf64.wav": (rf64, 0),
    "piped.flac": (flac, 0),
    "streamed.mp3": (mp3, 0.1),
    "cover.mp3": (lambda: cover() + mp3(), 0.1),
    "cover_and_length.mp3": (lambda: cover() + encoded(SOUND, "MP3", "MPEG_LAYER_III", RATE), 0.1),
    "tagged.mp3": (lambda: mp3() + b"TAG".ljust(128, b"\0"), 0.1),
}


def correlation(found: np.ndarray) -> float:
    """The correlation of samples at 24 kHz with the sound, with an encoder's delay up to 0.1 s."""
    from tests.api.decoding import correlation

    return correlation(found, SOUND)
