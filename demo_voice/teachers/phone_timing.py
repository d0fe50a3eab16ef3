"""Phone timings as the teachers tell them: an auxiliary target of the codec.

A codec trained on spectra alone spends its codes on the speaker, and loses words in a voice that it
has never heard.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from demo_voice import stages
from demo_voice.teachers.flite import SpeakingStyle, TeacherSpeech
from xtts.audio import CODE_RATE, MEL_HOP
from xtts.text.phonemes import PHONES

# (phone in flite's letters, second at which it ends)
Aligner = Callable[[str, SpeakingStyle], Sequence[tuple[str, float]]]
SILENCE = "pau"
NAMES = (SILENCE, *(name.lower() for name in PHONES))
# Of a frame of which nothing is known.
UNKNOWN = -1


def labels(pairs: Sequence[tuple[str, float]], frames: int) -> np.ndarray:
    """int16 `[frames]`: which of NAMES sounds in the middle of each mel frame."""
    ends = np.array([end for _, end in pairs])
    numbers = np.array([NAMES.index(name) if name in NAMES else UNKNOWN for name, _ in pairs])
    middles = np.arange(frames) * MEL_HOP / CODE_RATE  # a frame's window stands round its place
    return numbers[np.searchsorted(ends, middles).clip(max=len(ends) - 1)].astype(np.int16)


def of_clips(
    speech: TeacherSpeech,
    indices: Sequence[int],
    path: Path,
    aligner: Aligner,
    people: Mapping[str, SpeakingStyle],
) -> dict[int, Tensor]:
    """The labels of those clips whose phones are known; written to `path` and read from there."""
    if not path.is_file():
        found = {}
        for index in indices:
            clip = speech.clips[index]
            if pairs := aligner(clip.text, people[clip.manner]):
                frames = 1 + int(clip.seconds * CODE_RATE) // MEL_HOP
                found[str(index)] = labels(pairs, frames)
        stages.save_arrays(path, **found)
    with np.load(path) as kept:
        return {int(index): torch.from_numpy(kept[index].astype(np.int64)) for index in kept}
