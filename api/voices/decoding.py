"""Decodes a recording to mono and measures its quality; runs in the decoding child only.

FFmpeg, of the package `av`, reads m4a, aac and webm. It opens far more than recordings: playlists,
that name files and addresses, and codecs of every age. So its container is named and never guessed,
and so are the codecs.
"""

import io
import resource
import wave
from typing import Any, Literal

import numpy as np
import soundfile

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
_RATES = range(8_000, 192_001, 25)
_LEAST_SECONDS = 1.0
_SILENT = 1e-3

_FRAME_SECONDS = 0.02
# Speech has pauses and syllables: the level of its frames scatters by more than 6 dB, and by more
# than 1 in much noise; that of noise alone by 0.5.
_STEADY_DB = 1.0
# A beep, of one pitch in all its length: nearly all energy in a dozen bins of 1,025.
_TONE_BINS, _TONE_SHARE, _WINDOW = 12, 0.97, 2_048
# Frames within this of the loud ones are speech.
_SPEECH_DB = 25.0
# Below these a remark is made: s of speech, dB over the noise, dB of full scale; above: a share.
GOOD_SECONDS, GOOD_SNR_DB, GOOD_LEVEL_DB, MOST_CLIPPED = 5.0, 25.0, -35.0, 0.001
POOR_SNR_DB, POOR_CLIPPED = 12.0, 0.01
_FULL = 0.999


def decoded(
    data: bytes, most_seconds: float, container: Container | None = None
) -> tuple[bytes, dict[str, Any]]:
    """The recording as a WAV, and its quality. container: FFmpeg's name of it, for what `av` reads.
    Raises ValueError with a sentence."""
    if container:
        mono, rate = read_mono(data, container, most_seconds)
        _check(rate, len(mono), 1, most_seconds)
    else:
        mono, rate = _by_soundfile(data, most_seconds)
    if not np.isfinite(mono).all():
        raise ValueError("It holds non-finite values (NaN or infinite).")
    if len(mono) < _LEAST_SECONDS * rate:
        raise ValueError(
            f"It is {len(mono) / rate:.2f} s long. A voice needs at least {_LEAST_SECONDS:g} s, "
            "and 6 to 30 s are better."
        )
    if np.abs(mono).max() < _SILENT:
        raise ValueError("It is silent: no sample is above -60 dB.")
    quality = measure(mono, rate)
    return _wav((mono.clip(-1.0, 1.0) * 32767).round().astype("<i2").tobytes(), rate), quality


def _by_soundfile(data: bytes, most_seconds: float) -> tuple[Any, int]:
    """Samples `[n]`, float32, -1..1, and how many make a second."""
    try:
        with soundfile.SoundFile(io.BytesIO(data)) as file:
            rate, frames, channels = file.samplerate, file.frames, file.channels
            _check(rate, frames, channels, most_seconds)
            # One more than may be: a header may say less than there is.
            most = int(most_seconds * rate)
            sound = file.read(most + 1, dtype="float32", always_2d=True)
    except (RuntimeError, OSError, TypeError) as error:
        words = str(getattr(error, "error_string", error)).splitlines()[0:1]
        raise ValueError(f"It cannot be decoded ({' '.join(words).rstrip('.')}).") from error
    if len(sound) > most:
        raise ValueError(f"It is longer than {most_seconds:g} s. Cut 6 to 30 s of clear speech.")
    return sound.mean(axis=1, dtype=np.float32), rate


def _check(rate: int, frames: int, channels: int, most_seconds: float) -> None:
    """What the header says, before anything is decoded; or what was found, where it says none."""
    if rate not in _RATES:
        raise ValueError(
            f"It has {rate} samples a second. Allowed are {_RATES[0]} to {_RATES[-1]} in steps of "
            f"{_RATES.step}, such as 22050."
        )
    if channels > _MOST_CHANNELS:
        raise ValueError(f"It has {channels} channels; at most {_MOST_CHANNELS} are read.")
    _check_length(frames / rate, most_seconds)


def _check_length(seconds: float, most_seconds: float) -> None:
    if seconds > most_seconds:
        raise ValueError(
            f"It is {seconds:,.0f} s long; the limit is {most_seconds:g} s. Cut 6 to 30 s of "
            "clear speech."
        )


def _wav(pcm: bytes, rate: int) -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(pcm)
    return out.getvalue()


def read_mono(data: bytes, container: Container, most_seconds: float) -> tuple[Array, int]:
    """The first sound track.

    Args:
        data: The whole file.
        container: As FFmpeg calls it (`api.voices.recordings.container_of`).
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
            f"Its sound is {track.codec_context.name}, which is not supported. Convert it to WAV."
        )
    # What the header says, before anything is decoded; a browser's recording says nothing.
    if (seconds := (file.duration or 0) / av.time_base) > most_seconds + 1:
        _check_length(seconds, most_seconds)
    pieces: list[Array] = []
    samples, rate, channels = 0, 0, 0
    to_float = av.AudioResampler(format="flt")
    for frame in file.decode(track):
        _check_headroom()
        # Of the frame: the header of HE-AAC tells half of its rate.
        rate, channels = rate or frame.sample_rate, channels or frame.layout.nb_channels
        if (rate, channels) != (frame.sample_rate, frame.layout.nb_channels):
            raise ValueError(
                "Its sample rate or its channels change inside the file. Convert it to WAV."
            )
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


def measure(mono: Array, rate: int) -> dict[str, Any]:
    """The quality of samples `[n]` in -1..1, as `api.schemas.VoiceQuality`: the level of
    the loud frames, and how far the quiet ones are below. Raises ValueError for a steady sound."""
    levels = _levels_db(mono, rate)
    if levels.std() < _STEADY_DB or _tone_share(mono) > _TONE_SHARE:
        raise ValueError(
            "It holds a steady tone or noise, and no speech. Send 6 to 30 s of one person's speech."
        )
    loud, quiet = np.percentile(levels, 95), np.percentile(levels, 5)
    seconds = float((levels > loud - _SPEECH_DB).sum() * _FRAME_SECONDS)
    quality = (seconds, float(loud - quiet), float(loud), _clipped(mono))
    remarks = _remarks(*quality)
    poor = quality[1] < POOR_SNR_DB or quality[3] > POOR_CLIPPED
    return {
        "word": "poor" if poor else "usable" if remarks else "good",
        "remarks": remarks,
        "speech_seconds": round(quality[0], 2),
        "snr_db": round(quality[1], 1),
        "level_db": round(quality[2], 1),
        "clipped_share": round(quality[3], 5),
    }


def _remarks(seconds: float, snr_db: float, level_db: float, clipped: float) -> list[str]:
    remarks = []
    if seconds < GOOD_SECONDS:
        remarks.append(f"It has {seconds:.1f} s of speech; 6 to 30 s make a better voice.")
    if snr_db < GOOD_SNR_DB:
        remarks.append(
            f"The voice is {snr_db:.0f} dB over the noise; the speech will have this noise too. "
            "Record in a quiet room, close to the microphone."
        )
    if clipped > MOST_CLIPPED:
        remarks.append(f"{clipped:.1%} of it is clipped. Record it again at a lower level.")
    if level_db < GOOD_LEVEL_DB:
        remarks.append(
            f"It is quiet ({level_db:.0f} dB). Record it again, closer to the microphone."
        )
    return remarks


def _levels_db(mono: Array, rate: int) -> Array:
    """Of each frame."""
    length = int(_FRAME_SECONDS * rate)
    frames = mono[: len(mono) // length * length].reshape(-1, length).astype(np.float64)
    levels: Array = 10 * np.log10((frames**2).mean(axis=1) + 1e-10)
    return levels


def _tone_share(mono: Array) -> float:
    """Of the energy, what is in the few strongest bins of the mean spectrum."""
    frames = mono[: len(mono) // _WINDOW * _WINDOW].reshape(-1, _WINDOW)
    power = np.zeros(_WINDOW // 2 + 1)
    for frame in frames:
        power += np.abs(np.fft.rfft(frame * np.hanning(_WINDOW))) ** 2
    return float(np.sort(power)[-_TONE_BINS:].sum() / max(power.sum(), 1e-12))


def _clipped(mono: Array) -> float:
    """Rows of three samples and more at full scale; a single peak may be there by right."""
    full = np.abs(mono) >= _FULL
    inside = full[:-2] & full[1:-1] & full[2:]
    return float(inside.mean()) if len(inside) else 0.0
