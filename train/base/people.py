"""Everybody whom a stage may hear, and who tells which phone they say when.

Called by `train.base.__main__`, `codec`, `draws`, `lessons` and `listener`.
"""

from train.base import accents, articulation, neighbours
from train.base.accents import ACCENTS
from train.base.neighbours import NEIGHBOURS
from train.base.teacher import MANNERS, SpeakingStyle

# Of many clips, of few, and of few.
GROUPS = (MANNERS, ACCENTS, NEIGHBOURS)
PEOPLE = {manner.name: manner for group in GROUPS for manner in group}
GROUP_OF = {manner.name: number for number, group in enumerate(GROUPS) for manner in group}


def told(text: str, manner: SpeakingStyle) -> list[tuple[str, float]]:
    """The phones of anybody's clip with their ends in seconds, as `articulation` names them; none
    where they cannot be told. Raises TeacherError."""
    tellers = (articulation.told_by_flite, accents.told, neighbours.told)
    return tellers[GROUP_OF[manner.name]](text, manner)
