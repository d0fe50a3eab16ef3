"""Combines several recordings of one person into one reference, which switches between them.

The model uses only the first seconds of a reference, for the latents (the mean over chunks) and the
speaker embedding. Therefore the recordings take turns, a chunk each, so that all contribute.
Concatenated, only the first ones would.

Importing this module does not import torch.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from xtts.arguments import ArgumentError, excerpt
from xtts.inference.defaults import ConditioningParams
from xtts.sound_endings import SOUND_ENDINGS, is_recording
from xtts.speech_span import frame_levels, speech_start

Array = NDArray[np.float32]
Reference = Path | tuple[Path, ...]

MAX_RECORDINGS = 100
# The fade at both ends of a turn, to avoid clicks.
_FADE_SECONDS = 0.005


class Turn(NamedTuple):
    """The samples of a recording, a number in a sequence, between two others."""

    recording: int
    start: int
    end: int


def reference_of(paths: Sequence[Path]) -> Reference:
    """The recordings of files and folders, in this order. A folder stands for its audio files,
    sorted by name, without subfolders. A single recording is returned as a path.

    Raises ArgumentError for no recordings, more than 100, or a folder without audio.
    """
    files = tuple(file for path in paths for file in _files_of(path))
    if not files:
        raise ArgumentError("reference is an empty list. Name a recording, or a folder of them.")
    if len(files) > MAX_RECORDINGS:
        raise ArgumentError(
            f"reference names {len(files)} recordings; at most {MAX_RECORDINGS} are allowed. The model "
            "uses at most half a minute in total, so choose the best ten."
        )
    return files if len(files) > 1 else files[0]


def _files_of(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    try:
        recordings = sorted(file for file in path.iterdir() if is_recording(file))
    except OSError as error:
        raise ArgumentError(f"reference is {path}, which cannot be read: {error}") from None
    if not recordings:
        raise ArgumentError(
            f"reference is the folder {excerpt(str(path))}, which contains no recording: no file in "
            f"it ends in {', '.join(SOUND_ENDINGS)}."
        )
    return recordings


def for_conditioning(recordings: Sequence[Array], rate: int, conditioning: ConditioningParams) -> Array:
    """Joins recordings `[samples]` so that the latents and the speaker embedding use each of
    them."""
    seconds = (conditioning.total_seconds, conditioning.speaker_seconds)
    per_turn = turn_seconds(len(recordings), conditioning.chunk_seconds, min(seconds))
    return join(recordings, rate, per_turn, max(seconds))


def turn_seconds(num_recordings: int, chunk_seconds: float, used_seconds: float) -> float:
    """The length of a turn: a chunk, or the largest integer fraction of a chunk with which all
    recordings fit into `used_seconds`."""
    return chunk_seconds / max(1, math.ceil(num_recordings * chunk_seconds / used_seconds))


def join(recordings: Sequence[Array], rate: int, seconds_per_turn: float, max_seconds: float) -> Array:
    """Joins recordings `[samples]`, float32 at `rate` Hz, in turns, up to `max_seconds`, without long
    silence at their ends. A single recording is returned unchanged."""
    if len(recordings) == 1:
        return recordings[0]
    trimmed = [trim_silence(recording, rate) for recording in recordings]
    lengths = [len(samples) for samples in trimmed]
    turns = _plan_turns(lengths, int(seconds_per_turn * rate), int(max_seconds * rate))
    return np.concatenate([_fade(trimmed[turn.recording][turn.start : turn.end], rate) for turn in turns])


def trim_silence(samples: Array, rate: int) -> Array:
    """Cuts silence of more than 0.3 s at either end of `[samples]` to 0.1 s."""
    levels = frame_levels(samples, rate)
    start = speech_start(levels, rate)
    # The end is the start of the reversed levels.
    return samples[start : len(samples) - speech_start(levels[::-1], rate)]


def _plan_turns(lengths: Sequence[int], turn_samples: int, max_samples: int) -> list[Turn]:
    """The turns of recordings of these lengths. Consecutive turns of one recording are merged."""
    turns, remaining = list[Turn](), max_samples
    for start in range(0, max(lengths), turn_samples):
        for recording, length in enumerate(lengths):
            end = min(start + turn_samples, length, start + remaining)
            if end <= start:
                continue
            remaining -= end - start
            if turns and turns[-1].recording == recording:
                turns[-1] = turns[-1]._replace(end=end)
            else:
                turns.append(Turn(recording, start, end))
    return turns


def _fade(samples: Array, rate: int) -> Array:
    size = min(int(_FADE_SECONDS * rate), len(samples) // 2)
    ramp = (np.arange(size, dtype=np.float32) + 0.5) / max(size, 1)
    faded = samples.copy()
    faded[:size] *= ramp
    faded[len(faded) - size :] *= ramp[::-1]
    return faded
