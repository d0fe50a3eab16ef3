"""The setup of a run: its first checks, its starting point, the length of its batches and schedule,
and the locks that it holds."""

import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from machine import extras
from tests.train.test_run import Workshop
from train import settings as settings_of
from train import setup
from train.checkpointing.resume import Resumed
from train.distributed import ALONE
from train.resilience.at_work import at_work, trainings
from train.run_context import RunContext, build_context, licence_of
from train.settings import TrainSettings
from xtts.voices.run_folder import RunError, RunFolder

RESUMED = Resumed(2, 30, 7, {}, {"batch_seconds": 1.9}, Path("checkpoint_epoch_2.pt"), {})


def settings(workshop: Workshop, name: str = "run", **changes: str) -> TrainSettings:
    return settings_of.load(workshop.arguments(name, **changes), {}, None)[0]


@pytest.fixture(scope="module")
def context(workshop: Workshop) -> RunContext:
    return build_context(settings(workshop))


def test_looking_writes_nothing_and_chooses_with_a_reason(context, workshop):
    assert (context.device.value, context.device.reason) == ("cpu", "DEVICE=cpu")
    assert context.precision.reason
    assert len(context.data.train) == 11 and len(context.data.validation) == 1
    assert not (workshop.folder / "run").exists()


def test_without_a_check_every_clip_is_kept_and_leave_out_is_warned_about(
    context, workshop, monkeypatch, caplog
):
    monkeypatch.setattr(extras, "entries", lambda: ())
    found = build_context(settings(workshop, SUSPECT_CLIPS="leave_out"))
    assert found.data == context.data
    assert "SUSPECT_CLIPS=leave_out has no effect" in caplog.text


# The starting point


def start(found: Resumed | None = None, **changes: Any) -> tuple[str, dict[str, Any]]:
    """The RESUME that rank 0 uses, and the other arguments of `resume`."""
    asked: list[tuple[str, dict[str, Any]]] = []

    def resume(setting: str, _: Any, **others: Any) -> Resumed | None:
        asked.append((setting, others))
        return found

    checkpoints: Any = SimpleNamespace(resume=resume)
    given: Any = SimpleNamespace(resume=changes.pop("resume", "never"), runs_dir=Path("runs"))
    world = replace(ALONE, **changes)
    assert setup.find_start(given, checkpoints, Any, 1e-4, world) is found
    return asked[0]


def test_a_run_that_torchrun_has_started_again_goes_on_also_with_never():
    """Otherwise each restart would archive the progress of the one before."""
    assert start()[0] == "never" and start(restarts=1)[0] == "auto"
    assert start(resume="some.pt", restarts=1)[0] == "some.pt"
    assert start()[1] == {"learning_rate": 1e-4, "runs_dir": Path("runs")}


def test_where_a_run_starts_is_told(caplog):
    start()
    assert not caplog.messages
    start(found=RESUMED)
    assert caplog.messages == ["Resuming from checkpoint_epoch_2.pt: epoch 3, batch 8."]


# The whole trainer


@pytest.fixture
def signals() -> Iterator[dict[int, Any]]:
    numbers = (signal.SIGTERM, signal.SIGINT)
    yield {number: signal.getsignal(number) for number in numbers}


def test_a_trainer_holds_its_folder_and_signals_while_it_lasts(workshop, signals, caplog):
    own = settings(workshop, "held", NUM_EPOCHS="2")
    run = RunFolder(own.output_dir)
    with at_work(own.cache_dir, "cpu", Path("/another")), setup.open_trainer(own):
        assert "/another also works on cpu" in caplog.text
    with setup.open_trainer(own) as trainer:
        assert run.is_locked() and trainer.num_epochs == 2 and trainer.first_epoch == 1
        assert trainer.learner.world is ALONE and trainer.end.logs and trainer.end.evaluator
        assert trainer.end.checkpoints.provenance["base"]["name"] == own.base_model
        with pytest.raises(RunError), setup.open_trainer(own):
            pass
        assert trainings(own.cache_dir) == [str(own.output_dir)]
        assert all(signal.getsignal(number) != before for number, before in signals.items())
    assert not run.is_locked() and trainings(own.cache_dir) == []
    assert {number: signal.getsignal(number) for number in signals} == signals
    told = " ".join(caplog.messages)
    for choice in ("Device: cpu (DEVICE=cpu)", "Epochs: 2 (", "Samples: none (SAMPLE_DEVICE=off)"):
        assert choice in told


def test_a_licence_is_told_in_a_few_words_with_the_file_that_has_the_rest(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config: Any = SimpleNamespace(licence="MIT; learned from what slt said")
    base = tmp_path / "base"
    base.mkdir()
    assert licence_of(config, base) == "MIT (more in base/config.json)"
    (base / "CARD.md").touch()
    assert licence_of(config, base) == "MIT (more in base/CARD.md)"
    config.licence = "CPML-1.0.0 (non-commercial, model and outputs)"
    assert licence_of(config, base) == config.licence
