"""Measures the sound of one clip: level, noise, clipping, bandwidth, silence; finds copies.

Levels are the root mean square over 20 ms in dB, one frame per 10 ms.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from xtts.speech_span import FLOOR_DB, HOP_SECONDS, cut_frames, frame_levels, spoken_frames

# Short enough for clips that begin right before a word: LJSpeech's are loud after 20 ms.
_EDGE_SECONDS = 0.01
_FFT_SECONDS = 0.032
# A band has sound if its loud frames are within this range of the loudest band's.
_DYNAMIC_RANGE_DB = 60.0
# The band in which flatness is measured.
_FLATNESS_BAND_HZ = (200.0, 7_000.0)
# Samples above this share of the peak count as clipped.
_CLIPPED_SHARE_OF_PEAK = 0.985
# The bands and frames of fingerprints.
_NUM_BANDS = 33
_LOWEST_HZ, _HIGHEST_HZ = 200.0, 3_600.0
_PRINT_SECONDS, _PRINT_HOP_SECONDS = 0.128, 0.016
# As a share. Unrelated recordings differ in half of their bits, MP3 copies in a tenth.
_MAX_DIFFERENT_BITS = 0.25
# The overlap of two copies, as a share of the shorter one.
_MIN_OVERLAP = 0.7
_MIN_SHARED_WORDS = 2
# A fingerprint word that occurs more often comes from hum and is ignored.
_MAX_OCCURRENCES = 40


@dataclass(frozen=True)
class SoundFacts:
    """The measurements of one recording. The cache stores the names of the fields.

    Attributes:
        level_db: The level of loud frames, relative to full scale.
        noise_db: The distance of quiet frames below loud ones; larger is cleaner.
        dynamics_db: The distance of quiet frames below loud ones in the speech.
        clipped: The share of samples at the peak.
        heard_hz: The highest frequency with sound.
        lead_seconds, tail_seconds: The silence before and after the speech.
        start_db, end_db: The first and last 10 ms, relative to loud frames.
        offset: The DC offset, as a share of full scale.
        flatness: From 0 for a tone to 1 for noise.
        tone: The share of a frame's energy in one narrow band.
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
        """The length without silence at the ends."""
        return max(0.0, self.seconds - self.lead_seconds - self.tail_seconds)


def measure(samples: np.ndarray, rate: int) -> SoundFacts:
    """Measures `[samples]` of float32 at `rate` Hz, the rate of the file."""
    offset = float(samples.mean())
    centred = samples.astype(np.float32) - np.float32(offset)
    levels = frame_levels(centred, rate)
    loud, quiet = (float(np.percentile(levels, percentage)) for percentage in (95, 5))
    first, last = spoken_frames(levels)
    edge = max(1, round(_EDGE_SECONDS * rate))
    active = levels[first:last]
    bandwidth, flatness, tone = _spectrum(centred, rate, first, last)
    peak = float(np.abs(samples).max())
    return SoundFacts(
        seconds=len(samples) / rate,
        rate=rate,
        level_db=loud,
        noise_db=loud - quiet,
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
    """(highest frequency with sound in Hz, flatness, tone) of the spoken frames."""
    length, hop = round(_FFT_SECONDS * rate), round(HOP_SECONDS * rate)
    frames = cut_frames(samples[first * hop : last * hop + length], length, hop)
    power = np.square(np.abs(np.fft.rfft(frames * np.hanning(length).astype(np.float32)))) + 1e-16
    bands = 10 * np.log10(np.percentile(power, 95, axis=0))
    bandwidth = float(np.nonzero(bands > bands.max() - _DYNAMIC_RANGE_DB)[0][-1]) / _FFT_SECONDS
    low, high = (round(hz * _FFT_SECONDS) for hz in _FLATNESS_BAND_HZ)
    middle = power[:, low : min(high, power.shape[1])]
    flatness = np.exp(np.log(middle).mean(1)) / middle.mean(1)
    sums = np.cumsum(np.pad(power, ((0, 0), (1, 0))), axis=1)
    narrow = (sums[:, 5:] - sums[:, :-5]).max(1) / sums[:, -1]
    return bandwidth, float(np.median(flatness)), float(np.median(narrow))


# Copies


def fingerprint(samples: np.ndarray, rate: int) -> np.ndarray:
    """The fingerprint `[frames]` of uint32 of `[samples]`, which must not include silent ends.

    Each 16 ms become 32 bits: whether the difference of adjacent frequency bands grows or falls
    (after Haitsma and Kalker, "A Highly Robust Audio Fingerprinting System", 2002).
    """
    length, hop = round(_PRINT_SECONDS * rate), round(_PRINT_HOP_SECONDS * rate)
    frames = cut_frames(samples.astype(np.float32), length, hop) * np.hanning(length)
    power = np.square(np.abs(np.fft.rfft(frames)))
    edges = np.geomspace(_LOWEST_HZ, _HIGHEST_HZ, _NUM_BANDS + 1) * _PRINT_SECONDS
    bounds = np.round(edges).astype(int)
    sums = np.concatenate((np.zeros((len(power), 1)), np.cumsum(power, axis=1)), axis=1)
    bands = np.log(sums[:, np.maximum(bounds[1:], bounds[:-1] + 1)] - sums[:, bounds[:-1]] + 1e-9)
    rises = np.diff(np.diff(bands, axis=1), axis=0) > 0
    weights = np.left_shift(np.uint32(1), np.arange(_NUM_BANDS - 1, dtype=np.uint32))
    return (rises * weights).sum(1, dtype=np.uint32)


def find_copies(prints: Sequence[np.ndarray]) -> list[tuple[int, int, float]]:
    """Finds copies of a sound, also with another level, encoding, rate or silence at the ends. Two
    recordings of one sentence are not copies.

    Clips that share fingerprint words at one shift are compared bit by bit.

    Returns:
        (first, second, share of equal bits), first < second.
    """
    copies: dict[tuple[int, int], float] = {}
    for (first, second, shift), count in _count_shared_words(prints).items():
        if count < _MIN_SHARED_WORDS:
            continue
        equal_bits = _equal_bits(prints[first], prints[second], shift)
        if equal_bits >= 1 - _MAX_DIFFERENT_BITS:
            copies[first, second] = max(equal_bits, copies.get((first, second), 0.0))
    return sorted((first, second, equal_bits) for (first, second), equal_bits in copies.items())


def _count_shared_words(prints: Sequence[np.ndarray]) -> Counter[tuple[int, int, int]]:
    """(first, second, shift of the second in frames) -> the number of shared words."""
    counts: Counter[tuple[int, int, int]] = Counter()
    if not any(map(len, prints)):
        return counts
    words = np.concatenate(list(prints))
    clips = np.repeat(np.arange(len(prints)), [len(fingerprint) for fingerprint in prints])
    frames = np.concatenate([np.arange(len(fingerprint)) for fingerprint in prints])
    order = np.argsort(words, kind="stable")
    starts = np.flatnonzero(np.diff(words[order], prepend=words[order][0] + np.uint32(1)))
    ends = np.append(starts[1:], len(order))
    for start, end in zip(starts, ends, strict=True):
        if not 1 < end - start <= _MAX_OCCURRENCES:
            continue
        occurrences = order[start:end]
        for number, first in enumerate(occurrences):
            for second in occurrences[number + 1 :]:
                if clips[first] < clips[second]:
                    shift = int(frames[second]) - int(frames[first])
                    counts[int(clips[first]), int(clips[second]), shift] += 1
    return counts


def _equal_bits(first: np.ndarray, second: np.ndarray, shift: int) -> float:
    """The share of equal bits in the overlap of two fingerprints; 0 if the overlap is too short."""
    start, end = max(0, -shift), min(len(first), len(second) - shift)
    if end - start < _MIN_OVERLAP * min(len(first), len(second)):
        return 0.0
    different = np.bitwise_count(first[start:end] ^ second[start + shift : end + shift])
    return 1 - float(different.mean()) / (_NUM_BANDS - 1)
