"""The main teacher: hibari-tts, one natural voice from which pseudo-speakers are derived.

hibari's network returns spectra and a pitch curve, from which its signal processing makes a
waveform. A person here is that voice with another pitch, liveliness, breath and spectral tilt,
played at another speed so that the vocal tract changes too. By DistillMOS, which was used for
nothing else here, the voice itself scores 4.55; persons with `joint` in 0.75 to 1.05 and `pitch` in
0.9 to 1.1 score 4.2 to 4.6, and with `pitch` 0.7 they would score 3.3 to 3.9.
"""

import math
import random
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from machine import commands
from machine.errors import SotaqueError
from xtts.model.shapes import CODE_RATE, SAMPLES_PER_CODE

if TYPE_CHECKING:
    from torchaudio.transforms import Resample

RATE = 24_000
# Of hibari's spectra and pitch.
SAMPLES_PER_FRAME = 300
# hibari's durations count pairs of frames.
FRAMES_PER_DURATION = 2
PITCHES_PER_CODE, PHONES_PER_CODE = 4, 2
UNKNOWN_PHONE = 255
# Spreads of spectral ripples over the mel axis, in nats of magnitude; the slowest, a tilt, first.
RIPPLE_SPREADS = (0.35, 0.30, 0.25, 0.22, 0.20, 0.18, 0.15, 0.15)
# Logarithms of both factors of a man's voice. At such pitches the signal processing is audible, so
# the vocoder does not learn from these persons.
DEEP_JOINT, DEEP_PITCH = (-0.25, -0.04), (-0.5, -0.1)
# The distance of a person from the unchanged voice, in logarithms of both factors.
MIN_DISTANCE = 0.06
_MAX_UNVOICED_HZ = 40.0
_MIN_SOUND = 0.01
_DURATIONS_OUTPUT = "/Clip_output_0"


@dataclass(frozen=True)
class Person:
    """A pseudo-speaker.

    Attributes:
        joint: The factor of pitch and formants together.
        pitch: A further factor of the pitch.
        lively: The factor of the pitch's movement in octaves.
        breath: The gain of the noise in nats.
        ripples: Gains of spectral ripples, as in `RIPPLE_SPREADS`.
        pace: The factor of the speed.
    """

    name: str
    joint: float = 1.0
    pitch: float = 1.0
    lively: float = 1.0
    breath: float = 0.0
    ripples: tuple[float, ...] = ()
    pace: float = 1.0


def draw_person(number: int) -> Person:
    """The person of this number; the same on every call. Every third has the pitch of a man."""
    rng = random.Random(f"hibari/{number}")
    if number % 3 == 2:
        joint = round(math.exp(rng.uniform(*DEEP_JOINT)), 2)
        pitch = math.exp(rng.uniform(*DEEP_PITCH))
        return _with_manner(f"deep{number}", joint, pitch, rng)
    while True:
        joint = round(math.exp(rng.uniform(math.log(0.72), math.log(1.08))), 2)
        pitch = math.exp(rng.gauss(0.0, 0.06))
        if abs(math.log(joint)) + abs(math.log(pitch)) > MIN_DISTANCE:
            break
    return _with_manner(f"hibari{number}", joint, min(max(pitch, 0.86), 1.12), rng)


def _with_manner(name: str, joint: float, pitch: float, rng: random.Random) -> Person:
    """A person whose liveliness, breath, ripples and pace are drawn, in this order."""
    return Person(
        name,
        joint,
        pitch,
        lively=rng.uniform(0.75, 1.2),
        breath=rng.uniform(-0.6, 0.7),
        ripples=tuple(rng.gauss(0.0, spread) for spread in RIPPLE_SPREADS),
        pace=rng.uniform(0.88, 1.12),
    )


@dataclass(frozen=True)
class Spoken:
    """A clip: samples `[n]` at 24 kHz, and for each code its pitches `[codes, 4]` (log2 of Hz, 0
    where unvoiced) and phones `[codes, 2]` (ids of hibari's alphabet)."""

    wave: np.ndarray
    pitch: np.ndarray
    phones: np.ndarray


class Voice:
    """hibari's network. model: its ONNX file; by default that of the package."""

    def __init__(self, model: Path | None = None) -> None:
        import onnx
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        network = onnx.load(str(model or package_file("hibari.onnx")))
        # The durations of the phones exist only inside the graph.
        network.graph.output.append(onnx.ValueInfoProto(name=_DURATIONS_OUTPUT))
        self.session = onnxruntime.InferenceSession(
            network.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )

    def speak(self, ids: np.ndarray, person: Person, seed: int) -> Spoken:
        """Phone ids `[n]`, with 0 at both ends, as one clip of a person."""
        from hibari import dsp

        speed = np.array([person.pace / person.joint], np.float32)
        outputs = self.session.run(None, {"ids": np.asarray(ids, np.int64)[None], "speed": speed})
        harmonic, turn, noise, free, phase, f0 = (output[0] for output in outputs[:6])
        durations = outputs[6].reshape(-1)
        gain = _ripple_gains(person.ripples, len(harmonic))
        f0 = _change_pitch(f0, person)
        wave = dsp.synth(
            harmonic + gain,
            turn,
            noise + gain + np.float32(person.breath),
            free + gain,
            phase,
            f0,
            np.random.default_rng(seed),
        )
        wave = play_faster(wave, person.joint)
        return cut_clip(wave, f0, durations, np.asarray(ids), person.joint, seed)


def cut_clip(
    wave: np.ndarray, f0: np.ndarray, durations: np.ndarray, ids: np.ndarray, joint: float, seed: int
) -> Spoken:
    """Cuts a clip at its edges, draws its loudness, and looks up the pitch and phone of each code.

    Args:
        wave: Samples at 24 kHz, after `play_faster`.
        f0: Hz in frames of `SAMPLES_PER_FRAME` before `play_faster`; unvoiced below 40.
        durations: The duration of each phone in pairs of those frames.
        ids: The phones.
    """
    start, end = _speech_bounds(wave, random.Random(f"edges/{seed}"))
    phone_of_frame = np.repeat(np.arange(len(durations)), FRAMES_PER_DURATION * durations.astype(np.int64))
    peak = random.Random(f"loudness/{seed}").uniform(0.35, 0.9)
    gain = peak / max(1e-3, float(np.abs(wave).max()))
    samples = (wave[start:end] * gain * 32767).astype(np.int16)
    num_codes = -(-len(samples) * CODE_RATE // (RATE * SAMPLES_PER_CODE))

    def frame_numbers(per_code: int) -> np.ndarray:
        seconds = (np.arange(num_codes * per_code) + 0.5) * SAMPLES_PER_CODE / CODE_RATE / per_code
        return ((seconds + start / RATE) * joint * RATE / SAMPLES_PER_FRAME).astype(np.int64)

    log2_hz = np.where(f0 > _MAX_UNVOICED_HZ, np.log2(np.maximum(f0, 1.0) * joint), 0.0)
    frames = frame_numbers(PITCHES_PER_CODE)
    pitch = np.where(frames < len(f0), log2_hz[frames.clip(max=len(f0) - 1)], 0.0)
    frames = frame_numbers(PHONES_PER_CODE)
    phone_numbers = phone_of_frame[frames.clip(max=len(phone_of_frame) - 1)]
    phones = np.where(frames < len(phone_of_frame), ids[phone_numbers], 0)
    return Spoken(
        samples,
        pitch.reshape(num_codes, PITCHES_PER_CODE).astype(np.float16),
        phones.reshape(num_codes, PHONES_PER_CODE).astype(np.uint8),
    )


def package() -> ModuleType:
    """The package hibari-tts. Raises SotaqueError without it."""
    try:
        import hibari
    except ImportError as error:
        raise SotaqueError(
            "hibari-tts is missing, whose voice the embedded model learns from. Install it with: "
            + commands.install("hibari-tts")
        ) from error
    return hibari


def package_file(name: str) -> Path:
    """A file of the package hibari-tts."""
    return Path(package().__path__[0]) / "assets" / name


def _change_pitch(f0: np.ndarray, person: Person) -> np.ndarray:
    """The pitch curve of a person, in Hz; unvoiced up to 40 Hz."""
    is_voiced = f0 > _MAX_UNVOICED_HZ
    if not is_voiced.any():
        return f0
    mean_hz = float(np.exp(np.log(f0[is_voiced]).mean()))
    changed = mean_hz * person.pitch * (np.maximum(f0, 1.0) / mean_hz) ** person.lively
    return np.where(is_voiced, changed, f0).astype(np.float32)


def _ripple_gains(ripples: tuple[float, ...], num_bins: int) -> np.ndarray:
    """Gains `[num_bins, 1]` in nats of magnitude."""
    mels = np.log1p(np.linspace(0, RATE / 2, num_bins) / 700) / math.log1p(RATE / 2 / 700)
    waves = [size * np.cos(math.pi * (k + 1) * mels) for k, size in enumerate(ripples)]
    gains: np.ndarray = np.sum([np.zeros(num_bins), *waves], axis=0).astype(np.float32)[:, None]
    return gains


def play_faster(wave: np.ndarray, factor: float) -> np.ndarray:
    """The wave played `factor` times as fast, at 24 kHz."""
    import torch

    if factor == 1.0:
        return wave
    resampled: np.ndarray = _resampler(factor)(torch.from_numpy(wave)).numpy()
    return resampled


@cache
def _resampler(factor: float) -> "Resample":
    """Cached, because building its kernel takes longer than using it."""
    from torchaudio.transforms import Resample

    return Resample(round(RATE * factor / 240) * 240, RATE)


def _speech_bounds(wave: np.ndarray, rng: random.Random) -> tuple[int, int]:
    """The start and end of the speech, with up to a tenth of a second of silence around it."""
    loud = np.flatnonzero(np.abs(wave) > _MIN_SOUND)
    if not len(loud):
        return 0, len(wave)
    before, after = (int(rng.uniform(0.03, 0.1) * RATE) for _ in range(2))
    return max(0, int(loud[0]) - before), min(len(wave), int(loud[-1]) + after)
