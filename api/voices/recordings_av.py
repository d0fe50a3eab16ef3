"""Decodes m4a, aac and webm by FFmpeg, of the package `av`. Runs in the decoding child alone.

FFmpeg opens far more than recordings: playlists, that name files and addresses, and codecs of
every age. So its container is named and never guessed, and so are the codecs.
"""

import io
import resource
from typing import Any, Literal

import numpy as np

from machine.memory import address_space_bytes

Array = np.ndarray[Any, Any]
Container = Literal["mov", "matroska", "aac"]

# What phones, browsers and FFmpeg itself write into these containers.
_CODECS = (
    "aac", "alac", "flac", "libopus", "libvorbis", "mp3", "mp3float", "opus", "pcm_f32le",
    "pcm_s16be", "pcm_s16le", "vorbis",
)  # fmt: skip
_MOST_CHANNELS = 8
# FFmpeg looks at the result of most of its allocations, not of all: with less than 1 MB left it
# ended by SIGSEGV, which looks as if the file were damaged. A frame takes less than this.
_HEADROOM_BYTES = 8 << 20


def container_of(data: bytes) -> Container | None:
    """By its first bytes; None for what is none of these.

    Sources: ISO 14496-12, 4.3 (ftyp); RFC 8794, 11.2.1 (EBML); ISO 13818-7, 6.2 (ADTS).
    """
    if data[4:8] == b"ftyp":
        return "mov"
    if data.startswith(b"\x1a\x45\xdf\xa3"):
        return "matroska"
    is_adts = len(data) > 2 and data[0] == 0xFF and data[1] & 0xF6 == 0xF0
    return "aac" if is_adts else None


def read_mono(data: bytes, container: Container, most_seconds: float) -> tuple[Array, int]:
    """The first sound track.

    Args:
        data: The whole file.
        container: As `container_of` says.
        most_seconds: It is decoded no further than a little behind this.

    Returns:
        Samples `[n]`, float32, about -1..1, the mean of the channels; samples a second.

    Raises:
        ValueError: With a sentence, for what cannot be decoded.
        MemoryError: Where decoding takes more than there is.
    """
    import av

    # The names of FFmpeg's own options: it opens nothing that a file names.
    options = {"codec_whitelist": ",".join(_CODECS), "protocol_whitelist": "none"}
    _check_headroom()
    try:
        with av.open(io.BytesIO(data), format=container, options=options) as file:
            if not file.streams.audio:
                raise ValueError("It has no sound track.")
            return _read(file, most_seconds)
    except MemoryError:
        raise
    except av.FFmpegError as error:
        raise ValueError(f"It cannot be decoded ({error.strerror}).") from error


def _read(file: Any, most_seconds: float) -> tuple[Array, int]:
    import av

    track = file.streams.audio[0]
    if track.codec_context.name not in _CODECS:
        raise ValueError(
            f"Its sound is {track.codec_context.name}, which is not read. Convert it to WAV."
        )
    # What the header says, before anything is decoded; a browser's recording says nothing.
    seconds = (file.duration or 0) / av.time_base
    if seconds > most_seconds + 1:
        raise ValueError(
            f"It is {seconds:,.0f} s long; at most {most_seconds:g} s are read. Cut 6 to 30 s of "
            "clear speech."
        )
    pieces: list[Array] = []
    samples, rate, channels = 0, 0, 0
    to_float = av.AudioResampler(format="flt")
    for frame in file.decode(track):
        _check_headroom()
        # Of the frame: the header of HE-AAC tells half of its rate.
        rate, channels = rate or frame.sample_rate, channels or frame.layout.nb_channels
        if (rate, channels) != (frame.sample_rate, frame.layout.nb_channels):
            raise ValueError("Its rate or its channels change on the way. Convert it to WAV.")
        if channels > _MOST_CHANNELS:
            raise ValueError(f"It has {channels} channels; at most {_MOST_CHANNELS} are read.")
        for plain in to_float.resample(frame):
            pieces.append(plain.to_ndarray().reshape(-1, channels).mean(axis=1, dtype=np.float32))
            samples += plain.samples
        if samples > (most_seconds + 1) * rate:
            break
    if not pieces:
        raise ValueError("Its sound track is empty.")
    return np.concatenate(pieces), rate


def _check_headroom() -> None:
    """Raises MemoryError while there is still enough for FFmpeg to end properly."""
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    if most != resource.RLIM_INFINITY and most - address_space_bytes() < _HEADROOM_BYTES:
        raise MemoryError
