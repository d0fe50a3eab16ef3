"""From recordings and a text to planned clips: the steps in their order, without writing any."""

import contextlib
import functools
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from train.cutting import causes
from train.cutting.accounting import AccountRow, account
from train.cutting.alignment.manuscript import Manuscript
from train.cutting.alignment.placing import (
    LEAST_CERTAINTY,
    DoubtfulSentence,
    PlacedUnit,
    doubts,
    place_units,
    trusted,
)
from train.cutting.alignment.recogniser import HeardWord
from train.cutting.errors import CuttingError
from train.cutting.journal import HeardJournal
from train.cutting.listening import TextListener, listen, measured
from train.cutting.pauses import SoundProfile
from train.cutting.planning import LeftOut, PlannedClip, plan
from train.cutting.sound import LISTENING_RATE, SourceRecording, check_unchanged, stretches
from train.cutting.speech import SpeechDetector, speech_spans
from train.cutting.workers.steps import Steps, in_order
from train.progress import Progress, with_progress
from xtts.audio import resample

# In the fingerprint: another number where the same input is cut otherwise.
CUTTING_VERSION = 4
_LEAST_SHARE = 0.2
_FEWEST_WORDS = 5
# Times of subtitles are that far off.
_CUE_REACH_SECONDS = 0.5


@dataclass(frozen=True)
class CutRecording:
    """A recording with its clips and the account of all of it."""

    recording: SourceRecording
    profile: SoundProfile
    clips: list[PlannedClip]
    left: list[LeftOut]
    rows: list[AccountRow]


@dataclass(frozen=True)
class CutResult:
    """All recordings. unheard: numbers of the sentences of which no clip says a word; moved: those
    of them that are heard whole, elsewhere than the text has them."""

    recordings: list[CutRecording]
    unheard: list[int]
    moved: frozenset[int] = frozenset()


def fingerprint_of(recordings: Sequence[SourceRecording], text: Manuscript | None, language: str,
                   detector: SpeechDetector) -> str:  # fmt: skip
    """What the clips depend on: same fingerprint, same bytes."""
    parts = [str(CUTTING_VERSION), language, detector.told]
    for one in recordings:
        with one.path.open("rb") as file:
            parts.append(f"{one.name} {hashlib.file_digest(file, 'sha256').hexdigest()}")
    if text is not None:
        parts += [f"{cue.start} {cue.end} {cue.text}" for cue in text.cues]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def cut_by_words(recordings: Sequence[SourceRecording], text: Manuscript,
                 detectors: Sequence[SpeechDetector], work: Path,
                 fingerprint: str, steps: Steps) -> CutResult:  # fmt: skip
    """Aligns an English text word by word. Raises CuttingError, also for a foreign text."""
    journal = HeardJournal(work / "heard.jsonl", fingerprint)
    with contextlib.closing(journal), _listening(recordings) as progress:
        listener = TextListener(text, journal, steps)
        profiles, bounds = list[SoundProfile](), [0]
        for recording, detector in zip(recordings, detectors):
            hear = functools.partial(listener.hear, recording)
            profiles.append(listen(recording, detector, hear, progress))
            listener.finish()
            check_unchanged(recording)
            bounds.append(len(listener.heard))
        listener.follower.finish()
        places = trusted(listener.follower.matches, listener.heard, text)
        cause = causes.clipping(profiles) or causes.wrong_order(listener.heard, text)
        counts = (len(listener.heard), len(text.words))
        _refuse_other_text(len(places), *counts, recordings, cause)
        done, sure, num_placed = list[CutRecording](), set[int](), 0
        for number, (recording, profile) in enumerate(zip(recordings, profiles)):
            first, last = bounds[number], bounds[number + 1]
            own = {word: heard - first for word, heard in places.items() if first <= heard < last}
            heard = listener.heard[first:last]
            doubtful = doubts(text, own, heard, recording.seconds)
            checked = _checked(recording, doubtful, listener, text, steps)
            units = place_units(text, own, heard, checked)
            num_placed += sum(len(unit.text.split()) for unit in units)
            done.append(cut_one(recording, profile, units))
            sure |= own.keys() | {
                word for word, one in checked.items() if (one.certainty or 0.0) >= LEAST_CERTAINTY
            }
    # A model of a short text hears its phrases in anything; they do not stand the second look.
    _refuse_other_text(num_placed, *counts, recordings, cause)
    unheard = _unheard(text, sure)
    moved = frozenset(unheard) & set(causes.heard_whole(listener.heard, text))
    return CutResult(done, unheard, moved)


def cut_by_cues(recordings: Sequence[SourceRecording], text: Manuscript,
                detectors: Sequence[SpeechDetector]) -> CutResult:  # fmt: skip
    """Cuts at the pauses nearest to the times of a text, in any language."""
    with _listening(recordings) as progress:
        recording, profile = recordings[0], listen(recordings[0], detectors[0], None, progress)
    check_unchanged(recording)
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


def cut_by_speech(
    recordings: Sequence[SourceRecording], detectors: Sequence[SpeechDetector], steps: Steps
) -> CutResult:
    """Cuts where nobody speaks; the clips have no text."""
    done = []
    for recording, profile in zip(recordings, measured_all(recordings, detectors, steps)):
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


def measured_all(
    recordings: Sequence[SourceRecording], detectors: Sequence[SpeechDetector], steps: Steps
) -> Iterator[SoundProfile]:
    """The measures of each recording, in their order."""
    with _listening(recordings) as progress:
        # Another process cannot count along: its recordings are counted when they are whole.
        here = None if steps.ahead else progress
        begun = (
            steps.begin(measured, recording, detector.told, here)
            for recording, detector in zip(recordings, detectors)
        )
        for recording, profile in zip(recordings, in_order(begun, steps.ahead)):
            if here is None:
                progress.add(recording.seconds)
            yield profile


def _listening(recordings: Sequence[SourceRecording]) -> Progress:
    return Progress("Listening", sum(one.seconds for one in recordings), "s")


def cut_one(
    recording: SourceRecording, profile: SoundProfile, units: Sequence[PlacedUnit]
) -> CutRecording:
    """The clips of placed units, and the account of all of the recording."""
    clips, left = plan(units, profile)
    rows = account(clips, left, profile, recording.rate, recording.frames)
    return CutRecording(recording, profile, clips, left, rows)


def _checked(
    recording: SourceRecording, doubtful: Sequence[DoubtfulSentence], listener: TextListener,
    text: Manuscript, steps: Steps,
) -> dict[int, HeardWord]:  # fmt: skip
    found = dict[int, HeardWord]()
    rate = recording.rate
    doubtful = sorted(doubtful, key=lambda one: one.end)
    spans = [
        (int(one.start * rate), min(int(one.end * rate), recording.frames)) for one in doubtful
    ]

    def begun() -> Iterator[Callable[[], tuple[DoubtfulSentence, list[HeardWord]]]]:
        for place, samples in stretches(recording, spans):
            one = doubtful[place]
            heard = resample(torch.from_numpy(samples), rate, LISTENING_RATE).numpy()
            words = list(text.words[one.first : one.last + 1])
            key = f"{recording.name}|words {one.first} to {one.last}|{one.start:.3f}"
            aligned = listener.check(key, heard, words, one.start)
            yield lambda one=one, aligned=aligned: (one, aligned())  # type: ignore[misc]

    checked = in_order(begun(), steps.ahead)
    for one, aligned in with_progress(checked, len(doubtful), "Checking", "sentences"):
        found |= dict(zip(range(one.first, one.last + 1), aligned))
    return found


def _unheard(text: Manuscript, sure: set[int]) -> list[int]:
    """Sentences of which less than half of the words were heard."""
    return [
        number
        for number, words in enumerate(text.words_of_sentence)
        if 2 * sum(word in sure for word in words) < len(words)
    ]


def _refuse_other_text(
    found: int, heard: int, written: int, recordings: Sequence[SourceRecording], cause: str
) -> None:
    """cause: what else than another text explains it; "" where nothing does."""
    if heard < _FEWEST_WORDS and written >= _FEWEST_WORDS:
        raise CuttingError(
            f"{recordings[0].path} holds next to no English speech ({heard} words heard).{cause}"
        )
    if found < _LEAST_SHARE * min(heard, written):
        cause = cause or " Is it another recording's, or in another language?"
        raise CuttingError(
            f"The text does not fit {recordings[0].path}: {found} of its {written:,} words were "
            f"found in their order among {heard:,} heard ones.{cause} Nothing was written."
        )
