"""Decodes a recording to mono and measures its quality; runs only in the decoding child.

FFmpeg, from the package `av`, reads m4a, aac and webm. It can also open playlists, which name files
and URLs, and many old codecs. The container is therefore given, never probed, and only listed
codecs are allowed.
"""

import resource

import numpy as np

from api.voices.samples import Array, measure, wav_of
from machine.memory import address_space_bytes
from machine.storage.files import JsonObject
from xtts import sound_file
from xtts.sound_file import MAX_CHANNELS, RATES
from xtts.speech_span import SILENT_PEAK

# The codecs that phones, browsers and FFmpeg write into these containers.
_CODECS = (
    "aac",
    "alac",
    "flac",
    "libopus",
    "libvorbis",
    "mp3",
    "mp3float",
    "opus",
    "pcm_f32le",
    "pcm_s16be",
    "pcm_s16le",
    "vorbis",
)
# FFmpeg does not check every allocation: with less than 1 MB left it crashed with SIGSEGV, as with
# a damaged file. A frame takes less than this.
_HEADROOM_BYTES = 8 << 20
MIN_SECONDS = 1.0
SILENCE = "It is silent: no sample is above -60 dB."


def decode(data: bytes, max_seconds: float, container: str = "") -> tuple[bytes, JsonObject]:
    """The recording as a WAV file, and its quality. Arguments and errors as `decode_mono`."""
    mono, rate = decode_mono(data, max_seconds, container)
    if len(mono) < MIN_SECONDS * rate:
        raise ValueError(
            f"It is {len(mono) / rate:.2f} s long. A voice needs at least {MIN_SECONDS:g} s, "
            "and 6 to 30 s are better."
        )
    if np.abs(mono).max() < SILENT_PEAK:
        raise ValueError(SILENCE)
    quality = measure(mono, rate)
    return wav_of(mono, rate), quality


def decode_mono(data: bytes, max_seconds: float, container: str = "") -> tuple[Array, int]:
    """Samples `[n]`, float32, about -1..1, and their rate.

    Args:
        data: The file.
        max_seconds: The limit of its length.
        container: FFmpeg's name for it (`api.voices.recordings.container_of`); "" for a file that
            libsndfile reads.

    Raises:
        ValueError: The file cannot be decoded; the message is for the user.
        MemoryError: Decoding needs more memory than is left.
    """
    blocks, count = list[Array](), 0
    options = {"protocol_whitelist": "none", "codec_whitelist": ",".join(_CODECS)}
    only_av = {"format": container, "options": options} if container else None
    _check_headroom()
    try:
        with sound_file.open_sound(data, only_av=only_av) as sound:
            rate = sound.rate
            _check_format(rate, sound.declared_frames or 0, sound.channels, max_seconds)
            # One more than allowed: the header's length may be too small, or missing.
            frame_limit = int(max_seconds * rate)
            for block in sound.blocks(frame_limit + 1):
                _check_headroom()
                blocks.append(block.mean(axis=1, dtype=np.float32))
                count += len(block)
    except sound_file.UNDECODABLE as error:
        if type(error) is ValueError:
            raise
        raise ValueError(f"It cannot be decoded ({sound_file.reason_of(error)}).") from error
    if count > frame_limit:
        raise ValueError(f"It is longer than {max_seconds:g} s. Cut 6 to 30 s of clear speech.")
    mono = np.concatenate(blocks) if blocks else np.zeros(0, np.float32)
    if not np.isfinite(mono).all():
        raise ValueError("It holds non-finite values (NaN or infinite).")
    return mono, rate


def _check_format(rate: int, frames: int, channels: int, max_seconds: float) -> None:
    """Raises ValueError if rate, channels or length exceed the limits."""
    if rate not in RATES:
        raise ValueError(
            f"It has {rate} samples a second. Allowed are {RATES[0]} to {RATES[-1]} in steps of "
            f"{RATES.step}, such as 22050."
        )
    if channels > MAX_CHANNELS:
        raise ValueError(f"It has {channels} channels; at most {MAX_CHANNELS} are read.")
    if frames > max_seconds * rate:
        raise ValueError(
            f"It is {frames / rate:,.0f} s long; the limit is {max_seconds:g} s. Cut 6 to 30 s of "
            "clear speech."
        )


def _check_headroom() -> None:
    """Raises MemoryError before so little memory is left that FFmpeg cannot end properly."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit - address_space_bytes() < _HEADROOM_BYTES:
        raise MemoryError
