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


def phone_times(text: str, manner: SpeakingStyle) -> list[tuple[str, float]]:
    """The phones of anybody's clip with their ends in seconds, as `phone_timing` names them; none
    where they are not known. Raises TeacherError."""
    tellers = (phone_timing.flite_phone_times, accents.phone_times, neighbours.phone_times)
    return tellers[GROUP_OF[manner.name]](text, manner)
