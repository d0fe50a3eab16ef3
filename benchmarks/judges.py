"""Judges of speech that share nothing with the model: a recogniser, and statistics of the sound.

They work offline: pocketsphinx brings its English model, and flite and hibari speak the voices to
compare with.
"""

import math
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from machine.errors import SotaqueError
from xtts.audio import SPEAKER_RATE as RATE
from xtts.audio import read, resample

VOICES = ("awb", "rms", "kal16", "slt")
# hibari-tts's unchanged voice, which no base has heard.
HIBARI = "hibari"
LOWEST_HZ, HIGHEST_HZ = 60.0, 400.0
CEPSTRA, MEL_BANDS = 14, 40


class TeacherError(SotaqueError):
    """flite or pocketsphinx is missing, or flite did not speak."""


def teacher(voice: str, text: str) -> Tensor:
    """`text` by hibari or one of flite's voices: [samples] at 16 kHz. Raises SotaqueError."""
    if voice == HIBARI:
        return hibari(text)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "spoken.wav"
        _flite(voice, text, "-o", str(path))
        return read(path, RATE)


def hibari(text: str) -> Tensor:
    """`text` by hibari: [samples] at 16 kHz. Raises SotaqueError without hibari-tts."""
    from demo_voice import speaking
    from demo_voice.teachers.hibari import RATE as HIBARI_RATE

    wave = torch.from_numpy(speaking.spoken_by(text)).float() / 32768
    return resample(wave, HIBARI_RATE, RATE)


def phone_times(voice: str, text: str) -> list[tuple[str, float]]:
    """The phones of `text` by flite's names, with their ends in seconds. Raises TeacherError."""
    pairs = (entry.rsplit(":", 1) for entry in _flite(voice, text, "-psdur", "-o", "none").split())
    return [(phone, float(end)) for phone, end in pairs]


def _flite(voice: str, text: str, *options: str) -> str:
    command = ["flite", "-voice", voice, *options, "-t", text]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise TeacherError(
            "flite is not installed, whose voices the judges compare with. Install it with: "
            "apt-get install flite"
        ) from None
    if done.returncode:
        raise TeacherError(f"flite did not speak {text!r}: {done.stderr.strip()}")
    return done.stdout


def words_heard(waveform: Tensor) -> str:
    """What pocketsphinx understands of [samples] at 16 kHz, made as loud as any other, with a
    quarter of a second of silence around it. Raises TeacherError."""
    loud = waveform / waveform.abs().max().clamp(min=1e-4) * 0.7
    padded = torch.nn.functional.pad(loud, (RATE // 4, RATE // 4)).clamp(-1, 1)
    decoder = _recogniser()
    decoder.reinit_feat()  # else the noise estimate of the clip before is used
    decoder.start_utt()
    decoder.process_raw((padded * 32767).to(torch.int16).numpy().tobytes(), full_utt=True)
    decoder.end_utt()
    found = decoder.hyp()
    return found.hypstr if found else ""


@cache
def _recogniser() -> Any:
    try:
        from pocketsphinx import Decoder
    except ImportError as error:
        raise TeacherError(
            "pocketsphinx is missing, which hears words; it has wheels for Python 3.11 and 3.13. "
            "Install it with: .venv/bin/python -m pip install pocketsphinx"
        ) from error
    return Decoder(samprate=RATE, loglevel="FATAL")


def word_errors(said: Sequence[str], heard: Sequence[str]) -> float:
    """Errors per word over all sentences together; may exceed 1."""
    import jiwer

    return float(jiwer.wer([_plain(text) for text in said], [_plain(text) for text in heard]))


def counted_errors(said: str, heard: str) -> tuple[int, int]:
    """(errors, words) of one sentence."""
    import jiwer

    found = jiwer.process_words(_plain(said), _plain(heard))
    errors = found.substitutions + found.deletions + found.insertions
    return errors, found.hits + found.substitutions + found.deletions


def _plain(text: str) -> str:
    return re.sub(r"[^a-z' ]", "", text.lower()) or "-"


def fundamental(waveform: Tensor) -> Tensor:
    """F0 in Hz of the voiced frames of [samples] at 16 kHz, by autocorrelation in frames of 40 ms,
    10 ms apart."""
    size = RATE // 25
    if len(waveform) < size:
        return torch.zeros(0)
    frames = waveform.unfold(0, size, RATE // 100)
    frames = frames - frames.mean(1, keepdim=True)
    power = torch.fft.rfft(frames, 2 * size).abs().square()
    correlation = torch.fft.irfft(power)[:, :size]
    # A window's overlap shrinks with the lag.
    correlation = correlation / (1 - torch.arange(size) / size)
    energy = correlation[:, 0].clamp(min=1e-9)
    first, last = int(RATE / HIGHEST_HZ), int(RATE / LOWEST_HZ)
    part = correlation[:, first:last] / energy[:, None]
    best, lag = part.max(1)
    # The shortest lag that is nearly as good: no octave below.
    lag = torch.minimum(lag, (part > 0.9 * best[:, None]).float().argmax(1))
    voiced = (best > 0.5) & (energy > 0.02 * energy.max())
    return (RATE / (first + lag).float())[voiced]


def cepstra(waveform: Tensor) -> Tensor:
    """Mel cepstra [frames, 14] of [samples] at 16 kHz, 10 ms apart; the first is loudness."""
    from torchaudio.functional import create_dct, melscale_fbanks

    window = torch.hann_window(400)
    power = torch.stft(waveform, 512, 160, 400, window, return_complex=True).abs().square()
    bands = melscale_fbanks(257, 0.0, RATE / 2, MEL_BANDS, RATE)
    mel = (bands.T @ power).clamp(min=1e-8).log()
    return mel.T @ create_dct(CEPSTRA, MEL_BANDS, "ortho")


def portrait(waveform: Tensor) -> np.ndarray:
    """What a voice is like, [28]: means and spreads of the cepstra where it sounds, and of F0."""
    found = cepstra(waveform)
    loud = found[:, 0] > found[:, 0].max() - 12
    kept = found[loud, 1:]
    pitch = fundamental(waveform).log()
    if not len(pitch):
        pitch = torch.tensor([math.log(LOWEST_HZ)])
    pitch_facts = torch.tensor([float(pitch.median()), float(pitch.std(correction=0))])
    return torch.cat((kept.mean(0), kept.std(0, correction=0), pitch_facts)).numpy()


@dataclass(frozen=True)
class VoiceJudge:
    """Gaussians with one covariance that tell voices apart, learned on source clips of each."""

    means: Mapping[str, np.ndarray]
    precision: np.ndarray
    wanted: str
    near: float = 0.0
    far: float = 1.0

    @staticmethod
    def learn(clips: Mapping[str, Sequence[Tensor]], wanted: str) -> "VoiceJudge":
        """From clips [samples] at 16 kHz of each voice; every fifth sets the scale."""
        drawn = {name: np.stack([portrait(clip) for clip in of]) for name, of in clips.items()}
        shown = {name: np.delete(of, np.s_[::5], axis=0) for name, of in drawn.items()}
        means = {name: of.mean(0) for name, of in shown.items()}
        spread = np.concatenate([of - means[name] for name, of in shown.items()])
        covariance = np.cov(spread.T) + 1e-3 * np.eye(spread.shape[1])
        judge = VoiceJudge(means, np.linalg.inv(covariance), wanted)
        held = {name: [judge._away(face, wanted) for face in of[::5]] for name, of in drawn.items()}
        far = float(np.mean([np.mean(of) for name, of in held.items() if name != wanted]))
        return replace(judge, near=float(np.mean(held[wanted])), far=far)

    def name(self, waveform: Tensor) -> str:
        """The nearest voice."""
        face = portrait(waveform)
        return min(self.means, key=lambda name: self._away(face, name))

    def similarity(self, waveform: Tensor) -> float:
        """1 as near to the wanted voice as its own held-out clips, 0 as far as the others' mean."""
        away = self._away(portrait(waveform), self.wanted)
        return (self.far - away) / (self.far - self.near)

    def _away(self, face: np.ndarray, name: str) -> float:
        gap = face - self.means[name]
        return float(np.sqrt(gap @ self.precision @ gap))


def cepstral_distortion(found: Tensor, wanted: Tensor) -> float:
    """Mel-cepstral distortion in dB under dynamic time warping, of [samples] at 16 kHz each."""
    one, other = (cepstra(wave)[:, 1:] for wave in (found, wanted))
    # Orthonormal cepstra of log power -> those of log magnitude that the measure is defined on.
    scale = 0.5 * math.sqrt(2 / MEL_BANDS)
    return 10 / math.log(10) * math.sqrt(2) * scale * _warped(one, other)


def distance(found: Tensor, wanted: Tensor) -> float:
    """Mean Euclidean distance of `mfccs` under dynamic time warping, of [samples] at 16 kHz each.

    Loudness counts: flite's awb is about 45 to 50 from what speaks like him, 65 from others.
    """
    return _warped(mfccs(found), mfccs(wanted))


def mfccs(waveform: Tensor) -> Tensor:
    """[frames, 24] of [samples] at 16 kHz, 10 ms apart, of 80 mel bands in dB, at most 80 dB under
    the loudest."""
    found: Tensor = _mfcc()(waveform)
    return found.T


@cache
def _mfcc() -> Any:
    from torchaudio.transforms import MFCC

    shape = {"n_fft": 512, "hop_length": RATE // 100, "win_length": 400, "n_mels": 80}
    return MFCC(RATE, n_mfcc=24, melkwargs=shape)


def _warped(one: Tensor, other: Tensor) -> float:
    """The mean Euclidean distance of frames [n, width] and [m, width] along the cheapest path."""
    from librosa.sequence import dtw

    costs = torch.cdist(one.double(), other.double()).numpy()
    path = dtw(C=costs)[1]
    return float(costs[path[:, 0], path[:, 1]].mean())
