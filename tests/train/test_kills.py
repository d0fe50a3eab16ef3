"""kill -9 at marked points and at random moments: all files stay intact, at most one epoch is lost,
and the final weights equal those of a run that was never killed.

The method is RocksDB's (tools/db_crashtest.py): white box, at points marked in the code; black box,
at random moments. `make test-slow` kills 200 times; KILLS_SEED sets the seed of the moments.
"""

import contextlib
import json
import os
import random
import re
import signal
import socket
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest
import soundfile
import torch

from tests.train.nursery import EPOCHS, Ground
from tests.train.test_run import alive, assert_same_end
from tests.xtts.workers.test_file_worker import gone
from train.metrics.tensorboard_server import free_port
from xtts.voices.evaluation_file import read_evaluation
from xtts.voices.run_folder import RunFolder

PART = re.compile(r"^\..+\.\d+\.sotaque-part$")


def assert_readable(folder: Path) -> None:
    """Reads every file to its end, with or without a manifest; only parts of writes are skipped."""
    for path in folder.rglob("*"):
        if path.is_dir() or PART.match(path.name) or path.name == ".lock":
            continue
        if path.suffix == ".pt":
            torch.load(path, weights_only=True)
        elif path.suffix == ".json":
            json.loads(path.read_text())
        elif path.suffix == ".jsonl":  # a log: its last line may be cut off
            for line in path.read_text().split("\n")[:-1]:
                json.loads(line)
        elif path.suffix == ".wav":
            soundfile.read(path)


def newest(run: RunFolder) -> int:
    """The epoch that the next start resumes from; 0 is the base."""
    found = run.newest_verified()
    return found.epoch if found else 0


def learned(run: RunFolder) -> list[int]:
    """The epoch of each step in the log, without a truncated last line."""
    text = run.metrics.read_text() if run.metrics.exists() else ""
    told = map(json.loads, text.split("\n")[:-1])
    return [record["epoch"] for record in told if record["kind"] == "train"]


def descendants(pid: int) -> list[int]:
    """The ids of a process's children and their descendants."""
    try:
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def kill(ground: Ground, pid: int) -> tuple[int, list[int]]:
    """Kills a trainer: (exit code, the ids of its child processes)."""
    there = descendants(pid)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    return ground.nursery.end(), there


# White box

MARKED = (
    "part opened:checkpoint_epoch_2.pt",
    "half written:trainer_state_epoch_2.pt",
    "after fsync:checkpoint_epoch_2.json",
    "after replace:checkpoint_epoch_2.pt",
    "after manifest",
    "after best",
    "mid-prune",
)
IN_MAKE_TEST = ("half written:trainer_state_epoch_2.pt", "after manifest", "mid-prune")


def test_every_marked_point_is_killed_at():
    """In this file, or in the tests of the code that it marks."""
    marked = {
        name
        for package in ("machine", "xtts", "train", "extras")
        for path in Path(package).rglob("*.py")
        for name in re.findall(r'crash_point\("([^"]+)"', path.read_text())
    }
    tests = [path.read_text() for path in Path("tests").rglob("test_*.py")]
    assert len(marked) >= 8
    assert [name for name in marked if not any(f'"{name}' in text for text in tests)] == []


@pytest.mark.parametrize(
    "point",
    [pytest.param(point, marks=() if point in IN_MAKE_TEST else pytest.mark.slow) for point in MARKED],
)
def test_killed_at_a_marked_point(ground, whole, point):
    name = re.sub(r"\W", "-", point)
    run = RunFolder(ground.folder / name)
    # With one kept checkpoint, the second epoch prunes the first.
    keep = {"KEEP_CHECKPOINTS": "1"} if point == "mid-prune" else {}
    assert ground.run(name, point, **keep) == -9, f"never reached\n{ground.told()}"
    assert_readable(run.folder)
    before = learned(run)
    assert before and max(before) - newest(run) <= 1
    assert ground.run(name, **keep) == 0, ground.told()
    assert_same_end(run, whole, EPOCHS)
    assert not [path for path in run.folder.rglob("*") if PART.match(path.name)]


@pytest.mark.slow
def test_killed_while_a_sample_is_spoken(ground, whole):
    """With each kind of child that a run starts: none survives, and the sample is spoken later."""
    port = free_port(26_100, "127.0.0.1")
    run = RunFolder(ground.folder / "mid-sample")
    # A worker may take longer to start than the limit of a step; this is not a hang.
    every = {
        "SAMPLE_DEVICE": "cpu",
        "SAMPLE_TEXT": "One.",
        "TENSORBOARD": "on",
        "TENSORBOARD_PORT": str(port),
    }
    pid = ground.start("mid-sample", "mid-sample", poison="stall_seconds 1", **every)
    there: set[int] = set()
    while alive(pid):
        there.update(descendants(pid))
        time.sleep(0.02)
    assert ground.nursery.end() == -9, ground.told()
    assert len(there) >= 3  # worker, TensorBoard, watchdog
    assert all(gone(child) for child in there)
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))
    assert_readable(run.folder)
    assert newest(run) == 1 and not (run.samples / "epoch_1_output.json").exists()
    assert ground.run("mid-sample", **every | {"TENSORBOARD": "off"}) == 0, ground.told()
    assert "Epoch 1 has no sample yet" in ground.told()
    assert all((run.samples / f"epoch_{epoch}_output.json").exists() for epoch in (1, 2))
    assert_same_end(run, whole, EPOCHS)


@pytest.mark.slow
@pytest.mark.parametrize("point", ["before evaluation", "after evaluation"])
def test_killed_while_an_epoch_is_judged(ground, whole, point):
    """Nothing is lost, and unjudged epochs are judged at the next start."""
    name = re.sub(r"\W", "-", f"judging {point}")
    run = RunFolder(ground.folder / name)
    heard = {"SAMPLE_DEVICE": "cpu", "SAMPLE_TEXT": "One."}
    assert ground.run(name, point, **heard) == -9, f"never reached\n{ground.told()}"
    assert_readable(run.folder)
    assert newest(run) == 1
    assert run.evaluation_file.exists() is (point == "after evaluation")
    assert ground.run(name, **heard) == 0, ground.told()
    found = read_evaluation(run.evaluation_file)
    assert {0, 1, 2} <= {candidate.epoch for candidate in found.candidates}
    assert found.verdict and run.best_weights()
    assert_same_end(run, whole, EPOCHS)


# Black box


def kill_at_random(ground: Ground, whole: RunFolder, kills: int, seed: int) -> Counter[str]:
    """Starts and kills each run until it is done, run after run, until `kills` is reached."""
    draw = random.Random(seed)
    seconds = _seconds(ground)
    counted: Counter[str] = Counter()
    number = 0
    while counted["kills"] < kills:
        number += 1
        name = f"random-{seed}-{number}"
        run = RunFolder(ground.folder / name)
        # Every third run computes its features, so that kills also hit their computation.
        cache = run.folder / "cache" if number % 3 == 0 else ground.folder / "cache"
        # The bound ends a run that would be killed for ever.
        for _ in range(1000):
            kills_left = counted["kills"] < kills
            pid = ground.start(name, CACHE_DIR=str(cache))
            if kills_left:
                _wait(draw, run, seconds)
                code, there = kill(ground, pid)
            else:
                code, there = ground.nursery.end(), []
            assert code in (0, -9), ground.told()
            counted["processes"] += len(there)
            assert all(gone(child) for child in there)
            assert_readable(run.folder)
            redone = [epoch for epoch in learned(run) if epoch > newest(run)]
            assert len(set(redone)) <= 1, f"epochs {set(redone)} are redone"
            if code == 0:
                break
            counted["kills"] += 1
            counted["steps redone"] += len(redone)
            counted["epochs redone"] += bool(redone)
            counted["inside a write"] += any(PART.match(p.name) for p in run.folder.rglob(".*"))
        assert_same_end(run, whole, EPOCHS)
        counted["runs"] += 1
    return counted


def _wait(draw: random.Random, run: RunFolder, seconds: float) -> None:
    """Half of the kills come at any moment, half just after a new file, where faults are likely."""
    if draw.random() < 0.5:
        time.sleep(draw.uniform(0, 1.2 * seconds))
        return
    wanted, end = draw.randint(1, 6), time.monotonic() + 1.2 * seconds
    before = _names(run)
    while len(_names(run) ^ before) < wanted and time.monotonic() < end:
        time.sleep(0.001)
    time.sleep(draw.uniform(0, 0.02))


def _names(run: RunFolder) -> set[str]:
    return set(os.listdir(run.checkpoints)) if run.checkpoints.exists() else set()


def _seconds(ground: Ground) -> float:
    """The duration of a run on this machine, without features."""
    began = time.monotonic()
    assert ground.run(f"timed-{began}") == 0, ground.told()
    return time.monotonic() - began


@pytest.mark.slow
def test_three_kills_at_random(ground, whole):
    assert kill_at_random(ground, whole, 3, seed=1)["kills"] == 3


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_two_hundred_kills_at_random(ground, whole, capsys):
    seed = int(os.environ.get("KILLS_SEED", "2026"))
    began = time.monotonic()
    counted = kill_at_random(ground, whole, 200, seed)
    with capsys.disabled():
        print(f"\nseed {seed}, {time.monotonic() - began:.0f} s: {dict(counted)}")
    assert counted["kills"] == 200 and counted["runs"] >= 5
    # Not all kills come before the first or after the last step; the number varies by machine.
    assert counted["inside a write"] >= 1 and counted["epochs redone"] >= 20
