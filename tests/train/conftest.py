"""Fixtures for whole runs: a workshop for each module, one nursery for all of them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from machine.devices import recovery
from tests.train.nursery import EPOCHS, STEPS_PER_EPOCH, Ground
from tests.train.test_run import Workshop
from train.__main__ import main
from xtts.voices.run_folder import RunFolder

Check = Callable[..., tuple[int, str]]


@pytest.fixture(autouse=True)
def _everything_is_heard(caplog: pytest.LogCaptureFixture) -> None:
    """`caplog` records the levels that a run prints."""
    caplog.set_level("INFO")


@pytest.fixture
def check(base_folder: Path, tmp_path: Path, monkeypatch, caplog, capsys) -> Check:
    """Runs `train check`, or another verb, in an empty folder: exit code and all output."""
    monkeypatch.chdir(tmp_path)
    own = {"BASE_MODEL": str(base_folder), "DEVICE": "cpu"}
    own |= {"CACHE_DIR": "cache", "DATASET_DIR": "data"}

    def run(*words: str, verb: str = "check", **settings: str) -> tuple[int, str]:
        caplog.clear()
        for name, value in (own | settings).items():
            monkeypatch.setenv(name, value)
        return main([verb, *words]), caplog.text + capsys.readouterr().err

    return run


@pytest.fixture
def gpu_says(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The answer of an absent GPU when asked whether it still computes; "" means it does."""
    says = [""]
    monkeypatch.setattr(recovery, "remaining_fault", lambda _device: says[0])
    monkeypatch.setattr(recovery, "free_after_fault", lambda _device: None)
    return says


@pytest.fixture(scope="module")
def workshop(base_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """Trains runs in this process."""
    return Workshop(base_folder, tmp_path_factory.mktemp("workshop"))


@pytest.fixture(scope="session")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """Trainers that start without delay, with a base and a dataset."""
    found = Ground(tmp_path_factory.mktemp("ground"))
    yield found
    found.nursery.close()


@pytest.fixture(scope="session")
def whole(ground: Ground) -> RunFolder:
    """The run without any fault."""
    assert ground.run("whole") == 0, ground.told()
    run = RunFolder(ground.folder / "whole")
    assert run.metrics.read_text().count('"train"') == EPOCHS * STEPS_PER_EPOCH
    return run
