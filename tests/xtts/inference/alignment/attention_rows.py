"""The attention of a head that follows the text, and the same with every kind of fault."""

import numpy as np
from numpy.typing import NDArray

# START, twelve tokens of which two are blanks, a full stop, STOP.
SPOKEN = np.array([0, 1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 1, 1, 0, 0], bool)
LAST = int(np.flatnonzero(SPOKEN)[-1])


def spoken_at(*places: int, codes: int = 2) -> list[int]:
    """Each position, repeated for `codes` codes."""
    return [place for place in places for _ in range(codes)]


def whole(closing: int = 7) -> list[int]:
    """The positions of a good utterance."""
    return [*spoken_at(*np.flatnonzero(SPOKEN)), *[LAST + 1] * closing]


def rows(places: list[int], sharp: float = 0.9, seed: int = 0) -> NDArray[np.float64]:
    """Attention `[codes, positions]` mostly at `places`, the rest at random; -1 is random only."""
    random = np.random.default_rng(seed)
    noise = random.dirichlet(np.ones(len(SPOKEN)), len(places))
    seen = np.array(places)
    attention = np.where(seen[:, None] < 0, noise, (1 - sharp) * noise)
    attention[np.arange(len(seen))[seen >= 0], seen[seen >= 0]] += sharp
    return attention
