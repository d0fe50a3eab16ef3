"""Decodes a recording to mono and measures its quality; runs only in the decoding child.

FFmpeg, from the package `av`, reads m4a, aac and webm. It can also open playlists, which name files
and URLs, and many old codecs. The container is therefore given, never probed, and only listed
codecs are allowed.
"""

import io
import resource
from typing import Any, Literal

import numpy as np

from api.voices.samples import measure, wav_of
from machine.memory import address_space_bytes
from xtts import sound_file
from xtts.sound_file import MOST_CHANNELS, RATES
from xtts.speech_span import SILENT_PEAK

Array = np.ndarray[Any, Any]
Container = Literal["mov", "matroska", "aac"]

# The codecs that phones, browsers and FFmpeg write into these containers.
_CODECS = (
    "aac", "alac", "flac", "libopus", "libvorbis", "mp3", "mp3float", "opus", "pcm_f32le",
    "pcm_s16be", "pcm_s16le", "vorbis",
)  # fmt: skip
# FFmpeg does not check every allocation: with less than 1 MB left it crashed with SIGSEGV, as with
# a damaged file. A frame takes less than this.
_HEADROOM_BYTES = 8 << 20
_LEAST_SECONDS = 1.0
SILENCE = "It is silent: no sample is above -60 dB."


def decoded(
    data: bytes, most_seconds: float, container: Container | None = None
) -> tuple[bytes, dict[str, Any]]:
    """The recording as a WAV file, and its quality. Arguments and errors as `mono_of`."""
    mono, rate = mono_of(data, most_seconds, container)
    if len(mono) < _LEAST_SECONDS * rate:
        raise ValueError(
            f"It is {len(mono) / rate:.2f} s long. A voice needs at least {_LEAST_SECONDS:g} s, "
            "and 6 to 30 s are better."
        )
    if np.abs(mono).max() < SILENT_PEAK:
        raise ValueError(SILENCE)
    quality = measure(mono, rate)
    return wav_of(mono, rate), quality


def mono_of(
    data: bytes, most_seconds: float, container: Container | None = None
) -> tuple[Array, int]:
    """Samples `[n]`, float32, about -1..1, and their rate. container: FFmpeg's name for it, if `av`
    reads the file. Raises ValueError with a message for the user."""
    if container:
        mono, rate = read_mono(data, container, most_seconds)
        _check(rate, len(mono), 1, most_seconds)
    else:
        mono, rate = _by_soundfile(data, most_seconds)
    if not np.isfinite(mono).all():
        raise ValueError("It holds non-finite values (NaN or infinite).")
    return mono, rate


def _by_soundfile(data: bytes, most_seconds: float) -> tuple[Any, int]:
    """Samples `[n]`, float32, -1..1, and their rate."""
    blocks, count = list[Array](), 0
    try:
        with sound_file.opened(data) as sound:
            rate = sound.rate
            _check(rate, sound.declared_frames or 0, sound.channels, most_seconds)
            # One more than allowed: the header's length may be too small, or missing.
            most = int(most_seconds * rate)
            for block in sound.blocks(most + 1):
                blocks.append(block.mean(axis=1, dtype=np.float32))
                count += len(block)
    except (RuntimeError, OSError, TypeError) as error:
        words = str(getattr(error, "error_string", error)).splitlines()[0:1]
        raise ValueError(f"It cannot be decoded ({' '.join(words).rstrip('.')}).") from error
    if count > most:
        raise ValueError(f"It is longer than {most_seconds:g} s. Cut 6 to 30 s of clear speech.")
    return np.concatenate(blocks) if blocks else np.zeros(0, np.float32), rate


def _check(rate: int, frames: int, channels: int, most_seconds: float) -> None:
    """Raises ValueError if rate, channels or length exceed the limits."""
    if rate not in RATES:
        raise ValueError(
            f"It has {rate} samples a second. Allowed are {RATES[0]} to {RATES[-1]} in steps of "
            f"{RATES.step}, such as 22050."
        )
    if channels > MOST_CHANNELS:
        raise ValueError(f"It has {channels} channels; at most {MOST_CHANNELS} are read.")
    _check_length(frames / rate, most_seconds)


def _check_length(seconds: float, most_seconds: float) -> None:
    if seconds > most_seconds:
        raise ValueError(
            f"It is {seconds:,.0f} s long; the limit is {most_seconds:g} s. Cut 6 to 30 s of "
            "clear speech."
        )


def read_mono(data: bytes, container: Container, most_seconds: float) -> tuple[Array, int]:
    """Decodes the first audio track with FFmpeg.

    Args:
        data: The whole file.
        container: FFmpeg's name for it (`api.voices.recordings.container_of`).
        most_seconds: Decoding stops about a second after this.

    Returns:
        Samples `[n]`, float32, about -1..1, the mean of the channels; the sample rate.

    Raises:
        ValueError: The file cannot be decoded; the message is for the user.
        MemoryError: Decoding needs more memory than is left.
    """
    import av

    # With these options FFmpeg opens no file or URL that the recording names.
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
            f"Its sound is {track.codec_context.name}, which is not supported. Convert it to WAV."
        )
    # Check the header before decoding. A browser's recording states no length, and for ADTS, which
    # has no header, FFmpeg estimates it from the first frames.
    seconds = 0.0 if file.format.name == "aac" else (file.duration or 0) / av.time_base
    if seconds > most_seconds + 1:
        _check_length(seconds, most_seconds)
    pieces: list[Array] = []
    samples, rate, channels = 0, 0, 0
    to_float = av.AudioResampler(format="flt")
    for frame in file.decode(track):
        _check_headroom()
        # From the frame, because the header of HE-AAC states half of its rate.
        rate, channels = rate or frame.sample_rate, channels or frame.layout.nb_channels
        if (rate, channels) != (frame.sample_rate, frame.layout.nb_channels):
            raise ValueError(
                "Its sample rate or its channels change inside the file. Convert it to WAV."
            )
        if channels > MOST_CHANNELS:
            raise ValueError(f"It has {channels} channels; at most {MOST_CHANNELS} are read.")
        for plain in to_float.resample(frame):
            pieces.append(plain.to_ndarray().reshape(-1, channels).mean(axis=1, dtype=np.float32))
            samples += plain.samples
        if samples > (most_seconds + 1) * rate:
            break
    if not pieces:
        raise ValueError("Its sound track is empty.")
    return np.concatenate(pieces), rate


def _check_headroom() -> None:
    """Raises MemoryError while enough memory is left for FFmpeg to end properly."""
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    if most != resource.RLIM_INFINITY and most - address_space_bytes() < _HEADROOM_BYTES:
        raise MemoryError
