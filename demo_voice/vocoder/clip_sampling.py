"""Chooses the vocoder's training clips: speakers with few clips count as much as those with many.

Called by `demo_voice.vocoder.training`.
"""

import itertools
import random
from collections import Counter
from collections.abc import Collection

from demo_voice.gpt.targets import Targets
from demo_voice.teachers.people import GROUP_OF

# How often each of `people.GROUPS` is drawn beside the others; who is not there leaves it to them.
SHARES = (0.55, 0.2, 0.25)
# Longer clips are left out: a step costs as much as its longest rows.
MOST_CODES = 90


class Draws:
    """Clips of `manners` with more than `fewest` codes."""

    def __init__(self, targets: Targets, manners: Collection[str], fewest: int) -> None:
        self._clips = [
            index
            for index, clip in enumerate(targets.clips)
            if fewest < targets.counts[index] < MOST_CODES and clip.manner in manners
        ]
        groups = [GROUP_OF[targets.clips[index].manner] for index in self._clips]
        sizes = Counter(groups)
        weights = (SHARES[group] / sizes[group] for group in groups)
        self._weights = list(itertools.accumulate(weights))

    def some(self, draw: random.Random, count: int) -> list[int]:
        """So many clips, some perhaps more than once."""
        return draw.choices(self._clips, cum_weights=self._weights, k=count)
