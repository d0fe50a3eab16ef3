"""Tells what is suspect: a table for a person, worst first, and a CSV file with every figure."""

from collections.abc import Sequence
from pathlib import Path

from machine import text
from machine.storage.atomic import make_folder, replace_file
from machine.storage.csv_table import csv_bytes
from train.inspection.judging import Measurements, SuspectClip
from train.inspection.measuring import Inspection

TABLE_NAME = "inspection.csv"
_MOST_SHOWN = 20
_WORST_SHOWN = 3
_HEADER = (
    "clip", "severity", "kinds", "reasons", "characters_a_second", "nats_a_code", "text_evidence",
    "snr_db", "level_db", "clipped", "heard_hz", "lead_seconds", "tail_seconds", "dc_offset",
    "voice", "spoof_score", "copy_of",
)  # fmt: skip


def table(inspection: Inspection, suspects: Sequence[SuspectClip], path: Path) -> str:
    """What is printed. path: of the file with all the figures."""
    lines = list(inspection.notes)
    total = len(inspection.measured)
    if not suspects:
        lines.append(f"Suspect clips: none of {total}. Every figure is in {path}.")
        return "\n".join(lines)
    rows = [(one.name, f"{one.severity:8.1f}", one.reasons) for one in suspects[:_MOST_SHOWN]]
    lines += text.table([("suspect clip", "severity", "why"), *rows])
    if len(suspects) > _MOST_SHOWN:
        lines.append(f"… and {len(suspects) - _MOST_SHOWN} more")
    lines.append(
        f"Suspect clips: {len(suspects)} of {total}, to be heard; nothing was changed. "
        f"SUSPECT_CLIPS=leave_out trains without them. Every figure is in {path}."
    )
    return "\n".join(lines)


def worst(inspection: Inspection, suspects: Sequence[SuspectClip]) -> list[str]:
    """What the start of a run says where suspect clips are trained on; nothing where none is."""
    lines = list(inspection.notes)
    if suspects:
        shown = "\n".join(f"  {one.name}: {one.reasons}" for one in suspects[:_WORST_SHOWN])
        some = "The worst:" if len(suspects) > _WORST_SHOWN else "They are:"
        lines.append(
            f"Suspect clips: {len(suspects)} of {len(inspection.measured)}, trained on all the "
            f"same (SUSPECT_CLIPS=keep; leave_out trains without them). {some}\n{shown}\n"
            "`python -m train check` lists all of them and compares texts and sound."
        )
    return lines


def write(path: Path, inspection: Inspection, suspects: Sequence[SuspectClip]) -> None:
    """Writes every clip with its figures, suspect ones first, as CSV. Raises WriteError."""
    known = {one.name: one for one in suspects}
    order = {one.name: number for number, one in enumerate(suspects)}
    rows = sorted(inspection.measured, key=lambda one: order.get(one.name, len(order)))
    content = csv_bytes(_HEADER, (_row(one, known.get(one.name)) for one in rows))
    make_folder(path.parent)
    replace_file(path, lambda file: file.write(content))


def _row(clip: Measurements, suspect: SuspectClip | None) -> list[object]:
    sound, likely = clip.sound, clip.likelihood
    return [
        clip.name,
        round(suspect.severity, 2) if suspect else 0,
        " ".join(dict.fromkeys(one.kind for one in suspect.findings)) if suspect else "",
        suspect.reasons if suspect else "",
        round(clip.letters / max(sound.spoken_seconds, 0.1), 2),
        likely.nats if likely else "",
        likely.evidence if likely else "",
        round(sound.noise_db, 1),
        round(sound.level_db, 1),
        sound.clipped,
        round(sound.heard_hz),
        sound.lead_seconds,
        sound.tail_seconds,
        sound.offset,
        "" if clip.voice is None else round(clip.voice, 3),
        "" if clip.spoof is None else round(clip.spoof, 3),
        clip.copy_of,
    ]
