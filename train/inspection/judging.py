"""From measurements of all clips to findings: which clips are suspect, and why. Pure.

Some limits are absolute: nobody wants 3 s of silence around a sentence. Others go by the dataset
itself, as median and MAD (median absolute deviation), so that a slow speaker is not suspect among
their own clips. Limits were chosen on flite's slt; figures on other voices are in
docs/benchmarks.md, "Suspect clips".
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from train.inspection.likelihood import Likelihood
from train.inspection.sound import SoundFacts

# Fewer clips have no usual way of speaking.
FEWEST_CLIPS = 8
# Standard deviations of a normal distribution in one MAD.
_MAD_TO_SIGMA = 1.4826

LEAST_DYNAMICS_DB = 5.0
NOISE_FLATNESS = 0.2
TONE_SHARE = 0.95
LEAST_SNR_DB = 15.0
MOST_CLIPPED = 0.005
LEAST_HEARD_HZ = 4_600.0
MOST_SILENCE_SECONDS = 1.0
CUT_DB = -18.0
MOST_OFFSET = 0.02
LEAST_LEVEL_DB = -45.0
LEVEL_SIGMAS, LEVEL_DB = 5.0, 9.0
RATE_SIGMAS, RATE_RATIO = 4.0, 1.4
NATS_SIGMAS, NATS_MORE = 5.0, 0.5
# A base that explains codes no better by their own text knows nothing of the language.
LEAST_USUAL_EVIDENCE = 0.1
EVIDENCE_SHARE = 0.25
SPEAKER_SIGMAS = 6.0


@dataclass(frozen=True)
class Measurements:
    """All that was measured of one clip. letters: of its text as it is read; copy_of: another
    clip's name; voice: likeness to most clips of its speaker, 1 the same; spoof: a score."""

    name: str
    letters: int
    sound: SoundFacts
    likelihood: Likelihood | None = None
    copy_of: str = ""
    other_voice: str = ""
    voice: float | None = None
    spoof: float | None = None


@dataclass(frozen=True)
class ClipFinding:
    """One reason to look at a clip. severity: 1 at its limit, more beyond; reason: a sentence."""

    kind: str
    severity: float
    reason: str


@dataclass(frozen=True)
class SuspectClip:
    """A clip with its findings, worst first."""

    name: str
    findings: tuple[ClipFinding, ...] = field(default=())

    @property
    def severity(self) -> float:
        """Of all its findings together."""
        return sum(one.severity for one in self.findings)

    @property
    def reasons(self) -> str:
        """Sentences for a person."""
        return " ".join(one.reason for one in self.findings)


@dataclass(frozen=True)
class _Usual:
    """Median and MAD, as a standard deviation, of a measurement over all clips."""

    median: float
    sigma: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "_Usual | None":
        if len(values) < FEWEST_CLIPS:
            return None
        found = np.asarray(values)
        median = float(np.median(found))
        return cls(median, _MAD_TO_SIGMA * float(np.median(np.abs(found - median))))

    def sigmas(self, value: float) -> float:
        return (value - self.median) / max(self.sigma, 1e-3)


def find_suspects(clips: Sequence[Measurements]) -> list[SuspectClip]:
    """The clips to look at, worst first; of the same severity, by name."""
    rates = {one.name: _log_rate(one) for one in clips}
    usual_rate = _Usual.of(list(rates.values()))
    usual_level = _Usual.of([one.sound.level_db for one in clips])
    known = [one.likelihood for one in clips if one.likelihood]
    usual_nats = _Usual.of([one.nats for one in known])
    usual_evidence = _Usual.of([one.evidence for one in known])
    suspects = []
    for clip in clips:
        # What is no speech fails everything else too, which tells nothing more.
        found = _no_speech(clip.sound) or [
            *_faults(clip.sound),
            *_level(clip.sound, usual_level),
            *_rate(rates[clip.name], usual_rate),
            *_likely(clip.likelihood, usual_nats, usual_evidence),
            *_others(clip),
        ]
        if found:
            worst = sorted(found, key=lambda one: (-one.severity, one.kind))
            suspects.append(SuspectClip(clip.name, tuple(worst)))
    return sorted(suspects, key=lambda one: (-one.severity, one.name))


def _no_speech(sound: SoundFacts) -> list[ClipFinding]:
    """Whether it is speech at all: syllables make it rise and fall."""
    if sound.dynamics_db >= LEAST_DYNAMICS_DB:
        return []
    severity = 20 * LEAST_DYNAMICS_DB / max(sound.dynamics_db, 1.0)
    if sound.flatness > NOISE_FLATNESS:
        return [ClipFinding("noise", severity, "It is noise: no voice, and as loud all the time.")]
    if sound.tone > TONE_SHARE:
        return [ClipFinding("tone", severity, "It is a tone: one pitch, as loud all the time.")]
    seen = f"It is as loud all the time (within {sound.dynamics_db:.0f} dB), as speech never is."
    return [ClipFinding("steady", severity, seen)]


def _faults(sound: SoundFacts) -> list[ClipFinding]:
    """What the recording or its cutting did to it."""
    found = []
    if sound.noise_db < LEAST_SNR_DB:
        seen = f"Noise stands only {sound.noise_db:.0f} dB below the voice."
        found.append(ClipFinding("snr", LEAST_SNR_DB / max(sound.noise_db, 1.0), seen))
    if sound.clipped > MOST_CLIPPED:
        seen = f"{sound.clipped:.1%} of its samples are clipped: recorded too loud."
        found.append(ClipFinding("clipping", sound.clipped / MOST_CLIPPED, seen))
    if sound.heard_hz < LEAST_HEARD_HZ:
        seen = f"Nothing is heard above {sound.heard_hz / 1000:.1f} kHz, as by telephone."
        found.append(ClipFinding("band", LEAST_HEARD_HZ / max(sound.heard_hz, 100.0), seen))
    silence = max(sound.lead_seconds, sound.tail_seconds)
    if silence > MOST_SILENCE_SECONDS:
        seen = (
            f"There are {sound.lead_seconds:.1f} s before the speech and "
            f"{sound.tail_seconds:.1f} s behind it."
        )
        found.append(ClipFinding("silence", silence / MOST_SILENCE_SECONDS, seen))
    for what, level in (("begins", sound.start_db), ("ends", sound.end_db)):
        if level > CUT_DB:
            seen = f"It {what} in the middle of sound ({level:.0f} dB): a word may be cut."
            found.append(ClipFinding("cut", 1 + (level - CUT_DB) / 10, seen))
    if abs(sound.offset) > MOST_OFFSET:
        seen = f"Its samples stand off zero by {sound.offset:+.3f} of full scale (DC offset)."
        found.append(ClipFinding("offset", abs(sound.offset) / MOST_OFFSET, seen))
    return found


def _level(sound: SoundFacts, usual: _Usual | None) -> list[ClipFinding]:
    if sound.level_db < LEAST_LEVEL_DB:
        seen = f"It is very quiet: {sound.level_db:.0f} dB below full scale."
        return [ClipFinding("level", sound.level_db / LEAST_LEVEL_DB, seen)]
    if usual is None:
        return []
    apart, sigmas = sound.level_db - usual.median, abs(usual.sigmas(sound.level_db))
    if abs(apart) < LEVEL_DB or sigmas < LEVEL_SIGMAS:
        return []
    seen = f"It is {abs(apart):.0f} dB {'louder' if apart > 0 else 'quieter'} than most clips."
    return [ClipFinding("level", abs(apart) / LEVEL_DB, seen)]


def _log_rate(clip: Measurements) -> float:
    return float(np.log(max(clip.letters, 1) / max(clip.sound.spoken_seconds, 0.1)))


def _rate(log_rate: float, usual: _Usual | None) -> list[ClipFinding]:
    if usual is None:
        return []
    apart, sigmas = log_rate - usual.median, abs(usual.sigmas(log_rate))
    if abs(apart) < np.log(RATE_RATIO) or sigmas < RATE_SIGMAS:
        return []
    short = "too little" if apart < 0 else "too much"
    seen = (
        f"Its text is {short} for the sound: {np.exp(log_rate):.1f} characters a second, "
        f"{np.exp(usual.median):.1f} in most clips."
    )
    return [ClipFinding("rate", sigmas / RATE_SIGMAS, seen)]


def _likely(
    found: Likelihood | None, nats: _Usual | None, evidence: _Usual | None
) -> list[ClipFinding]:
    if found is None or nats is None or evidence is None:
        return []
    findings = []
    usual = evidence.median
    if usual >= LEAST_USUAL_EVIDENCE and found.evidence < EVIDENCE_SHARE * usual:
        seen = (
            "Its text explains the sound no better than another clip's does "
            f"({found.evidence:+.2f} nats a code, {usual:+.2f} in most clips): other words?"
        )
        findings.append(ClipFinding("words", 1 + (EVIDENCE_SHARE - found.evidence / usual), seen))
    sigmas, apart = nats.sigmas(found.nats), found.nats - nats.median
    if sigmas > NATS_SIGMAS and apart > NATS_MORE:
        seen = (
            f"The base model finds it unlikely: {found.nats:.1f} nats a code, {nats.median:.1f} in "
            "most clips."
        )
        findings.append(ClipFinding("likelihood", sigmas / NATS_SIGMAS, seen))
    return findings


def _others(clip: Measurements) -> list[ClipFinding]:
    found = []
    if clip.copy_of:
        found.append(ClipFinding("copy", 1.5, f"It is the same sound as {clip.copy_of}."))
    if clip.other_voice:
        found.append(ClipFinding("voice", 2.0, clip.other_voice))
    return found
