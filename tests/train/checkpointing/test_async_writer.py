"""The writer beside a GPU: steps go on, files are the same, faults are not lost."""

import threading
import time

import pytest
import torch

from machine.storage.atomic import DiskFull
from tests.train.checkpointing.saving import model, provenance, trainer
from train.checkpointing.async_writer import CheckpointWriter, on_cpu
from train.checkpointing.checkpoints import Checkpoints, SavedCheckpoint
from xtts.hub.run_folder import RunFolder

LONG = 20.0


def a_state(value: float) -> dict:
    return {"model": model(value), "trainer": trainer(value)}


def saving(checkpoints: Checkpoints, epoch: int):
    return lambda state: checkpoints.save_epoch(
        epoch, 10 * epoch, state["model"], state["trainer"],
        {"validation_audio_loss": 1.0}, provenance(),
    )  # fmt: skip


def test_steps_go_on_while_it_writes_and_what_is_written_is_what_was():
    let_go, seen = threading.Event(), []

    def slow(state) -> SavedCheckpoint:
        assert let_go.wait(LONG)
        seen.append(state["model"]["gpt.a"].clone())
        return SavedCheckpoint(None, "", 0, 0.0)  # type: ignore[arg-type]

    with CheckpointWriter(background=True) as writer:
        state = a_state(1.0)
        writer.write(state, slow)
        assert not writer.idle  # and yet we are here
        state["model"]["gpt.a"].add_(7.0)  # the next step
        let_go.set()
        writer.finish()
        assert writer.idle
    assert torch.equal(seen[0], torch.ones(5_000))


def test_without_a_thread_it_is_written_when_write_returns_and_nothing_is_copied():
    seen = []
    with CheckpointWriter(background=False) as writer:
        state = a_state(1.0)
        writer.write(state, lambda given: seen.append(given) or SavedCheckpoint(None, "", 0, 0.0))
        assert seen[0] is state and writer.idle


def test_both_ways_write_the_same_bytes(tmp_path):
    digests = []
    for background in (False, True):
        run = RunFolder(tmp_path / str(background))
        with CheckpointWriter(background) as writer:
            writer.write(a_state(2.0), saving(Checkpoints(run, 3), 1))
            saved = writer.finish()
        digests.append((saved.sha256, run.state_path(1).read_bytes()))
    assert digests[0] == digests[1]


def test_never_two_at_once(tmp_path):
    checkpoints, order = Checkpoints(RunFolder(tmp_path), 3), []
    let_go = threading.Event()

    def slow(state) -> SavedCheckpoint:
        assert let_go.wait(LONG)
        order.append("first")
        return saving(checkpoints, 1)(state)

    with CheckpointWriter(background=True) as writer:
        writer.write(a_state(1.0), slow)
        threading.Timer(0.2, let_go.set).start()
        writer.write(
            a_state(2.0), lambda state: order.append("second") or saving(checkpoints, 2)(state)
        )
        assert order[0] == "first"
    assert order == ["first", "second"] and checkpoints.run.epochs() == [1, 2]


def test_a_fault_is_told_at_once_and_raised_where_the_run_looks_next(caplog):
    def full(_state) -> SavedCheckpoint:
        raise DiskFull("No space left for checkpoint_epoch_1.pt.")

    with CheckpointWriter(background=True) as writer:
        writer.write(a_state(1.0), full)
        while not writer.idle:
            time.sleep(0.01)
        assert "No space left for checkpoint_epoch_1.pt" in caplog.text
        with pytest.raises(DiskFull):
            writer.write(a_state(2.0), full)
        assert writer.idle  # what came behind it was not begun


def test_the_end_of_a_run_waits_for_it(tmp_path):
    run = RunFolder(tmp_path)
    with CheckpointWriter(background=True) as writer:
        writer.write(a_state(1.0), saving(Checkpoints(run, 3), 1))
    assert run.epochs() == [1]


def test_a_copy_shares_nothing():
    state = {"a": torch.arange(4.0)[::2], "b": [torch.tensor(3), (1, "x")], "c": None}
    copied = on_cpu(state)
    state["a"].add_(1)
    assert copied["a"].tolist() == [0.0, 2.0] and copied["b"][1] == (1, "x")
    assert copied["b"][0].dim() == 0
