"""All speakers that a stage may use, with the times of their phones.

Every teacher is a module with `speak(text, manner)` and `phone_times(text, manner)`. Phones are an
auxiliary target of the codec: trained on spectra alone, it spends its codes on the speaker and
loses words in a new voice.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from demo_voice import stages
from demo_voice.teachers import accents, flite, neighbours
from demo_voice.teachers.flite import SpeakingStyle, TeacherSpeech
from xtts.audio import CODE_RATE, MEL_HOP

# Groups of speakers: the first has many clips, the others few.
GROUPS = (flite.MANNERS, accents.ACCENTS, neighbours.NEIGHBOURS)
TEACHERS = (flite, accents, neighbours)
PEOPLE = {manner.name: manner for group in GROUPS for manner in group}
GROUP_OF = {manner.name: number for number, group in enumerate(GROUPS) for manner in group}
NUMBERS = {name: number for number, name in enumerate(flite.NAMES)}
# The label of a frame whose phone is unknown.
UNKNOWN = -1
# A speaker's phones in flite's letters, with the seconds at which they end.
Aligner = Callable[[str, SpeakingStyle], Sequence[tuple[str, float]]]


def speak(text: str, manner: SpeakingStyle) -> np.ndarray:
    """`text` as int16 samples [n] at 16 kHz. Raises TeacherError."""
    return TEACHERS[GROUP_OF[manner.name]].speak(text, manner)


def phone_times(text: str, manner: SpeakingStyle) -> list[tuple[str, float]]:
    """The phones of a clip by the names of `flite.NAMES`, with their ends in seconds; empty if they
    are unknown. Raises TeacherError."""
    return TEACHERS[GROUP_OF[manner.name]].phone_times(text, manner)


def labels(pairs: Sequence[tuple[str, float]], frames: int) -> np.ndarray:
    """int16 `[frames]`: the index into NAMES of the phone in the middle of each mel frame."""
    ends = np.array([end for _, end in pairs])
    numbers = np.array(
        [flite.NAMES.index(name) if name in flite.NAMES else UNKNOWN for name, _ in pairs]
    )
    middles = np.arange(frames) * MEL_HOP / CODE_RATE  # a frame's window is centred
    return numbers[np.searchsorted(ends, middles).clip(max=len(ends) - 1)].astype(np.int16)


def phones_of(
    speech: TeacherSpeech,
    indices: Sequence[int],
    path: Path,
    aligner: Aligner,
) -> dict[int, Tensor]:
    """The labels of the clips whose phones are known. Cached in `path`."""
    if not path.is_file():
        phones = {}
        for index in indices:
            clip = speech.clips[index]
            if pairs := aligner(clip.text, PEOPLE[clip.manner]):
                frames = 1 + int(clip.seconds * CODE_RATE) // MEL_HOP
                phones[str(index)] = labels(pairs, frames)
        stages.save_arrays(path, **phones)
    with np.load(path) as kept:
        return {int(index): torch.from_numpy(kept[index].astype(np.int64)) for index in kept}
