"""The errors that would stop a run, as JSON: `python -m …training_preflight [DOTENV | --values]`.

Prints a list of messages; always exits with 0. Downloads nothing and decodes no clip. The
doctor runs it in a child process. `--values` checks only the settings in a JSON object on stdin;
the service checks a training job with it.
"""

import json
import sys
from pathlib import Path

from machine.errors import SotaqueError
from machine.settings.loading import SettingsError
from machine.settings.types import flag_of
from train.settings import TrainSettings, load


def refusals(dotenv: Path = Path(".env")) -> list[str]:
    """The errors of the settings; if there are none, those of the base model and the dataset."""
    try:
        settings, _ = load((), None, dotenv)
    except SotaqueError as error:
        return [str(error)]
    sentences = []
    for look in (_base, _dataset):
        try:
            look(settings)
        except SotaqueError as error:
            sentences.append(str(error))
    return sentences


def refused_values(values: dict[str, str]) -> list[str]:
    """An error for each value that its setting refuses. values: texts by names of settings."""
    try:
        load([f"{flag_of(name)}={value}" for name, value in values.items()], {}, None)
    except SettingsError as error:
        return list(error.faults)
    return []


def _base(settings: TrainSettings) -> None:
    from train import base_model

    folder = base_model.named_base(settings)
    if settings.base_model not in ("demo", "xtts_v2"):
        base_model.check_base(folder)


def _dataset(settings: TrainSettings) -> None:
    from train.dataset.metadata import read_entries

    read_entries(settings.dataset_dir, settings.dataset_format, settings.language)


if __name__ == "__main__":
    if sys.argv[1:] == ["--values"]:
        sentences = refused_values(json.load(sys.stdin))
    else:
        sentences = refusals(*map(Path, sys.argv[1:]))
    sys.stdout.write(json.dumps(sentences) + "\n")
    sys.exit(0)
