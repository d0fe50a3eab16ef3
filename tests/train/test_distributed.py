"""Several processes act as one run: the same gradients, the same steps, the same stop."""

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch

from machine.devices.recovery import GpuLost
from machine.errors import SotaqueError
from tests.train import together
from tests.train.test_step import SHAPE, a_batch, a_learner, same, weights
from train.dataset.batches import Batch, with_agreement
from train.distributed import ALONE, Agreement, World, connect, device_of, world_of
from train.epoch_end import mean_losses
from train.step import Learner, StepResult, forward_backward, train_step
from xtts.model.training import pack


def a_small_learner(world: World = ALONE, **changes) -> Learner:
    like = a_learner(dropout=0.0, **changes)
    return Learner(like.gpt, like.config, "cpu", world)


def clips(numbers) -> Batch:
    """Clips of different lengths, so that the ranks have different numbers of tokens."""
    tokens, codes, mels = [], [], []
    for number in numbers:
        draw = torch.Generator().manual_seed(number)
        tokens.append(torch.randint(2, 27, (3 + 2 * number,), generator=draw))
        codes.append(torch.randint(0, 16, (5 + 6 * number,), generator=draw))
        mels.append(torch.randn(80, 20 + number, generator=draw))
    rows = pack(tokens, codes, mels, SHAPE, stop_input=False)
    return Batch(rows, tuple(numbers), 1.0)


def a_part(world: World) -> Batch:
    """Rank 0 has one short clip, rank 1 three longer ones."""
    return clips([0]) if world.is_main else clips([1, 2, 3])


def whole() -> dict[str, torch.Tensor]:
    """The gradients of one process that has all clips."""
    learner = a_small_learner()
    learner.gpt.train()
    forward_backward(learner, clips([0, 1, 2, 3]))
    return {name: p.grad for name, p in learner.gpt.named_parameters()}


def assert_close(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        worst = float((found[name] - gradient).abs().max())
        assert worst <= 1e-6, f"{name} differs by {worst:.1e}"


def on_two_ranks(tmp_path: Path, work: Callable[[World], Any]) -> list[Any]:
    """The results of `work`, by rank."""

    def told(world: World) -> None:
        torch.save(work(world), tmp_path / f"{world.rank}.pt")

    assert together.ranks(2, told) == [0, 0]
    return [torch.load(tmp_path / f"{rank}.pt", weights_only=False) for rank in range(2)]


def test_gradients_are_those_of_one_process_with_all_tokens(tmp_path):
    out = tmp_path / "gradients.pt"
    assert together.ranks(2, lambda world: together.gradients(world, out)) == [0, 0]
    assert_close(torch.load(out), whole())


def test_a_rank_without_clips_takes_part(tmp_path):
    """As at the end of an epoch, when one clip is left for two ranks."""

    def work(world: World) -> tuple[dict[str, torch.Tensor], StepResult]:
        learner, batch = a_small_learner(world), clips([2])
        if not world.is_main:
            batch = Batch(batch.rows.without_targets(), (), 0.0)
        result = train_step(learner, batch)
        return weights(learner), result

    (one, found), (other, told) = on_two_ranks(tmp_path, work)
    result = train_step(a_small_learner(), clips([2]))
    assert found == told and same(one, other)
    assert found.losses["audio_loss"] == pytest.approx(result.losses["audio_loss"], abs=1e-6)
    assert found.gradient_norm == pytest.approx(result.gradient_norm, abs=1e-5)


def test_steps_and_validation_are_those_of_one_process(tmp_path):
    def work(world: World) -> tuple[list[StepResult], dict[str, float]]:
        learner = a_small_learner(world)
        results = [train_step(learner, a_part(world)) for _ in range(3)]
        return results, mean_losses(learner, [a_part(world)])

    one, other = on_two_ranks(tmp_path, work)
    assert one == other
    alone = a_small_learner()
    results, validation = one
    for result in results:
        expected = train_step(alone, clips([0, 1, 2, 3]))
        assert result.losses == pytest.approx(expected.losses, abs=2e-5)
        assert result.gradient_norm == pytest.approx(expected.gradient_norm, rel=1e-4)
    assert validation == pytest.approx(mean_losses(alone, [clips([0, 1, 2, 3])]), abs=2e-5)


def test_a_step_that_is_no_number_on_one_rank_moves_nothing_on_any(tmp_path):
    def work(world: World) -> tuple[bool, bool]:
        learner = a_small_learner(world)
        before = weights(learner)
        result = train_step(learner, a_batch(poison=not world.is_main))
        return result.finite, same(before, weights(learner))

    assert on_two_ranks(tmp_path, work) == [(False, True)] * 2


def test_ranks_that_run_ahead_of_their_devices_learn_what_waiting_ones_learn(tmp_path):
    """No rank waits for its device: a step's data from other ranks is requested one step ahead, and
    results are read at the end. One step is NaN on one rank."""

    def work(world: World) -> tuple[list[StepResult], list[StepResult], bool, list[int]]:
        waiting, ahead = a_small_learner(world), a_small_learner(world)
        made = [a_part(world), a_batch(poison=not world.is_main), a_part(world), a_part(world)]
        expected = [train_step(waiting, one) for one in made]
        read: list[int] = []
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(World, "all_reduce", lambda *_: read.append(1))  # no blocking reduction
            batches = with_agreement(iter(made), world, lambda: False)
            deferred = [train_step(ahead, batch, deferred=True) for batch in batches]
        return expected, ahead.read_deferred(deferred), same(weights(ahead), weights(waiting)), read

    told = on_two_ranks(tmp_path, work)
    for expected, found, is_same, read in told:
        assert is_same and not read
        assert [one.finite for one in found] == [True, False, True, True]
        for one, other in zip(found, expected, strict=True):
            if one.finite:
                assert one.loss == pytest.approx(other.loss, rel=1e-5)
                assert one.losses == pytest.approx(other.losses, rel=1e-5)
                assert one.gradient_norm == pytest.approx(other.gradient_norm, rel=1e-4)
    one, other = ([step.loss for step in found if step.finite] for _, found, *_ in told)
    assert one == other


def test_every_rank_stops_behind_the_same_step(tmp_path):
    """Whichever rank gets the signal, and whenever."""

    def work(world: World) -> int:
        seen: list[Batch] = []
        made = iter([a_part(world)] * 6)
        for batch in with_agreement(made, world, lambda: len(seen) > 1 and world.is_main):
            seen.append(batch)
            if batch.agreement.stop:
                break
        return len(seen)

    assert on_two_ranks(tmp_path, work) == [4, 4]


def test_ranks_drop_differently():
    learners = [a_learner(dropout=0.5) for _ in range(2)]
    learners[1].world = World(rank=1, size=1)
    one, other = (train_step(learner, a_batch()) for learner in learners)
    assert one.losses["audio_loss"] != other.losses["audio_loss"]


def test_alone_there_is_nobody_to_ask():
    assert ALONE.all_reduce(1.0, 2.0) == [1.0, 2.0]
    ALONE.barrier()
    assert Agreement(ALONE, a_batch().rows).rank_weights == (1.0, 1.0)
    made = [a_batch(), a_batch()]
    assert all(one is other for one, other in zip(with_agreement(iter(made), ALONE, bool), made))


TORCHRUN = {
    "RANK": "1",
    "WORLD_SIZE": "4",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "a",
    "MASTER_PORT": "1",
}


def test_the_world_is_what_torchrun_says():
    assert world_of({}) == ALONE
    assert world_of(TORCHRUN) == World(1, 4, 1, 2)
    assert world_of({**TORCHRUN, "TORCHELASTIC_RESTART_COUNT": "2"}).restarts == 2
    assert not world_of(TORCHRUN).is_main and world_of({**TORCHRUN, "RANK": "0"}).is_main


@pytest.mark.parametrize(
    ("changed", "words"),
    [({"RANK": "x"}, "is not a number"), ({"MASTER_PORT": None}, "MASTER_PORT is not set")],
)
def test_half_a_world_is_refused(changed, words):
    given = {name: value for name, value in (TORCHRUN | changed).items() if value is not None}
    with pytest.raises(SotaqueError, match=words) as raised:
        world_of(given)
    assert raised.value.exit_code == 2


def test_every_rank_has_a_gpu_of_its_own(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert device_of(World(3, 4, 1, 2), "cuda:0") == "cuda:1"
    assert device_of(World(3, 4, 1, 2), "cpu") == "cpu"
    assert device_of(ALONE, "cuda:2") == "cuda:2"
    # All GPUs visible, and one GPU visible to each rank.
    assert device_of(World(3, 4, 1, 2), "cuda:0", "4,5") == "cuda:1"
    assert device_of(World(3, 4, 1, 2), "cuda:0", "GPU-5ac1") == "cuda:0"


@pytest.mark.parametrize(
    ("error", "told"),
    [(None, 1), (ValueError("another"), 1), (GpuLost("cuda:0 failed and cannot be used"), 0)],
)
def test_a_lost_gpu_leaves_the_others_without_a_word(monkeypatch, error, told):
    """NCCL would wait for the dead context, and exit 70 would never happen."""
    goodbyes: list[int] = []
    monkeypatch.setattr("torch.distributed.init_process_group", lambda *_, **__: None)
    monkeypatch.setattr("torch.distributed.destroy_process_group", lambda: goodbyes.append(1))
    monkeypatch.setattr("train.distributed._store", lambda _: None)
    with pytest.raises(type(error)) if error else nullcontext(), connect(World(0, 2), "cuda:0"):
        if error:
            raise error
    assert len(goodbyes) == told


@pytest.mark.slow
def test_two_nodes_on_loopback(tmp_path):
    """Two torchrun agents that find each other, with one process each."""
    out, children = tmp_path / "gradients.pt", []
    for _node in range(2):
        words = (
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--nnodes=2",
            "--nproc-per-node=1",
            "--rdzv-backend=c10d",
            "--rdzv-endpoint=127.0.0.1:29471",
            f"--rdzv-id={os.getpid()}",
            "-m",
            "tests.train.together",
            str(out),
        )
        environ = os.environ | {"OMP_NUM_THREADS": "1"}
        children.append(subprocess.Popen(words, env=environ))
    assert [child.wait(timeout=240) for child in children] == [0, 0]
    assert_close(torch.load(out), whole())
