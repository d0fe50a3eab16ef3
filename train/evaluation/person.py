"""What the person's own clips say of their voice: rate, pitch, a scale of similarity. Pure.

The scale of likeness: 1 is another recording of the same person, 0 what other voices are like on
average, both by the base's own speaker encoder.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from train.dataset.dataset import Clip, Dataset
from xtts.audio import CODE_RATE, SAMPLES_PER_CODE
from xtts.workers.requests import HeardRecordings, RecordingFacts, SpeakingRate

# Clips that are listened to: enough for a mean, and half a second of work each.
MOST_RECORDINGS = 8
FEWEST_RECORDINGS = 2
# Fewer clips give no line through their lengths.
FEWEST_FOR_A_LINE = 8
# Where the two ends of the scale are nearer than this, the encoder cannot tell people apart.
LEAST_SCALE = 0.05


@dataclass(frozen=True)
class VoiceScale:
    """Cosines to `centre` of another recording of the person (one) and of others (zero)."""

    centre: np.ndarray
    one: float
    zero: float

    def likeness(self, embedding: Sequence[float]) -> float | None:
        """Where a sound stands between the two; None without an embedding."""
        if not embedding:
            return None
        return (_cosine(np.asarray(embedding), self.centre) - self.zero) / (self.one - self.zero)


@dataclass(frozen=True)
class Person:
    """voice: None where `voice_absent` says why; pitch_hz: None where no clip has one."""

    rate: SpeakingRate
    voice: VoiceScale | None
    voice_absent: str | None
    pitch_hz: float | None
    clips: int


def recordings_of(data: Dataset, speaker: str, beside: Clip) -> list[Clip]:
    """Clips of a speaker to listen to, validation clips first; never the one that is spoken from:
    of that one, likeness would be too easy."""
    held_out = set(data.validation)
    own = [
        (index not in held_out, clip.sha256, clip)
        for index, clip in enumerate(data.clips)
        if clip.speaker == speaker and clip.audio_sha256 != beside.audio_sha256
    ]
    chosen = sorted(own, key=lambda one: one[:2])[:MOST_RECORDINGS]
    return [clip for *_, clip in chosen]


def describe(clips: Sequence[Clip], heard: HeardRecordings, count: int) -> Person:
    """The person from their clips (all) and what was heard: so many recordings of the person, then
    those of other people."""
    own, others = heard.recordings[:count], heard.recordings[count:]
    voices = heard.base_voices or [one.embedding for one in others if one.embedding]
    scale, absent = voice_scale(own, voices)
    pitches = [one.pitch_hz for one in own if one.pitch_hz]
    return Person(
        speaking_rate([(clip.seconds, len(clip.tokens)) for clip in clips]),
        scale, absent, statistics.median(pitches) if pitches else None, count,
    )  # fmt: skip


def speaking_rate(clips: Sequence[tuple[float, int]]) -> SpeakingRate:
    """Codes by text tokens, from (seconds, tokens) of clips: a least-squares line, which leaves
    the silence at both ends of a clip to `per_text`; with few clips, a ratio."""
    codes = np.array([seconds * CODE_RATE / SAMPLES_PER_CODE for seconds, _ in clips])
    tokens = np.array([tokens for _, tokens in clips], dtype=np.float64)
    ratio = SpeakingRate(float(codes.sum() / max(1.0, tokens.sum())), 0.0)
    if len(clips) < FEWEST_FOR_A_LINE or np.ptp(tokens) < 5:
        return ratio
    per_token, per_text = np.polyfit(tokens, codes, 1)
    # A line that says that nothing takes no time, or that longer texts are shorter, is no line.
    if per_token <= 0.25 * ratio.per_token or per_text < 0:
        return ratio
    return SpeakingRate(float(per_token), float(per_text))


def voice_scale(
    recordings: Sequence[RecordingFacts], others: Sequence[Sequence[float]]
) -> tuple[VoiceScale | None, str | None]:
    """The scale, or why there is none."""
    own = [np.asarray(one.embedding) for one in recordings if one.embedding]
    if len(own) < FEWEST_RECORDINGS:
        return None, (
            f"the person has {len(own)} recordings beside the one that is spoken from; "
            f"{FEWEST_RECORDINGS} are needed to know how alike two of them are"
        )
    if not others:
        return None, "there are no other voices to compare with"
    left_out = [
        _cosine(one, _centre(own[:number] + own[number + 1 :])) for number, one in enumerate(own)
    ]
    centre = _centre(own)
    one = statistics.fmean(left_out)
    zero = statistics.fmean(_cosine(np.asarray(other), centre) for other in others)
    if one - zero < LEAST_SCALE:
        return None, (
            "the base's speaker encoder hardly tells the person from other voices "
            f"({one:.2f} against {zero:.2f})"
        )
    return VoiceScale(centre, one, zero), None


def _centre(embeddings: Sequence[np.ndarray]) -> np.ndarray:
    found: np.ndarray = np.mean([one / np.linalg.norm(one) for one in embeddings], axis=0)
    return found / np.linalg.norm(found)


def _cosine(one: np.ndarray, other: np.ndarray) -> float:
    return float(one @ other / (np.linalg.norm(one) * np.linalg.norm(other)))
