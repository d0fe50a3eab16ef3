"""Measures the sound of one clip: level, noise, clipping, bandwidth, silence; finds copies.

All functions are pure.

Levels are in dB; of a frame, of its root mean square over 20 ms, a frame each 10 ms.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from xtts.speech_span import FLOOR_DB, HOP_SECONDS, frame_levels, framed, spoken_frames

_EDGE_SECONDS = 0.03
_FFT_SECONDS = 0.032
# A band counts as heard where its loud frames are within this of the loudest band's.
_HEARD_RANGE_DB = 60.0
_FLATNESS_HZ = (200.0, 7_000.0)
# Of the peak: what is nearer to it was cut off at it, when it is much.
_CLIPPED_SHARE_OF_PEAK = 0.985
# Of a fingerprint: bands, and frames of 128 ms each 16 ms.
_BANDS = 33
_LOWEST_HZ, _HIGHEST_HZ = 200.0, 3_600.0
_PRINT_SECONDS, _PRINT_HOP_SECONDS = 0.128, 0.016
# Unrelated recordings differ in half of their bits, copies as MP3 in a tenth.
_MOST_DIFFERENT_BITS = 0.25
# Of the shorter one, so much must lie over the other.
_LEAST_OVERLAP = 0.7
_FEWEST_WORDS = 2
# A word that so many clips share is a hum's, and tells none of them apart.
_MOST_SHARING = 40


@dataclass(frozen=True)
class SoundFacts:
    """What was measured of one recording.

    level_db: loud frames, against full scale; noise_db: quiet frames below them (larger is
    cleaner); clipped: share of samples at the peak; heard_hz: the highest frequency with sound;
    lead_seconds, tail_seconds: before and after what is spoken; start_db, end_db: the first and
    last 30 ms, below the loud frames; flatness: 0 a tone to 1 noise; tone: share of a frame's
    energy in one narrow band.
    """

    seconds: float
    rate: int
    level_db: float
    noise_db: float
    dynamics_db: float
    clipped: float
    heard_hz: float
    lead_seconds: float
    tail_seconds: float
    start_db: float
    end_db: float
    offset: float
    flatness: float
    tone: float

    @property
    def spoken_seconds(self) -> float:
        """Without the silence around."""
        return max(0.0, self.seconds - self.lead_seconds - self.tail_seconds)


def measure(samples: np.ndarray, rate: int) -> SoundFacts:
    """Measures `[samples]` float32 at its own rate in Hz."""
    offset = float(samples.mean())
    centred = samples.astype(np.float32) - np.float32(offset)
    levels = frame_levels(centred, rate)
    loud, lowest = (float(np.percentile(levels, share)) for share in (95, 5))
    first, last = spoken_frames(levels)
    edge = max(1, round(_EDGE_SECONDS * rate))
    active = levels[first:last]
    bandwidth, flatness, tone = _spectrum(centred, rate, first, last)
    peak = float(np.abs(samples).max())
    return SoundFacts(
        seconds=len(samples) / rate,
        rate=rate,
        level_db=loud,
        noise_db=loud - lowest,
        dynamics_db=float(np.percentile(active, 95) - np.percentile(active, 10)),
        clipped=float(np.mean(np.abs(samples) >= _CLIPPED_SHARE_OF_PEAK * peak)) if peak else 0.0,
        heard_hz=bandwidth,
        lead_seconds=first * HOP_SECONDS,
        tail_seconds=(len(levels) - last) * HOP_SECONDS,
        start_db=_decibels(centred[:edge]) - loud,
        end_db=_decibels(centred[-edge:]) - loud,
        offset=offset,
        flatness=flatness,
        tone=tone,
    )


def _decibels(samples: np.ndarray) -> float:
    return max(FLOOR_DB, 10 * float(np.log10(samples.var() + 1e-20)))


def _spectrum(samples: np.ndarray, rate: int, first: int, last: int) -> tuple[float, float, float]:
    """(highest frequency with sound in Hz, flatness, tone) of the frames that are spoken."""
    length, hop = round(_FFT_SECONDS * rate), round(HOP_SECONDS * rate)
    frames = framed(samples[first * hop : last * hop + length], length, hop)
    power = np.square(np.abs(np.fft.rfft(frames * np.hanning(length).astype(np.float32)))) + 1e-16
    bands = 10 * np.log10(np.percentile(power, 95, axis=0))
    bandwidth = float(np.nonzero(bands > bands.max() - _HEARD_RANGE_DB)[0][-1]) / _FFT_SECONDS
    low, high = (round(hz * _FFT_SECONDS) for hz in _FLATNESS_HZ)
    middle = power[:, low : min(high, power.shape[1])]
    flatness = np.exp(np.log(middle).mean(1)) / middle.mean(1)
    sums = np.cumsum(np.pad(power, ((0, 0), (1, 0))), axis=1)
    narrow = (sums[:, 5:] - sums[:, :-5]).max(1) / sums[:, -1]
    return bandwidth, float(np.median(flatness)), float(np.median(narrow))


# Copies


def fingerprint(samples: np.ndarray, rate: int) -> np.ndarray:
    """`[frames]` uint32 of `[samples]`, which hold speech only, without the silence around.

    Each 16 ms become 32 bits: whether the difference of neighbouring frequency bands grows or falls
    (after Haitsma and Kalker, "A Highly Robust Audio Fingerprinting System", 2002).
    """
    length, hop = round(_PRINT_SECONDS * rate), round(_PRINT_HOP_SECONDS * rate)
    frames = framed(samples.astype(np.float32), length, hop) * np.hanning(length)
    power = np.square(np.abs(np.fft.rfft(frames)))
    edges = np.geomspace(_LOWEST_HZ, _HIGHEST_HZ, _BANDS + 1) * _PRINT_SECONDS
    bounds = np.round(edges).astype(int)
    sums = np.concatenate((np.zeros((len(power), 1)), np.cumsum(power, axis=1)), axis=1)
    bands = np.log(sums[:, np.maximum(bounds[1:], bounds[:-1] + 1)] - sums[:, bounds[:-1]] + 1e-9)
    rises = np.diff(np.diff(bands, axis=1), axis=0) > 0
    weights = np.left_shift(np.uint32(1), np.arange(_BANDS - 1, dtype=np.uint32))
    return (rises * weights).sum(1, dtype=np.uint32)


def find_copies(prints: Sequence[np.ndarray]) -> list[tuple[int, int, float]]:
    """Pairs of the same sound, be it at another level, encoding, rate or with other silence around.

    Clips that share words of bits at one shift are laid over each other, and their bits are
    counted. Two recordings of one sentence are not the same sound.

    Returns:
        (first, second, share of bits that are the same), first < second.
    """
    votes = _shared_words(prints)
    copies: dict[tuple[int, int], float] = {}
    for (one, other, shift), count in votes.items():
        if count < _FEWEST_WORDS:
            continue
        same = _same_bits(prints[one], prints[other], shift)
        if same >= 1 - _MOST_DIFFERENT_BITS:
            copies[one, other] = max(same, copies.get((one, other), 0.0))
    return sorted((one, other, same) for (one, other), same in copies.items())


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
