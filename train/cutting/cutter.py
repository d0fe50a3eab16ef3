"""What every way of cutting is given and gives, and the two that recognise no word: at the pauses
alone, and by the times of a text."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from train.cutting.journal import HeardJournal
from train.cutting.manuscript import Manuscript
from train.cutting.planning import AccountRow, Stretch, account, clip_frame, plan
from train.cutting.profile import SoundProfile, measured, speech_spans
from train.cutting.recordings import SourceRecording
from train.cutting.steps import Steps, in_order
from train.cutting.word_alignment import PlacedUnit
from train.progress import Progress

# In the fingerprint: another number where the same input is cut otherwise.
CUTTING_VERSION = 4
# Times of subtitles are that far off.
_CUE_REACH_SECONDS = 0.5


@dataclass(frozen=True)
class CutJob:
    """What is cut, and with what. speech_by: what finds speech (`SpeechDetector.told`); journal: of
    what was heard before a stop; steps: where the steps are computed."""

    recordings: Sequence[SourceRecording]
    speech_by: str
    journal: HeardJournal
    steps: Steps

    def listening(self) -> Progress:
        """How much of all the recordings was listened to."""
        return Progress("Listening", sum(one.seconds for one in self.recordings), "s")


@dataclass(frozen=True)
class CutRecording:
    """A recording with its clips and the account of all of it."""

    recording: SourceRecording
    profile: SoundProfile
    clips: list[Stretch]
    left: list[Stretch]
    rows: list[AccountRow]

    def spans(self) -> list[tuple[int, int]]:
        """The frames of each clip, at the recording's own rate."""
        rate, frames = self.recording.rate, self.recording.frames
        return [
            (clip_frame(clip.first, rate), min(clip_frame(clip.last, rate), frames))
            for clip in self.clips
        ]

    def seconds_by_reason(self) -> dict[str, float]:
        """Most first; they sum to the length of the recording."""
        frames: dict[str, int] = {}
        for row in self.rows:
            frames[row.reason] = frames.get(row.reason, 0) + row.last - row.first
        ordered = sorted(frames.items(), key=lambda item: (-item[1], item[0]))
        return {reason: round(count / self.recording.rate, 6) for reason, count in ordered}


@dataclass(frozen=True)
class CutResult:
    """All recordings. unheard: numbers of the sentences of which no clip says a word; moved: those
    of them that are heard whole, elsewhere than the text has them."""

    recordings: list[CutRecording]
    unheard: list[int]
    moved: frozenset[int] = frozenset()


def fingerprint_of(
    recordings: Sequence[SourceRecording], text: Manuscript | None, method: str, speech_by: str
) -> str:
    """What the clips depend on: same fingerprint, same bytes."""
    parts = [str(CUTTING_VERSION), method, speech_by]
    for one in recordings:
        with one.path.open("rb") as file:
            parts.append(f"{one.name} {hashlib.file_digest(file, 'sha256').hexdigest()}")
    if text is not None:
        parts += [f"{cue.start} {cue.end} {cue.text}" for cue in text.cues]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def measured_all(job: CutJob) -> Iterator[SoundProfile]:
    """The measures of each recording, in their order."""
    with job.listening() as progress:
        # Another process cannot count along: its recordings are counted when they are whole.
        here = None if job.steps.ahead else progress
        begun = (job.steps.begin(measured, one, job.speech_by, here) for one in job.recordings)
        for recording, profile in zip(job.recordings, in_order(begun, job.steps.ahead)):
            if here is None:
                progress.add(recording.seconds)
            yield profile


def cut_one(
    recording: SourceRecording, profile: SoundProfile, units: Sequence[PlacedUnit]
) -> CutRecording:
    """The clips of placed units, and the account of all of the recording."""
    clips, left = plan(units, profile)
    rows = account(clips, left, profile, recording.rate, recording.frames)
    return CutRecording(recording, profile, clips, left, rows)


def cut_by_speech(job: CutJob) -> CutResult:
    """Cuts where nobody speaks; the clips have no text."""
    done = []
    for recording, profile in zip(job.recordings, measured_all(job)):
        spans = speech_spans(profile.speech)
        units = [
            PlacedUnit("", start + 0.1, end - 0.1, 2,
                       place + 1 < len(spans) and spans[place + 1][0] - end < 0.6,
                       spans[place - 1][1] if place else 0.0,
                       spans[place + 1][0] if place + 1 < len(spans) else recording.seconds, 0.3)
            for place, (start, end) in enumerate(spans)
        ]  # fmt: skip
        done.append(cut_one(recording, profile, units))
    return CutResult(done, [])


def cut_by_cues(job: CutJob, text: Manuscript) -> CutResult:
    """Cuts one recording at the pauses nearest to the times of a text, in any language."""
    (recording,), (profile,) = job.recordings, measured_all(job)
    spans = speech_spans(profile.speech)
    units, unheard = list[PlacedUnit](), list[int]()
    cues = text.cues
    for number, cue in enumerate(cues):
        assert cue.start is not None and cue.end is not None
        spoken = sum(max(min(end, cue.end) - max(start, cue.start), 0.0) for start, end in spans)
        if spoken < 0.3 * (cue.end - cue.start) or cue.start >= recording.seconds:
            unheard.append(number)
            continue
        next_start = cues[number + 1].start if number + 1 < len(cues) else None
        with_next = next_start is not None and next_start - cue.end <= 0.3
        before = units[-1].end if units else 0.0
        after = next_start if next_start is not None else recording.seconds
        units.append(
            PlacedUnit(text.sentences[number], cue.start, min(cue.end, recording.seconds), 2,
                       with_next, min(before, cue.start), max(after, cue.end), _CUE_REACH_SECONDS)
        )  # fmt: skip
    return CutResult([cut_one(recording, profile, units)], unheard)
