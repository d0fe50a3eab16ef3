"""Measures a person's voice by their clips: rate, pitch and a scale of similarity.

All functions are pure.

On the scale of similarity, 1 is another recording of the same person and 0 is the average of other
voices, both by the base's speaker encoder.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from train.dataset.dataset import Clip, Dataset
from xtts.audio import CODE_RATE, SAMPLES_PER_CODE
from xtts.workers.requests import HeardRecordings, RecordingFacts, SpeakingRate

# Clips to encode: enough for a mean, at half a second of work each.
MOST_RECORDINGS = 8
FEWEST_RECORDINGS = 2
# Fewer clips do not determine a line through their lengths.
FEWEST_FOR_A_LINE = 8
# If the two ends of the scale are closer than this, the encoder cannot distinguish people.
LEAST_SCALE = 0.05


@dataclass(frozen=True)
class VoiceScale:
    """The two ends of the scale, as cosines to `centre`.

    Attributes:
        one: the cosine of another recording of the person.
        zero: the mean cosine of other voices.
    """

    centre: np.ndarray
    one: float
    zero: float

    def similarity(self, embedding: Sequence[float]) -> float | None:
        """The position of an embedding on the scale; None without an embedding."""
        if not embedding:
            return None
        return (cosine(np.asarray(embedding), self.centre) - self.zero) / (self.one - self.zero)


@dataclass(frozen=True)
class Person:
    """The measurements of a person's voice.

    Attributes:
        voice: None if there is no scale; `voice_absent` says why.
        pitch_hz: None if no clip has a pitch.
        naturalness: One figure for each judged clip.
    """

    rate: SpeakingRate
    voice: VoiceScale | None
    voice_absent: str | None
    pitch_hz: float | None
    clips: int
    naturalness: tuple[float, ...] = ()

    def beside(self, reference: Sequence[float]) -> "Person":
        """The same person with the cosine to an embedding as the scale of the voice; without a
        scale for an empty embedding."""
        scale = VoiceScale(np.asarray(reference), one=1.0, zero=0.0) if len(reference) else None
        return replace(self, voice=scale)


def recordings_of(data: Dataset, speaker: str, beside: Clip) -> list[Clip]:
    """Clips of a speaker to compare with, validation clips first.

    The reference clip is never among them: similarity to it would be too easy.
    """
    held_out = set(data.validation)
    own = [
        (index not in held_out, clip.sha256, clip)
        for index, clip in enumerate(data.clips)
        if clip.speaker == speaker and clip.audio_sha256 != beside.audio_sha256
    ]
    chosen = sorted(own, key=lambda one: one[:2])[:MOST_RECORDINGS]
    return [clip for *_, clip in chosen]


def describe(clips: Sequence[Clip], measured: HeardRecordings, count: int) -> Person:
    """Describes the person from all of their clips and from measured recordings.

    The first `count` recordings are the person's, the others are of other people.
    """
    own, others = measured.recordings[:count], measured.recordings[count:]
    voices = measured.base_voices or [one.embedding for one in others if one.embedding]
    scale, absent = voice_scale(own, voices)
    pitches = [one.pitch_hz for one in own if one.pitch_hz]
    return Person(
        speaking_rate([(clip.seconds, len(clip.tokens)) for clip in clips]),
        scale, absent, statistics.median(pitches) if pitches else None, count,
        tuple(one.naturalness for one in own if one.naturalness is not None),
    )  # fmt: skip


def speaking_rate(clips: Sequence[tuple[float, int]]) -> SpeakingRate:
    """Codes as a function of text tokens, from (seconds, tokens) of clips.

    It is a least-squares line, whose `per_text` is the silence at both ends of a clip; for few
    clips, it is a ratio.
    """
    codes = np.array([seconds * CODE_RATE / SAMPLES_PER_CODE for seconds, _ in clips])
    tokens = np.array([tokens for _, tokens in clips], dtype=np.float64)
    ratio = SpeakingRate(float(codes.sum() / max(1.0, tokens.sum())), 0.0)
    if len(clips) < FEWEST_FOR_A_LINE or np.ptp(tokens) < 5:
        return ratio
    per_token, per_text = np.polyfit(tokens, codes, 1)
    # Implausible lines: almost no time for a token, or a negative time for an empty text.
    if per_token <= 0.25 * ratio.per_token or per_text < 0:
        return ratio
    return SpeakingRate(float(per_token), float(per_text))


def voice_scale(
    recordings: Sequence[RecordingFacts], others: Sequence[Sequence[float]]
) -> tuple[VoiceScale | None, str | None]:
    """The scale, or the reason why there is none."""
    own = [np.asarray(one.embedding) for one in recordings if one.embedding]
    if len(own) < FEWEST_RECORDINGS:
        return None, (
            f"the person has {len(own)} recordings besides the reference clip; at least "
            f"{FEWEST_RECORDINGS} are needed to measure how similar two of them are"
        )
    if not others:
        return None, "there are no other voices to compare with"
    left_out = [
        cosine(one, _centre(own[:number] + own[number + 1 :])) for number, one in enumerate(own)
    ]
    centre = _centre(own)
    one = statistics.fmean(left_out)
    zero = statistics.fmean(cosine(np.asarray(other), centre) for other in others)
    if one - zero < LEAST_SCALE:
        return None, (
            "the base's speaker encoder hardly distinguishes the person from other voices "
            f"({one:.2f} against {zero:.2f})"
        )
    return VoiceScale(centre, one, zero), None


def _centre(embeddings: Sequence[np.ndarray]) -> np.ndarray:
    mean: np.ndarray = np.mean([one / np.linalg.norm(one) for one in embeddings], axis=0)
    return mean / np.linalg.norm(mean)


def cosine(one: np.ndarray, other: np.ndarray) -> float:
    return float(one @ other / (np.linalg.norm(one) * np.linalg.norm(other)))
