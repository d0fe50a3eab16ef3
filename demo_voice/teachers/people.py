"""All speakers that a stage may use: who speaks as each, and tells the phones.

Every teacher is a module with `speak(text, manner)` and `phone_times(text, manner)`.
"""

import numpy as np

from demo_voice.teachers import accents, flite, neighbours
from demo_voice.teachers.flite import SpeakingStyle

# Of many clips, of few, and of few.
GROUPS = (flite.MANNERS, accents.ACCENTS, neighbours.NEIGHBOURS)
TEACHERS = (flite, accents, neighbours)
PEOPLE = {manner.name: manner for group in GROUPS for manner in group}
GROUP_OF = {manner.name: number for number, group in enumerate(GROUPS) for manner in group}


def speak(text: str, manner: SpeakingStyle) -> np.ndarray:
    """`text` as int16 samples [n] at 16 kHz. Raises TeacherError."""
    return TEACHERS[GROUP_OF[manner.name]].speak(text, manner)


def phone_times(text: str, manner: SpeakingStyle) -> list[tuple[str, float]]:
    """The phones of a clip with their ends in seconds, as `phone_timing` names them; none where
    they are not known. Raises TeacherError."""
    return TEACHERS[GROUP_OF[manner.name]].phone_times(text, manner)
