"""Combines several recordings of one person into one reference, which switches between them.

The model uses only the first seconds of a reference, for the latents (the mean over chunks) and the
speaker embedding. Therefore a chunk of the first recording is followed by one of the second, and so
on, so that all recordings contribute. File after file, only the first ones would.

Importing this module does not import torch.
"""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from xtts.arguments import ArgumentError, excerpt
from xtts.inference.defaults import ConditioningParams
from xtts.sound_endings import SOUND_ENDINGS, is_recording
from xtts.speech_span import frame_levels, speech_start

Array = NDArray[np.float32]
Reference = Path | tuple[Path, ...]

MAX_FILES = 100
# The fade at both ends of a turn, to avoid clicks.
_FADE_SECONDS = 0.005


def reference_of(named: Sequence[Path]) -> Reference:
    """The recordings of files and folders, in this order. A folder stands for its audio files,
    sorted by name, without subfolders. A single recording is returned as a path.

    Raises ArgumentError for no recordings, more than 100, or a folder without audio.
    """
    files = tuple(file for path in named for file in _files_of(path))
    if not files:
        raise ArgumentError("reference is an empty list. Name a recording, or a folder of them.")
    if len(files) > MAX_FILES:
        raise ArgumentError(
            f"reference names {len(files)} recordings; at most {MAX_FILES} are allowed. The model "
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
    heard = min(conditioning.total_seconds, conditioning.speaker_seconds)
    turn = turn_seconds(len(recordings), conditioning.chunk_seconds, heard)
    return join(recordings, rate, turn, max(conditioning.total_seconds, conditioning.speaker_seconds))


def turn_seconds(count: int, chunk_seconds: float, heard_seconds: float) -> float:
    """The length of a turn of each of `count` recordings: a chunk, or the largest integer fraction
    of a chunk with which all recordings fit into `heard_seconds`.
    """
    return chunk_seconds / max(1, math.ceil(count * chunk_seconds / heard_seconds))


def join(recordings: Sequence[Array], rate: int, turn: float, max_seconds: float) -> Array:
    """Joins recordings `[samples]`, float32 at `rate` Hz, in turns of `turn` seconds, up to
    `max_seconds`, without long silence at their ends. A single recording is returned unchanged."""
    if len(recordings) == 1:
        return recordings[0]
    spoken = [without_silent_ends(recording, rate) for recording in recordings]
    turns = _turns([len(part) for part in spoken], int(turn * rate), int(max_seconds * rate))
    parts = [_fade(spoken[which][start:end], rate) for which, start, end in turns]
    return np.concatenate(parts)


def without_silent_ends(samples: Array, rate: int) -> Array:
    """Cuts silence of more than 0.3 s at either end of `[samples]` to 0.1 s."""
    levels = frame_levels(samples, rate)
    start = speech_start(levels, rate)
    # The end is the start of the reversed levels.
    return samples[start : len(samples) - speech_start(levels[::-1], rate)]


def _turns(lengths: Sequence[int], size: int, most: int) -> list[tuple[int, int, int]]:
    """(recording, start, end) of each turn. Consecutive turns of one recording are merged."""
    turns: list[tuple[int, int, int]] = []
    for start in range(0, max(lengths), size):
        for which, length in enumerate(lengths):
            end = min(start + size, length, start + most)
            if end <= start:
                continue
            most -= end - start
            if turns and turns[-1][0] == which:
                turns[-1] = (which, turns[-1][1], end)
            else:
                turns.append((which, start, end))
    return turns


def _fade(part: Array, rate: int) -> Array:
    size = min(int(_FADE_SECONDS * rate), len(part) // 2)
    ramp = (np.arange(size, dtype=np.float32) + 0.5) / max(size, 1)
    faded = part.copy()
    faded[:size] *= ramp
    faded[len(faded) - size :] *= ramp[::-1]
    return faded
