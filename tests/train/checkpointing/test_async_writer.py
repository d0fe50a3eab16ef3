"""The background writer: steps continue, files are the same, faults are not lost."""

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from machine.storage.files import DiskFull
from tests.train.checkpointing.saving import model, trainer
from tests.train.test_step import a_batch, a_learner
from train.checkpointing import async_writer
from train.checkpointing.async_writer import CheckpointWriter
from train.checkpointing.checkpoints import Checkpoints
from train.optim.trainable import TrainableParts
from train.step import train_step
from xtts.model.gpt import to_coqui
from xtts.voices.run_folder import RunFolder, VerifiedCheckpoint

LONG = 20.0
SAVED: Any = SimpleNamespace(sha256="")


def a_state(value: float) -> dict:
    return {"model": model(value), "trainer": trainer(value)}


def saving(checkpoints: Checkpoints, epoch: int):
    return lambda state: checkpoints.save_epoch(
        epoch, 10 * epoch, state["model"], state["trainer"], {"validation_audio_loss": 1.0}
    )


def test_steps_go_on_while_it_writes_and_what_is_written_is_what_was():
    let_go, seen = threading.Event(), []

    def slow(state) -> VerifiedCheckpoint:
        assert let_go.wait(LONG)
        seen.append(state["model"]["gpt.a"].clone())
        return SAVED

    with CheckpointWriter(background=True) as writer:
        state = a_state(1.0)
        writer.write(state, slow)
        assert not writer.idle  # yet `write` has returned
        state["model"]["gpt.a"].add_(7.0)  # the next step
        let_go.set()
        writer.finish()
        assert writer.idle
    assert torch.equal(seen[0], torch.ones(5_000))


def test_without_a_thread_it_is_written_when_write_returns_and_nothing_is_copied():
    seen = []
    with CheckpointWriter(background=False) as writer:
        state = a_state(1.0)
        writer.write(state, lambda given: seen.append(given) or SAVED)
        assert seen[0] is state and writer.idle


def test_both_ways_have_written_the_same_bytes_when_the_writer_ends(tmp_path):
    written = []
    for background in (False, True):
        run = RunFolder(tmp_path / str(background))
        with CheckpointWriter(background) as writer:
            writer.write(a_state(2.0), saving(Checkpoints(run, 3), 1))
        written.append([path(1).read_bytes() for path in (run.checkpoint_path, run.state_path)])
    assert written[0] == written[1]


def test_never_two_at_once(tmp_path):
    checkpoints, order = Checkpoints(RunFolder(tmp_path), 3), []
    let_go = threading.Event()

    def slow(state) -> VerifiedCheckpoint:
        assert let_go.wait(LONG)
        order.append("first")
        return saving(checkpoints, 1)(state)

    with CheckpointWriter(background=True) as writer:
        writer.write(a_state(1.0), slow)
        threading.Timer(0.2, let_go.set).start()
        writer.write(a_state(2.0), lambda state: order.append("second") or saving(checkpoints, 2)(state))
        assert order[0] == "first"
    assert order == ["first", "second"] and checkpoints.run.epochs() == [1, 2]


def test_a_fault_is_told_at_once_and_raised_where_the_run_looks_next(caplog):
    def full(_state) -> VerifiedCheckpoint:
        raise DiskFull("No space left for checkpoint_epoch_1.pt.")

    with CheckpointWriter(background=True) as writer:
        writer.write(a_state(1.0), full)
        while not writer.idle:
            time.sleep(0.01)
        assert "No space left for checkpoint_epoch_1.pt" in caplog.text
        with pytest.raises(DiskFull):
            writer.write(a_state(2.0), full)
        assert writer.idle  # the second write was not started


class FakeGpu:
    """Its copies arrive only when they are waited for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, most: int = 1_000) -> None:
        self.pinned, self.most, self.waits = 0, most, 0
        monkeypatch.setattr(async_writer, "is_on_gpu", lambda one: one.dim() > 0)
        monkeypatch.setattr(async_writer, "pinned_like", self.pin)
        monkeypatch.setattr(async_writer, "waiter_for_copies", lambda _: self.wait)

    def pin(self, like: torch.Tensor) -> torch.Tensor:
        if self.pinned == self.most:
            raise RuntimeError("CUDA error: out of memory\nmore")
        self.pinned += 1
        return torch.empty_like(like)

    def wait(self) -> None:
        self.waits += 1
        assert threading.current_thread() is not threading.main_thread()


def test_pinned_memory_is_taken_once_and_only_the_writer_waits(monkeypatch, tmp_path):
    gpu, digests, taken = FakeGpu(monkeypatch), [], 0
    with CheckpointWriter(background=True) as writer:
        for epoch in (1, 2, 3):
            writer.write(a_state(float(epoch)), saving(Checkpoints(RunFolder(tmp_path), 3), epoch))
            digests.append(writer.finish().sha256)
            assert gpu.waits == epoch
            taken = taken or gpu.pinned
    assert gpu.pinned == taken > 0 and len(set(digests)) == 3
    for epoch in (1, 2, 3):
        saved = torch.load(RunFolder(tmp_path).checkpoint_path(epoch), weights_only=True)
        assert all(torch.equal(saved["model"][n], t) for n, t in model(float(epoch)).items())


def test_where_no_more_can_be_pinned_it_is_copied_all_the_same(monkeypatch, caplog):
    FakeGpu(monkeypatch, most=1)
    staging = async_writer.PinnedStaging()
    for value in (1.0, 2.0):
        state = {"a": torch.full((3,), value), "b": [torch.full((2,), value), torch.tensor(5)]}
        copied, _ = staging.copy_to_cpu(state)
        state["a"].add_(9)
        assert copied["a"].tolist() == [value] * 3 and copied["b"][0].tolist() == [value] * 2
        assert copied["b"][1] == 5
    assert caplog.text.count("without pinned memory") == 1


def test_no_more_is_pinned_than_the_machine_can_spare(monkeypatch):
    gpu = FakeGpu(monkeypatch)
    staging = async_writer.PinnedStaging(max_bytes=30)
    for _ in range(2):
        copied, _ = staging.copy_to_cpu({"a": torch.ones(5), "b": torch.ones(5), "c": torch.ones(2)})
        assert {name: len(one) for name, one in copied.items()} == {"a": 5, "b": 5, "c": 2}
    assert gpu.pinned == 2


@pytest.mark.parametrize(
    "parts", [TrainableParts(), TrainableParts(ema_decay=0.9), TrainableParts(lora_rank=2)]
)
def test_what_is_saved_beside_a_gpu_is_what_is_saved_on_a_cpu(parts):
    learner = a_learner(trainable=parts)
    train_step(learner, a_batch(0))
    wanted = {name: tensor.clone() for name, tensor in learner.model_state().items()}
    kept, _ = async_writer.PinnedStaging().copy_to_cpu(learner.weights.unsaved_state())
    train_step(learner, a_batch(1))
    found = to_coqui(kept)
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in wanted.items())
