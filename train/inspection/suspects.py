"""Which clips of a dataset are suspect: listed by `train check`, reported at the start of a run,
left out by SUSPECT_CLIPS.

Called by `train.check` and `train.setup`.
"""

import logging
from dataclasses import replace
from pathlib import Path

from machine.devices.selection import choose_feature_device
from train.dataset.dataset import Dataset, RejectedClip
from train.inspection import report
from train.inspection.judging import SuspectClip, find_suspects
from train.inspection.measuring import InspectionModels, inspect
from train.run_context import RunContext
from train.settings import TrainSettings

log = logging.getLogger("train")


def look(data: Dataset, models: InspectionModels) -> list[SuspectClip]:
    """Measures and judges every clip, logs the table, writes the CSV file; the suspect clips.

    Raises OutsideModelError, WriteError.
    """
    inspection = inspect(data, models)
    suspects = find_suspects(inspection.measured)
    path = models.cache_dir / report.TABLE_NAME
    report.write(path, inspection, suspects)
    log.info(report.table(inspection, suspects, path))
    return suspects


def report_kept(data: Dataset, models: InspectionModels) -> list[SuspectClip]:
    """SUSPECT_CLIPS=keep: logs how many clips are suspect and the worst of them by name; the
    suspect clips. The base model is not asked of each clip, which takes the longest.

    Raises OutsideModelError.
    """
    inspection = inspect(data, replace(models, with_likelihood=False))
    suspects = find_suspects(inspection.measured)
    for line in report.worst(inspection, suspects):
        log.warning(line)
    return suspects


def left_out(data: Dataset, models: InspectionModels) -> Dataset:
    """The dataset without its suspect clips, which are among the refused with their reasons.

    Raises DatasetError when nothing is left to learn from, OutsideModelError, WriteError.
    """
    reasons = {one.name: one.reasons for one in look(data, models)}
    rejected = [
        RejectedClip(clip.name, reasons[clip.name], "SUSPECT_CLIPS=keep")
        for clip in data.clips
        if clip.name in reasons
    ]
    return data.without(rejected)


def models_of(settings: TrainSettings, context: RunContext) -> InspectionModels:
    """What to look with, by the settings: the GPT on the device of the run."""
    speaker, spoof = (
        Path(place) if place else None for place in (settings.speaker_model, settings.spoof_model)
    )
    device = context.device.value
    return InspectionModels(
        context.base, context.config, context.tokenizer, device, settings.cache_dir, True, speaker,
        spoof, choose_feature_device(context.machine, device),
    )  # fmt: skip
