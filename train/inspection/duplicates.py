"""Finds recordings of the same sound: copied at another level, encoding, rate or with other
silence around. Pure.

Each 16 ms of a recording become 32 bits: whether the difference of neighbouring frequency bands
grows or falls (after Haitsma and Kalker, "A Highly Robust Audio Fingerprinting System", 2002).
Clips that share words of bits at one shift are laid over each other, and their bits are counted.
Two recordings of one sentence are not the same sound.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from train.inspection.sound import framed

_BANDS = 33
_LOWEST_HZ, _HIGHEST_HZ = 200.0, 3_600.0
_WINDOW_SECONDS, _HOP_SECONDS = 0.128, 0.016
# Unrelated recordings differ in half of their bits, copies as MP3 in a tenth.
_MOST_DIFFERENT_BITS = 0.25
# Of the shorter one, so much must lie over the other.
_LEAST_OVERLAP = 0.7
_FEWEST_WORDS = 2
# A word that so many clips share is a hum's, and tells none of them apart.
_MOST_SHARING = 40


def fingerprint(samples: np.ndarray, rate: int) -> np.ndarray:
    """`[frames]` uint32 of `[samples]`, which hold speech only, without the silence around."""
    length, hop = round(_WINDOW_SECONDS * rate), round(_HOP_SECONDS * rate)
    frames = framed(samples.astype(np.float32), length, hop) * np.hanning(length)
    power = np.square(np.abs(np.fft.rfft(frames)))
    edges = np.geomspace(_LOWEST_HZ, _HIGHEST_HZ, _BANDS + 1) * _WINDOW_SECONDS
    bounds = np.round(edges).astype(int)
    sums = np.concatenate((np.zeros((len(power), 1)), np.cumsum(power, axis=1)), axis=1)
    bands = np.log(sums[:, np.maximum(bounds[1:], bounds[:-1] + 1)] - sums[:, bounds[:-1]] + 1e-9)
    rises = np.diff(np.diff(bands, axis=1), axis=0) > 0
    weights = np.left_shift(np.uint32(1), np.arange(_BANDS - 1, dtype=np.uint32))
    return (rises * weights).sum(1, dtype=np.uint32)


def find_copies(prints: Sequence[np.ndarray]) -> list[tuple[int, int, float]]:
    """Pairs of the same sound.

    Args:
        prints: The fingerprint of each clip.

    Returns:
        (first, second, share of bits that are the same), first < second.
    """
    votes = _shared_words(prints)
    found: dict[tuple[int, int], float] = {}
    for (one, other, shift), count in votes.items():
        if count < _FEWEST_WORDS:
            continue
        same = _same_bits(prints[one], prints[other], shift)
        if same >= 1 - _MOST_DIFFERENT_BITS:
            found[one, other] = max(same, found.get((one, other), 0.0))
    return sorted((one, other, same) for (one, other), same in found.items())


def _shared_words(prints: Sequence[np.ndarray]) -> Counter[tuple[int, int, int]]:
    """How many words two clips share at one shift, in frames, of the second against the first."""
    votes: Counter[tuple[int, int, int]] = Counter()
    if not any(map(len, prints)):
        return votes
    words = np.concatenate(list(prints))
    clips = np.repeat(np.arange(len(prints)), [len(one) for one in prints])
    places = np.concatenate([np.arange(len(one)) for one in prints])
    order = np.argsort(words, kind="stable")
    starts = np.flatnonzero(np.diff(words[order], prepend=words[order][0] + np.uint32(1)))
    ends = np.append(starts[1:], len(order))
    for start, end in zip(starts, ends, strict=True):
        if not 1 < end - start <= _MOST_SHARING:
            continue
        group = order[start:end]
        for number, one in enumerate(group):
            for other in group[number + 1 :]:
                if clips[one] < clips[other]:
                    shift = int(places[other]) - int(places[one])
                    votes[int(clips[one]), int(clips[other]), shift] += 1
    return votes


def _same_bits(one: np.ndarray, other: np.ndarray, shift: int) -> float:
    """Share of the same bits where the two overlap; 0 where that is too short."""
    start, end = max(0, -shift), min(len(one), len(other) - shift)
    if end - start < _LEAST_OVERLAP * min(len(one), len(other)):
        return 0.0
    different = np.bitwise_count(one[start:end] ^ other[start + shift : end + shift])
    return 1 - float(different.mean()) / (_BANDS - 1)
