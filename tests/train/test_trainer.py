"""The training loop: the order of events in an epoch, and the effect of a stop, short memory or a
slow disk. Steps are real steps of a tiny model; the parts around them record their calls."""

import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from machine import commands
from tests.train.test_step import a_batch, a_learner
from train import epoch_end
from train import step as stepping
from train import trainer as loop
from train.checkpointing.async_writer import CheckpointWriter
from train.dataset.batches import Batch, Batches, OomBackoff
from train.distributed import ALONE
from train.epoch_end import EarlyStopping, EpochEnd
from train.metrics.logs import DeferredMetrics, TrainedStep
from train.progress import RemainingTime
from train.resilience.heartbeat import Heartbeat
from train.resilience.stopping import StopRequest
from train.settings import TrainSettings
from train.step import StepResult, train_step
from train.trainer import Trainer, next_steps, nothing_left
from xtts.voices.run_folder import RunFolder


@pytest.fixture(autouse=True)
def _surroundings_validate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epoch_end, "mean_losses", lambda learner, batches: learner.evaluate(batches))


SHORT = "CUDA out of memory. Tried to allocate 2 GB"


class Plan:
    """Batches of two clips, the same in each epoch; a halved one becomes two of one clip."""

    halve = Batches.halve

    def __init__(self, count: int) -> None:
        self.clips = [SimpleNamespace(name=f"clip{i}", seconds=1.25) for i in range(2 * count)]
        self.batch_seconds = 2.5
        self.halvings: list[OomBackoff] = []
        self._count = count

    def plan(self, epoch: int) -> list[tuple[int, ...]]:
        pairs = [(2 * number, 2 * number + 1) for number in range(self._count)]
        for halving in self.halvings:
            if halving.epoch == epoch:
                alone = [(clip,) for pair in pairs[halving.batch :] for clip in pair]
                pairs = pairs[: halving.batch] + alone
        return pairs

    def epoch(self, epoch: int, done: int = 0) -> Iterator[Batch]:
        for clips in self.plan(epoch)[done:]:
            yield replace(a_batch(clips[0]), clips=clips)


class Surroundings:
    """A trainer, and its calls to the parts around it, in order, as words."""

    def __init__(self, epochs: int = 2, batches: int = 2, **changes: Any) -> None:
        self.events: list[str] = []
        self.phases: list[str] = []
        self.stop = StopRequest(60.0)
        self.saved: list[dict[str, Any]] = []
        settings = {"sample_every": 1, "save_every": 1}
        settings |= {name: changes.pop(name) for name in list(changes) if name in settings}
        self.settings = SimpleNamespace(**settings, early_stopping=None, blend="auto", learn_decoder="off")
        self.learner = changes.pop("learner", None) or a_learner()
        self.learner.evaluate = self._evaluate
        self.validation_losses = iter(changes.pop("validation_losses", [2.0] * 20))
        logs: Any = SimpleNamespace(
            log_step=self._logged,
            log_epoch=self._epoch_logged,
            plan_epoch=lambda steps: None,
            remaining=RemainingTime(epochs, batches),
            log_phase=lambda epoch, step, phase: self.phases.append(f"{phase} {epoch} after {step}"),
        )
        run = RunFolder(Path("no run"))
        checkpoints = SimpleNamespace(
            run=run,
            keep=changes.pop("keep", 3),
            due=lambda epoch, last: epoch % self.settings.save_every == 0 or epoch == last,
            save_epoch=self._save,
            save_interrupted=self._save_interrupted,
        )
        sampler = SimpleNamespace(
            plan=SimpleNamespace(mode="in_process"), finish=lambda: self.events.append("finish")
        )
        samples = SimpleNamespace(sampler=sampler, speak=self._sample, decoder_step_seconds=0.0)
        of_trainer = {name: changes.pop(name) for name in ("first_epoch", "first_batch") if name in changes}
        both: Any = {
            "num_epochs": epochs,
            "learner": self.learner,
            "batches": Plan(batches),
            "stop": self.stop,
        }
        parts: dict[str, Any] = {
            "settings": self.settings,
            "validation": Plan(1),
            "logs": logs,
            "samples": samples,
            "metrics": DeferredMetrics(self.learner, logs, 10),
            "evaluator": None,
            "checkpoints": checkpoints,
            "writer": CheckpointWriter(background=False),
            "early_stopping": EarlyStopping(),
            "heartbeat": Heartbeat(60.0),
            "base": Path(),
        }
        self.end = EpochEnd(**both | parts | changes)
        self.trainer = Trainer(**both, **of_trainer, end=self.end)

    def signal_at(self, event: str) -> None:
        """Sends SIGTERM right after `event`."""
        self._signal_at = event

    _signal_at = ""

    def _happened(self, event: str) -> None:
        self.events.append(event)
        if event == self._signal_at:
            self.stop.receive(signal.SIGTERM)

    def _logged(self, one: TrainedStep, *_: Any) -> None:
        self._happened(f"step {one.epoch}.{one.number}")

    def _evaluate(self, batches: Iterator[Batch]) -> dict[str, float]:
        list(batches)
        self._happened("validate")
        return {"text_loss": 3.0, "audio_loss": next(self.validation_losses)}

    def _epoch_logged(self, epoch: int, step: int, validation: dict[str, float] | None) -> None:
        self._happened(f"epoch {epoch}" + ("" if validation else " unvalidated"))

    def _save(self, epoch: int, step: int, model: Any, state: Any, *_: Any) -> Any:
        self.saved.append({"epoch": epoch, "step": step, "model": model, "trainer": state})
        self._happened(f"save {epoch}")
        return SimpleNamespace(epoch=epoch, checkpoint=f"{epoch}.pt", sha256=str(epoch))

    def _save_interrupted(self, epoch: int, step: int, batch: int, model: Any, state: Any, *_: Any) -> Any:
        self.interrupted = state
        self._happened(f"interrupted {epoch}.{batch} at step {step}")
        return SimpleNamespace(checkpoint=SimpleNamespace(name="interrupted.pt"))

    def _sample(self, epoch: int, path: str, sha256: str, **_: object) -> None:
        assert (path, sha256) == (f"{epoch}.pt", str(epoch))
        self._happened(f"sample {epoch}")


def test_an_epoch_is_steps_validation_log_checkpoint_sample():
    ran = Surroundings(epochs=2, batches=2)
    assert ran.trainer.train() == 0
    assert ran.events == [
        "step 1.1",
        "step 1.2",
        "validate",
        "epoch 1",
        "save 1",
        "sample 1",
        "step 2.1",
        "step 2.2",
        "validate",
        "epoch 2",
        "save 2",
        "sample 2",
        "finish",
    ]
    assert [one["step"] for one in ran.saved] == [2, 4] and ran.learner.step == 4


def test_where_one_epoch_is_kept_its_sample_is_finished_before_the_next_is_saved():
    """Saving an epoch removes the one before, which may be speaking on another device."""
    ran = Surroundings(epochs=2, batches=1, keep=1)
    ran.trainer.train()
    assert ran.events.index("finish") < ran.events.index("save 1")
    assert ran.events[ran.events.index("save 2") - 1] == "finish"


def test_the_steps_of_several_processes_are_counted_and_not_their_batches():
    ran = Surroundings(epochs=1, batches=4)
    ran.learner.world = replace(ALONE, size=2)
    result = StepResult({"text_loss": 2.0, "audio_loss": 3.0}, 3.0, 1.0, 1e-6, True)
    for done in (2, 4):
        ran.trainer._log_step(1, done, a_batch(), result, 0.0)
    assert ran.events == ["step 1.1", "step 1.2"]


def test_what_a_run_does_between_two_steps_is_recorded(monkeypatch):
    monkeypatch.setattr("train.epoch_end.conclude", lambda *_: None)
    monkeypatch.setattr("train.epoch_end.seconds_left", lambda *_: 0.0)
    monkeypatch.setattr("train.trainer.next_steps", lambda _: "")
    evaluator: Any = SimpleNamespace(can_judge=True, judge_epoch=lambda *_: None)
    ran = Surroundings(epochs=2, batches=3, evaluator=evaluator)
    ran.end.checkpoints.run = SimpleNamespace(epochs=lambda: [1, 2])
    ran.trainer.train()
    each = ("validating", "saving", "sampling", "judging")
    wanted = [f"{phase} {epoch} after {3 * epoch}" for epoch in (1, 2) for phase in each]
    assert ran.phases == [*wanted, "concluding 2 after 6"]


def test_what_is_due_every_so_many_epochs_is_always_due_at_the_last():
    ran = Surroundings(epochs=5, batches=1, save_every=2, sample_every=4)
    assert ran.trainer.train() == 0
    done = [event for event in ran.events if not event.startswith(("step", "epoch"))]
    # Epoch 3 is not saved; epoch 5 is the last.
    assert done == [
        "validate",
        "validate",
        "save 2",
        "validate",
        "validate",
        "save 4",
        "sample 4",
        "validate",
        "save 5",
        "sample 5",
        "finish",
    ]


def test_a_run_begins_behind_the_batches_that_are_done():
    ran = Surroundings(epochs=2, batches=3, first_epoch=2, first_batch=2)
    assert ran.trainer.run() == 0
    assert ran.events[:2] == ["step 2.3", "validate"] and ran.learner.step == 1


@pytest.mark.parametrize(("first_epoch", "event"), [(2, "step 2.1"), (3, "finish")])
def test_a_sample_that_the_last_start_missed_comes_first(monkeypatch, first_epoch, event):
    """Also that of the last epoch, after which nothing is left to train."""
    newest = first_epoch - 1
    saved = SimpleNamespace(epoch=newest, checkpoint=f"{newest}.pt", sha256=str(newest))
    monkeypatch.setattr(RunFolder, "newest_verified", lambda _: saved)
    monkeypatch.setattr(epoch_end, "is_sample_missing", lambda *_: True)
    ran = Surroundings(epochs=2, first_epoch=first_epoch)
    assert ran.trainer.run() == 0
    assert ran.events[:2] == [f"sample {newest}", event]


@pytest.mark.parametrize(
    ("at", "last"),
    [
        ("step 1.1", ["step 1.1", "interrupted 1.1 at step 1"]),
        ("step 2.2", ["step 2.2", "interrupted 2.2 at step 4"]),
        # The next start validates and saves the epoch.
        ("validate", ["step 1.2", "validate", "interrupted 1.2 at step 2"]),
        # A saved epoch is not saved again; its sample is spoken at the next start.
        ("save 1", ["epoch 1", "save 1"]),
        ("sample 1", ["save 1", "sample 1"]),
    ],
)
def test_a_signal_saves_what_is_done_and_where(at, last):
    ran = Surroundings(epochs=3, batches=2)
    ran.signal_at(at)
    assert ran.trainer.train() == 143
    assert ran.events[-len(last) :] == last


def test_a_validation_that_a_signal_cut_off_says_nothing_of_the_epoch():
    """The next start validates the epoch completely; a partial loss must not count."""
    parts: dict[str, Any] = {"epochs": 3, "batches": 1}
    ran = Surroundings(**parts, early_stopping=EarlyStopping(1), validation_losses=[0.01])
    ran.signal_at("validate")
    assert ran.trainer.train() == 143
    again = Surroundings(
        **parts, first_batch=1, early_stopping=EarlyStopping(1), validation_losses=[3.0, 2.0, 1.0]
    )
    again.end.early_stopping.resume(ran.interrupted["patience"])
    assert again.trainer.run() == 0 and "save 3" in again.events


def test_an_evaluation_hears_how_long_its_epoch_was_learned(monkeypatch):
    """It may take a share of that time."""
    heard: list[tuple[int, float]] = []
    evaluator = SimpleNamespace(
        judge_epoch=lambda saved, seconds, *_: heard.append((saved.epoch, seconds)), can_judge=False
    )
    ran = Surroundings(epochs=2, batches=3, evaluator=evaluator)
    now = [100.0]
    monkeypatch.setattr(loop.time, "perf_counter", lambda: now[0])
    ran.end.logs.log_step = lambda one, *_: now.append(now.pop() + 20.0 * one.epoch)
    assert ran.trainer.train() == 0
    assert heard == [(1, 60.0), (2, 120.0)]


def test_an_epoch_that_is_no_better_for_long_enough_is_the_last():
    ran = Surroundings(
        epochs=9,
        batches=1,
        save_every=9,
        sample_every=9,
        early_stopping=EarlyStopping(2),
        validation_losses=[2.0, 1.0, 1.5, 1.1, 0.1],
    )
    assert ran.trainer.train() == 0
    # Saved and spoken although SAVE_EVERY and SAMPLE_EVERY were not reached.
    assert ran.events[-4:] == ["epoch 4", "save 4", "sample 4", "finish"]
    # The next start trains nothing and judges the epochs that a stop left out.
    over = Surroundings(epochs=9, first_epoch=5, early_stopping=ran.end.early_stopping)
    assert over.trainer.run() == 0 and over.events == ["finish"]


@pytest.mark.parametrize(
    ("judged", "sentences", "last"), [((1, 2), 16, 6), ((1, 2, 3), 16, 3), ((1,), 16, 6), ((1, 2, 3), 4, 6)]
)
def test_where_judging_ended_the_loss_decides_when_to_stop(judged, sentences, last, monkeypatch):
    """The verdict is always epoch 1; epoch 4 has the best loss. Four sentences are too few to judge
    an epoch."""
    evaluator: Any = SimpleNamespace(can_judge=False, judge_epoch=lambda *_: None)
    ran = Surroundings(
        epochs=9,
        batches=1,
        early_stopping=EarlyStopping(2),
        evaluator=evaluator,
        validation_losses=[5.0, 4.0, 3.0, 2.0, 2.5, 2.5, 2.5, 2.5, 2.5],
    )

    def evaluation() -> Any:
        epochs = [one["epoch"] for one in ran.saved if one["epoch"] in judged]
        base = SimpleNamespace(kind="base", epoch=0, sentences=[None] * sentences)
        found = [SimpleNamespace(kind="epoch", epoch=epoch) for epoch in epochs]
        return SimpleNamespace(verdict=SimpleNamespace(epoch=1), candidates=[base, *found])

    evaluator.evaluation = evaluation
    assert ran.trainer.train() == 0 and ran.saved[-1]["epoch"] == last


@pytest.mark.parametrize(
    ("epochs", "batches", "wanted", "said"),
    [
        (4, 0, 4, "The run already has 4 epochs, and NUM_EPOCHS=4."),
        (1, 0, 1, "The run already has 1 epoch, and NUM_EPOCHS=1."),
        (2, 0, 1, "The run already has 2 epochs, and NUM_EPOCHS=1"),
        (1, 3, 1, "The run already has 1 epoch and 3 batches of epoch 2, and NUM_EPOCHS=1"),
    ],
)
def test_what_is_done_already_is_counted(epochs, batches, wanted, said):
    told = nothing_left(epochs, batches, wanted)
    assert told.startswith(said) and f"Set NUM_EPOCHS to {epochs + 1} or more" in told


def test_a_checkpoint_that_is_still_written_holds_up_no_step():
    """Its sample is spoken after the step during which it was finished."""
    saved: list[Any] = []
    writer = SimpleNamespace(
        seconds=0.0,
        background=True,
        idle=False,
        finish=lambda: saved.pop() if saved else None,
        write=lambda state, save: saved.append(save(state)),
    )
    ran = Surroundings(epochs=2, batches=3, writer=writer)

    def logged(one: TrainedStep, *others: Any) -> None:
        ran._logged(one, *others)
        writer.idle = (one.epoch, one.number) >= (2, 2)

    ran.end.logs.log_step = logged
    assert ran.trainer.train() == 0
    order = [event for event in ran.events if event.startswith(("step 2", "sample"))]
    assert order == ["step 2.1", "step 2.2", "sample 1", "step 2.3", "sample 2"]


# Memory


def failing(monkeypatch: pytest.MonkeyPatch, times: int, error: Exception) -> list[int]:
    """`forward_backward` fails `times` times for several clips, with partial gradients."""
    real, tries = stepping.forward_backward, []

    def once(learner: Any, batch: Batch) -> Any:
        found = real(learner, batch)
        tries.append(learner.step)
        if len(batch.clips) > 1 and len(tries) <= times:
            raise error
        return found

    monkeypatch.setattr(stepping, "forward_backward", once)
    return tries


def test_an_error_that_memory_would_not_mend_is_raised_at_once(monkeypatch):
    tries = failing(monkeypatch, 1, ValueError("wrong shape"))
    with pytest.raises(ValueError, match="wrong shape"):
        train_step(a_learner(), a_batch())
    assert tries == [0]


def test_memory_that_stays_short_halves_the_budget_and_the_clips_come_again(monkeypatch, caplog):
    ran = Surroundings(epochs=1, batches=2)
    failing(monkeypatch, 2, torch.OutOfMemoryError(SHORT))
    assert ran.trainer.train() == 0
    assert ran.trainer.batches.halvings == [OomBackoff(1, 0, 1.25)]
    # Four batches of one clip instead of two batches of two.
    assert [event for event in ran.events if "step" in event] == [
        "step 1.1",
        "step 1.2",
        "step 1.3",
        "step 1.4",
    ]
    assert "a batch has 1.2 s" in caplog.text
    assert ran.saved[0]["trainer"]["halvings"] == [[1, 0, 1.25]]


def test_with_several_processes_short_memory_ends_the_run(monkeypatch):
    """The other ranks wait inside the same step."""
    ran = Surroundings()
    ran.learner.world = replace(ALONE, size=2)

    def short(*_: Any, **__: Any) -> None:
        raise torch.OutOfMemoryError(SHORT)

    monkeypatch.setattr(loop, "train_step", short)
    with pytest.raises(torch.OutOfMemoryError):
        ran.trainer._step_or_backoff(1, 0, replace(a_batch(), clips=(0, 1)))
    assert ran.trainer.batches.halvings == []


def test_a_stop_while_the_last_epoch_is_judged_is_told_by_the_exit_code():
    ran = Surroundings(epochs=1)
    ran.end.samples.sampler.finish = lambda: ran.stop.receive(signal.SIGINT)
    assert ran.trainer.train() == 130 and ran.saved[-1]["epoch"] == 1


def test_a_run_ends_with_what_to_do_next(tmp_path):
    run = RunFolder(tmp_path / "of anna")
    assert next_steps(run).splitlines() == [
        f"Serve it: OUTPUT_DIR='{run.folder}' {commands.make('serve')}",
        f"Export it: OUTPUT_DIR='{run.folder}' {commands.program('train export --to')} 'exported/of anna'",
    ]
    run.samples.mkdir(parents=True)
    run.checkpoints.mkdir()
    run.checkpoint_path(2).touch()
    for name in ("epoch_2", "best"):
        sample = run.samples / f"{name}_output.wav"
        sample.touch()
        assert next_steps(run).startswith(f"Listen to it: {sample}\n")
    usual = next_steps(RunFolder(TrainSettings.output_dir)).splitlines()
    assert usual[-2:] == [
        f"Serve it: {commands.make('serve')}",
        f"Export it: {commands.program('train export --to exported/output')}",
    ]


def test_in_a_container_the_next_steps_name_the_mounted_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(commands, "in_image", lambda: True)
    assert next_steps(RunFolder(tmp_path)).splitlines() == [
        "Serve it: docker compose -f docker-compose-gpu.yml up",
        "Export it: docker compose -f docker-compose-training.yml run --rm trainer "
        f"python -m train export --to {tmp_path}/exported",
    ]
