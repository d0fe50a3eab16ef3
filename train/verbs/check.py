"""`python -m train check`: checks the dataset and trains nothing."""

import argparse
import json
import logging
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from machine import commands, extras
from machine.text import enumeration, table
from train.settings import TrainSettings

if TYPE_CHECKING:
    from train.dataset.dataset import Dataset
    from train.dataset.entries import TranscriptEntry
    from train.dataset.rows import Transcript
    from train.run_context import RunContext

log = logging.getLogger("train")

_ROWS_SHOWN = 3

SUMMARY = """check the sound and the text of the dataset; train nothing
--show-text      print how the transcripts are read
--no-likelihood  skip the slowest check
--verify         compare the feature cache with its hashes
--repair         compute damaged records of the feature cache again
--json           print what was found as JSON; the log goes to stderr"""
PURPOSE = "Checks the sound and the text of the dataset. Trains nothing."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the verb."""
    add = parser.add_argument
    add("--verify", action="store_true", help="compare the feature cache with its hashes")
    add("--repair", action="store_true", help="compute damaged records of the cache again")
    add(
        "--no-likelihood",
        action="store_true",
        help="skip the likelihood of each clip under the base model, the slowest check",
    )
    add("--show-text", action="store_true", help="print how the transcripts are read")
    add("--json", action="store_true", help="print the findings; the log goes to stderr")


def run(settings: TrainSettings, arguments: argparse.Namespace) -> int:
    """Prints the transcript as parsed, the refused and the suspect clips, and the totals. Returns 0
    if any clips remain, and 2 if --verify finds a damaged record. For a LANGUAGE that neither the
    base nor XTTS-v2 speaks, first prints how to add it, then raises the error that a training
    raises, too.
    """
    from train.dataset import features
    from train.dataset.metadata import read_transcript
    from train.run_context import build_context

    transcript = read_transcript(settings.dataset_dir, settings.dataset_format, settings.language)
    log.info(_as_understood(transcript, settings.dataset_dir))
    # A program that reads JSON gets only the error.
    if not arguments.json and (languages := extras.first("LANGUAGES")):
        languages.report_lacking(settings)
    # The check covers all clips: SUSPECT_CLIPS must not leave any out before the table.
    context = build_context(replace(settings, suspect_clips="keep"))
    if arguments.show_text:
        _show_texts(context)
    log.info(context.data.report())
    if arguments.repair:
        repaired = features.build(
            context.data, context.base, context.config, settings.cache_dir, context.device.features
        ).repair()
        log.info("Features: %d damaged records were computed again. %s", len(repaired), enumeration(repaired))
    elif arguments.verify:
        return _verify(settings, context)
    else:
        likely = not arguments.no_likelihood
        suspects = [
            suspect
            for check in extras.modules("CLIPS")
            for suspect in check.look(settings, context, with_likelihood=likely)
        ]
        if arguments.json:
            findings = _findings(context.data, suspects, settings.dataset_dir)
            sys.stdout.write(json.dumps(findings) + "\n")
    return 0


def _as_understood(transcript: "Transcript", folder: Path) -> str:
    """A table of a few rows as understood, from different speakers if possible."""
    from train.dataset.entries import short, shown_path

    rows = [("file", "text", "speaker", "language")]
    for entry in _some(transcript.entries):
        missing = "" if entry.path.is_file() else " (no such file)"
        name = f"{shown_path(entry.path, folder)}{missing}"
        rows.append((name, short(entry.text), entry.speaker, entry.language))
    total = len(transcript.entries)
    count = f"{len(rows) - 1} of {total} rows" if total > 1 else "1 row"
    return "\n".join([f"{transcript.source}: {count} as understood", *table(rows)])


def _some(entries: Sequence["TranscriptEntry"]) -> list["TranscriptEntry"]:
    """The first row, then rows of other speakers and languages or, if there are none, rows from the
    middle and the end."""
    numbered = reversed(list(enumerate(entries)))
    first = {(entry.speaker, entry.language): place for place, entry in numbered}
    spread = (len(entries) // 2, len(entries) - 1, *range(len(entries)))
    places = dict.fromkeys((*sorted(first.values()), *spread))
    return [entries[place] for place in sorted(list(places)[:_ROWS_SHOWN])]


class Suspect(Protocol):
    """A suspect clip, as an extra's `CLIPS` reports it (`train.run_context`)."""

    name: str
    severity: float
    reasons: Sequence[str]


def _findings(data: "Dataset", suspects: Sequence[Suspect], folder: Path) -> dict[str, object]:
    """What `--json` prints: totals, refused clips, and suspect clips with the worst first."""
    from train.dataset.entries import shown_path

    names = {shown_path(clip.path, folder): clip.name for clip in data.clips}
    return {
        "clips": len(data.train),
        "minutes": round(data.minutes(data.train), 2),
        "validation_clips": len(data.validation),
        "refused": [{"clip": clip.name, "seen": clip.seen, "allowed": clip.allowed} for clip in data.refused],
        "suspects": [
            {"clip": names[suspect.name], "severity": round(suspect.severity, 2), "reasons": suspect.reasons}
            for suspect in suspects
        ],
    }


def _show_texts(context: "RunContext") -> None:
    """Logs each transcript that is not read as it is written, with its reading."""
    log.info("Transcripts are read by %s.", context.config.normalizer)
    same = 0
    for clip in context.data.clips:
        words = context.tokenizer.read(clip.text, clip.language).words
        if words == " ".join(clip.text.lower().split()):
            same += 1
        else:
            log.info("%s\n  written: %s\n  read:    %s", clip.name, clip.text, words)
    log.info("%d of %d clips are read exactly as written.", same, len(context.data.clips))


def _verify(settings: TrainSettings, context: "RunContext") -> int:
    from train.dataset import features

    cache = features.FeatureCache(context.data.clips, context.base, context.config, settings.cache_dir)
    missing, damaged = cache.missing(), cache.damaged_clips()
    whole = len(context.data.clips) - len(missing) - len(damaged)
    log.info(
        "Features: %d records are intact, %d are missing and will be computed at the next start, "
        "%d are damaged.",
        whole,
        len(missing),
        len(damaged),
    )
    if damaged:
        repair = commands.program("train check --repair")
        names = enumeration([clip.name for clip in damaged])
        log.info("Damaged: %s. Repair them with: %s", names, repair)
    return 2 if damaged else 0
