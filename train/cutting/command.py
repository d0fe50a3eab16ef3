"""`python -m train cut RECORDING… --to DIR [--text FILE | --recogniser DIR] [--language L]`."""

import contextlib
import importlib.util
import logging
import re
from collections.abc import Sequence
from pathlib import Path

from train.cutting import cutter, dataset_folder
from train.cutting.alignment.manuscript import Manuscript, manuscript_of
from train.cutting.alignment.text_files import read_cues
from train.cutting.cutter import CutResult
from train.cutting.errors import CuttingError
from train.cutting.journal import HeardJournal
from train.cutting.report import write_report
from train.cutting.sound import SourceRecording, open_recording
from train.cutting.speech import SpeechDetector, find_detector
from train.cutting.transcribing import open_recogniser, transcribed

log = logging.getLogger("train")

_MOST_SENTENCES = 20
_LONGEST_NAME = 60


def run(
    recordings: Sequence[Path], to: Path | None, text: Path | None, language: str,
    recogniser: Path | None = None,
) -> int:  # fmt: skip
    """Cuts, writes and tells; 0. Raises CuttingError, DiskFull (exit 74) and WriteError.

    recogniser: a folder with a Whisper model, which writes the transcripts where there is no text.
    """
    if not recordings or to is None:
        raise CuttingError(
            "cut needs recordings and a folder to write: python -m train cut RECORDING… --to DIR"
        )
    short = language.lower().split("-")[0]
    if text is not None and recogniser is not None:
        raise CuttingError(
            f"--text {text} says what is spoken, so that --recogniser {recogniser} has nothing to "
            "write. Leave one of them out."
        )
    manuscript = None if text is None else manuscript_of(read_cues(text), short)
    by_words = short == "en" and _by_words(manuscript)
    _check_text(manuscript, text, recordings, by_words, short)
    existed = to.exists()
    work = to / dataset_folder.WORK
    opened = [
        open_recording(path, name, work) for path, name in zip(recordings, _names(recordings))
    ]
    detectors = [find_detector() for _ in opened]
    log.info("Speech is found by %s.", detectors[0].told)
    way = f"{short} by words" if by_words else short
    ear = None if recogniser is None else open_recogniser(recogniser, language)
    if ear is not None:
        way = f"{short} heard by {ear[1]}"
    fingerprint = cutter.fingerprint_of(opened, manuscript, way, detectors[0])
    if not dataset_folder.claim(to, fingerprint):
        log.info("%s holds this cut already; nothing was done.", to)
        return 0
    try:
        result = _cut(opened, manuscript, detectors, by_words, work, fingerprint)
        if ear is not None:
            with contextlib.closing(HeardJournal(work / "heard.jsonl", fingerprint)) as journal:
                result = transcribed(result, ear[0], journal)
        if not any(one.clips for one in result.recordings):
            doubt = "" if text is None else f" Is {text} the text of it, and in {language}?"
            raise CuttingError(
                f"No clip could be cut: no speech of 1 to 11 s between pauses.{doubt} "
                f"{_told(result)}"
            )
    except CuttingError:
        if not existed or (work.is_dir() and not (to / "wavs").exists()):
            dataset_folder.abandon(to)
        raise
    _write(to, result, manuscript, fingerprint, detectors[0].told)
    _tell(to, result, manuscript, recogniser)
    return 0


def _by_words(text: Manuscript | None) -> bool:
    """Whether an English text is followed word by word, which needs pocketsphinx; its own times,
    where it has some, are taken without."""
    if text is None or not text.is_timed or importlib.util.find_spec("pocketsphinx") is not None:
        return True
    log.info("pocketsphinx is not installed: the text is placed by its times alone.")
    return False


def _check_text(
    text: Manuscript | None, path: Path | None, recordings: Sequence[Path], by_words: bool,
    language: str,
) -> None:  # fmt: skip
    if text is None or by_words:
        return
    if not text.is_timed:
        raise CuttingError(
            f"{path} has no times, and a text is aligned with the sound in English only "
            f"(--language {language}). Give a text with times (srt, vtt, lab, TextGrid), or cut "
            "without --text and fill the transcripts in."
        )
    if len(recordings) > 1:
        raise CuttingError(f"{path} has the times of one recording; {len(recordings)} are named.")


def _cut(
    recordings: Sequence[SourceRecording], text: Manuscript | None,
    detectors: Sequence[SpeechDetector], by_words: bool, work: Path, fingerprint: str,
) -> CutResult:  # fmt: skip
    if text is None:
        return cutter.cut_by_speech(recordings, detectors)
    if by_words:
        return cutter.cut_by_words(recordings, text, detectors, work, fingerprint)
    return cutter.cut_by_cues(recordings, text, detectors)


def _write(
    to: Path, result: CutResult, text: Manuscript | None, fingerprint: str, detector: str
) -> None:
    clips = dataset_folder.write_clips(to, result)
    dataset_folder.write_account(to, result)
    unheard = [text.sentences[number] for number in result.unheard] if text else []
    write_report(to, clips, result, unheard)
    dataset_folder.write_metadata(to, clips)
    dataset_folder.write_finished(to, result, text, fingerprint, detector)


def _tell(to: Path, result: CutResult, text: Manuscript | None, recogniser: Path | None) -> None:
    log.info("%s", _told(result))
    if text is not None and result.unheard:
        log.info("%d sentences of the text were not heard:", len(result.unheard))
        for number in result.unheard[:_MOST_SENTENCES]:
            log.info("  %d: %s", number + 1, text.sentences[number])
        if len(result.unheard) > _MOST_SENTENCES:
            log.info("  and %d more, in report.html", len(result.unheard) - _MOST_SENTENCES)
    count = sum(len(one.clips) for one in result.recordings)
    log.info("%d clips in %s. Listen and correct: %s", count, to, to / "report.html")
    if text is None and recogniser is None:
        log.info(
            "They have no transcripts yet. Write what each says behind its bar in %s; "
            "report.html plays them and gives the filled file.", to / "metadata.csv",
        )  # fmt: skip
    else:
        if recogniser is not None:
            log.info("Their transcripts are what %s heard: read them first.", recogniser.name)
        log.info("Train on it: DATASET_DIR=%s make train", to)


def _told(result: CutResult) -> str:
    lines = []
    for one in result.recordings:
        parts = ", ".join(f"{seconds:.1f} s {reason}"
                          for reason, seconds in dataset_folder.totals(one).items())  # fmt: skip
        lines.append(f"{one.recording.name}: {one.recording.seconds:.1f} s, of which {parts}.")
    return "\n".join(lines)


def _names(recordings: Sequence[Path]) -> list[str]:
    """A name for each, without what file names or rows may not hold; twins are numbered."""
    found = list[str]()
    for path in recordings:
        plain = re.sub(r"[^\w-]+", "-", path.stem).strip("-")[:_LONGEST_NAME] or "recording"
        name, number = plain, 2
        while name in found:
            name, number = f"{plain}-{number}", number + 1
        found.append(name)
    return found
