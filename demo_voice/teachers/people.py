"""All speakers that a stage may use, and where their phone timings come from.

Called by `demo_voice.__main__` and the modules of the codec, the GPT and the speaker encoder.
"""

from demo_voice.teachers import accents, neighbours, phone_timing
from demo_voice.teachers.accents import ACCENTS
from demo_voice.teachers.flite import MANNERS, SpeakingStyle
from demo_voice.teachers.neighbours import NEIGHBOURS

# Of many clips, of few, and of few.
GROUPS = (MANNERS, ACCENTS, NEIGHBOURS)
PEOPLE = {manner.name: manner for group in GROUPS for manner in group}
GROUP_OF = {manner.name: number for number, group in enumerate(GROUPS) for manner in group}


def told(text: str, manner: SpeakingStyle) -> list[tuple[str, float]]:
    """The phones of anybody's clip with their ends in seconds, as `articulation` names them; none
    where they cannot be told. Raises TeacherError."""
    tellers = (phone_timing.told_by_flite, accents.told, neighbours.told)
    return tellers[GROUP_OF[manner.name]](text, manner)
