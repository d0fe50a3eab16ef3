"""The settings of both programs: command line, then environment, then `.env`, then default.

`train.settings` and `api.settings` each declare a frozen dataclass on top of `SharedSettings`;
`load` fills it and tells every fault at once. An empty value is that name's default and still wins
over what stands below it: `MAX_TRAIN_SAMPLES= make train` means all clips, whatever `.env` says.
No other module reads the environment.
"""

import difflib
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import StringConstraints, ValidationError
from pydantic.dataclasses import dataclass as settings_class
from pydantic.fields import FieldInfo

from xtts import dotenv
from xtts.errors import SotaqueError
from xtts.setting_types import (
    CONFIG,
    AutoCount,
    Folder,
    Means,
    Place,
    Switch,
    fields,
    means,
    shown,
)

S = TypeVar("S", bound="SharedSettings")

# Both programs share one `.env`, and neither may import the other: so each knows all the names, and
# a test keeps the two lists equal to the classes.
TRAIN_NAMES = frozenset(
    """DATASET_DIR MAX_TRAIN_SAMPLES NUM_EPOCHS LANGUAGE DATASET_FORMAT LEARNING_RATE BATCH_SECONDS
    PRECISION SAMPLE_DEVICE SAMPLE_TEXT SAMPLE_EVERY SAVE_EVERY KEEP_CHECKPOINTS RESUME SEED
    STOP_SECONDS VALIDATION_EVERY LOG_EVERY TENSORBOARD TENSORBOARD_PORT RUNS_DIR CACHE_DIR PREFETCH
    CONDITIONING DROPOUT WARMUP_STEPS WEIGHT_DECAY GRADIENT_CLIP TEXT_LOSS_WEIGHT
    AUDIO_LOSS_WEIGHT""".split()
)
API_NAMES = frozenset("API_HOST API_PORT API_KEY API_ALLOW_NO_KEY VOICE BACKEND LOW_MEMORY".split())
SHARED_NAMES = frozenset("BASE_MODEL DEVICE OUTPUT_DIR NUM_THREADS COQUI_TOS_AGREED".split())
NAMES = TRAIN_NAMES | API_NAMES | SHARED_NAMES

# Other programs' families in a shared `.env`: never taken for a slip of the pen.
FOREIGN = ("COMPOSE_", "DOCKER_", "BUILDKIT_", "TORCH_", "CUDA_", "NVIDIA_", "HF_", "UV_", "PIP_")


class SettingsError(SotaqueError):
    """Every fault of the settings at once, a line each; `faults` holds them one by one."""

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n  ".join(("The settings cannot be used:", *faults)))


@settings_class(frozen=True, kw_only=True, config=CONFIG)
class SharedSettings:
    """What both programs read."""

    base_model: Annotated[Place, Means("demo, xtts_v2, or a folder in Coqui's layout")] = "demo"
    """The model to start from. demo is in the package; xtts_v2 needs COQUI_TOS_AGREED."""
    device: Annotated[
        str,
        StringConstraints(pattern=r"^(auto|cpu|cuda(:\d{1,3})?)$"),
        Means("auto, cpu, cuda or cuda:N", words=True),
    ] = "auto"
    """Where to compute. auto is the GPU where it works, else the CPU; the log has the reason."""
    output_dir: Folder = Path("train/output")
    """The run folder: checkpoints, samples, metrics. The API finds its voices there."""
    num_threads: AutoCount = None
    """CPU threads. auto is what the machine, or the container's limit, offers."""
    coqui_tos_agreed: Switch = False
    """Set it to 1 once you have read and accepted Coqui's licence of XTTS-v2 (CPML: non-commercial,
    model and outputs). Nothing of it is downloaded or loaded before."""


@dataclass(frozen=True)
class Given:
    """A raw value and where it was written."""

    text: str
    source: str


@dataclass(frozen=True)
class Row:
    """One line of the resolved table; value as a person would write it, a secret masked."""

    name: str
    value: str
    source: str


@dataclass(frozen=True)
class Report:
    """Where each value came from, and what a person should know without it being a fault."""

    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    def table(self) -> str:
        """The resolved settings, a line each, then the notes."""
        name_width = max(len(row.name) for row in self.rows)
        value_width = max(len(row.value) for row in self.rows)
        lines = [
            f"{row.name:{name_width}}  {row.value:{value_width}}  {row.source}".rstrip()
            for row in self.rows
        ]
        return "\n".join([*lines, *self.notes])


def load(
    kind: type[S],
    argv: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
    dotenv_path: Path | None = Path(".env"),
) -> tuple[S, Report]:
    """The settings of one program and the report on them.

    argv: `--num-epochs 3 --tensorboard=off`. environ: None = this process's. dotenv_path: None =
    no file. Raises SettingsError with every fault of all three.
    """
    environ = os.environ if environ is None else environ
    ours = {name.upper(): info for name, info in fields(kind).items()}
    file = dotenv.DotEnv({})
    if dotenv_path is not None:
        file = dotenv.read(dotenv_path, environ, frozenset(ours))
    flags, flag_faults = _flags(argv, ours)
    faults = [*flag_faults, *file.faults, *_near_misses(file, dotenv_path)]
    given = _by_precedence(ours, flags, environ, file, dotenv_path)
    settings, value_faults = _validated(kind, ours, given)
    faults += value_faults
    if settings is None or faults:
        raise SettingsError(faults)
    foreign = sorted(set(file.lines) - NAMES)
    notes = [f"{dotenv_path}: not read by this program: {', '.join(foreign)}."] if foreign else []
    rows = tuple(
        Row(name, shown(info, getattr(settings, name.lower())),
            given[name].source if name in given else "default")
        for name, info in ours.items()
    )  # fmt: skip
    return settings, Report(rows, (*file.notes, *notes))


def meant(name: str, ours: Collection[str]) -> list[str]:
    """The names of ours that a person may have meant; empty when `name` is somebody else's.

    Close in spelling (NUM_EPOCH, num-epochs), or some of the words of one of ours (EPOCHS,
    MAX_SAMPLES); a short word alone (PORT, HOST) is too common for that.
    """
    plain = re.sub(r"[^A-Z0-9]+", "_", name.upper()).strip("_")
    if plain in ours:
        return [plain]
    if plain.startswith(FOREIGN):
        return []
    if close := difflib.get_close_matches(plain, sorted(ours), n=2, cutoff=0.8):
        return close
    words = set(plain.split("_"))
    return [one for one in sorted(ours) if len(plain) >= 6 and words < set(one.split("_"))][:2]


def _flags(
    argv: Sequence[str], ours: Mapping[str, FieldInfo]
) -> tuple[dict[str, Given], list[str]]:
    given: dict[str, Given] = {}
    faults: list[str] = []
    rest = list(argv)
    while rest:
        flag, equals, value = rest.pop(0).partition("=")
        name = flag[2:].replace("-", "_").upper()
        known = flag.startswith("--") and flag == flag.lower() and name in ours
        if not known:
            close = meant(name, ours) if flag.startswith("-") else []
            hint = f"; did you mean {flag_of(close[0])}?" if close else "; --help lists them."
            faults.append(f"{flag} is not a setting of this program{hint}")
            if close and not equals and rest and not rest[0].startswith("--"):
                rest.pop(0)
        elif not equals and (not rest or rest[0].startswith("--")):
            faults.append(f"{flag} has no value; allowed: {means(ours[name]).allowed}.")
        else:
            given[name] = Given(value if equals else rest.pop(0), "command line")
    return given, faults


def flag_of(name: str) -> str:
    """NUM_EPOCHS -> --num-epochs"""
    return "--" + name.lower().replace("_", "-")


def _near_misses(file: dotenv.DotEnv, path: Path | None) -> list[str]:
    return [
        f"{path}, line {line.number}: {name} is not a setting; did you mean {' or '.join(close)}?"
        for name, line in file.lines.items()
        if name not in NAMES and (close := meant(name, NAMES))
    ]


def _by_precedence(
    ours: Collection[str],
    flags: Mapping[str, Given],
    environ: Mapping[str, str],
    file: dotenv.DotEnv,
    path: Path | None,
) -> dict[str, Given]:
    given: dict[str, Given] = {}
    for name in ours:
        if name in flags:
            given[name] = flags[name]
        elif name in environ:
            given[name] = Given(environ[name], "environment")
        elif name in file.lines:
            given[name] = Given(file.lines[name].value, f"{path}, line {file.lines[name].number}")
    return given


def _validated(
    kind: type[S], ours: Mapping[str, FieldInfo], given: Mapping[str, Given]
) -> tuple[S | None, list[str]]:
    values: dict[str, Any] = {}
    for name, one in given.items():
        text, rule = one.text.strip(), means(ours[name])
        if text == "":
            continue
        if rule.none and text.lower() == rule.none:
            values[name.lower()] = None
        else:
            values[name.lower()] = text.lower() if rule.words else text
    try:
        return kind(**values), []
    except ValidationError as error:
        # A union reports one error for each of its kinds: one sentence a setting is enough.
        named = dict.fromkeys(str(item["loc"][0]).upper() for item in error.errors() if item["loc"])
        whole = [str(item["ctx"]["error"]) for item in error.errors() if not item["loc"]]
        return None, [_sentence(name, ours[name], given[name]) for name in named] + whole


def _sentence(name: str, info: FieldInfo, given: Given) -> str:
    value = "********" if means(info).secret else repr(given.text)
    return f"{name} is {value} ({given.source}); allowed: {means(info).allowed}."
