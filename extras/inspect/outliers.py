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
NOISE_FLATNESS = 0.2
TONE_SHARE = 0.95
MIN_SNR_DB = 15.0
MAX_CLIPPED = 0.005
MIN_HEARD_HZ = 4_600.0
MAX_SILENCE_SECONDS = 1.0
CUT_DB = -18.0
MAX_OFFSET = 0.02
MIN_LEVEL_DB = -45.0
LEVEL_SIGMAS, LEVEL_DB = 5.0, 9.0
RATE_SIGMAS, RATE_RATIO = 4.0, 1.4
NATS_SIGMAS, NATS_MORE = 5.0, 0.5
# If the right texts do not make the codes likelier, the base does not know the language.
MIN_USUAL_EVIDENCE = 0.1
EVIDENCE_SHARE = 0.25
# The smallest group; any two clips are closer to each other than to the rest.
MIN_IN_GROUP = 3
# The mean silhouette of two groups: at most 0.57 in 9 to 40 clips of one person, at least 0.77 with
# two people.
MIN_SEPARATION = 0.6
# The distance of outliers below the median likeness to the centre, in standard deviations (from the
# MAD) and in cosine.
OUTLIER_SIGMAS, OUTLIER_COSINE = 6.0, 0.2
_ROUNDS = 20


@dataclass(frozen=True)
class Measurements:
    """The measurements of one clip. letters: the length of its normalised text; nats: the mean
    negative log-likelihood of a code by the base; evidence: the gain in nats per code of its text
    over another clip's; copy_of: another clip's name; voice: the likeness to most clips of its
    speaker, 1 is the same; spoof: a score."""

    name: str
    letters: int
    sound: SoundFacts
    nats: float | None = None
    evidence: float | None = None
    copy_of: str = ""
    other_voice: str = ""
    voice: float | None = None
    spoof: float | None = None


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
class _Usual:
    """The median and the standard deviation (from the MAD) of a measurement over all clips."""

    median: float
    sigma: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "_Usual | None":
        if len(values) < MIN_CLIPS:
            return None
        array = np.asarray(values)
        median = float(np.median(array))
        return cls(median, _MAD_TO_SIGMA * float(np.median(np.abs(array - median))))

    def sigmas(self, value: float) -> float:
        return (value - self.median) / max(self.sigma, 1e-3)


def find_suspects(clips: Sequence[Measurements]) -> list[SuspectClip]:
    """The suspect clips, worst first; with equal severity, by name."""
    usual = {
        "level": _Usual.of([measured.sound.level_db for measured in clips]),
        "rate": _Usual.of([_log_rate(measured) for measured in clips]),
        "nats": _Usual.of([measured.nats for measured in clips if measured.nats is not None]),
        "evidence": _Usual.of([measured.evidence for measured in clips if measured.evidence is not None]),
    }
    suspects = []
    for clip in clips:
        # Other checks are skipped for non-speech, which would fail them all.
        findings = _no_speech(clip.sound) or [
            *_faults(clip.sound),
            *_unusual_sound(clip, usual),
            *_unusual_text(clip, usual),
        ]
        if findings:
            worst = sorted(findings, key=lambda finding: (-finding.severity, finding.kind))
            suspects.append(SuspectClip(clip.name, tuple(worst)))
    return sorted(suspects, key=lambda suspect: (-suspect.severity, suspect.name))


def is_speech(sound: SoundFacts) -> bool:
    """Whether a sound has the changes in loudness that syllables cause."""
    return sound.dynamics_db >= MIN_DYNAMICS_DB


def _no_speech(sound: SoundFacts) -> list[ClipFinding]:
    if is_speech(sound):
        return []
    severity = 20 * MIN_DYNAMICS_DB / max(sound.dynamics_db, 1.0)
    if sound.flatness > NOISE_FLATNESS:
        return [ClipFinding("noise", severity, "It is noise: its loudness is constant, without a voice.")]
    if sound.tone > TONE_SHARE:
        return [ClipFinding("tone", severity, "It is a tone: its loudness and pitch are constant.")]
    seen = f"Its loudness is constant (within {sound.dynamics_db:.0f} dB), unlike speech."
    return [ClipFinding("steady", severity, seen)]


def _faults(sound: SoundFacts) -> list[ClipFinding]:
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
                level > CUT_DB,
                1 + (level - CUT_DB) / 10,
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
    return [ClipFinding(kind, severity, seen) for kind, failed, severity, seen in limits if failed]


def _log_rate(clip: Measurements) -> float:
    return float(np.log(max(clip.letters, 1) / max(clip.sound.spoken_seconds, 0.1)))


def _unusual_sound(clip: Measurements, usual: Mapping[str, "_Usual | None"]) -> Iterator[ClipFinding]:
    """An unusual level, a copy, or another voice."""
    level = clip.sound.level_db
    if level < MIN_LEVEL_DB:
        seen = f"It is very quiet: {level:.0f} dB below full scale."
        yield ClipFinding("level", level / MIN_LEVEL_DB, seen)
    elif most := usual["level"]:
        apart, sigmas = level - most.median, abs(most.sigmas(level))
        if abs(apart) >= LEVEL_DB and sigmas >= LEVEL_SIGMAS:
            louder = "louder" if apart > 0 else "quieter"
            seen = f"It is {abs(apart):.0f} dB {louder} than most clips."
            yield ClipFinding("level", abs(apart) / LEVEL_DB, seen)
    if clip.copy_of:
        yield ClipFinding("copy", 1.5, f"It is the same sound as {clip.copy_of}.")
    if clip.other_voice:
        yield ClipFinding("voice", 2.0, clip.other_voice)


def _unusual_text(clip: Measurements, usual: Mapping[str, "_Usual | None"]) -> Iterator[ClipFinding]:
    """Texts that do not fit the sound, by length and by the base model's likelihood."""
    if most := usual["rate"]:
        rate = _log_rate(clip)
        apart, sigmas = rate - most.median, abs(most.sigmas(rate))
        if abs(apart) >= np.log(RATE_RATIO) and sigmas >= RATE_SIGMAS:
            yield ClipFinding(
                "rate",
                sigmas / RATE_SIGMAS,
                (
                    f"Its text is {'too little' if apart < 0 else 'too much'} for the sound: "
                    f"{np.exp(rate):.1f} characters a second, {np.exp(most.median):.1f} in most clips."
                ),
            )
    if clip.evidence is not None and (most := usual["evidence"]):
        is_usual = most.median >= MIN_USUAL_EVIDENCE
        if is_usual and clip.evidence < EVIDENCE_SHARE * most.median:
            yield ClipFinding(
                "words",
                1 + (EVIDENCE_SHARE - clip.evidence / most.median),
                (
                    "Its text may be wrong: the base model finds it no likelier than another clip's "
                    f"text (gain {clip.evidence:+.2f}, in most clips {most.median:+.2f})."
                ),
            )
    if clip.nats is not None and (most := usual["nats"]):
        sigmas = most.sigmas(clip.nats)
        if sigmas > NATS_SIGMAS and clip.nats - most.median > NATS_MORE:
            yield ClipFinding(
                "likelihood",
                sigmas / NATS_SIGMAS,
                (
                    f"The base model finds its sound unlikely: loss {clip.nats:.1f}, in most clips "
                    f"{most.median:.1f}."
                ),
            )


# Whether the clips of one speaker are of one person


@dataclass(frozen=True)
class VoiceGroups:
    """The grouping of a speaker's clips by voice. likeness: the cosine of each clip to the centre
    of the larger group; others: the indices of clips that sound like another person; separation:
    from 0 for one group to 1 for two distant points."""

    likeness: tuple[float, ...]
    others: tuple[int, ...]
    separation: float

    @property
    def two_people(self) -> bool:
        """Whether the others are a group instead of single clips."""
        return self.separation >= MIN_SEPARATION


def group_voices(embeddings: Sequence[np.ndarray]) -> VoiceGroups:
    """Groups the clips of one speaker by embeddings `[width]`. A few clips of another person are
    outliers; many are a second group."""
    if len(embeddings) < MIN_CLIPS:
        return VoiceGroups((1.0,) * len(embeddings), (), 0.0)
    points = _unit(np.asarray(embeddings, dtype=np.float64))
    near = _two_groups(points)
    if near.sum() < len(near) / 2:
        near = ~near
    separation = _separation(points, near)
    if separation >= MIN_SEPARATION:
        likeness = points @ _centre(points[near])
        others = np.flatnonzero(~near)
    else:
        likeness = points @ _trimmed_centre(points)
        others = np.flatnonzero(_outliers(likeness))
        separation = 0.0
    return VoiceGroups(tuple(map(float, likeness)), tuple(map(int, others)), float(separation))


def _two_groups(points: np.ndarray) -> np.ndarray:
    """Spherical 2-means, `[clips]` of bool, initialised with the least similar clips."""
    first = int(np.argmin(points @ _centre(points)))
    second = int(np.argmin(points @ points[first]))
    centres = points[[first, second]]
    group = np.zeros(len(points), bool)
    for _ in range(_ROUNDS):
        new = points @ centres[1] > points @ centres[0]
        if (new == group).all() or new.all() or not new.any():
            break
        group = new
        centres = np.stack((_centre(points[~group]), _centre(points[group])))
    return group


def _separation(points: np.ndarray, group: np.ndarray) -> float:
    """The mean silhouette of two groups, by cosine distance to their centres; 0 if one has too few
    clips. A clip is excluded from the centre of its group, which it would dominate in a small
    group."""
    if min(group.sum(), (~group).sum()) < MIN_IN_GROUP:
        return 0.0
    inside, outside = np.empty(len(points)), np.empty(len(points))
    for side in (group, ~group):
        members = points[side]
        without = _unit(members.sum(0) - members)
        inside[side] = 1 - (members * without).sum(1)
        outside[side] = 1 - members @ _centre(points[~side])
    width = (outside - inside) / np.maximum(np.maximum(inside, outside), 1e-9)
    # The mean over groups, so that a small group counts as much as a large one.
    return float(min(width[group].mean(), width[~group].mean()))


def _outliers(likeness: np.ndarray) -> np.ndarray:
    median = np.median(likeness)
    sigma = max(_MAD_TO_SIGMA * float(np.median(np.abs(likeness - median))), 1e-3)
    below = median - likeness
    return (below > OUTLIER_SIGMAS * sigma) & (below > OUTLIER_COSINE)


def _trimmed_centre(points: np.ndarray) -> np.ndarray:
    """The centre of the half that is closest to the centre of all."""
    near = np.argsort(-(points @ _centre(points)))[: (len(points) + 1) // 2]
    return _centre(points[near])


def _centre(points: np.ndarray) -> np.ndarray:
    return _unit(points.mean(0))


def _unit(points: np.ndarray) -> np.ndarray:
    units: np.ndarray = points / np.maximum(np.linalg.norm(points, axis=-1, keepdims=True), 1e-9)
    return units
