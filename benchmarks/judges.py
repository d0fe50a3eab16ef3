"""Judges of speech that share nothing with the model: a recogniser, and statistics of the sound.

They work offline: pocketsphinx brings its English model, and flite and RHVoice speak the voices to
compare with.
"""

import math
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks import flite
from xtts.audio import SPEAKER_RATE as RATE
from xtts.audio import read

VOICES = ("awb", "rms", "kal16", "slt")
# Whom no part of the embedded voice has heard, by what speaks them and Debian's packages: RHVoice's
# are non-free; festival's is a voice of diphones.
RHVOICE, FESTIVAL = ("lyubov", "evgeniy-eng"), ("ked",)
LOWEST_HZ, HIGHEST_HZ = 60.0, 400.0
CEPSTRA, MEL_BANDS = 14, 40
CLICK_DB = 18.0


def teacher(voice: str, text: str) -> Tensor:
    """`text` by a synthesiser's `voice`: [samples] at 16 kHz. Raises TeacherError."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "spoken.wav"
        if voice in RHVOICE:
            command, packages = ["RHVoice-test", "-p", voice], "rhvoice rhvoice-english"
        elif voice in FESTIVAL:
            command = ["text2wave", "-eval", f"(voice_{voice}_diphone)"]
            packages = "festival festvox-kdlpc16k"
        else:
            command, packages = ["flite", "-voice", voice, "-t", text], "flite"
        flite.run([*command, "-o", str(path)], text, packages, given=text)
        return read(path, RATE)


def words_heard(waveform: Tensor) -> str:
    """What pocketsphinx understands of [samples] at 16 kHz. Raises TeacherError."""
    decoder = _recogniser("words")
    flite.hear(decoder, _padded(waveform))
    found = decoder.hyp()
    return found.hypstr if found else ""


def words_found(waveform: Tensor, words: Sequence[str]) -> list[tuple[float, float]]:
    """Where pocketsphinx finds these words in [samples] at 16 kHz: begin and end of each in
    seconds; none where it lacks a word or does not find them all. Raises TeacherError."""
    decoder = _recogniser("alignment")
    try:
        decoder.set_align_text(" ".join(words))
        flite.hear(decoder, _padded(waveform))
        segments = list(decoder.seg() or ())
    except RuntimeError:
        return []
    found = [
        (one.start_frame / 100 - 0.25, (one.end_frame + 1) / 100 - 0.25)
        for one in segments
        if not one.word.startswith(("<", "["))
    ]
    return found if len(found) == len(words) else []


def _padded(waveform: Tensor) -> bytes:
    """PCM16, as loud as any other, with a quarter of a second of silence around it."""
    loud = waveform / waveform.abs().max().clamp(min=1e-4) * 0.7
    padded = torch.nn.functional.pad(loud, (RATE // 4, RATE // 4))
    samples: bytes = (padded.clamp(-1, 1) * 32767).to(torch.int16).numpy().tobytes()
    return samples


@cache
def _recogniser(_: str) -> Any:
    """One for each task: a text to align would stay its task."""
    return flite.open_recogniser()


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


def error_places(said: str, heard: str) -> list[int]:
    """Errors at each word of one sentence; words heard too many count with the word behind them,
    at the end with the last."""
    import jiwer

    found = jiwer.process_words(_plain(said), _plain(heard))
    places = [0] * len(found.references[0])
    for part in found.alignments[0]:
        if part.type == "insert":
            place = min(part.ref_start_idx, len(places) - 1)
            places[place] += part.hyp_end_idx - part.hyp_start_idx
        elif part.type != "equal":
            for place in range(part.ref_start_idx, part.ref_end_idx):
                places[place] += 1
    return places


def _plain(text: str) -> str:
    return re.sub(r"[^a-z' ]", "", text.lower()) or "-"


def fundamental(waveform: Tensor) -> Tensor:
    """F0 in Hz of the voiced frames of [samples] at 16 kHz."""
    pitch = pitch_track(waveform)
    return pitch.hz[pitch.voiced]


@dataclass(frozen=True)
class PitchTrack:
    """For frames of 40 ms, 10 ms apart, each [frames]: F0 by autocorrelation, whether it is voiced,
    and which part of its power repeats with that period, 0 to 1."""

    hz: Tensor
    voiced: Tensor
    periodic: Tensor


def pitch_track(waveform: Tensor) -> PitchTrack:
    """Of [samples] at 16 kHz."""
    size = RATE // 25
    if len(waveform) < size:
        nothing = torch.zeros(0)
        return PitchTrack(nothing, nothing.bool(), nothing)
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
    near = (part > 0.9 * best[:, None]).float().argmax(1)
    lag = torch.minimum(lag, near)
    voiced = (best > 0.5) & (energy > 0.02 * energy.max())
    return PitchTrack(RATE / (first + lag).float(), voiced, best)


def heard_in_step(found: Tensor, wanted: Tensor) -> dict[str, float]:
    """What an ear would blame in [samples] at 16 kHz that run in step with a recording.

    f0_cents: median of the F0's distance where both are voiced; voicing_errors: share of frames of
    which one is voiced and the other is not; hoarseness_db: how much less of the voiced power is
    harmonic (harmonics-to-noise ratio by Boersma 1993), buzz_db: how much flatter the spectrum from
    2 to 6 kHz is (spectral flatness), both against the recording; clicks: frames of a millisecond
    whose second difference is louder by CLICK_DB than the 50 ms around them, in a second.
    """
    length = min(len(found), len(wanted))
    one, other = pitch_track(found[:length]), pitch_track(wanted[:length])
    both = one.voiced & other.voiced
    cents = 1200 * (one.hz / other.hz).log2().abs()[both]
    return {
        "f0_cents": float(cents.median()) if len(cents) else math.nan,
        "voicing_errors": float((one.voiced != other.voiced).float().mean()),
        "hoarseness_db": float((_harmonics_db(other) - _harmonics_db(one))[both].mean()),
        "buzz_db": float(
            (_flatness_db(found[:length]) - _flatness_db(wanted[:length]))[both].mean()
        ),
        "clicks": clicks(found[:length]) / (length / RATE),
    }


def _harmonics_db(pitch: PitchTrack) -> Tensor:
    share = pitch.periodic.clamp(1e-3, 1 - 1e-3)
    return 10 * (share / (1 - share)).log10()


def _flatness_db(waveform: Tensor) -> Tensor:
    """[frames], as of `pitch_track`."""
    size = RATE // 25
    frames = waveform.unfold(0, size, RATE // 100) * torch.hann_window(size)
    power = torch.fft.rfft(frames).abs().square().clamp(min=1e-10)
    band = power[:, 2000 * size // RATE : 6000 * size // RATE]
    return 10 * (band.log().mean(1).exp() / band.mean(1)).log10()


def clicks(waveform: Tensor) -> int:
    """Clicks in [samples] at 16 kHz, as of `heard_in_step`."""
    high = waveform.double().diff(n=2)
    frames = high[: len(high) // 16 * 16].view(-1, 16).square().mean(1)
    levels = 10 * frames.clamp(min=1e-10).log10()
    around = torch.nn.functional.pad(levels, (25, 25), value=-100.0).unfold(0, 51, 1)
    usual = torch.cat((around[:, :24], around[:, 27:]), dim=1).amax(1)
    return int((levels > usual + CLICK_DB).sum())


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
