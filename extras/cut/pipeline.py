"""`python -m train cut RECORDING… --to DIR [--text FILE | --recogniser DIR] [--language L]`."""

import importlib.util
import logging
import re
import shlex
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from extras.common.steps import Steps
from extras.cut import cutter, writing
from extras.cut.by_base import cut_by_base, load_base
from extras.cut.by_words import cut_by_words
from extras.cut.cues import read_cues
from extras.cut.cutter import CutJob, CutRecording, CutResult
from extras.cut.journal import RecognitionJournal
from extras.cut.manuscript import Manuscript, manuscript_of
from extras.cut.planning import CLIPPED, IN_A_CLIP, NOISE, SILENCE, TOO_LONG, TOO_SHORT, UNSURE
from extras.cut.profile import MIN_PAUSE_SECONDS
from extras.cut.recordings import CuttingError, open_recording
from extras.cut.speech_detection import MIN_TEXTLESS_PAUSE_SECONDS, find_detector
from machine import commands
from train.progress import clock
from train.settings import TrainSettings
from xtts.text.languages import short_code

log = logging.getLogger("train")

# The maximum numbers of lines in the report on the console.
_MAX_SHOWN_SENTENCES, _MAX_SHOWN_RECORDINGS, _MAX_SHOWN_PARTS = 20, 5, 5
_MAX_NAME_CHARACTERS = 60
# If a smaller share of the speech is in clips, the report warns.
_MIN_USED_SHARE = 0.5
_REMEDIES = {
    UNSURE: "compare the text with the speech there (report.html), correct it, and cut again",
    TOO_LONG: "its pauses are too short for cutting; with its text (--text FILE) 0.12 s are "
    "enough, otherwise record with longer ones and without background music",
    TOO_SHORT: "record whole sentences, not single words",
    CLIPPED: "it was recorded too loudly; record it again at a lower level",
}


def run(
    settings: TrainSettings,
    recordings: Sequence[Path],
    to: Path | None,
    text: Path | None,
    language: str,
    recogniser: Path | None = None,
    open_steps: Callable[[], Steps] = Steps,
) -> int:
    """Cuts, writes and reports; returns 0. Raises CuttingError, DiskFull (exit 74), WriteError.

    recogniser: a folder with a Whisper model, which transcribes the clips if there is no text.
    open_steps: opens the executor of the steps, here or on Ray.
    """
    if not recordings or to is None:
        raise CuttingError(
            f"cut needs recordings and a folder to write: {commands.program('train cut')} RECORDING… --to DIR"
        )
    if text is not None and recogniser is not None:
        raise CuttingError(
            f"--text {text} gives the transcript, so --recogniser {recogniser} has nothing to "
            "transcribe. Leave one of them out."
        )
    short, manuscript = short_code(language), None
    if text is None:
        method = _method_without_text(recogniser, language, short)
    else:
        manuscript = _read_manuscript(text, short)
        method = _method_with_text(settings, manuscript, text, len(recordings), language, short)
    existed, work = to.exists(), to / writing.WORK_FOLDER
    names = _recording_names(recordings)
    opened = [open_recording(path, name, work) for path, name in zip(recordings, names)]
    speech_by = find_detector().description
    log.info("Speech is detected by %s.", speech_by)
    fingerprint = cutter.fingerprint_of(opened, manuscript, method.name, speech_by)
    if not writing.claim(to, fingerprint):
        log.info("%s already contains this cut. Nothing was done.", to)
        return 0
    try:
        with (
            closing(open_steps()) as steps,
            closing(RecognitionJournal(work / "heard.jsonl", fingerprint)) as journal,
        ):
            result = method.cut(CutJob(opened, speech_by, journal, steps))
        _require_clips(result, manuscript, text, language)
    except CuttingError:
        if not existed or (work.is_dir() and not (to / "wavs").exists()):
            writing.abandon(to)
        raise
    writing.write(to, result, manuscript, fingerprint, speech_by)
    _log_report(to, result, manuscript, recogniser, short)
    return 0


def _read_manuscript(path: Path, short: str) -> Manuscript:
    notes = list[str]()
    manuscript = manuscript_of(read_cues(path, short, notes), short)
    for note in notes:
        log.info(note)
    return manuscript


def _require_clips(
    result: CutResult, manuscript: Manuscript | None, text: Path | None, language: str
) -> None:
    """Raises CuttingError for a cut without clips."""
    if any(recording.clips for recording in result.recordings):
        return
    cause = cutter.clipping_warning([recording.profile for recording in result.recordings])
    if text is not None and not cause:
        cause = f" Is {text} its text, and in {language}?"
    raise CuttingError(
        f"No clip could be cut: no speech of 1 to 11 s between pauses.{cause} {_summary(result, manuscript)}"
    )


class _Method(NamedTuple):
    """A method of cutting, with its name in the fingerprint."""

    name: str
    cut: Callable[[CutJob], CutResult]


def _method_without_text(recogniser: Path | None, language: str, short: str) -> _Method:
    if recogniser is None:
        # The old name of this method for English, which existing fingerprints contain.
        return _Method("en by words" if short == "en" else short, cutter.cut_by_speech)
    opened, sha256 = cutter.open_recogniser(recogniser, language)
    return _Method(
        f"{short} heard by {sha256}",
        lambda job: cutter.transcribe(cutter.cut_by_speech(job), opened, job.journal),
    )


def _method_with_text(
    settings: TrainSettings, text: Manuscript, path: Path, num_recordings: int, language: str, short: str
) -> _Method:
    """Cuts English by words if pocketsphinx is installed; otherwise by the text's times, or by the
    base model."""
    if short == "en" and importlib.util.find_spec("pocketsphinx") is not None:
        return _Method("en by words", lambda job: cut_by_words(job, text))
    if short == "en":
        how = "placed by its times alone" if text.is_timed else "aligned by the base model"
        log.info("pocketsphinx is not installed: the text is %s.", how)
    if not text.is_timed:
        base = load_base(settings, language)
        name = f"{short} by the base {base.sha256}"
        return _Method(name, lambda job: cut_by_base(job, text, base, language))
    if num_recordings > 1:
        raise CuttingError(f"{path} has the times of one recording, but {num_recordings} are given.")
    return _Method(short, lambda job: cutter.cut_by_cues(job, text))


def _log_report(
    to: Path, result: CutResult, text: Manuscript | None, recogniser: Path | None, short: str
) -> None:
    log.info("%s", _summary(result, text))
    if text is not None and result.unheard:
        _log_unheard_sentences(result, text)
    count = sum(len(cut.clips) for cut in result.recordings)
    log.info("%d clips in %s. Listen and correct: %s", count, to, to / "report.html")
    if text is None and recogniser is None:
        log.info(
            "They lack transcripts. Write each one after the bar in %s. "
            "report.html plays the clips and saves the file.",
            to / "metadata.csv",
        )
        log.info("Then train on it: %s", train_command(to, short))
        return
    if recogniser is not None:
        log.info("%s wrote their transcripts: check them first.", recogniser.name)
    if warning := little_used_warning([cut.seconds_by_reason() for cut in result.recordings]):
        log.warning("%s", warning)
    else:
        log.info("Train on it: %s", train_command(to, short))


def _log_unheard_sentences(result: CutResult, text: Manuscript) -> None:
    log.info("%d sentences of the text were not recognised:", len(result.unheard))
    for number in result.unheard[:_MAX_SHOWN_SENTENCES]:
        log.info("  %d: %s", number + 1, text.sentences[number])
    if len(result.unheard) > _MAX_SHOWN_SENTENCES:
        log.info("  and %d more, in report.html", len(result.unheard) - _MAX_SHOWN_SENTENCES)
    if result.moved:
        log.warning(
            "%d of them are spoken in another order than in the text, such as sentence %d. "
            "Put the text in the order of the recording, and cut into another folder.",
            len(result.moved),
            min(result.moved) + 1,
        )


def train_command(to: Path, language: str) -> str:
    """The command that trains on a dataset, in a separate OUTPUT_DIR. The demo speaks English
    only, so another language needs XTTS-v2."""
    run = shlex.quote(str(Path("runs") / to.resolve().name))
    base = "" if language == "en" else f"BASE_MODEL=xtts_v2 LANGUAGE={language} "
    return f"DATASET_DIR={shlex.quote(str(to))} {base}OUTPUT_DIR={run} {commands.make('train')}"


def _summary(result: CutResult, text: Manuscript | None) -> str:
    """A line for each recording, or for the first ones and in total; then the parts without a
    pause."""
    totals = [(cut.recording.name, cut.seconds_by_reason()) for cut in result.recordings]
    rows = totals[:_MAX_SHOWN_RECORDINGS]
    if len(totals) > len(rows):
        rows.append((f"All {len(totals):,} together", sum_by_reason([seconds for _, seconds in totals])))
    lines = []
    for name, seconds_by_reason in rows:
        parts = ", ".join(f"{seconds:.1f} s {reason}" for reason, seconds in seconds_by_reason.items())
        lines.append(f"{name}: {sum(seconds_by_reason.values()):.1f} s, of which {parts}.")
    min_pause_seconds = MIN_TEXTLESS_PAUSE_SECONDS if text is None else MIN_PAUSE_SECONDS
    return "\n".join(lines + parts_without_pause(result.recordings, min_pause_seconds))


def parts_without_pause(recordings: Sequence[CutRecording], min_pause_seconds: float) -> list[str]:
    """A line for each of the longest parts without a pause of `min_pause_seconds`."""
    parts = [
        ((row.last - row.first) / cut.recording.rate, row.first / cut.recording.rate, cut.recording.name)
        for cut in recordings
        for row in cut.rows
        if row.reason == TOO_LONG
    ]
    lines = [
        f"{name}: no pause of {min_pause_seconds:g} s from {clock(start)} to {clock(start + seconds)} "
        f"({seconds:.1f} s)."
        for seconds, start, name in sorted(parts, reverse=True)[:_MAX_SHOWN_PARTS]
    ]
    num_hidden = len(parts) - len(lines)
    return [*lines, f"{num_hidden} more without such a pause."] if num_hidden else lines


def little_used_warning(totals: Sequence[dict[str, float]]) -> str:
    """A warning if less than half of the speech is in clips, else "". totals: the seconds by
    reason, for each recording."""
    total = sum_by_reason(totals)
    left_out = {
        reason: seconds for reason, seconds in total.items() if reason not in (IN_A_CLIP, SILENCE, NOISE)
    }
    used_seconds = total.get(IN_A_CLIP, 0.0)
    speech_seconds = used_seconds + sum(left_out.values())
    if used_seconds >= _MIN_USED_SHARE * speech_seconds:
        return ""
    reason = max(left_out, key=lambda candidate: left_out[candidate])
    return (
        f"Only {used_seconds:.0f} of {speech_seconds:.0f} s of speech are in clips, which is little to "
        f"train on. Most of the rest ({left_out[reason]:.0f} s) is left out as {reason!r}: "
        f"{_REMEDIES[reason]}."
    )


def sum_by_reason(totals: Sequence[dict[str, float]]) -> dict[str, float]:
    """The seconds by reason over all recordings, largest first."""
    total = Counter[str]()
    for seconds_by_reason in totals:
        total.update(seconds_by_reason)
    return dict(sorted(total.items(), key=lambda item: (-item[1], item[0])))


def _recording_names(recordings: Sequence[Path]) -> list[str]:
    """A name for each recording, without characters that file names or metadata rows must not
    contain; equal names are numbered."""
    names = list[str]()
    for path in recordings:
        stem = re.sub(r"[^\w-]+", "-", path.stem).strip("-")[:_MAX_NAME_CHARACTERS] or "recording"
        name, number = stem, 2
        while name in names:
            name, number = f"{stem}-{number}", number + 1
        names.append(name)
    return names
