"""Which clips the vocoder learns from: people of other tongues have few clips and count for as much
as the teacher's many. Called by `train.base.voicing`."""

import itertools
import random
from collections.abc import Collection

from train.base.accents import ACCENTS
from train.base.targets import Targets

# Share of the draws that other tongues get where there are any.
ACCENTED_SHARE = 0.4
# Longer clips are left out: a step costs as much as its longest rows.
MOST_CODES = 90
_ACCENTED = {manner.name for manner in ACCENTS}


class Draws:
    """Clips of `manners` with more than `fewest` codes."""

    def __init__(self, targets: Targets, manners: Collection[str], fewest: int) -> None:
        self._clips = [
            index
            for index, clip in enumerate(targets.clips)
            if fewest < targets.counts[index] < MOST_CODES and clip.manner in manners
        ]
        accented = [targets.clips[index].manner in _ACCENTED for index in self._clips]
        foreign = sum(accented)
        home = len(accented) - foreign
        share = ACCENTED_SHARE if home and foreign else float(not home)
        weights = (share / foreign if one else (1 - share) / home for one in accented)
        self._weights = list(itertools.accumulate(weights))

    def some(self, draw: random.Random, count: int) -> list[int]:
        """So many clips, some perhaps more than once."""
        return draw.choices(self._clips, cum_weights=self._weights, k=count)
