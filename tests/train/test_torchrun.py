"""Whole runs of two processes: each file is written once, and interruptions do not change the
end."""

import os
import subprocess
import sys
import time

import psutil
import pytest

from tests.train import together
from tests.train.test_run import Workshop, assert_same_end, content, losses
from train.distributed import World
from xtts.voices.run_folder import RunFolder

EPOCHS = 2
SETTINGS = {"BATCH_SECONDS": "2.4"}


def on_two_ranks(workshop: Workshop, name: str, expect: int = 0, **settings: str) -> RunFolder:
    """Runs `python -m train` on two ranks, as torchrun does."""
    from train.__main__ import main

    words = workshop.arguments(name, **({"NUM_EPOCHS": str(EPOCHS)} | SETTINGS | settings))

    def work(_: World) -> None:
        if (code := main(words)) != 0:
            os._exit(code)

    together.unjoined(2, work, expect)
    return RunFolder(workshop.folder / name)


@pytest.fixture(scope="module")
def straight(workshop) -> RunFolder:
    return on_two_ranks(workshop, "straight")


def test_two_ranks_write_one_run(straight, workshop):
    alone = workshop.run("alone", EPOCHS, **SETTINGS)
    records = losses(straight)
    steps = [record for record in records if record[0] == "train"]
    assert [step for _, _, step, *_ in steps] == list(range(1, len(steps) + 1))
    assert len(steps) < sum(loss[0] == "train" for loss in losses(alone))
    assert sorted(p.name for p in straight.checkpoints.iterdir()) == sorted(
        p.name for p in alone.checkpoints.iterdir()
    )


@pytest.mark.slow
def test_at_another_world_size_it_goes_on(straight, workshop):
    """One epoch with two ranks, then one process."""
    run = on_two_ranks(workshop, "fewer", NUM_EPOCHS="1")
    step = content(run.checkpoint_path(1))["provenance"]["step"]
    found = workshop.run("fewer", EPOCHS, **SETTINGS)
    assert content(found.checkpoint_path(2))["provenance"]["step"] > step
    assert losses(found)[: step + 1] == losses(straight)[: step + 1]


@pytest.mark.slow
def test_ended_and_started_again_it_ends_the_same(straight, workshop):
    run = on_two_ranks(workshop, "again", NUM_EPOCHS="1")
    assert run.epochs() == [1]
    assert_same_end(straight, on_two_ranks(workshop, "again"), EPOCHS)


@pytest.mark.slow
def test_one_that_is_killed_is_started_again_and_the_end_is_the_same(straight, workshop):
    """torchrun restarts both ranks, which resume from the completed epoch."""
    name = "killed"
    words = workshop.arguments(name, NUM_EPOCHS=str(EPOCHS), **SETTINGS)
    run = RunFolder(workshop.folder / name)
    environ = os.environ | {"OMP_NUM_THREADS": "1"}
    agent = subprocess.Popen(
        (
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc-per-node=2",
            "--max-restarts=1",
            "-m",
            "tests.train.slowly",
            *words,
        ),
        env=environ,
    )
    end = time.monotonic() + 200
    while not run.checkpoint_path(1).exists():
        assert agent.poll() is None and time.monotonic() < end
        time.sleep(0.05)
    psutil.Process(agent.pid).children()[-1].kill()
    assert agent.wait(timeout=200) == 0
    assert_same_end(straight, run, EPOCHS)
