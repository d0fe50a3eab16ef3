"""Which clips of a dataset are suspect: told by `train check`, left out by SUSPECT_CLIPS.

Called by `train.check` and `train.setup`.
"""

import logging
from pathlib import Path

from machine.devices.selection import Choice
from train.dataset.clips import RejectedClip
from train.dataset.dataset import Dataset
from train.dataset.features import ON_CPU
from train.inspection import report
from train.inspection.judging import SuspectClip, find_suspects
from train.inspection.measuring import InspectionModels, inspect
from train.settings import TrainSettings
from xtts.model.config import ModelConfig
from xtts.text.tokenizer import Tokenizer

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


def models_of(
    settings: TrainSettings, base: Path, config: ModelConfig, tokenizer: Tokenizer, device: str,
    features_on: Choice = ON_CPU,
) -> InspectionModels:  # fmt: skip
    """What to look with, by the settings. device: of the GPT; features_on: of DVAE and mels."""
    speaker, spoof = (
        Path(place) if place else None for place in (settings.speaker_model, settings.spoof_model)
    )
    return InspectionModels(
        base, config, tokenizer, device, settings.cache_dir, True, speaker, spoof, features_on
    )
