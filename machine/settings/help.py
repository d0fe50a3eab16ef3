"""Settings as text: --help, .env.example, docs/settings.md.

Written from the settings classes, so that a description is written once. tests/test_env_example.py
keeps the two files equal to this, and `python -m tests.test_env_example` writes them again.
"""

import inspect
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo

from machine.settings.types import fields, flag_of, means, shown
from machine.text import WIDTH, wrapped

PRECEDENCE = (
    "Command line, then environment, then .env, then default. An empty value is that setting's "
    "default, and still wins over the sources below it."
)
MORE = "What each may be, and more about it: docs/settings.md."
# Read by make and by Docker Compose from the same file; not by the programs.
HOUSE = (
    ("TORCH_BACKEND", "default", "The build of torch: default, auto, cpu, cu126 or cu130."),
    (
        "BASE_IMAGE",
        "python:3.11-slim",
        "What the images are built on; with a digest (…@sha256:…) it is the same every time.",
    ),
    ("DOCKER_RUNTIME", "runc", "nvidia gives both containers the GPU."),
)


@dataclass(frozen=True)
class Section:
    """Some settings under one title; inherited ones stand in a section of their own."""

    title: str
    kind: type[Any]

    def fields(self) -> dict[str, FieldInfo]:
        """The settings that `kind` itself declares, by their names in `.env`."""
        own = inspect.get_annotations(self.kind)
        return {name.upper(): info for name, info in fields(self.kind).items() if name in own}


def help_text(kind: type[Any]) -> str:
    """The flags of one program, a line each: its own, then the shared ones."""
    settings = {
        f"{flag_of(name)} {_default(info)}".rstrip(): info for name, info in fields(kind).items()
    }
    width = max(map(len, settings))
    lines = ["Settings, each with its default:", ""]
    for flag, info in settings.items():
        purpose = _purpose(info).partition(". ")[0].rstrip(".")
        lines.append(
            f"  {flag:{width}}  {textwrap.shorten(purpose, WIDTH - width - 4, placeholder=' …')}"
        )
    return "\n".join([*lines, "", *wrapped(PRECEDENCE, ""), *wrapped(MORE, "")])


def env_example(sections: Sequence[Section]) -> str:
    """`.env.example`: every setting at its default under its description."""
    parts = wrapped(f"Copy this file to .env and change what you like. {PRECEDENCE}", "# ")
    for section in sections:
        parts += ["", f"# ---- {section.title} ----"]
        for name, info in section.fields().items():
            parts += ["", *wrapped(_purpose(info), "# ")]
            parts += wrapped(f"Allowed: {means(info).allowed}.", "# ")
            parts.append(f"{name}={_in_dotenv(info)}")
    parts += ["", "# ---- Read by make and Docker Compose only ----"]
    for name, value, purpose in HOUSE:
        parts += ["", *wrapped(purpose, "# "), f"# {name}={value}"]
    return "\n".join(parts) + "\n"


def markdown(sections: Sequence[Section]) -> str:
    """docs/settings.md: the rules, and a table for each section."""
    parts = ["# Settings", "", PRECEDENCE, "", *_RULES]
    for section in sections:
        parts += [
            "",
            f"## {section.title}",
            "",
            "| Setting | Default | Allowed | What it is |",
        ]
        parts.append("|---|---|---|---|")
        for name, info in section.fields().items():
            default = f"`{_default(info)}`" if _default(info) else "(empty)"
            cells = (f"`{name}`", default, means(info).allowed, _purpose(info))
            parts.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    parts += ["", "## Read by make and Docker Compose only", ""]
    parts += ["| Setting | Default | What it is |", "|---|---|---|"]
    parts += [f"| `{name}` | `{value}` | {purpose} |" for name, value, purpose in HOUSE]
    return "\n".join(parts) + "\n"


_RULES = [
    "- On the command line a setting is a flag: `NUM_EPOCHS=3` is `--num-epochs 3`.",
    "- `MAX_TRAIN_SAMPLES= NUM_EPOCHS=100 make train` takes all clips, whatever `.env` says.",
    "- All faults are reported at once, each with the value, where it is set, and what is allowed.",
    "- A name in `.env` close to one of ours (`NUM_EPOCH`, `EPOCHS`) is refused with the name that",
    "  was probably meant, and so is another trainer's name for one of ours (`LR`, `BATCH_SIZE`,",
    "  `MAX_STEPS`). A common word (`PORT`, `MODEL`, `GPU`) may be another program's: the log says",
    "  what Sotaque calls it. The log lists all other names.",
    "- `.env` means the same here and in Docker Compose: `${NAME}` and `${NAME:-default}` are",
    "  filled in from the environment and the lines above. Any other `$` belongs in single quotes.",
]


def _purpose(info: FieldInfo) -> str:
    return " ".join((info.description or "").split())


def _default(info: FieldInfo) -> str:
    return shown(info, info.default)


def _in_dotenv(info: FieldInfo) -> str:
    """The default as `.env` has it: a folder begins with `./`, for podman-compose 1.0 takes
    `voices` for the name of a volume."""
    folder = isinstance(info.default, Path) and not info.default.is_absolute()
    return "./" * folder + _default(info)
