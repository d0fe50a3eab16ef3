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
# Samples in a frame of hibari's spectra and pitch.
FRAME = 300
# hibari's durations count pairs of frames.
FRAMES_PER_DURATION = 2
PITCHES_PER_CODE, PHONES_PER_CODE = 4, 2
UNKNOWN_PHONE = 255
# Spectral ripples over the mel axis, in nats of magnitude; the slowest, a tilt, first.
RIPPLES = (0.35, 0.30, 0.25, 0.22, 0.20, 0.18, 0.15, 0.15)
# Logarithms of both factors of a man's voice. At such pitches the signal processing is audible, so
# the vocoder does not learn from these persons.
DEEP_JOINT, DEEP_PITCH = (-0.25, -0.04), (-0.5, -0.1)
# The demo's person is the unchanged voice. No person of the base may be this close to it.
NEAREST = 0.06
_UNVOICED_HZ = 40.0
_EDGE = 0.01
_DURATIONS = "/Clip_output_0"


@dataclass(frozen=True)
class Person:
    """A pseudo-speaker. joint: the factor of pitch and formants together; pitch: an additional
    factor of the pitch; lively: the factor of the pitch's movement in octaves; breath: the gain of
    the noise in nats; pace: the factor of the speed."""

    name: str
    joint: float = 1.0
    pitch: float = 1.0
    lively: float = 1.0
    breath: float = 0.0
    ripples: tuple[float, ...] = ()
    pace: float = 1.0


def person(number: int) -> Person:
    """The person of this number; the same on every call. Every third has the pitch of a man."""
    draw = random.Random(f"hibari/{number}")
    if number % 3 == 2:
        joint = round(math.exp(draw.uniform(*DEEP_JOINT)), 2)
        pitch = math.exp(draw.uniform(*DEEP_PITCH))
        return Person(f"deep{number}", joint, pitch, *_manner(draw))
    while True:
        joint = round(math.exp(draw.uniform(math.log(0.72), math.log(1.08))), 2)
        pitch = math.exp(draw.gauss(0.0, 0.06))
        if abs(math.log(joint)) + abs(math.log(pitch)) > NEAREST:
            break
    return Person(f"hibari{number}", joint, min(max(pitch, 0.86), 1.12), *_manner(draw))


def _manner(draw: random.Random) -> tuple[float, float, tuple[float, ...], float]:
    """Liveliness, breath, ripples and pace of a person."""
    return (
        draw.uniform(0.75, 1.2),
        draw.uniform(-0.6, 0.7),
        tuple(draw.gauss(0.0, spread) for spread in RIPPLES),
        draw.uniform(0.88, 1.12),
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
        loaded = onnx.load(str(model or package_file("hibari.onnx")))
        # The durations of the phones exist only inside the graph.
        loaded.graph.output.append(onnx.ValueInfoProto(name=_DURATIONS))
        self.session = onnxruntime.InferenceSession(
            loaded.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )

    def speak(self, ids: np.ndarray, who: Person, seed: int) -> Spoken:
        """Phone ids `[n]`, with 0 at both ends, as one clip of a person."""
        from hibari import dsp

        outputs = self.session.run(
            None,
            {"ids": np.asarray(ids, np.int64)[None], "speed": np.array([who.pace / who.joint], np.float32)},
        )
        harmonic, turn, noise, free, phase, f0 = (output[0] for output in outputs[:6])
        lasting = outputs[6].reshape(-1)
        gain = _ripples(who.ripples, len(harmonic))
        f0 = _moved(f0, who)
        wave = dsp.synth(
            harmonic + gain,
            turn,
            noise + gain + np.float32(who.breath),
            free + gain,
            phase,
            f0,
            np.random.default_rng(seed),
        )
        return placed(played(wave, who.joint), f0, lasting, np.asarray(ids), who.joint, seed)


def placed(
    wave: np.ndarray, f0: np.ndarray, lasting: np.ndarray, ids: np.ndarray, joint: float, seed: int
) -> Spoken:
    """Cuts a clip at its edges, draws its loudness, and looks up the pitch and phone of each code.

    Args:
        wave: Samples at 24 kHz, after `played`.
        f0: Hz in frames of `FRAME` samples before `played`; unvoiced below 40.
        lasting: The duration of each phone in pairs of those frames.
        ids: The phones.
    """
    first, last = _edges(wave, random.Random(f"edges/{seed}"))
    of_frame = np.repeat(np.arange(len(lasting)), FRAMES_PER_DURATION * lasting.astype(np.int64))
    draw = random.Random(f"loudness/{seed}")
    loud = draw.uniform(0.35, 0.9) / max(1e-3, float(np.abs(wave).max()))
    part = (wave[first:last] * loud * 32767).astype(np.int16)
    codes = -(-len(part) * CODE_RATE // (RATE * SAMPLES_PER_CODE))

    def frames(each: int) -> np.ndarray:
        seconds = (np.arange(codes * each) + 0.5) * SAMPLES_PER_CODE / CODE_RATE / each
        return ((seconds + first / RATE) * joint * RATE / FRAME).astype(np.int64)

    voiced = np.where(f0 > _UNVOICED_HZ, np.log2(np.maximum(f0, 1.0) * joint), 0.0)
    at = frames(PITCHES_PER_CODE)
    pitch = np.where(at < len(f0), voiced[at.clip(max=len(f0) - 1)], 0.0)
    where = frames(PHONES_PER_CODE)
    place = of_frame[where.clip(max=len(of_frame) - 1)]
    phones = np.where(where < len(of_frame), ids[place], 0)
    return Spoken(
        part,
        pitch.reshape(codes, PITCHES_PER_CODE).astype(np.float16),
        phones.reshape(codes, PHONES_PER_CODE).astype(np.uint8),
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
    """A file of that package."""
    return Path(package().__path__[0]) / "assets" / name


def _moved(f0: np.ndarray, who: Person) -> np.ndarray:
    """The pitch curve of a person, in Hz; 0 and below 40 Hz mean unvoiced."""
    voiced = f0 > _UNVOICED_HZ
    if not voiced.any():
        return f0
    middle = float(np.exp(np.log(f0[voiced]).mean()))
    moved = middle * who.pitch * (np.maximum(f0, 1.0) / middle) ** who.lively
    return np.where(voiced, moved, f0).astype(np.float32)


def _ripples(ripples: tuple[float, ...], bins: int) -> np.ndarray:
    """Gains `[bins, 1]` in nats of magnitude."""
    place = np.log1p(np.linspace(0, RATE / 2, bins) / 700) / math.log1p(RATE / 2 / 700)
    waves = [size * np.cos(math.pi * (k + 1) * place) for k, size in enumerate(ripples)]
    gains: np.ndarray = np.sum([np.zeros(bins), *waves], axis=0).astype(np.float32)[:, None]
    return gains


def played(wave: np.ndarray, joint: float) -> np.ndarray:
    """The wave played `joint` times as fast, at 24 kHz."""
    import torch

    if joint == 1.0:
        return wave
    played: np.ndarray = _player(joint)(torch.from_numpy(wave)).numpy()
    return played


@cache
def _player(joint: float) -> "Resample":
    """Cached, because building its kernel takes longer than using it."""
    from torchaudio.transforms import Resample

    return Resample(round(RATE * joint / 240) * 240, RATE)


def _edges(wave: np.ndarray, draw: random.Random) -> tuple[int, int]:
    """The start and end of the speech, with up to a tenth of a second of silence around it."""
    loud = np.flatnonzero(np.abs(wave) > _EDGE)
    if not len(loud):
        return 0, len(wave)
    before, after = (int(draw.uniform(0.03, 0.1) * RATE) for _ in range(2))
    return max(0, int(loud[0]) - before), min(len(wave), int(loud[-1]) + after)
