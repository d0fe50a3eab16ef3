"""Caches the probe's verdict until the driver, torch or the GPU changes.

The key is a hash of everything that the verdict depends on and that can be read without touching a
GPU: torch and its build, the driver, the cards, the library search path, the boot. An unreadable
file counts as an empty cache. The file does not identify a card: its UUID is only in the hash.
"""

import contextlib
import hashlib
import importlib.util
import json
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from machine.devices.health import GpuHealth, Outcome, read_as
from machine.storage.atomic import WriteError, write_json
from machine.storage.hashes import stamp_of
from machine.storage.reading import read_json, read_text

log = logging.getLogger(__name__)

SCHEMA = 1
DAY_SECONDS = 24 * 3600.0
# How far the clock that runs during sleep may move against the one that does not.
_SLEPT_SECONDS = 2.0
_SOON = frozenset(
    {Outcome.TRANSIENT, Outcome.HANG, Outcome.CRASH, Outcome.STICKY, Outcome.COULD_NOT_RUN}
)
_KEPT = 7
SEARCHED = ("LD_LIBRARY_PATH", "LD_PRELOAD")
_VARIABLES = (*SEARCHED, "CUDA_VISIBLE_DEVICES", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")


@dataclass(frozen=True)
class ProbeMoment:
    """The time of a check: seconds since 1970, and how long the machine has slept since its boot.

    A laptop's driver may be broken after sleep (error 999), so a check from before a sleep does not
    count.
    """

    now: float
    slept: float

    @classmethod
    def present(cls) -> "ProbeMoment":
        slept = time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)
        return cls(time.time(), slept)


def longest_age(gpu: GpuHealth) -> float:
    """Seconds for which a verdict holds: a week if everything passed, a day if the build or the
    driver is at fault, ten minutes if the cause may be temporary."""
    if gpu.outcome is Outcome.OK:
        return 7 * DAY_SECONDS
    passing = {one.outcome for one in gpu.operations if not one.ok} & _SOON
    return 600.0 if gpu.outcome in _SOON or passing else DAY_SECONDS


def read(path: Path, key: str, moment: ProbeMoment) -> tuple[GpuHealth, ...] | None:
    """The cached GPUs of `key`, with later run-time faults; None if there is no fresh entry."""
    content = _content(path)
    try:
        kept = content["checks"][key]
        gpus = tuple(read_as(GpuHealth, one) for one in kept["gpus"])
        age = moment.now - kept["at"]
        woken = abs(moment.slept - kept["slept"]) > _SLEPT_SECONDS
        if woken or not 0 <= age < min(map(longest_age, gpus), default=600.0):
            return None
        if any(stamp(file) != seen for file, seen in kept["libraries"].items()):
            return None
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    return with_surprises(path, gpus, moment)


def with_surprises(
    path: Path, gpus: Iterable[GpuHealth], moment: ProbeMoment
) -> tuple[GpuHealth, ...]:
    """`gpus` with their run-time faults of the last day that the check did not predict."""
    recent: dict[int, str] = {}
    with contextlib.suppress(KeyError, TypeError, ValueError, AttributeError):
        for one in _content(path)["surprises"]:
            if 0 <= moment.now - one["at"] < DAY_SECONDS:
                recent[int(one["index"])] = str(one["words"])
    return tuple(replace(gpu, surprise=recent.get(gpu.index, "")) for gpu in gpus)


def known(path: Path, key: str) -> bool:
    """Whether this machine has been checked before: if so, the next check is a warm one."""
    checks = _content(path).get("checks")
    return isinstance(checks, dict) and key in checks


def write(path: Path, key: str, gpus: Sequence[GpuHealth], moment: ProbeMoment) -> None:
    """Stores one check; a file that cannot be written is skipped."""
    files = {file for gpu in gpus for file in gpu.libraries.values()}
    kept = {
        "at": moment.now,
        "slept": moment.slept,
        "gpus": [gpu.as_dict() | {"surprise": ""} for gpu in gpus],
        "libraries": {file: stamp(file) for file in sorted(files)},
    }
    before = _content(path)
    checks = before.get("checks")
    others = [one for one in (checks if isinstance(checks, dict) else {}).items() if one[0] != key]
    # Another library path has another key, so the last few checks are kept.
    content = {"checks": dict([*others[-_KEPT:], (key, kept)])}
    _write(path, {"schema": SCHEMA, **content, "surprises": before.get("surprises", [])})


def surprised(path: Path, index: int, words: str, moment: ProbeMoment) -> None:
    """Deletes every cached check and stores the reason: a run-time fault that none predicted."""
    before = _content(path).get("surprises", [])
    kept = [one for one in before if isinstance(one, dict)] if isinstance(before, list) else []
    fault = {"at": moment.now, "index": index, "words": words[:300]}
    _write(path, {"schema": SCHEMA, "checks": {}, "surprises": [*kept[-9:], fault]})


def key_of(environ: Mapping[str, str], root: Path = Path("/")) -> str:
    """A hash of everything that a check depends on, computed without torch and without a GPU.

    Tests pass another `root`.
    """
    cards = sorted((root / "proc/driver/nvidia/gpus").glob("*/information"))
    torch = importlib.util.find_spec("torch")
    build = Path(torch.origin).parent / "version.py" if torch and torch.origin else None
    searched = [
        folder
        for name in SEARCHED
        for folder in environ.get(name, "").replace(" ", ":").split(":")
        if folder
    ]
    facts = {
        "schema": SCHEMA,
        "torch": [str(build), read_text(build) if build else ""],
        "driver": read_text(root / "proc/driver/nvidia/version"),
        "cards": [read_text(path) for path in cards],
        "devices": sorted(
            path.name for kind in ("nvidia*", "dxg") for path in (root / "dev").glob(kind)
        ),
        "environment": {name: environ.get(name) for name in _VARIABLES},
        "searched": {folder: stamp(folder) for folder in searched},
        "installed": stamp(str(root / "etc/ld.so.cache")),
        "boot": read_text(root / "proc/sys/kernel/random/boot_id").strip(),
        "image": _image(read_text(root / "proc/self/mountinfo")),
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def stamp(path: str) -> list[Any] | None:
    """A file's resolved path, size and modification time; None if it does not exist."""
    with contextlib.suppress(OSError):
        return list(stamp_of(path))
    return None


def _image(mounts: str) -> str:
    """The layers of a container's root file system; "" outside of a container."""
    for line in mounts.splitlines():
        if line.split()[4:5] == ["/"] and " overlay " in line:
            layers = [part for part in line.replace(" ", ",").split(",") if "lowerdir=" in part]
            return "".join(layers)
    return ""


def _content(path: Path) -> dict[str, Any]:
    content = read_json(path)
    return content if content.get("schema") == SCHEMA else {}


def _write(path: Path, content: dict[str, Any]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, content)
    except (OSError, WriteError, ValueError) as error:
        log.debug("The GPU check could not be cached: %s", error)
