"""`python -m train extend`: writes a base model with an added language."""

import json
import logging
import shlex
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, BinaryIO, cast

import torch

from extras.languages.extension_plan import ExtensionPlan, plan_of
from extras.languages.rows import TABLES, extended_tables
from extras.languages.vocabulary import MAX_PIECES
from machine import commands
from machine.errors import SotaqueError
from machine.storage.files import replace_file
from machine.storage.folders import replacing_folder
from train import base_model
from train.export import copy_file, refuse_other_files
from train.progress import CountingFile, Progress
from train.settings import TrainSettings
from xtts.model import discriminators
from xtts.model.config import with_normalizer
from xtts.model.loading import read_tensors

log = logging.getLogger("train")

# Copied unchanged, if the base has them.
_COPIED = ("dvae.pth", "mel_stats.pth", "CARD.md", "reference.wav", "speakers_xtts.pth", discriminators.FILE)


def run(
    settings: TrainSettings,
    *,
    to: Path,
    dataset: Path | None,
    like: str | None = None,
    max_pieces: int | None = None,
) -> int:
    """Runs the command. dataset: None for DATASET_DIR; like, max_pieces: as in `plan_of`.

    Raises ExtensionError, DatasetError, SotaqueError for a folder with other files, and the errors
    of BASE_MODEL.
    """
    if dataset is not None:
        settings = replace(settings, dataset_dir=dataset)
    refuse_other_files(to)
    if max_pieces is not None and max_pieces < 0:
        raise SotaqueError(f"--pieces {max_pieces}: give a number of at least 0.")
    base = base_model.chosen_base(settings)
    pieces = MAX_PIECES if max_pieces is None else max_pieces
    plan = plan_of(settings, base, like=like, max_pieces=pieces)
    log.info(plan.report())
    write(plan, to)
    log.info(
        "%s is the extended base, with the licence of the base: %s. Train on it with:\n"
        "  BASE_MODEL=%s LANGUAGE=%s DATASET_DIR=%s %s",
        to,
        plan.config.licence,
        shlex.quote(str(to)),
        plan.language,
        shlex.quote(str(settings.dataset_dir)),
        commands.make("train"),
    )
    return 0


def write(plan: ExtensionPlan, to: Path) -> None:
    """Writes the extended base into a temporary folder, and renames it when it is complete. Raises
    DiskFull, WriteError, ConfigError."""
    state = read_tensors(plan.base / "model.pth")
    state = state | extended_tables(state, plan.vocabulary.first_id, plan.sources)
    num_bytes = sum(tensor.nbytes for tensor in state.values())
    with replacing_folder(to, num_bytes) as part:
        _write_json(part / "vocab.json", plan.vocabulary.content)
        _write_json(part / "config.json", extended_config(plan, len(state[TABLES[0]])))
        with Progress("Writing model.pth", num_bytes / 1e6, "MB") as progress:
            replace_file(
                part / "model.pth",
                lambda file: torch.save({"model": state}, cast(BinaryIO, CountingFile(file, progress))),
            )
        for name in _COPIED:
            if (plan.base / name).is_file():
                copy_file(plan.base / name, part / name)


def extended_config(plan: ExtensionPlan, text_ids: int) -> dict[str, Any]:
    """The content of the extended base's config.json. text_ids: the rows of its text tables."""
    content: dict[str, Any] = json.loads((plan.base / "config.json").read_text(encoding="utf-8"))
    content["languages"] = [*plan.config.languages, plan.language]
    content["model_args"] = (content.get("model_args") or {}) | {"gpt_number_text_tokens": text_ids}
    content = with_normalizer(content, plan.config.normalizer)
    section = content["sotaque"]
    section["extensions"] = [asdict(extension) for extension in (*plan.config.extensions, plan.extension)]
    return content


def _write_json(path: Path, content: dict[str, object]) -> None:
    """Writes JSON like Coqui: a config.json may contain `Infinity`, which strict JSON lacks."""
    text = json.dumps(content, indent=1, ensure_ascii=False)
    replace_file(path, lambda file: file.write(text.encode()))
