"""Means with bootstrap intervals over sentences. Pure, and the same for the same numbers.

Sentences are what is drawn again (Efron 1979): the next text is another sentence. Two candidates
spoke the same sentences with the same seeds, so their difference is taken sentence by sentence,
which leaves out what a sentence does to both.
"""

from collections.abc import Sequence

import numpy as np

from xtts.voices.evaluation_file import MeanInterval

RESAMPLES = 2000
# Of the resampled means, so much lies between the two ends.
COVERAGE = 0.95
# From fewer, an interval would pretend to know.
FEWEST = 4


def mean_interval(values: Sequence[float]) -> MeanInterval | None:
    """The mean with its 95 % percentile interval; None for fewer than four values."""
    if len(values) < FEWEST:
        return None
    known = np.asarray(values, dtype=np.float64)
    draws = np.random.default_rng(0).integers(0, len(known), (RESAMPLES, len(known)))
    tail = (1 - COVERAGE) / 2 * 100
    low, high = np.percentile(known[draws].mean(axis=1), [tail, 100 - tail])
    return MeanInterval(
        round(float(known.mean()), 5), round(float(low), 5), round(float(high), 5), len(known)
    )


def paired_difference(
    own: Sequence[float | None], others: Sequence[float | None]
) -> MeanInterval | None:
    """The mean of `own - others` over what both have; None for fewer than four pairs."""
    return mean_interval(
        [one - other for one, other in zip(own, others, strict=True) if None not in (one, other)]  # type: ignore[operator]
    )
