"""Finds suspect clips from the measurements of all clips.

Some limits are absolute, such as the silence around a sentence. Others are relative to the median
and MAD (median absolute deviation) of the dataset, so that a slow speaker is not suspect. The
limits were chosen on flite's slt, those of voices with kal16. Figures on other voices are in
docs/develop/log.md, "Suspect clips".
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from extras.inspect.sound import SoundFacts

# With fewer clips, a typical value cannot be estimated.
MIN_CLIPS = 8
# The standard deviation of a normal distribution, in MADs.
_MAD_TO_SIGMA = 1.4826

MIN_DYNAMICS_DB = 5.0
MIN_NOISE_FLATNESS = 0.2
MIN_TONE_SHARE = 0.95
MIN_SNR_DB = 15.0
MAX_CLIPPED = 0.005
MIN_HEARD_HZ = 4_600.0
MAX_SILENCE_SECONDS = 1.0
MAX_EDGE_DB = -18.0
MAX_OFFSET = 0.02
MIN_LEVEL_DB = -45.0
MIN_LEVEL_SIGMAS, MIN_LEVEL_DIFFERENCE_DB = 5.0, 9.0
MIN_RATE_SIGMAS, MIN_RATE_RATIO = 4.0, 1.4
MIN_NATS_SIGMAS, MIN_NATS_ABOVE_MEDIAN = 5.0, 0.5
# If the right texts do not make the codes likelier, the base does not know the language.
MIN_TYPICAL_EVIDENCE = 0.1
MIN_SHARE_OF_TYPICAL_EVIDENCE = 0.25
# The smallest group; any two clips are closer to each other than to the rest.
MIN_IN_GROUP = 3
# The mean silhouette of two groups: at most 0.57 in 9 to 40 clips of one person, at least 0.77 with
# two people.
MIN_SEPARATION = 0.6
# The distance of outliers below the median likeness to the centre, in standard deviations (from the
# MAD) and in cosine.
MIN_OUTLIER_SIGMAS, MIN_OUTLIER_COSINE = 6.0, 0.2
_MAX_ROUNDS = 20


@dataclass(frozen=True)
class ClipMeasurements:
    """The measurements of one clip.

    Attributes:
        num_letters: The number of letters and digits of its normalised text.
        nats_per_code: The mean negative log-likelihood of a code by the base.
        text_evidence: The gain of its text over other clips' texts, in nats per code.
        copy_of: The name of the clip of which it is a copy; "" if it is none.
        voice_finding: A sentence if it sounds like another person than most clips of its speaker.
        voice_likeness: The cosine similarity to most clips of its speaker.
        spoof_score: The score of SPOOF_MODEL.
    """

    name: str
    num_letters: int
    sound: SoundFacts
    nats_per_code: float | None = None
    text_evidence: float | None = None
    copy_of: str = ""
    voice_finding: str = ""
    voice_likeness: float | None = None
    spoof_score: float | None = None


@dataclass(frozen=True)
class ClipFinding:
    """One reason to check a clip. severity: 1 at its limit, more beyond; reason: a sentence."""

    kind: str
    severity: float
    reason: str


@dataclass(frozen=True)
class SuspectClip:
    """A clip with its findings, worst first."""

    name: str
    findings: tuple[ClipFinding, ...]

    @property
    def severity(self) -> float:
        """The combined severity of its findings."""
        return sum(finding.severity for finding in self.findings)

    @property
    def reasons(self) -> str:
        """The reasons as sentences."""
        return " ".join(finding.reason for finding in self.findings)


@dataclass(frozen=True)
class _Typical:
    """The typical values of a measurement: its median and standard deviation (from the MAD)."""

    median: float
    sigma: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "_Typical | None":
        if len(values) < MIN_CLIPS:
            return None
        array = np.asarray(values)
        median = float(np.median(array))
        return cls(median, _MAD_TO_SIGMA * float(np.median(np.abs(array - median))))

    def sigmas(self, value: float) -> float:
        return (value - self.median) / max(self.sigma, 1e-3)


def find_suspects(clips: Sequence[ClipMeasurements]) -> list[SuspectClip]:
    """The suspect clips, worst first; with equal severity, by name."""
    typical = {
        "level": _Typical.of([clip.sound.level_db for clip in clips]),
        "rate": _Typical.of([_log_rate(clip) for clip in clips]),
        "nats": _Typical.of([clip.nats_per_code for clip in clips if clip.nats_per_code is not None]),
        "evidence": _Typical.of([clip.text_evidence for clip in clips if clip.text_evidence is not None]),
    }
    suspects = []
    for clip in clips:
        # Non-speech would fail the other checks too.
        findings = _non_speech_findings(clip.sound) or [
            *_recording_faults(clip.sound),
            *_unusual_sound(clip, typical),
            *_unusual_text(clip, typical),
        ]
        if findings:
            worst = sorted(findings, key=lambda finding: (-finding.severity, finding.kind))
            suspects.append(SuspectClip(clip.name, tuple(worst)))
    return sorted(suspects, key=lambda suspect: (-suspect.severity, suspect.name))


def is_speech(sound: SoundFacts) -> bool:
    """Whether a sound has the changes in loudness that syllables cause."""
    return sound.dynamics_db >= MIN_DYNAMICS_DB


def _non_speech_findings(sound: SoundFacts) -> list[ClipFinding]:
    if is_speech(sound):
        return []
    severity = 20 * MIN_DYNAMICS_DB / max(sound.dynamics_db, 1.0)
    if sound.flatness > MIN_NOISE_FLATNESS:
        return [ClipFinding("noise", severity, "It is noise: its loudness is constant, without a voice.")]
    if sound.tone > MIN_TONE_SHARE:
        return [ClipFinding("tone", severity, "It is a tone: its loudness and pitch are constant.")]
    return [
        ClipFinding(
            "steady",
            severity,
            f"Its loudness is constant (within {sound.dynamics_db:.0f} dB), unlike speech.",
        )
    ]


def _recording_faults(sound: SoundFacts) -> list[ClipFinding]:
    """Faults of the recording or of its cutting."""
    silence = max(sound.lead_seconds, sound.tail_seconds)
    limits = [
        (
            "snr",
            sound.noise_db < MIN_SNR_DB,
            MIN_SNR_DB / max(sound.noise_db, 1.0),
            f"The noise is only {sound.noise_db:.0f} dB below the voice.",
        ),
        (
            "clipping",
            sound.clipped > MAX_CLIPPED,
            sound.clipped / MAX_CLIPPED,
            f"{sound.clipped:.1%} of its samples are clipped: recorded too loud.",
        ),
        (
            "band",
            sound.heard_hz < MIN_HEARD_HZ,
            MIN_HEARD_HZ / max(sound.heard_hz, 100.0),
            f"It has no sound above {sound.heard_hz / 1000:.1f} kHz, as on a telephone.",
        ),
        (
            "silence",
            silence > MAX_SILENCE_SECONDS,
            silence / MAX_SILENCE_SECONDS,
            f"There are {sound.lead_seconds:.1f} s before the speech and "
            f"{sound.tail_seconds:.1f} s after it.",
        ),
        *(
            (
                "cut",
                level > MAX_EDGE_DB,
                1 + (level - MAX_EDGE_DB) / 10,
                f"It {what} in the middle of sound ({level:.0f} dB): a word may be cut.",
            )
            for what, level in (("begins", sound.start_db), ("ends", sound.end_db))
        ),
        (
            "offset",
            abs(sound.offset) > MAX_OFFSET,
            abs(sound.offset) / MAX_OFFSET,
            f"Its DC offset is {sound.offset:+.3f} of full scale.",
        ),
    ]
    return [ClipFinding(kind, severity, reason) for kind, exceeded, severity, reason in limits if exceeded]


def _log_rate(clip: ClipMeasurements) -> float:
    return float(np.log(max(clip.num_letters, 1) / max(clip.sound.spoken_seconds, 0.1)))


def _unusual_sound(clip: ClipMeasurements, typical: Mapping[str, "_Typical | None"]) -> Iterator[ClipFinding]:
    """An unusual level, a copy, or another voice."""
    level = clip.sound.level_db
    if level < MIN_LEVEL_DB:
        reason = f"It is very quiet: {level:.0f} dB below full scale."
        yield ClipFinding("level", level / MIN_LEVEL_DB, reason)
    elif typical_level := typical["level"]:
        difference, sigmas = level - typical_level.median, abs(typical_level.sigmas(level))
        if abs(difference) >= MIN_LEVEL_DIFFERENCE_DB and sigmas >= MIN_LEVEL_SIGMAS:
            louder = "louder" if difference > 0 else "quieter"
            reason = f"It is {abs(difference):.0f} dB {louder} than most clips."
            yield ClipFinding("level", abs(difference) / MIN_LEVEL_DIFFERENCE_DB, reason)
    if clip.copy_of:
        yield ClipFinding("copy", 1.5, f"It is the same sound as {clip.copy_of}.")
    if clip.voice_finding:
        yield ClipFinding("voice", 2.0, clip.voice_finding)


def _unusual_text(clip: ClipMeasurements, typical: Mapping[str, "_Typical | None"]) -> Iterator[ClipFinding]:
    """Texts that do not fit the sound, by length and by the base model's likelihood."""
    if typical_rate := typical["rate"]:
        rate = _log_rate(clip)
        difference, sigmas = rate - typical_rate.median, abs(typical_rate.sigmas(rate))
        if abs(difference) >= np.log(MIN_RATE_RATIO) and sigmas >= MIN_RATE_SIGMAS:
            yield ClipFinding(
                "rate",
                sigmas / MIN_RATE_SIGMAS,
                (
                    f"Its text is {'too little' if difference < 0 else 'too much'} for the sound: "
                    f"{np.exp(rate):.1f} characters a second, "
                    f"{np.exp(typical_rate.median):.1f} in most clips."
                ),
            )
    if clip.text_evidence is not None and (evidence := typical["evidence"]):
        knows_language = evidence.median >= MIN_TYPICAL_EVIDENCE
        if knows_language and clip.text_evidence < MIN_SHARE_OF_TYPICAL_EVIDENCE * evidence.median:
            yield ClipFinding(
                "words",
                1 + (MIN_SHARE_OF_TYPICAL_EVIDENCE - clip.text_evidence / evidence.median),
                (
                    "Its text may be wrong: the base model finds it no likelier than another clip's "
                    f"text (gain {clip.text_evidence:+.2f}, in most clips {evidence.median:+.2f})."
                ),
            )
    if clip.nats_per_code is not None and (nats := typical["nats"]):
        sigmas = nats.sigmas(clip.nats_per_code)
        if sigmas > MIN_NATS_SIGMAS and clip.nats_per_code - nats.median > MIN_NATS_ABOVE_MEDIAN:
            yield ClipFinding(
                "likelihood",
                sigmas / MIN_NATS_SIGMAS,
                (
                    f"The base model finds its sound unlikely: loss {clip.nats_per_code:.1f}, in most clips "
                    f"{nats.median:.1f}."
                ),
            )


# Whether the clips of one speaker are of one person


@dataclass(frozen=True)
class VoiceGroups:
    """The clips of one speaker, grouped by voice.

    Attributes:
        likeness: The cosine similarity of each clip to the centre of the larger group.
        others: The indices of the clips that sound like another person.
        separation: From 0 for one group to 1 for two distant points.
    """

    likeness: tuple[float, ...]
    others: tuple[int, ...]
    separation: float

    @property
    def has_two_people(self) -> bool:
        """Whether `others` is a second group instead of single clips."""
        return self.separation >= MIN_SEPARATION


def group_voices(embeddings: Sequence[np.ndarray]) -> VoiceGroups:
    """Groups the clips of one speaker by embeddings `[width]`. A few clips of another person are
    outliers; many are a second group."""
    if len(embeddings) < MIN_CLIPS:
        return VoiceGroups((1.0,) * len(embeddings), (), 0.0)
    points = _unit(np.asarray(embeddings, dtype=np.float64))
    is_majority = _split_in_two(points)
    if is_majority.sum() < len(is_majority) / 2:
        is_majority = ~is_majority
    separation = _separation(points, is_majority)
    if separation >= MIN_SEPARATION:
        likeness = points @ _centre(points[is_majority])
        others = np.flatnonzero(~is_majority)
    else:
        likeness = points @ _trimmed_centre(points)
        others = np.flatnonzero(_outliers(likeness))
        separation = 0.0
    return VoiceGroups(tuple(map(float, likeness)), tuple(map(int, others)), float(separation))


def _split_in_two(points: np.ndarray) -> np.ndarray:
    """Spherical 2-means, `[clips]` of bool, initialised with the least similar clips."""
    first = int(np.argmin(points @ _centre(points)))
    second = int(np.argmin(points @ points[first]))
    centres = points[[first, second]]
    group = np.zeros(len(points), bool)
    for _ in range(_MAX_ROUNDS):
        new = points @ centres[1] > points @ centres[0]
        if (new == group).all() or new.all() or not new.any():
            break
        group = new
        centres = np.stack((_centre(points[~group]), _centre(points[group])))
    return group


def _separation(points: np.ndarray, group: np.ndarray) -> float:
    """The mean silhouette of the looser of two groups, by cosine distance to their centres; 0 if one has
    too few clips. A clip does not count for the centre of its group, which it would dominate in a small
    one."""
    if min(group.sum(), (~group).sum()) < MIN_IN_GROUP:
        return 0.0
    inside, outside = np.empty(len(points)), np.empty(len(points))
    for is_member in (group, ~group):
        members = points[is_member]
        centres_without_member = _unit(members.sum(0) - members)
        inside[is_member] = 1 - (members * centres_without_member).sum(1)
        outside[is_member] = 1 - members @ _centre(points[~is_member])
    silhouette = (outside - inside) / np.maximum(np.maximum(inside, outside), 1e-9)
    # Not the mean over all clips: a small group counts as much as a large one.
    return float(min(silhouette[group].mean(), silhouette[~group].mean()))


def _outliers(likeness: np.ndarray) -> np.ndarray:
    median = np.median(likeness)
    sigma = max(_MAD_TO_SIGMA * float(np.median(np.abs(likeness - median))), 1e-3)
    below = median - likeness
    return (below > MIN_OUTLIER_SIGMAS * sigma) & (below > MIN_OUTLIER_COSINE)


def _trimmed_centre(points: np.ndarray) -> np.ndarray:
    """The centre of the half that is closest to the centre of all."""
    closest = np.argsort(-(points @ _centre(points)))[: (len(points) + 1) // 2]
    return _centre(points[closest])


def _centre(points: np.ndarray) -> np.ndarray:
    return _unit(points.mean(0))


def _unit(points: np.ndarray) -> np.ndarray:
    units: np.ndarray = points / np.maximum(np.linalg.norm(points, axis=-1, keepdims=True), 1e-9)
    return units
