"""The interface of every cutter, and the three cutters that need no alignment.

These three cut at pauses alone, at the times in the text, or with transcripts by a Whisper model.

A Whisper model transcribes each clip separately. If it does not understand anything, it can invent
text: repeated words, or a note such as `[Music]`. Such a clip is left out.
"""

import hashlib
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from extras.common.steps import Steps
from extras.cut.journal import RecognitionJournal
from extras.cut.manuscript import SENTENCE_END, Manuscript
from extras.cut.planning import UNSURE, PlacedUnit, Stretch, account, clip_frame, plan
from extras.cut.profile import SoundProfile, measure
from extras.cut.recordings import LISTENING_RATE, CuttingError, SourceRecording, read_spans
from extras.cut.speech_detection import LEVEL_FRAME_SECONDS, SPAN_MARGIN_SECONDS, speech_spans
from machine.storage.checksums import sha256_of
from train.concurrency import lookahead
from train.progress import Progress
from xtts.audio import resample
from xtts.evaluation import recogniser as recognisers
from xtts.evaluation.recogniser import Recogniser, RecogniserError

# Part of the fingerprint. Increment it if the same input is cut differently.
CUTTING_VERSION = 4
# The tolerance of the times of detected speech.
_SPAN_TOLERANCE_SECONDS = 0.3
# Longer pauses between spans of speech end the breath.
_MAX_SPAN_GAP_SECONDS = 0.6
# The tolerance of the times of subtitles.
_CUE_TOLERANCE_SECONDS = 0.5
# Longer pauses between subtitles end the breath.
_MAX_CUE_GAP_SECONDS = 0.3
# Subtitles with a smaller share of speech are not spoken.
_MIN_SPOKEN_SHARE = 0.3
# The share of clipped 10 ms frames of speech; a loud take has less than 1 %.
_MAX_CLIPPED_SHARE = 0.05
# Whisper's own limit for repetitions (`compression_ratio_threshold`): bytes over compressed bytes.
_MAX_COMPRESSION_RATIO = 2.4
# No speaker is faster; languages without spaces are far below.
_MAX_CHARACTERS_PER_SECOND = 35.0
_NOTE = re.compile(r"\[[^\]]*\]|\([^)]*\)|<[^>]*>|\*[^*]*\*|♪[^♪]*♪?")


@dataclass(frozen=True)
class CutJob:
    """The recordings to cut, and the tools.

    Attributes:
        speech_by: The speech detector.
        journal: The words that were recognised before a stop.
        steps: Computes the steps.
    """

    recordings: Sequence[SourceRecording]
    speech_by: str
    journal: RecognitionJournal
    steps: Steps

    def listening(self) -> Progress:
        """Progress over the seconds of all recordings."""
        return Progress("Listening", sum(recording.seconds for recording in self.recordings), "s")


@dataclass(frozen=True)
class CutRecording:
    """A recording with its clips and the speech outside of them, in frames of 10 ms, and its
    complete account (`rows`), in frames at the recording's rate."""

    recording: SourceRecording
    profile: SoundProfile
    clips: list[Stretch]
    left_out: list[Stretch]
    rows: list[Stretch]

    @classmethod
    def of(
        cls, recording: SourceRecording, profile: SoundProfile, clips: list[Stretch], left_out: list[Stretch]
    ) -> "CutRecording":
        """Makes one, with the account of the whole recording."""
        rows = account(clips, left_out, profile, recording.rate, recording.frames)
        return cls(recording, profile, clips, left_out, rows)

    def spans(self) -> list[tuple[int, int]]:
        """The frames of each clip, at the recording's rate."""
        rate, frames = self.recording.rate, self.recording.frames
        return [
            (clip_frame(clip.first, rate), min(clip_frame(clip.last, rate), frames)) for clip in self.clips
        ]

    def seconds_by_reason(self) -> dict[str, float]:
        """The seconds by reason, largest first; their sum is the length of the recording."""
        frames = Counter[str]()
        for row in self.rows:
            frames[row.reason] += row.last - row.first
        ordered = sorted(frames.items(), key=lambda item: (-item[1], item[0]))
        return {reason: round(count / self.recording.rate, 6) for reason, count in ordered}


@dataclass(frozen=True)
class CutResult:
    """The result for all recordings. unheard: the numbers of the sentences that were not
    recognised; moved: those of them that were recognised completely, but in another order."""

    recordings: list[CutRecording]
    unheard: list[int]
    moved: frozenset[int] = frozenset()


def fingerprint_of(
    recordings: Sequence[SourceRecording], text: Manuscript | None, method: str, speech_by: str
) -> str:
    """A hash of everything that the clips depend on: the same fingerprint means the same bytes."""
    parts = [str(CUTTING_VERSION), method, speech_by]
    parts += [f"{recording.name} {sha256_of(recording.path)}" for recording in recordings]
    if text is not None:
        parts += [f"{cue.start} {cue.end} {cue.text}" for cue in text.cues]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def measure_all(job: CutJob) -> Iterator[SoundProfile]:
    """The profile of each recording, in order."""
    with job.listening() as progress:
        # Another process cannot report progress: its recordings count when they are done.
        reported = None if job.steps.ahead else progress
        started = (
            job.steps.begin(measure, recording, job.speech_by, reported) for recording in job.recordings
        )
        for recording, wait_for_profile in zip(job.recordings, lookahead(started, job.steps.ahead)):
            profile = wait_for_profile()
            if reported is None:
                progress.add(recording.seconds)
            yield profile


def cut_recording(
    recording: SourceRecording, profile: SoundProfile, units: Sequence[PlacedUnit]
) -> CutRecording:
    """Cuts a recording into clips of placed units."""
    return CutRecording.of(recording, profile, *plan(units, profile))


def cut_by_speech(job: CutJob) -> CutResult:
    """Cuts at pauses; the clips are without text."""
    cuts = []
    for recording, profile in zip(job.recordings, measure_all(job)):
        spans = speech_spans(profile.speech)
        units = list[PlacedUnit]()
        for index, (start, end) in enumerate(spans):
            next_start = spans[index + 1][0] if index + 1 < len(spans) else None
            units.append(
                PlacedUnit(
                    "",
                    start + SPAN_MARGIN_SECONDS,
                    end - SPAN_MARGIN_SECONDS,
                    SENTENCE_END,
                    is_joined=next_start is not None and next_start - end < _MAX_SPAN_GAP_SECONDS,
                    speech_before=spans[index - 1][1] if index else 0.0,
                    speech_after=recording.seconds if next_start is None else next_start,
                    tolerance=_SPAN_TOLERANCE_SECONDS,
                )
            )
        cuts.append(cut_recording(recording, profile, units))
    return CutResult(cuts, [])


def cut_by_cues(job: CutJob, text: Manuscript) -> CutResult:
    """Cuts one recording at the pauses nearest to the times of a text, in any language."""
    (recording,), (profile,) = job.recordings, measure_all(job)
    spans = speech_spans(profile.speech)
    units, unheard = list[PlacedUnit](), list[int]()
    for number, cue in enumerate(text.cues):
        assert cue.start is not None and cue.end is not None
        spoken = sum(max(min(end, cue.end) - max(start, cue.start), 0.0) for start, end in spans)
        if spoken < _MIN_SPOKEN_SHARE * (cue.end - cue.start) or cue.start >= recording.seconds:
            unheard.append(number)
            continue
        next_start = text.cues[number + 1].start if number + 1 < len(text.cues) else None
        before = units[-1].end if units else 0.0
        after = recording.seconds if next_start is None else next_start
        units.append(
            PlacedUnit(
                text.sentences[number],
                cue.start,
                min(cue.end, recording.seconds),
                SENTENCE_END,
                is_joined=next_start is not None and next_start - cue.end <= _MAX_CUE_GAP_SECONDS,
                speech_before=min(before, cue.start),
                speech_after=max(after, cue.end),
                tolerance=_CUE_TOLERANCE_SECONDS,
            )
        )
    return CutResult([cut_recording(recording, profile, units)], unheard)


def clipping_warning(profiles: Sequence[SoundProfile]) -> str:
    """A warning if too much of the speech is clipped to recognise its words; else ""."""
    frames = [
        profile.clipped[int(start / LEVEL_FRAME_SECONDS) : int(end / LEVEL_FRAME_SECONDS)]
        for profile in profiles
        for start, end in speech_spans(profile.speech)
    ]
    share = float(np.concatenate(frames).mean()) if frames else 0.0
    if share < _MAX_CLIPPED_SHARE:
        return ""
    return (
        f" {share:.0%} of the speech is clipped: it was recorded too loudly to recognise its "
        "words. Record it again at a lower level."
    )


# Transcripts


def open_recogniser(folder: Path, language: str) -> tuple[Recogniser, str]:
    """Opens the recogniser; also returns the SHA-256 of its files, on which the transcripts depend.

    Raises CuttingError.
    """
    try:
        recogniser = recognisers.open_recogniser(str(folder), language, torch.get_num_threads())
        digest = hashlib.sha256()
        for path in sorted(path for path in folder.iterdir() if path.is_file()):
            digest.update(path.name.encode() + bytes.fromhex(sha256_of(path)))
    except (RecogniserError, OSError) as error:
        raise CuttingError(f"--recogniser: {error}") from error
    return recogniser, digest.hexdigest()


def transcribe(result: CutResult, recogniser: Recogniser, journal: RecognitionJournal) -> CutResult:
    """The clips with the recogniser's transcripts; a clip without one is left out."""
    count = sum(len(cut.clips) for cut in result.recordings)
    cuts = []
    with Progress("Transcribing", count, "clips") as progress:
        for cut in result.recordings:
            clips, left_out = list[Stretch](), list(cut.left_out)
            for index, samples in read_spans(cut.recording, cut.spans()):
                clip = cut.clips[index]
                recognised = _recognise(clip, cut.recording, samples, recogniser, journal)
                if (text := transcript_of(recognised, (clip.last - clip.first) / 100)) is None:
                    left_out.append(replace(clip, text=recognised, reason=UNSURE))
                else:
                    clips.append(replace(clip, text=text))
                progress.add()
            cuts.append(CutRecording.of(cut.recording, cut.profile, clips, left_out))
    return CutResult(cuts, result.unheard)


def _recognise(
    clip: Stretch,
    recording: SourceRecording,
    samples: np.ndarray,
    recogniser: Recogniser,
    journal: RecognitionJournal,
) -> str:
    """The recognised text of a clip, from the journal if it is there."""
    key = f"{recording.name}|clip {clip.first} to {clip.last}"
    rows = journal.get(key)
    if rows is None:
        wave = resample(torch.from_numpy(samples), recording.rate, LISTENING_RATE)
        # In the journal's form of a word: text, start, end, certainty.
        rows = [(recogniser.hear(wave.numpy()), clip.first / 100, clip.last / 100, None)]
        journal.put(key, rows)
    text: str = rows[0][0]
    return text


def transcript_of(recognised: str, seconds: float) -> str | None:
    """The recognised text of a clip as a transcript; None if it is implausible. Pure."""
    text = " ".join(_NOTE.sub(" ", recognised).split())
    if not any(letter.isalnum() for letter in text):
        return None
    encoded = text.encode()
    is_repetitive = len(encoded) / len(zlib.compress(encoded)) > _MAX_COMPRESSION_RATIO
    return None if is_repetitive or len(text) > _MAX_CHARACTERS_PER_SECOND * seconds else text
