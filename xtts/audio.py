"""Reads and resamples audio, and computes the three mel spectrograms.

Codes and conditioning use 22,050 Hz; the vocoder's output has 24,000 Hz. soundfile reads the files
(its wheel includes libsndfile), so FFmpeg is not needed. The mel spectrograms (DVAE, conditioning,
speaker) are implemented here and compared with Coqui's in `tests/peers`: Coqui's
`TorchMelSpectrogram` would import transformers.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from machine.errors import SotaqueError
from xtts import sound_file
from xtts.model.shapes import CODE_RATE as CODE_RATE
from xtts.model.shapes import SAMPLES_PER_CODE as SAMPLES_PER_CODE
from xtts.model.shapes import VOCODER_RATE as VOCODER_RATE
from xtts.sound_endings import how_to_convert
from xtts.sound_file import MAX_CHANNELS, RATES, UNDECODABLE, Sound

SPEAKER_RATE = 16_000
MEL_BANDS = 80
MEL_HOP = 256
_SPEAKER_BANDS = 64
_PREEMPHASIS = 0.97
# Programs that write to a pipe declare such a size, or more.
_MIN_STREAM_SIZE = 0x7FFF_0000


class AudioError(SotaqueError):
    """A file is not a usable recording; the message has the file and the reason."""


def read(path: Path, rate: int, *, max_seconds: float | None = None, start_seconds: float = 0.0) -> Tensor:
    """Reads a recording as mono `[samples]` in float32, resampled to `rate`.

    Args:
        path: The file.
        rate: The sample rate of the result, in Hz.
        max_seconds: The limit of the decoded length; a FLAC file of 250 kB can contain an hour.
        start_seconds: The start of the part to read.

    Raises:
        AudioError: The file is missing, empty, cannot be decoded or contains non-finite values.
    """
    with open_sound(path) as sound:
        first = int(start_seconds * sound.rate)
        max_frames = None if max_seconds is None else first + int(max_seconds * sound.rate)
        mono = _read_mono(path, sound, first, max_frames)
    return resample(torch.from_numpy(mono), sound.rate, rate)


def _read_mono(path: Path, sound: Sound, first: int, max_frames: int | None) -> np.ndarray:
    """The frames from `first` on, of the sound's first `max_frames`. Raises AudioError."""
    blocks, position = list[np.ndarray](), 0
    for block in sound.blocks(max_frames):
        blocks.append(block[max(first - position, 0) :].mean(axis=1, dtype=np.float32))
        position += len(block)
    mono = np.concatenate(blocks) if blocks else np.zeros(0, np.float32)
    if not len(mono):
        declared = "" if sound.declared_frames is None else ", although its header declares some"
        raise AudioError(f"{path} contains no samples{declared}.")
    if not np.isfinite(mono).all():
        raise AudioError(f"{path} contains non-finite values (NaN or infinite).")
    return mono


def measure(path: Path, max_seconds: float) -> tuple[np.ndarray, int, float]:
    """(mono, rate, seconds) of a recording, in one reading.

    mono: its first `max_seconds`, `[samples]` in float32 at its own rate; seconds: the length of
    the whole recording, from the header, or counted if that is not plausible. Raises AudioError.
    """
    with open_sound(path) as sound:
        mono = _read_mono(path, sound, 0, int(max_seconds * sound.rate))
        frames = sound.declared_frames
        if frames is None:
            frames = len(mono) + sum(map(len, sound.blocks()))
    return mono, sound.rate, frames / sound.rate


@dataclass(frozen=True)
class AudioFacts:
    """The properties of a recording. frames: from the header, or counted if that is not
    plausible."""

    seconds: float
    rate: int
    channels: int
    frames: int


def facts(path: Path, *, by_av: bool = True) -> AudioFacts:
    """The properties of a recording. by_av: as in `open_sound`. Raises AudioError."""
    with open_sound(path, by_av=by_av) as sound:
        frames = sound.declared_frames
        frames = sum(map(len, sound.blocks())) if frames is None else frames
        if not frames:
            raise AudioError(f"{path} contains no samples.")
        return AudioFacts(frames / sound.rate, sound.rate, sound.channels, frames)


def declared_bytes(path: Path) -> int | None:
    """The size that a WAV file declares, in bytes; None for other files and streamed ones.

    libsndfile reads a truncated WAV file without an error. A program that writes to a pipe does not
    know the size and declares 0, or almost 2 or 4 GiB.
    """
    with path.open("rb") as file:
        header = file.read(12)
    if header[:4] != b"RIFF" or header[8:] != b"WAVE":
        return None
    size = int.from_bytes(header[4:8], "little")
    return size + 8 if 0 < size < _MIN_STREAM_SIZE else None


def blocks(path: Path, seconds: float) -> Iterator[tuple[np.ndarray, int]]:
    """(mono samples, rate) of a recording in blocks of `seconds`. Raises AudioError."""
    with open_sound(path) as sound:
        for block in sound.blocks(size=int(seconds * sound.rate)):
            yield block.mean(axis=1, dtype=np.float32), sound.rate


@contextlib.contextmanager
def open_sound(path: Path, *, by_av: bool = True) -> Iterator[Sound]:
    """Opens a recording and checks its header. by_av: as in `xtts.sound_file.open_sound`.

    Raises AudioError, also while it is read, and for an unusual rate or channels.
    """
    if not path.is_file():
        raise AudioError(f"{path} does not exist.")
    try:
        with sound_file.open_sound(path, by_av=by_av) as sound:
            _check_header(path, sound)
            yield sound
    except UNDECODABLE as error:
        raise AudioError(_undecodable_message(path, sound_file.reason_of(error))) from error


def _check_header(path: Path, sound: Sound) -> None:
    if sound.declared_frames is not None and sound.declared_frames <= 0:
        raise AudioError(f"{path} contains no samples.")
    if sound.rate not in RATES:
        raise AudioError(
            f"{path} has a sample rate of {sound.rate} Hz. Allowed are {RATES[0]} to "
            f"{RATES[-1]} in steps of {RATES.step}, such as 22050."
        )
    if sound.channels > MAX_CHANNELS:
        raise AudioError(f"{path} has {sound.channels} channels; at most {MAX_CHANNELS} are allowed.")


def resample(waveform: Tensor, from_rate: int, to_rate: int) -> Tensor:
    """Resamples `[..., samples]` in float32 with a windowed sinc, as Coqui does."""
    if from_rate == to_rate:
        return waveform
    resampled: Tensor = _windowed_sinc(from_rate, to_rate)(waveform)
    return resampled


# Most filters take about 100 kB; the largest for an allowed rate takes 27 MB.
@lru_cache(maxsize=4)
def _windowed_sinc(from_rate: int, to_rate: int) -> torch.nn.Module:
    from torchaudio.transforms import Resample

    # In the waveform's type, like torchaudio's function, so that the results are identical.
    return Resample(from_rate, to_rate, dtype=torch.float32)


def dvae_mel(waveform: Tensor, mel_stats: Tensor) -> Tensor:
    """The DVAE's mel: `[batch, samples]` at 22,050 Hz -> `[batch, 80, 1 + samples // 256]`."""
    return _log_mel(waveform, mel_stats, fft_size=1024)


def conditioning_mel(waveform: Tensor, mel_stats: Tensor) -> Tensor:
    """The voice's mel: `[batch, samples]` at 22,050 Hz -> `[batch, 80, 1 + samples // 256]`."""
    return _log_mel(waveform, mel_stats, fft_size=2048)


def speaker_mel(waveform: Tensor) -> Tensor:
    """The speaker encoder's mel: `[batch, samples]` at 16 kHz -> power `[batch, 64,
    1 + samples // 160]`, before the logarithm."""
    padded = torch.nn.functional.pad(waveform.float()[:, None], (1, 0), mode="reflect")[:, 0]
    emphasised = padded[:, 1:] - _PREEMPHASIS * padded[:, :-1]
    window = torch.hamming_window(400, device=waveform.device)
    power = _power_spectrum(emphasised, 512, 160, window)
    bands = _filterbank(512, SPEAKER_RATE, 0.0, SPEAKER_RATE / 2, _SPEAKER_BANDS, None)
    return torch.matmul(bands.to(waveform.device), power)


def _log_mel(waveform: Tensor, mel_stats: Tensor, fft_size: int) -> Tensor:
    with torch.autocast(waveform.device.type, enabled=False):
        window = torch.hann_window(1024, device=waveform.device)
        power = _power_spectrum(waveform.float(), fft_size, MEL_HOP, window)
        bands = _filterbank(fft_size, CODE_RATE, 0.0, 8000.0, MEL_BANDS, "slaney")
        mel = torch.matmul(bands.to(waveform.device), power).clamp(min=1e-5).log()
        return mel / mel_stats.to(mel)[:, None]


def _power_spectrum(waveform: Tensor, fft_size: int, hop: int, window: Tensor) -> Tensor:
    spectrum = torch.stft(
        waveform, fft_size, hop, len(window), window, center=True, pad_mode="reflect", return_complex=True
    )
    return spectrum.abs().square()


@lru_cache(maxsize=8)
def _filterbank(fft_size: int, rate: int, low: float, high: float, bands: int, norm: str | None) -> Tensor:
    """Triangular filters on the HTK mel scale, `[bands, fft_size // 2 + 1]`."""
    from torchaudio.functional import melscale_fbanks

    filters: Tensor = melscale_fbanks(fft_size // 2 + 1, low, high, bands, rate, norm, "htk")
    return filters.t().contiguous()


def _undecodable_message(path: Path, reason: str) -> str:
    if sound_file.needs_av(path):
        return f"{path} is not a WAV, FLAC, OGG or MP3 file. Convert it: {how_to_convert(path)}"
    return f"{path} cannot be decoded ({reason}). Use a WAV, FLAC, OGG or MP3 file."
