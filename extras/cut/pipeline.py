"""`python -m train cut RECORDING… --to DIR [--text FILE | --recogniser DIR] [--language L]`."""

import importlib.util
import logging
import re
import shlex
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from extras.common.steps import Steps
from extras.cut import cutter, writing
from extras.cut.by_base import base_that_aligns, cut_by_base
from extras.cut.by_words import cut_by_words
from extras.cut.cues import read_cues
from extras.cut.cutter import CutJob, CutResult
from extras.cut.journal import RecognitionJournal
from extras.cut.manuscript import Manuscript, manuscript_of
from extras.cut.planning import CLIPPED, IN_A_CLIP, NOISE, SILENCE, TOO_LONG, TOO_SHORT, UNSURE, Stretch
from extras.cut.profile import SHORTEST_PAUSE_SECONDS, SHORTEST_TEXTLESS_PAUSE_SECONDS, find_detector
from extras.cut.recordings import CuttingError, open_recording
from machine import commands
from train.progress import clock
from train.settings import TrainSettings
from xtts.text.languages import short_code

log = logging.getLogger("train")

_MAX_SENTENCES = 20
_MAX_RECORDINGS = 5
_MAX_PARTS = 5
_LONGEST_NAME = 60
_LITTLE_SHARE = 0.5
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
        method, cut = _without_text(recogniser, language, short)
    else:
        notes = list[str]()
        manuscript = manuscript_of(read_cues(text, short, notes), short)
        for note in notes:
            log.info(note)
        method, cut = _with_text(settings, manuscript, text, len(recordings), language, short)
    existed, work = to.exists(), to / writing.WORK
    opened = [open_recording(path, name, work) for path, name in zip(recordings, _names(recordings))]
    speech_by = find_detector().description
    log.info("Speech is detected by %s.", speech_by)
    fingerprint = cutter.fingerprint_of(opened, manuscript, method, speech_by)
    if not writing.claim(to, fingerprint):
        log.info("%s already contains this cut. Nothing was done.", to)
        return 0
    try:
        with (
            closing(open_steps()) as steps,
            closing(RecognitionJournal(work / "heard.jsonl", fingerprint)) as journal,
        ):
            result = cut(CutJob(opened, speech_by, journal, steps))
        if not any(recording.clips for recording in result.recordings):
            doubt = cutter.clipping([recording.profile for recording in result.recordings])
            if text is not None and not doubt:
                doubt = f" Is {text} its text, and in {language}?"
            raise CuttingError(
                f"No clip could be cut: no speech of 1 to 11 s between pauses.{doubt} "
                f"{_summary_lines(result, manuscript)}"
            )
    except CuttingError:
        if not existed or (work.is_dir() and not (to / "wavs").exists()):
            writing.abandon(to)
        raise
    writing.write(to, result, manuscript, fingerprint, speech_by)
    _tell(to, result, manuscript, recogniser, short)
    return 0


# A method of cutting: its name for the fingerprint, and the function.
_Method = tuple[str, Callable[[CutJob], CutResult]]


def _without_text(recogniser: Path | None, language: str, short: str) -> _Method:
    if recogniser is None:
        # The old name of this method for English, which existing fingerprints contain.
        return "en by words" if short == "en" else short, cutter.cut_by_speech
    ear, sha256 = cutter.open_recogniser(recogniser, language)
    return (
        f"{short} heard by {sha256}",
        lambda job: cutter.transcribe(cutter.cut_by_speech(job), ear, job.journal),
    )


def _with_text(
    settings: TrainSettings, text: Manuscript, path: Path, num_recordings: int, language: str, short: str
) -> _Method:
    """Cuts English by words if pocketsphinx is installed; otherwise by the text's times, or by the
    base model."""
    if short == "en" and importlib.util.find_spec("pocketsphinx") is not None:
        return "en by words", lambda job: cut_by_words(job, text)
    if short == "en":
        how = "placed by its times alone" if text.is_timed else "aligned by the base model"
        log.info("pocketsphinx is not installed: the text is %s.", how)
    if not text.is_timed:
        base = base_that_aligns(settings, language)
        method = f"{short} by the base {base.sha256}"
        return method, lambda job: cut_by_base(job, text, base, language)
    if num_recordings > 1:
        raise CuttingError(f"{path} has the times of one recording, but {num_recordings} are given.")
    return short, lambda job: cutter.cut_by_cues(job, text)


def _tell(to: Path, result: CutResult, text: Manuscript | None, recogniser: Path | None, short: str) -> None:
    log.info("%s", _summary_lines(result, text))
    if text is not None and result.unheard:
        log.info("%d sentences of the text were not recognised:", len(result.unheard))
        for number in result.unheard[:_MAX_SENTENCES]:
            log.info("  %d: %s", number + 1, text.sentences[number])
        if len(result.unheard) > _MAX_SENTENCES:
            log.info("  and %d more, in report.html", len(result.unheard) - _MAX_SENTENCES)
        if result.moved:
            log.warning(
                "%d of them are spoken in another order than in the text, such as sentence %d. "
                "Put the text in the order of the recording, and cut into another folder.",
                len(result.moved),
                min(result.moved) + 1,
            )
    count = sum(len(cut.clips) for cut in result.recordings)
    log.info("%d clips in %s. Listen and correct: %s", count, to, to / "report.html")
    if text is None and recogniser is None:
        log.info(
            "They lack transcripts. Write each one after the bar in %s. "
            "report.html plays the clips and saves the file.",
            to / "metadata.csv",
        )
        log.info("Then train on it: %s", train_command(to, short))
    else:
        if recogniser is not None:
            log.info("%s wrote their transcripts: check them first.", recogniser.name)
        if little := little_kept([cut.seconds_by_reason() for cut in result.recordings]):
            log.warning("%s", little)
        else:
            log.info("Train on it: %s", train_command(to, short))


def train_command(to: Path, language: str) -> str:
    """The command that trains on a dataset, in a separate OUTPUT_DIR. The demo speaks English
    only, so another language needs XTTS-v2."""
    run = shlex.quote(str(Path("runs") / to.resolve().name))
    base = "" if language == "en" else f"BASE_MODEL=xtts_v2 LANGUAGE={language} "
    return f"DATASET_DIR={shlex.quote(str(to))} {base}OUTPUT_DIR={run} {commands.make('train')}"


def _summary_lines(result: CutResult, text: Manuscript | None) -> str:
    """A line for each recording; for many, only the first ones, and a total."""
    totals = [(cut.recording.name, cut.seconds_by_reason()) for cut in result.recordings]
    rows = totals[:_MAX_RECORDINGS]
    if len(totals) > len(rows):
        rows.append((f"All {len(totals):,} together", sum_by_reason([row for _, row in totals])))
    lines = []
    for name, seconds_by in rows:
        parts = ", ".join(f"{seconds:.1f} s {reason}" for reason, seconds in seconds_by.items())
        lines.append(f"{name}: {sum(seconds_by.values()):.1f} s, of which {parts}.")
    accounts = [(cut.recording.name, cut.recording.rate, cut.rows) for cut in result.recordings]
    shortest = SHORTEST_TEXTLESS_PAUSE_SECONDS if text is None else SHORTEST_PAUSE_SECONDS
    return "\n".join(lines + without_pause(accounts, shortest))


def without_pause(recordings: Sequence[tuple[str, int, Sequence[Stretch]]], shortest: float) -> list[str]:
    """A line for each of the longest parts without a pause. recordings: name, rate in Hz, account;
    shortest: the shortest pause at which the recordings were cut, in seconds."""
    parts = [
        ((row.last - row.first) / rate, row.first / rate, name)
        for name, rate, rows in recordings
        for row in rows
        if row.reason == TOO_LONG
    ]
    lines = [
        f"{name}: no pause of {shortest:g} s from {clock(start)} to {clock(start + seconds)} "
        f"({seconds:.1f} s)."
        for seconds, start, name in sorted(parts, reverse=True)[:_MAX_PARTS]
    ]
    more = len(parts) - len(lines)
    return [*lines, f"{more} more without such a pause."] if more else lines


def little_kept(totals: Sequence[dict[str, float]]) -> str:
    """A warning if less than half of the speech is in clips, else "". totals: the seconds by
    reason, for each recording."""
    together = sum_by_reason(totals)
    speech = {
        reason: seconds for reason, seconds in together.items() if reason not in (IN_A_CLIP, SILENCE, NOISE)
    }
    used, left = together.get(IN_A_CLIP, 0.0), sum(speech.values())
    if used >= _LITTLE_SHARE * (used + left):
        return ""
    worst = max(speech, key=lambda reason: speech[reason])
    return (
        f"Only {used:.0f} of {used + left:.0f} s of speech are in clips, which is little to train "
        f"on. Most of the rest ({speech[worst]:.0f} s) is left out as {worst!r}: "
        f"{_REMEDIES[worst]}."
    )


def sum_by_reason(totals: Sequence[dict[str, float]]) -> dict[str, float]:
    """The seconds by reason over all recordings, largest first."""
    total = Counter[str]()
    for seconds_by in totals:
        total.update(seconds_by)
    return dict(sorted(total.items(), key=lambda item: (-item[1], item[0])))


def _names(recordings: Sequence[Path]) -> list[str]:
    """A name for each recording, without characters that file names or metadata rows must not
    contain; equal names are numbered."""
    names = list[str]()
    for path in recordings:
        plain = re.sub(r"[^\w-]+", "-", path.stem).strip("-")[:_LONGEST_NAME] or "recording"
        name, number = plain, 2
        while name in names:
            name, number = f"{plain}-{number}", number + 1
        names.append(name)
    return names
