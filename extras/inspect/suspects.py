"""Reports the suspect clips of a dataset, and with SUSPECT_CLIPS=leave_out removes them.

`train check` lists them and a run reports them at its start: a table, worst first, and a CSV file
with all figures. `train.verbs.check` and `train.run_context` call it.
"""

import logging
from collections.abc import Sequence
from pathlib import Path

from extras.common.csv_table import csv_bytes
from extras.common.onnxruntime.sessions import ModelRefused, RuntimeMissing
from extras.inspect.measuring import dependency_hash, inspect
from extras.inspect.outliers import ClipMeasurements, SuspectClip, find_suspects
from extras.inspect.outside_models import OutsideModelError
from machine import commands, text
from machine.storage.facts import Facts
from machine.storage.files import make_folder, replace_file
from train.dataset.dataset import Dataset, RejectedClip
from train.dataset.entries import shown_path
from train.run_context import RunContext
from train.settings import TrainSettings

log = logging.getLogger("train")

TABLE_NAME = "inspection.csv"
_MAX_LISTED = 20
_NUM_WORST = 3
_HEADER = (
    "clip",
    "severity",
    "kinds",
    "reasons",
    "characters_a_second",
    "nats_a_code",
    "text_evidence",
    "snr_db",
    "level_db",
    "clipped",
    "heard_hz",
    "lead_seconds",
    "tail_seconds",
    "dc_offset",
    "voice",
    "spoof_score",
    "copy_of",
)


def look(settings: TrainSettings, context: RunContext, *, with_likelihood: bool = True) -> list[SuspectClip]:
    """Measures and judges all clips, logs the table and writes the CSV file. Returns the suspect
    clips.

    Raises OutsideModelError, WriteError.
    """
    measured, notes = inspect(settings, context, with_likelihood=with_likelihood)
    suspects = find_suspects(measured)
    path = settings.cache_dir / TABLE_NAME
    _write_csv(path, measured, suspects)
    log.info("\n".join([*notes, *_table(len(measured), suspects, path)]))
    return suspects


def report_kept(settings: TrainSettings, context: RunContext) -> None:
    """SUSPECT_CLIPS=keep: logs the number of suspect clips and the worst by name, without the slow
    likelihood check.

    The report is cached for the next start with the same clips, because comparing 100,000 clips
    with each other takes minutes. An unusable SPEAKER_MODEL or SPOOF_MODEL ends the report, but not
    the run.
    """
    try:
        _report(settings, context)
    except (OutsideModelError, ModelRefused, RuntimeMissing) as error:
        log.warning("The check for suspect clips is skipped: %s", error)


def _report(settings: TrainSettings, context: RunContext) -> None:
    facts, stamp = Facts(settings.cache_dir, "suspects"), dependency_hash(settings, context)
    if (report := facts.get("report", stamp)) is None:
        measured, notes = inspect(settings, context, with_likelihood=False)
        suspects = find_suspects(measured)
        worst = [[suspect.name, suspect.reasons] for suspect in suspects[:_NUM_WORST]]
        report = [notes, len(suspects), len(measured), worst]
        if len(measured) == len(context.data.clips):  # no clip was unreadable
            facts.put("report", report, stamp)
            facts.save()
    notes, count, total, worst = report
    for note in notes:
        log.warning(note)
    if count:
        rows = "\n".join(f"  {name}: {reasons}" for name, reasons in worst)
        heading = "The worst:" if count > _NUM_WORST else "They are:"
        log.warning(
            f"Suspect clips: {count} of {total}, used for training "
            f"(SUSPECT_CLIPS=keep; leave_out trains without them). {heading}\n{rows}\n"
            f"`{commands.program('train check')}` lists all of them, and also compares texts with "
            "sound."
        )


def without_suspects(settings: TrainSettings, context: RunContext) -> Dataset:
    """The dataset without its suspect clips, which are listed as refused, with their reasons.

    Raises DatasetError if no clips are left, OutsideModelError, WriteError.
    """
    reasons = {suspect.name: suspect.reasons for suspect in look(settings, context)}
    return context.data.without(
        [
            RejectedClip(clip.name, reasons[file], "SUSPECT_CLIPS=keep")
            for clip in context.data.clips
            if (file := shown_path(clip.path, settings.dataset_dir)) in reasons
        ]
    )


def _table(total: int, suspects: Sequence[SuspectClip], path: Path) -> list[str]:
    """The printed lines; `path` is the file with all figures."""
    if not suspects:
        return [f"Suspect clips: none of {total}. Every figure is in {path}."]
    rows = [(suspect.name, f"{suspect.severity:8.1f}", suspect.reasons) for suspect in suspects[:_MAX_LISTED]]
    lines = list(text.table([("suspect clip", "severity", "why"), *rows]))
    if len(suspects) > _MAX_LISTED:
        lines.append(f"… and {len(suspects) - _MAX_LISTED} more")
    lines.append(
        f"Suspect clips: {len(suspects)} of {total}. Listen to them; nothing was changed. "
        f"SUSPECT_CLIPS=leave_out trains without them. Every figure is in {path}."
    )
    return lines


def _write_csv(path: Path, measured: Sequence[ClipMeasurements], suspects: Sequence[SuspectClip]) -> None:
    """Writes all clips with their figures as CSV, suspect ones first. Raises WriteError."""
    by_name = {suspect.name: suspect for suspect in suspects}
    order = {suspect.name: number for number, suspect in enumerate(suspects)}
    clips = sorted(measured, key=lambda clip: order.get(clip.name, len(order)))
    content = csv_bytes(_HEADER, (_row(clip, by_name.get(clip.name)) for clip in clips))
    make_folder(path.parent)
    replace_file(path, lambda file: file.write(content))


def _row(clip: ClipMeasurements, suspect: SuspectClip | None) -> list[object]:
    sound = clip.sound
    return [
        clip.name,
        round(suspect.severity, 2) if suspect else 0,
        " ".join(dict.fromkeys(finding.kind for finding in suspect.findings)) if suspect else "",
        suspect.reasons if suspect else "",
        round(clip.num_letters / max(sound.spoken_seconds, 0.1), 2),
        "" if clip.nats_per_code is None else clip.nats_per_code,
        "" if clip.text_evidence is None else clip.text_evidence,
        round(sound.noise_db, 1),
        round(sound.level_db, 1),
        sound.clipped,
        round(sound.heard_hz),
        sound.lead_seconds,
        sound.tail_seconds,
        sound.offset,
        "" if clip.voice_likeness is None else round(clip.voice_likeness, 3),
        "" if clip.spoof_score is None else round(clip.spoof_score, 3),
        clip.copy_of,
    ]
