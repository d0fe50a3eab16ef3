"""`.env.example` and docs/settings.md are what the settings classes say.

`python -m tests.test_env_example` writes both again.
"""

import re
from pathlib import Path
from typing import Any

import pytest

from api import settings as api
from machine.settings.help import HOUSE, Section, env_example, markdown
from machine.settings.loading import SharedSettings
from machine.settings.names import API_NAMES, NAMES, SHARED_NAMES, TRAIN_NAMES
from train import settings as train

ROOT = Path(__file__).parents[1]
SECTIONS = (
    Section("Training (python -m train)", train.TrainSettings),
    Section("Both programs", SharedSettings),
    Section("API (python -m api)", api.ApiSettings),
)
GENERATED = {".env.example": env_example, "docs/settings.md": markdown}


@pytest.mark.parametrize("name", GENERATED)
def test_the_file_is_what_the_classes_say(name: str) -> None:
    written = (ROOT / name).read_text(encoding="utf-8")
    assert written == GENERATED[name](SECTIONS), "run: python -m tests.test_env_example"


@pytest.mark.parametrize(
    ("load", "defaults"), [(train.load, train.TrainSettings), (api.load, api.ApiSettings)]
)
def test_the_example_is_every_default(load: Any, defaults: Any) -> None:
    path = ROOT / ".env.example"
    settings, report = load((), {}, path)
    assert settings == defaults()
    assert all(row.source.startswith(str(path)) for row in report.rows)
    # Whoever copies it has agreed to no licence.
    assert load is api.load or (report.notes == () and settings.coqui_tos_agreed is False)


def test_a_copied_example_names_no_volume_of_podmans() -> None:
    # podman-compose 1.0 (Debian 12) takes `voices` for a volume's name, `./voices` for a folder.
    lines = (ROOT / ".env.example").read_text(encoding="utf-8").splitlines()
    folders = [line.partition("=")[2] for line in lines if re.match(r"[A-Z0-9_]+_DIR=", line)]
    assert len(folders) == 7
    assert [folder for folder in folders if not folder.startswith("./")] == []


@pytest.mark.parametrize(
    ("section", "names"), list(zip(SECTIONS, (TRAIN_NAMES, SHARED_NAMES, API_NAMES), strict=True))
)
def test_the_names_are_those_of_the_classes(section: Section, names: frozenset[str]) -> None:
    assert set(section.fields()) == names


def test_every_name_of_the_contract_is_there() -> None:
    contract = """BASE_MODEL DATASET_DIR DATASET_FORMAT LANGUAGE MAX_TRAIN_SAMPLES NUM_EPOCHS
        LEARNING_RATE BATCH_SECONDS PRECISION DEVICE SAMPLE_DEVICE SAMPLE_TEXT SAMPLE_EVERY
        SAVE_EVERY KEEP_CHECKPOINTS RESUME SEED STOP_SECONDS TENSORBOARD TENSORBOARD_PORT OUTPUT_DIR
        RUNS_DIR COQUI_TOS_AGREED API_HOST API_PORT API_KEY API_ALLOW_NO_KEY VOICE BACKEND
        LOW_MEMORY GUARD""".split()
    assert set(contract) <= NAMES
    assert not {name for name, *_ in HOUSE} & NAMES


if __name__ == "__main__":
    for name, text in GENERATED.items():
        (ROOT / name).write_text(text(SECTIONS), encoding="utf-8")
