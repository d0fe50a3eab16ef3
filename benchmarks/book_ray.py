"""A book read by workers of Ray beside one process: time, CPU time, and which files differ.

For `python -m benchmarks book --parts ray`. Each way is `xtts read` in a child, on one thread: four
sentences at once, which is the default without Ray; one at a time, whose bytes are Ray's; workers
of Ray; and the same, where a worker is killed and another one stands still for a while.
"""

import contextlib
import hashlib
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from benchmarks import measuring
from xtts.encoding import aac_is_installed

KILLED_AFTER_SENTENCES = 8
LATE_SECONDS = 10.0
# The rate is measured, the report names the folder, the lock the process.
_NOT_COMPARED = ("plan.json", "report.html", ".lock")
_LOOK_SECONDS = 0.25


def ways(book: Path, voice: str, workers: int, work: Path) -> dict[str, Any]:
    """Reads a book in each way.

    Returns:
        ways: The seconds of each, start included, and the CPU seconds of all its processes; with
        Ray also how many files differ from those of one sentence at a time.
        times: How much faster it is with Ray, as a ratio of seconds.

    Raises:
        ChildFailed: A reading failed, or nobody was killed.
    """
    over_ray = ("--ray", "--workers", str(workers))
    asked: dict[str, tuple[Undisturbed, Sequence[str]]] = {
        "four": (Undisturbed(), ()),
        "one": (Undisturbed(), ("--at-once", "1")),
        "ray": (Undisturbed(), over_ray),
        "killed": (Disturbed(work / "killed/sentences"), over_ray),
    }
    found = dict[str, dict[str, Any]]()
    for name, (watcher, words) in asked.items():
        found[name] = _reading(book, voice, work / name, watcher, words)
        print(f"{name}: {found[name]}", file=sys.stderr, flush=True)
    files = _hashes(work / "one")
    for name in ("ray", "killed"):
        others = _hashes(work / name)
        found[name]["different_files"] = sum(
            files.get(path) != others.get(path) for path in files.keys() | others.keys()
        )
    return {
        "sentences": _num_sentences(work / "one/sentences"),
        "files": len(files),
        "workers": workers,
        "ways": found,
        "times": round(found["one"]["seconds"] / found["ray"]["seconds"], 2),
    }


def _tree(pid: int) -> list[psutil.Process]:
    """A process and all that it has started, as far as they are there."""
    with contextlib.suppress(psutil.NoSuchProcess):
        child = psutil.Process(pid)
        return [child, *child.children(recursive=True)]
    return []


class Undisturbed:
    """Counts the CPU seconds of a reading and of all that it started, each as it was seen last."""

    def __init__(self) -> None:
        self._seconds: dict[int, float] = {}

    def look(self, pid: int) -> None:
        for one in _tree(pid):
            with contextlib.suppress(psutil.NoSuchProcess):
                times = one.cpu_times()
                self._seconds[one.pid] = times.user + times.system

    @property
    def cpu_seconds(self) -> float:
        return sum(self._seconds.values())

    def let_go(self) -> None:
        """Lets go on what it has stopped; once the reading has ended."""

    def check(self) -> None:
        """Raises ChildFailed where nothing was disturbed that should have been."""


class Disturbed(Undisturbed):
    """Also kills a worker that is at work, and lets another one stand still. sentences: where the
    reading writes them."""

    def __init__(self, sentences: Path) -> None:
        super().__init__()
        self._sentences = sentences
        self._late: psutil.Process | None = None
        self._until = 0.0

    def look(self, pid: int) -> None:
        super().look(pid)
        if self._late is not None and time.monotonic() > self._until:
            self.let_go()
        if self._late is None and _num_sentences(self._sentences) >= KILLED_AFTER_SENTENCES:
            with contextlib.suppress(psutil.NoSuchProcess):
                workers = [one for one in _tree(pid) if "ray::say_one" in " ".join(one.cmdline())]
                if len(workers) > 1:
                    workers[0].kill()
                    workers[1].suspend()
                    self._late, self._until = workers[1], time.monotonic() + LATE_SECONDS

    def let_go(self) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            if self._late is not None:
                self._late.resume()

    def check(self) -> None:
        if self._late is None:
            raise measuring.ChildFailed(
                "The book was read before two workers were seen at work, so none was killed. Ask "
                "for more words."
            )


def _reading(
    book: Path, voice: str, to: Path, watcher: Undisturbed, words: Sequence[str] = ()
) -> dict[str, Any]:
    forms = "flac,mp3,m4b" if aac_is_installed() else "flac,mp3"
    command = ["env", "OMP_NUM_THREADS=1", sys.executable, "-m", "xtts", "read", str(book),
               "--voice", voice, "--to", str(to), "--format", forms, "--captions", "json",
               *words]  # fmt: skip
    began = time.perf_counter()
    try:
        code, _ = measuring.watched(command, watcher.look, _LOOK_SECONDS)
    finally:
        watcher.let_go()  # a worker of a reading that has failed would stand still for ever
    seconds = time.perf_counter() - began
    if code:
        raise measuring.ChildFailed(f"{' '.join(command)} ended with {code}.")
    watcher.check()
    return {"seconds": round(seconds, 1), "cpu_seconds": round(watcher.cpu_seconds, 1)}


def _num_sentences(folder: Path) -> int:
    return sum(1 for _ in folder.rglob("*.wav"))


def _hashes(folder: Path) -> dict[str, str]:
    """SHA-256 of what was written, by its path in the folder."""
    return {
        os.path.relpath(path, folder): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in _NOT_COMPARED
    }
