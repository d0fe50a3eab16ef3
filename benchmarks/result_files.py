"""Results of benchmarks as files: what was measured, with its command, machine, date and commit.

`python -m benchmarks NAME --record` writes `benchmarks/results/NAME.json`; `--record VARIANT`
writes `NAME-VARIANT.json`. `figures` has the shape of what is printed, so that a new run puts
its figures where the goals (`benchmarks.goals`) look for them. docs/benchmarks.md and
benchmarks/record.md are generated from these files (`benchmarks.page`).
"""

import argparse
import json
import math
import os
import re
import shlex
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from machine.errors import SotaqueError

FOLDER = Path(__file__).parent / "results"
Subject = Literal[
    "Training", "Speaking", "Voice quality", "Evaluation", "Datasets", "Service", "Memory", "Tests", "GPU"
]
SUBJECTS: tuple[Subject, ...] = get_args(Subject)
# The section of each benchmark's results.
SUBJECT_OF: dict[str, Subject] = {
    "data": "Training",
    "gpu": "GPU",
    "guard": "Speaking",
    "loading": "Speaking",
    "memory": "Memory",
    "nearness": "Voice quality",
    "serving": "Service",
    "speaking": "Speaking",
    "text": "Speaking",
    "training": "Training",
}
# Below this load average, the machine is otherwise idle.
MAX_QUIET_LOAD = 0.5
_CPU_FEATURES = {
    "avx2": "AVX2",
    "avx512f": "AVX512",
    "avx512_bf16": "AVX512-bf16",
    "avx512_vnni": "VNNI",
    "avx_vnni": "VNNI",
    "amx_bf16": "AMX",
    "asimd": "NEON",
    "bf16": "bf16",
}
# Recording a result changes these files; they do not count as changes of the code.
_GENERATED = (":!benchmarks/results", ":!benchmarks/record.md", ":!docs/benchmarks.md")


class ResultError(SotaqueError):
    """A result file is incomplete or contradicts itself, or no result has a figure."""


class Result(BaseModel):
    """One run of one command.

    load: whether the machine was otherwise idle, in words. commit: of the measured code, with `+`
    if it had changes; None if unknown. runs_at: the last commit with this benchmark or its voice,
    if it was removed or replaced since. rounds: how often each figure was taken.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    subject: Subject
    title: str
    command: str
    machine: str
    load: str
    date: str | None
    commit: str | None
    runs_at: str | None = None
    recorded: Literal["by the benchmark", "by hand from the page", "by hand from a log"]
    rounds: int | None
    method: str = ""
    figures: dict[str, object]

    @field_validator("title", "command", "machine", "load")
    @classmethod
    def _check_not_empty(cls, text: str) -> str:
        if not text.strip():
            raise ValueError("it is empty")
        return text

    @field_validator("date")
    @classmethod
    def _check_date(cls, day: str | None) -> str | None:
        if day is not None:
            date.fromisoformat(day)
        return day

    @field_validator("commit", "runs_at")
    @classmethod
    def _check_commit(cls, commit: str | None) -> str | None:
        if commit is not None and not re.fullmatch(r"[0-9a-f]{7,40}\+?", commit):
            raise ValueError(f"{commit!r} is no commit")
        return commit

    @field_validator("figures")
    @classmethod
    def _check_figures(cls, figures: dict[str, object]) -> dict[str, object]:
        numbers = [value for value in leaves(figures) if isinstance(value, int | float)]
        if not numbers:
            raise ValueError("there is no figure in it")
        if not all(map(math.isfinite, numbers)):
            raise ValueError("a number in it is not finite")
        return figures


def leaves(figures: object) -> Iterable[object]:
    """Every single figure, at any depth."""
    if isinstance(figures, Mapping):
        figures = list(figures.values())
    if not isinstance(figures, list):
        yield figures
        return
    for value in figures:
        yield from leaves(value)


# ---- reading ----


def read(path: Path) -> Result:
    """A result. Raises ResultError with the missing or wrong field."""
    try:
        return Result.model_validate_json(path.read_text(encoding="utf-8"))
    except ValidationError as error:
        raise ResultError(f"{path.name}: {faults(error)}. Fix the file, or record it again.") from None


def faults(error: ValidationError) -> str:
    """The missing and wrong fields, in words."""
    words = []
    for fault in error.errors():
        name = ".".join(map(str, fault["loc"])) or "the file"
        words.append(f"{name} is missing" if fault["type"] == "missing" else f"{name}: {fault['msg']}")
    return "; ".join(words)


def read_all(folder: Path = FOLDER) -> dict[str, Result]:
    """Every result by the name of its file."""
    return {path.stem: read(path) for path in sorted(folder.glob("*.json"))}


def figure(results: Mapping[str, Result], path: str) -> Any:
    """The figure at `RESULT.KEY.KEY`, such as `loading-full.coqui.peak_gb`. Raises ResultError."""
    name, _, keys = path.partition(".")
    if name not in results:
        raise ResultError(f"{path}: there is no benchmarks/results/{name}.json.")
    figures = list(_values_at(results[name].figures, keys))
    if not figures:
        raise ResultError(f"{path}: benchmarks/results/{name}.json has no figure {keys!r}.")
    return figures[0]


def _values_at(node: object, path: str) -> Iterable[object]:
    """The values that the path may mean, because keys may contain dots."""
    if not path:
        yield node
    elif isinstance(node, Mapping | list):
        for key, value in node.items() if isinstance(node, Mapping) else enumerate(node):
            if path == str(key) or path.startswith(f"{key}."):
                yield from _values_at(value, path[len(str(key)) + 1 :])


# ---- recording ----


def facts_before() -> dict[str, object]:
    """The fields of a result that must be collected before a benchmark begins."""
    average = os.getloadavg()[0]
    load = f"{'quiet' if average < MAX_QUIET_LOAD else 'busy'}, load average {average:.1f}"
    today = datetime.now(UTC).date().isoformat()
    return {"machine": machine(), "load": load, "date": today, "commit": commit()}


def record(
    name: str,
    arguments: argparse.Namespace,
    words: Sequence[str],
    facts: Mapping[str, object],
    figures: object,
) -> Path:
    """Writes the result of a run. Fields that a person wrote into an earlier file of that name
    (title, method) stay. facts: from `facts_before`."""
    variant = arguments.record
    path = FOLDER / f"{name}{'-' * bool(variant)}{variant}.json"
    earlier = read(path) if path.exists() else None
    fields = {
        **facts,
        "subject": earlier.subject if earlier else SUBJECT_OF[name],
        "title": earlier.title if earlier else f"{name} {variant}".strip().replace("-", " "),
        "command": command(name, words),
        "recorded": "by the benchmark",
        "rounds": rounds(arguments),
        "method": earlier.method if earlier else "",
        "figures": json.loads(json.dumps(figures, default=str)),
    }
    try:
        result = Result.model_validate(fields)
    except ValidationError as error:
        raise ResultError(f"{path.name} is not written: {faults(error)}.") from None
    path.write_text(as_json(result), encoding="utf-8")
    return path


def rounds(arguments: argparse.Namespace) -> int | None:
    """How often each figure is taken: --rounds, or the number of --seeds."""
    count = getattr(arguments, "rounds", getattr(arguments, "seeds", None))
    return len(count) if isinstance(count, list) else count


def as_json(result: Result) -> str:
    """The text of a result file."""
    return json.dumps(result.model_dump(exclude_defaults=True), indent=1, ensure_ascii=False) + "\n"


def command(name: str, words: Sequence[str]) -> str:
    """The command as typed, without --record."""
    arguments = list(words)
    if "--record" in arguments:
        index = arguments.index("--record")
        has_value = arguments[index + 1 : index + 2] and not arguments[index + 1].startswith("-")
        del arguments[index : index + (2 if has_value else 1)]
    arguments = [word for word in arguments if not word.startswith("--record=")]
    return shlex.join([".venv/bin/python", "-m", "benchmarks", name, *arguments])


def machine() -> str:
    """One line: cores, model, instruction sets, memory, GPU."""
    rows = (line.partition(":") for line in _output("lscpu").splitlines())
    cpu = {name.strip(): value.strip() for name, _, value in rows}
    cores = len(os.sched_getaffinity(0))
    flags = cpu.get("Flags", "").split()
    features = list(dict.fromkeys(word for flag, word in _CPU_FEATURES.items() if flag in flags))
    if "avx2" in flags and "AMX" not in features:
        features.append("no AMX")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    processor = f"{cores} cores of {cpu.get('Model name', 'an unknown processor')}"
    gpus = _output("nvidia-smi", "--query-gpu=name", "--format=csv,noheader").replace("\n", ", ")
    with_features = f" ({', '.join(features)})" if features else ""
    return f"{processor}{with_features}, {memory / 1e9:.0f} GB, {gpus or 'no GPU'}"


def commit() -> str | None:
    """The checked-out commit, with `+` if a file of the code has changed."""
    root = str(Path(__file__).parents[1])
    head = _output("git", "-C", root, "rev-parse", "--short", "HEAD")
    changed = _output("git", "-C", root, "status", "--porcelain", "--", ".", *_GENERATED)
    return f"{head}{'+' if changed else ''}" if head else None


def _output(*words: str) -> str:
    """The output of a program; "" if it is missing or fails."""
    try:
        result = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return result.stdout.strip() if result.returncode == 0 else ""
