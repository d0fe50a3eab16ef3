"""kill -9 of the trainer, its training and the service, five times each, in random order at random
moments: each requested training ends, and its result is served. KILLS_SEED tries other orders.

`tests.extras.studio.page.test_reading` closes the page during a take;
`tests.extras.studio.datasets.test_takes_killed` kills a service that stores takes.
"""

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from extras.studio.training_jobs import TrainingQueue, run_folder_of
from tests.api.conftest import running, settings_in
from tests.api.raw import wait_ready
from tests.ports import free_port
from tests.processes import gone
from xtts.voices.run_folder import RunFolder

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]
SEED = int(os.environ.get("KILLS_SEED", "1"))
KILLS = 5
# Short epochs, so that several fit between two kills.
QUICKLY = {
    "SAMPLE_DEVICE": "off",
    "LEARN_DECODER": "off",
    "BLEND": "off",
    "NUM_THREADS": "1",
    "MAX_TRAIN_SAMPLES": "4",
    "EVALUATE_RECOGNISER": "off",
    "EVALUATE_NATURALNESS": "off",
    "DATASET_ROOTS": "train/data",
}


class Studio:
    """A service and a trainer, in separate processes as in two containers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.texts = folder / "texts.txt"
        self.texts.write_text("Good morning, dear.\n", encoding="utf-8")
        self.run = RunFolder(run_folder_of(folder / "output", "ana"))
        self.queue = TrainingQueue(folder / "queue")
        self.port = free_port()
        self.service = self.start_service()
        self.trainer = self.start_trainer()

    def start_service(self) -> "subprocess.Popen[bytes]":
        """Starts one with a fake child, and waits until it answers."""
        words = ("tests.api.stopped_service", str(self.folder), str(self.port), "1")
        found = self._start("service", *words)
        wait_ready(found, self.port, self.folder / "service.txt")
        return found

    def start_trainer(self) -> "subprocess.Popen[bytes]":
        return self._start("trainer", "train", "queue")

    def _start(self, name: str, *words: str) -> "subprocess.Popen[bytes]":
        folders = {
            f"{name.upper()}_DIR": str(self.folder / name)
            for name in ("output", "queue", "datasets", "cache", "runs")
        }
        with (self.folder / f"{name}.txt").open("ab") as log:
            return subprocess.Popen(
                (sys.executable, "-m", *words),
                stdout=log,
                stderr=log,
                env={**os.environ, **QUICKLY, **folders, "EVALUATE_TEXTS": str(self.texts)},
            )

    def ask(self, epochs: int, run: str = "ana") -> str:
        """Requests a training of `epochs` epochs; returns the job's id."""
        body = {"run": run, "dataset": "train/data/demo", "settings": {"NUM_EPOCHS": str(epochs)}}
        answer = httpx.post(self._address, json=body, timeout=60, trust_env=False)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def row(self, job: str) -> dict[str, Any]:
        return dict(httpx.get(f"{self._address}/{job}", timeout=60, trust_env=False).json())

    @property
    def _address(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1/trainings"

    def training(self) -> int | None:
        """The process id of the current training."""
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self.trainer.pid).children():
                if "run" in child.cmdline()[:7]:  # not its check
                    return int(child.pid)
        return None

    def kill_trainer(self) -> None:
        there = psutil.Process(self.trainer.pid).children(recursive=True)
        self.trainer.kill()
        self.trainer.wait(30)
        assert all(gone(child.pid, 30) for child in there)
        self.trainer = self.start_trainer()

    def kill_training(self) -> None:
        if (pid := self.training()) is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def kill_service(self) -> None:
        """During many requests for trainings: each accepted one exists afterwards."""
        taken: list[str] = []

        def keep_asking() -> None:
            with contextlib.suppress(httpx.TransportError):
                for _ in range(30):
                    taken.append(self.ask(1, run="more"))

        asking = threading.Thread(target=keep_asking)
        asking.start()
        until(lambda: taken, 120)
        time.sleep(random.Random(len(self.queue.jobs())).uniform(0, 2))
        self.service.kill()
        self.service.wait(30)
        asking.join(90)
        self.service = self.start_service()
        jobs = [job.id for job in self.queue.jobs()]
        assert set(taken) <= set(jobs)
        for job in (job for job in self.queue.jobs() if job.read().run == "more"):
            job.cancel()

    def end(self) -> None:
        for process in (self.trainer, self.service):
            process.terminate()
            process.wait(60)


@pytest.fixture
def studio(tmp_path: Path) -> Iterator[Studio]:
    found = Studio(tmp_path)
    yield found
    found.end()


def until(true: Callable[[], Any], seconds: float = 600.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.2)


def test_fifteen_kills_lose_nothing_and_the_result_is_served(studio, tmp_path):
    drawn = random.Random(SEED)
    kills = [studio.kill_trainer, studio.kill_training, studio.kill_service] * KILLS
    drawn.shuffle(kills)
    asked = [studio.ask(1)]
    began = time.monotonic()
    until(lambda: studio.row(asked[-1])["state"] == "done")
    # The time from a check to the evaluation of an epoch.
    whole_seconds, reached = time.monotonic() - began, 1

    def is_trained() -> bool:
        """Whether a training runs. If the job has ended, requests another with more epochs."""
        state = studio.row(asked[-1])
        if state["state"] in ("done", "failed"):
            assert state["state"] == "done" or "3 times in a row" in state["message"], state
            asked.append(studio.ask(reached + 2))
        return studio.training() is not None

    for number, kill in enumerate(kills):
        until(is_trained)
        time.sleep(drawn.uniform(0, whole_seconds))
        kill()
        newest = studio.run.newest_verified()
        assert newest is not None and newest.epoch >= reached
        reached = newest.epoch
        print(f"kill {number + 1}: {kill.__name__}, epoch {reached}", flush=True)
    asked.append(studio.ask(reached + 2))
    until(lambda: not any(job.state().is_open for job in studio.queue.jobs()))
    assert studio.row(asked[-1])["state"] == "done", studio.row(asked[-1])
    states = {job.id: job.state() for job in studio.queue.jobs()}
    assert set(asked) <= set(states)
    assert all(state.message for state in states.values() if state.state in ("failed", "cancelled"))
    with running(settings_in(tmp_path), threads=1) as service:
        answer = service.client.post(f"/v1/runs/ana/epochs/{reached + 2}/promote").json()
        assert answer["served"]["run"] == "ana", answer
        assert len(service.say("Good morning.").content) > 10_000
