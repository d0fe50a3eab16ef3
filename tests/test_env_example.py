"""`.env.example` and docs/settings.md are what the settings classes say.

`python -m tests.test_env_example` writes both again.
"""

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic.fields import FieldInfo

from api import settings as api
from machine.settings.loading import PRECEDENCE, SharedSettings
from machine.settings.names import NAMES
from machine.settings.types import fields, means, purpose, shown
from machine.text import wrapped
from train import settings as train

ROOT = Path(__file__).parents[1]
Sections = dict[str, type[Any]]
SECTIONS: Sections = {
    "Training (python -m train)": train.TrainSettings,
    "Both programs": SharedSettings,
    "API (python -m api)": api.ApiSettings,
}
# Read by make and by Docker Compose from the same file; not by the programs.
HOUSE = (
    ("TORCH_BACKEND", "default", "The build of torch: default, auto, cpu, cu126 or cu130."),
    ("BASE_IMAGE", "python:3.11-slim",
     "What the images are built on; with a digest (…@sha256:…) it is the same every time."),
    ("DOCKER_RUNTIME", "runc", "nvidia gives both containers the GPU."),
)  # fmt: skip
RULES = [
    "- On the command line a setting is a flag: `NUM_EPOCHS=3` is `--num-epochs 3`.",
    "- `MAX_TRAIN_SAMPLES= NUM_EPOCHS=100 make train` uses all clips, whatever `.env` says.",
    "- All errors are reported at once, each with the value, where it is set, and what is allowed.",
    "- A name in `.env` close to one of ours (`NUM_EPOCH`, `EPOCHS`) is an error that names the",
    "  likely setting. So is the name that another trainer has for one of ours (`LR`,",
    "  `BATCH_SIZE`, `MAX_STEPS`). A common word (`PORT`, `MODEL`, `GPU`) may belong to another",
    "  program: the log says what Sotaque calls it. The log lists all other names.",
    "- `.env` means the same here and in Docker Compose: `${NAME}` and `${NAME:-default}` are",
    "  replaced by values from the environment and from the lines above. Put any other `$` in",
    "  single quotes.",
]


def own_fields(kind: type[Any]) -> dict[str, FieldInfo]:
    """The settings that a class itself declares, by their names in `.env`."""
    own = inspect.get_annotations(kind)
    return {name.upper(): info for name, info in fields(kind).items() if name in own}


def env_example(sections: Sections) -> str:
    """`.env.example`: every setting at its default under its description."""
    parts = wrapped(
        "Every setting with its default. Create a file .env with the lines that you change; leave "
        f"the others out. {PRECEDENCE}", "# ",
    )  # fmt: skip
    for title, kind in sections.items():
        parts += ["", f"# ---- {title} ----"]
        for name, info in own_fields(kind).items():
            parts += ["", *wrapped(purpose(info), "# ")]
            parts += wrapped(f"Allowed: {means(info).allowed}.", "# ")
            parts.append(f"{name}={in_dotenv(info)}")
    parts += ["", "# ---- Read by make and Docker Compose only ----"]
    for name, value, what in HOUSE:
        parts += ["", *wrapped(what, "# "), f"# {name}={value}"]
    return "\n".join(parts) + "\n"


def markdown(sections: Sections) -> str:
    """docs/settings.md: the rules, and a table for each section."""
    parts = ["# Settings", "", "Look up what a setting does, its default, and what it may be."]
    parts += ["", PRECEDENCE, "", *RULES]
    for title, kind in sections.items():
        parts += ["", f"## {title}", "", "| Setting | Default | Allowed | What it is |"]
        parts.append("|---|---|---|---|")
        for name, info in own_fields(kind).items():
            default = f"`{text}`" if (text := shown(info, info.default)) else "(empty)"
            cells = (f"`{name}`", default, means(info).allowed, purpose(info))
            parts.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    parts += ["", "## Read by make and Docker Compose only", ""]
    parts += ["| Setting | Default | What it is |", "|---|---|---|"]
    parts += [f"| `{name}` | `{value}` | {what} |" for name, value, what in HOUSE]
    return "\n".join(parts) + "\n"


def in_dotenv(info: FieldInfo) -> str:
    """The default as `.env` has it: a folder begins with `./`, for podman-compose 1.0 takes
    `voices` for the name of a volume."""
    folder = isinstance(info.default, Path) and not info.default.is_absolute()
    return "./" * folder + shown(info, info.default)


GENERATED = {".env.example": env_example, "docs/settings.md": markdown}


@pytest.mark.parametrize("name", GENERATED)
def test_the_file_is_what_the_classes_say(name):
    written = (ROOT / name).read_text(encoding="utf-8")
    assert written == GENERATED[name](SECTIONS), "run: python -m tests.test_env_example"


@pytest.mark.parametrize(
    ("load", "defaults"), [(train.load, train.TrainSettings), (api.load, api.ApiSettings)]
)
def test_the_example_is_every_default(load, defaults):
    path = ROOT / ".env.example"
    settings, report = load((), {}, path)
    assert settings == defaults()
    assert all(source.startswith(str(path)) for _, _, source in report.rows)
    # Whoever copies it has agreed to no licence.
    assert load is api.load or (report.notes == () and settings.coqui_tos_agreed is False)


def test_a_copied_example_names_no_volume_of_podmans():
    # podman-compose 1.0 (Debian 12) takes `voices` for a volume's name, `./voices` for a folder.
    lines = (ROOT / ".env.example").read_text(encoding="utf-8").splitlines()
    folders = [line.partition("=")[2] for line in lines if re.match(r"[A-Z0-9_]+_DIR=", line)]
    assert len(folders) == 9
    assert [folder for folder in folders if not folder.startswith("./")] == []


def test_the_names_are_those_of_the_classes():
    assert {name for kind in SECTIONS.values() for name in own_fields(kind)} == NAMES


def test_every_name_of_the_contract_is_there():
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
