"""The main teacher: flite's free voices, some shifted in pitch and formants.

Clips are stored in shards of int16 samples at 16 kHz, each with a JSON list beside it. A shard is
written whole or not at all, so a stopped run can resume. Every later stage reads `TeacherSpeech`.
"""

import json
import random
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cache, cached_property
from pathlib import Path

import numpy as np
import soundfile
import torch
from torch import Tensor

from machine.errors import SotaqueError
from machine.storage import atomic
from xtts.audio import SPEAKER_RATE, resample
from xtts.text.phonemes import PHONES

RATE = SPEAKER_RATE
# The phones, by flite's names.
SILENCE = "pau"
NAMES = (SILENCE, *(name.lower() for name in PHONES))
CLIPS_PER_SHARD = 500


class TeacherError(SotaqueError):
    """A teacher's program is missing, or did not speak."""


@dataclass(frozen=True)
class SpeakingStyle:
    """A pseudo-speaker: a voice, `shift` of pitch and formants together (tempo stays), and flite
    settings of its own. `weight` is its share of the clips."""

    name: str
    voice: str
    shift: Fraction
    settings: tuple[str, ...] = ()
    weight: float = 1.0


# Median F0 in Hz: slt 172, rms 104, kal16 90, each times its shift and its pitch setting (rms has
# none). awb, which is held out, has 128: voices just above and below it matter most.
MANNERS = (
    SpeakingStyle("slt", "slt", Fraction(1), (), 24.0),
    SpeakingStyle("rms", "rms", Fraction(1), (), 24.0),
    SpeakingStyle("kal16", "kal16", Fraction(1), (), 5.0),
    SpeakingStyle("slt-low", "slt", Fraction(7, 8), ("f0_shift=0.85",), 9.0),
    SpeakingStyle("slt-lower", "slt", Fraction(4, 5), ("f0_shift=0.95",), 7.0),
    SpeakingStyle("slt-deep", "slt", Fraction(1), ("f0_shift=0.7",), 4.0),
    SpeakingStyle("slt-high", "slt", Fraction(9, 8), ("f0_shift=1.2",), 3.0),
    SpeakingStyle("rms-low", "rms", Fraction(7, 8), (), 3.0),
    SpeakingStyle("rms-small", "rms", Fraction(9, 8), (), 9.0),
    SpeakingStyle("rms-smaller", "rms", Fraction(5, 4), (), 7.0),
    SpeakingStyle("rms-tiny", "rms", Fraction(7, 5), (), 2.0),
    SpeakingStyle("kal16-small", "kal16", Fraction(9, 8), ("int_f0_target_mean=120",), 3.0),
    SpeakingStyle("kal16-tiny", "kal16", Fraction(6, 5), ("int_f0_target_mean=190",), 1.0),
)


@dataclass(frozen=True)
class TeacherClip:
    """One spoken sentence: samples [start, start + length) of its shard."""

    text: str
    manner: str
    shard: int
    start: int
    length: int

    @property
    def seconds(self) -> float:
        """Its length in seconds."""
        return self.length / RATE


Speaker = Callable[[str, SpeakingStyle], np.ndarray]


def speak(text: str, manner: SpeakingStyle) -> np.ndarray:
    """`text` as int16 samples [n] at 16 kHz. Raises TeacherError."""
    with tempfile.NamedTemporaryFile(suffix=".wav") as file:
        _flite(text, manner, "-o", file.name)
        return played(Path(file.name), manner.shift)


def phone_times(text: str, manner: SpeakingStyle) -> list[tuple[str, float]]:
    """The phones of a clip, by flite's names, with their ends in seconds. Raises TeacherError."""
    pairs = (entry.rsplit(":", 1) for entry in _flite(text, manner, "-psdur", "-o", "none").split())
    # Faster playback shortens the times.
    return [(phone, float(end) / float(manner.shift)) for phone, end in pairs]


def _flite(text: str, manner: SpeakingStyle, *options: str) -> str:
    settings = [f"duration_stretch={float(manner.shift)}", *manner.settings]
    flags = [flag for setting in settings for flag in ("--setf", setting)]
    return run(["flite", "-voice", manner.voice, *flags, *options, "-t", text], text, "flite")


def run(command: Sequence[str], text: str, packages: str, given: str = "") -> str:
    """The output of a program that speaks `text`. given: its input. Raises TeacherError."""
    try:
        done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise TeacherError(
            f"{command[0]} is not installed, whose voices are learned from or compared with. "
            f"Install it with: apt-get install {packages}"
        ) from None
    if done.returncode:
        raise TeacherError(f"{command[0]} did not speak {text!r}: {done.stderr.strip()}")
    return done.stdout


def played(path: Path, shift: Fraction) -> np.ndarray:
    """A recording as int16 samples [n] at 16 kHz, played `shift` times as fast."""
    samples, rate = soundfile.read(path, dtype="float32")
    wave = np.asarray(resample(torch.from_numpy(samples), int(rate * shift), RATE))
    return (np.clip(wave, -1, 1) * 32767).astype(np.int16)


def plan(
    sentences: Sequence[str], seed: int, manners: Sequence[SpeakingStyle]
) -> list[tuple[str, SpeakingStyle]]:
    """Assigns each sentence to one pseudo-speaker, so that no two share a text."""
    draw = random.Random(f"manners/{seed}")
    weights = [manner.weight for manner in manners]
    return [(text, draw.choices(manners, weights)[0]) for text in sentences]


def speak_all(
    planned: Sequence[tuple[str, SpeakingStyle]],
    folder: Path,
    speaker: Speaker,
    first: int = 0,
) -> None:
    """Writes every missing shard of `planned` into `folder`; `first` is the first one's number."""
    folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(2) as pool:
        for shard in range(first, first + shards(len(planned))):
            if _path(folder, shard, "json").is_file():
                continue
            start = (shard - first) * CLIPS_PER_SHARD
            part = planned[start : start + CLIPS_PER_SHARD]
            spoken = list(pool.map(lambda item: speaker(*item), part))
            _write_shard(folder, shard, part, spoken)


def shards(clips: int) -> int:
    """The number of shards for `clips` clips."""
    return -(-clips // CLIPS_PER_SHARD)


def _write_shard(
    folder: Path, shard: int, part: Sequence[tuple[str, SpeakingStyle]], spoken: list[np.ndarray]
) -> None:
    starts = np.cumsum([0, *map(len, spoken)])
    clips = [
        TeacherClip(text, manner.name, shard, int(start), len(samples))
        for (text, manner), start, samples in zip(part, starts, spoken, strict=False)
    ]
    np.save(_path(folder, shard, "npy"), np.concatenate(spoken))
    # The list is written last: a shard without a list is made again.
    listed = json.dumps([asdict(clip) for clip in clips]).encode()
    atomic.replace_file(_path(folder, shard, "json"), lambda file: file.write(listed))


class TeacherSpeech:
    """The clips of a folder, memory-mapped."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clips: list[TeacherClip] = []
        for path in sorted(folder.glob("shard_*.json")):
            self.clips += [TeacherClip(**row) for row in json.loads(path.read_text())]
        self._shards: dict[int, np.ndarray] = {}

    @cached_property
    def by_manner(self) -> dict[str, list[int]]:
        """The indices of the clips of each pseudo-speaker."""
        groups: dict[str, list[int]] = {}
        for index, clip in enumerate(self.clips):
            groups.setdefault(clip.manner, []).append(index)
        return groups

    def at(self, index: int, rate: int) -> Tensor:
        """The samples [n] of clip `index`, resampled to `rate` Hz."""
        return _resampler(rate)(self.samples(index))

    def samples(self, index: int) -> Tensor:
        """Samples [n] of clip `index` at 16 kHz, float32."""
        clip = self.clips[index]
        if clip.shard not in self._shards:
            path = _path(self.folder, clip.shard, "npy")
            self._shards[clip.shard] = np.load(path, mmap_mode="r")
        part = self._shards[clip.shard][clip.start : clip.start + clip.length]
        return torch.from_numpy(part.astype(np.float32) / 32768)


@cache
def _resampler(rate: int) -> Callable[[Tensor], Tensor]:
    """Keeps its kernel: making one takes 80 ms, ten times as long as using it."""
    from torchaudio.transforms import Resample

    return Resample(RATE, rate)


def _path(folder: Path, shard: int, kind: str) -> Path:
    return folder / f"shard_{shard:04d}.{kind}"
