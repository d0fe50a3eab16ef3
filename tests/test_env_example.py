"""`.env.example` and docs/settings.md agree with the settings classes.

`python -m tests.test_env_example` writes both again.
"""

import importlib
import re
from pathlib import Path

import pytest
from pydantic.fields import FieldInfo

from api import settings as api
from machine import extras
from machine.settings.loading import PRECEDENCE, every_name, with_extras
from machine.settings.names import CORE_SETTINGS
from machine.settings.types import display, fields, means, purpose
from machine.text import wrap
from train import settings as train

ROOT = Path(__file__).parents[1]
TRAINING, SERVICE = with_extras(train.TrainSettings), with_extras(api.ApiSettings)
# Tasks of the user, with their settings. Every setting is in one group.
GROUPS = {
    "Your clips": """DATASET_DIR LANGUAGE MAX_TRAIN_SAMPLES DATASET_FORMAT SUSPECT_CLIPS
        SPEAKER_MODEL SPOOF_MODEL""",
    "The base model": "BASE_MODEL COQUI_TOS_AGREED XTTS_V2_DIR HF_ENDPOINT",
    "A run": """NUM_EPOCHS OUTPUT_DIR RESUME EARLY_STOPPING SAVE_EVERY KEEP_CHECKPOINTS
        TENSORBOARD TENSORBOARD_PORT RUNS_DIR CACHE_DIR SEED STOP_SECONDS""",
    "Listening and evaluation": """SAMPLE_TEXT SAMPLE_EVERY SAMPLE_DEVICE EVALUATE_TEXTS
        EVALUATE_RECOGNISER EVALUATE_NATURALNESS BLEND LEARN_DECODER""",
    "Device, memory and speed": """DEVICE LORA_RANK GRADIENT_CHECKPOINTING OPTIMIZER
        BATCH_SECONDS PRECISION NUM_THREADS""",
    "Speaking": "VOICE SPEAK_PRECISION LOW_MEMORY BACKEND GUARD WATERMARK PRONUNCIATIONS",
    "Serving": """API_PORT API_HOST API_KEY API_ALLOW_NO_KEY API_ALLOWED_ORIGINS API_ALLOWED_HOSTS
        API_STRICT WYOMING_PORT WYOMING_ANNOUNCE""",
    "Recording, training and books on the page": """API_ALLOW_TRAINING VOICES_DIR DATASETS_DIR
        DATASETS_MAX_GB DATASETS_HOST_PATH DATASET_ROOTS QUEUE_DIR CUT_RECOGNISER BOOKS_DIR
        BOOKS_MAX_GB""",
    "Experiments": "LEARNING_RATE REHEARSAL",
}
# The settings that most people need, each with an example.
EXAMPLES = {
    "Your clips": {
        "DATASET_DIR": "./clips/anna",
        "LANGUAGE": "en",
        "MAX_TRAIN_SAMPLES": "100",
        "OUTPUT_DIR": "./runs/anna",
        "RESUME": "never",
    },
    "XTTS-v2 instead of the small demo model": {
        "BASE_MODEL": "xtts_v2",
        "COQUI_TOS_AGREED": "1",
        "NUM_EPOCHS": "10",
    },
    "A small graphics card (docs/hardware.md)": {"LORA_RANK": "16"},
    "Listening": {"SAMPLE_TEXT": "It is a good day."},
    "Serving": {
        "VOICE": "best",
        "API_PORT": "8005",
        "API_HOST": "0.0.0.0",
        "API_KEY": "a-long-secret",
        "API_ALLOW_TRAINING": "off",
    },
}
# Make and Docker Compose read these from the same file; the programs do not.
HOUSE = (
    (
        "COMPOSE_FILE",
        "docker-compose-training.yml",
        "The file that `docker compose up` reads: this one trains, docker-compose-gpu.yml serves.",
    ),
    (
        "TORCH_BACKEND",
        "cpu",
        "The build of torch: default, auto, cpu (3 GB smaller), cu126 (older drivers) or cu130.",
    ),
    (
        "BASE_IMAGE",
        "python:3.11-slim",
        "The base of the images. With a digest (…@sha256:…) it never changes.",
    ),
    ("DOCKER_RUNTIME", "nvidia", "Gives the containers the GPU. Without it they use the CPU."),
)
RULES = [
    "- On the command line a setting is a flag: `NUM_EPOCHS=3` is `--num-epochs 3`.",
    "- `MAX_TRAIN_SAMPLES= NUM_EPOCHS=100 make train` uses all clips, whatever `.env` says.",
    "- All errors are reported at once, each with the value, where it is set, and what is allowed.",
    "- A name in `.env` close to one of ours (`NUM_EPOCH`, `EPOCHS`) is an error that names the",
    "  likely setting. So is the name that another trainer has for one of ours (`LR`,",
    "  `BATCH_SIZE`, `MAX_STEPS`). A common word (`PORT`, `MODEL`, `GPU`) may belong to another",
    "  program: the log says what Sotaque calls it. The log lists all other names.",
    "- A name in `.env` that is no longer a setting is not an error: the log says what holds now.",
    "- `.env` means the same here and in Docker Compose: `${NAME}` and `${NAME:-default}` are",
    "  replaced by values from the environment and from the lines above. Put any other `$` in",
    "  single quotes.",
]


def every_field() -> dict[str, FieldInfo]:
    """The settings of both programs, by their names in `.env`."""
    both = {**fields(TRAINING), **fields(SERVICE)}
    return {name.upper(): info for name, info in both.items()}


def readers(name: str) -> str:
    """The programs that read a setting."""
    kinds = {"training": TRAINING, "service": SERVICE}
    return ", ".join(word for word, kind in kinds.items() if name.lower() in fields(kind))


def env_example() -> str:
    """`.env.example`: the settings that most people need, commented out, each with an example."""
    parts = wrap(
        "Create a file .env with the lines that you need, without the # in front. The values here "
        "are examples. docs/settings.md has the other settings, and every default.",
        "# ",
    )
    infos = every_field()
    for title, examples in EXAMPLES.items():
        parts += ["", f"# ---- {title} ----"]
        for name, value in examples.items():
            parts += ["", *wrap(purpose(infos[name]), "# "), f"# {name}={value}"]
    parts += ["", "# ---- Docker Compose and make ----"]
    for name, value, what in HOUSE:
        parts += ["", *wrap(what, "# "), f"# {name}={value}"]
    return "\n".join(parts) + "\n"


def markdown() -> str:
    """docs/settings.md: the rules, and a table for each group."""
    parts = ["# Settings", "", "Every setting, its default and its allowed values. Most people need"]
    parts += ["only those in [.env.example](../.env.example).", "", PRECEDENCE, "", *RULES]
    infos = every_field()
    for title, names in GROUPS.items():
        parts += ["", f"## {title}", "", "| Setting | Default | Allowed | Meaning | Read by |"]
        parts.append("|---|---|---|---|---|")
        for name in names.split():
            info = infos[name]
            default = f"`{text}`" if (text := display(info, info.default)) else "(empty)"
            cells = (f"`{name}`", default, means(info).allowed, purpose(info), readers(name))
            parts.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    parts += ["", "## Docker Compose and make", ""]
    parts += ["| Variable | Example | Meaning |", "|---|---|---|"]
    parts += [f"| `{name}` | `{value}` | {what} |" for name, value, what in HOUSE]
    return "\n".join(parts) + "\n"


ALL_EXTRAS = set(extras.names()) == set(importlib.import_module("extras").NAMES)
GENERATED = {".env.example": env_example, "docs/settings.md": markdown}


@pytest.mark.skipif(not ALL_EXTRAS, reason="docs/settings.md has the settings of every extra")
@pytest.mark.parametrize("name", GENERATED)
def test_the_file_is_what_the_classes_say(name):
    written = (ROOT / name).read_text(encoding="utf-8")
    assert written == GENERATED[name](), "run: python -m tests.test_env_example"


@pytest.mark.parametrize(("load", "defaults"), [(train.load, TRAINING), (api.load, SERVICE)])
def test_a_copied_example_changes_nothing(load, defaults):
    settings, report = load((), {}, ROOT / ".env.example")
    assert settings == defaults()
    assert report.notes == () and settings.coqui_tos_agreed is False


@pytest.mark.parametrize("load", [train.load, api.load])
def test_every_example_is_accepted(tmp_path, load):
    text = (ROOT / ".env.example").read_text(encoding="utf-8")
    path = tmp_path / ".env"
    path.write_text(re.sub(r"^# (?=[A-Z_0-9]+=)", "", text, flags=re.M))
    _, report = load((), {}, path)
    given = {name: value for name, value, source in report.rows if source.startswith(str(path))}
    examples = {name for rows in EXAMPLES.values() for name in rows}
    assert given.keys() == examples & {name for name, *_ in report.rows}
    assert len(examples) == 15


def test_an_example_names_no_volume_of_podmans():
    # podman-compose 1.0 (Debian 12) takes `voices` for a volume's name, `./voices` for a folder.
    every = {name: value for rows in EXAMPLES.values() for name, value in rows.items()}
    folders = [value for name, value in every.items() if name.endswith("_DIR")]
    assert len(folders) == 2
    assert [folder for folder in folders if not folder.startswith("./")] == []


def test_every_setting_is_in_one_group():
    grouped = [name for names in GROUPS.values() for name in names.split()]
    assert len(set(grouped)) == len(grouped) and every_name() <= set(grouped)
    assert not ALL_EXTRAS or every_name() == set(grouped)


def test_the_names_are_those_of_the_classes():
    core = {**fields(train.TrainSettings), **fields(api.ApiSettings)}
    assert {name.upper() for name in core} == CORE_SETTINGS
    assert every_field().keys() == every_name()


def test_every_name_of_the_contract_is_there():
    contract = """BASE_MODEL DATASET_DIR DATASET_FORMAT LANGUAGE MAX_TRAIN_SAMPLES NUM_EPOCHS
        LEARNING_RATE BATCH_SECONDS PRECISION DEVICE SAMPLE_DEVICE SAMPLE_TEXT SAMPLE_EVERY
        SAVE_EVERY KEEP_CHECKPOINTS RESUME SEED STOP_SECONDS TENSORBOARD TENSORBOARD_PORT OUTPUT_DIR
        RUNS_DIR COQUI_TOS_AGREED API_HOST API_PORT API_KEY API_ALLOW_NO_KEY VOICE BACKEND
        LOW_MEMORY GUARD""".split()
    assert set(contract) <= CORE_SETTINGS
    assert not {name for name, *_ in HOUSE} & CORE_SETTINGS


if __name__ == "__main__":
    for name, text in GENERATED.items():
        (ROOT / name).write_text(text(), encoding="utf-8")
