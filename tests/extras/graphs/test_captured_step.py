"""A step as a CUDA graph: on a GPU, and on the CPU with the same code and a recorder that computes
again at each replay."""

import copy
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest
import torch

from benchmarks import synthetic
from extras.graphs.captured_step import (
    MAX_GRAPHS,
    BatchSizes,
    CapturedSteps,
    StaticBatch,
    StepCost,
    graphs_of,
    obstacle,
)
from tests.gpu.conftest import first_gpu
from tests.installed import needs
from tests.operations import as_on_a_gpu
from tests.train.test_step import SHAPE, a_learner, same, weights
from train.dataset.batches import Batch
from train.optim.trainable import TrainableParts
from train.step import Learner, train_step
from xtts.model import training

GPU = pytest.mark.gpu
LORA = {"trainable": TrainableParts(lora_rank=2)}


@pytest.fixture(autouse=True)
def _the_gpus_code() -> Iterator[None]:
    with as_on_a_gpu():
        yield


QUICK = StepCost(1.0, 1.0, 1000)


class Recomputing:
    """A recorder whose replay computes again. It fixes no shapes, so it tests the bookkeeping."""

    def __init__(self, measured: StepCost = QUICK, free: int = 1 << 30) -> None:
        self.found, self.free = measured, free
        self.recorded = 0
        self.fault: Exception | None = None

    def measure(self, compute: Callable[[], object]) -> StepCost:
        compute()
        return self.found

    def capture(self, compute: Callable[[], object]) -> Callable[[], object]:
        self.recorded += 1
        if self.fault:
            raise self.fault
        return compute

    def free_bytes(self) -> int:
        return self.free


def packed(seed: int, clips: int = 3) -> Batch:
    """`clips` clips, with different lengths for each seed."""
    draw = torch.Generator().manual_seed(seed)
    sizes = torch.randint(3, 14, (clips, 3), generator=draw).tolist()
    return synthetic.noise_batch(SHAPE, [(a, b, 20 + c) for a, b, c in sizes], 2.0)


def graphs(learner: Learner, recorder: Recomputing | None = None, after: int = 0) -> CapturedSteps:
    made = CapturedSteps(learner, recorder or Recomputing())
    made.capture_after = after
    return made


def run(learner: Learner, steps: int, captured: CapturedSteps | None = None) -> list[float]:
    taken = [train_step(learner, packed(seed), deferred=True, graphs=captured) for seed in range(steps)]
    return [result.loss for result in learner.read_deferred(taken)]


def a_graph_of_nothing() -> SimpleNamespace:
    return SimpleNamespace(static=SimpleNamespace(sizes=BatchSizes(*[0] * 7)))


def gradients(learner: Learner) -> dict[str, torch.Tensor]:
    return {
        name: parameter.grad.clone()
        for name, parameter in learner.gpt.named_parameters()
        if parameter.grad is not None
    }


@pytest.mark.parametrize("clips", [1, 3, 7])
def test_padding_changes_neither_losses_nor_gradients(clips):
    """Even after a larger batch was in the buffers."""
    learner = a_learner(dropout=0.0)
    batch = packed(1, clips)
    sizes = BatchSizes.of(batch.rows)
    larger = BatchSizes(*(2 * size + 40 for size in sizes))
    static = StaticBatch(larger, batch.rows)
    static.load(packed(2, clips + 1).rows)
    static.load(batch.rows)
    expected = learner.losses_of(batch.rows)
    learner.weighted_loss(expected).backward()
    exact = gradients(learner)
    learner.gpt.zero_grad(set_to_none=True)
    found = learner.losses_of(static.batch())
    shares = static.loss_factors(batch.rows)
    found = found._replace(text=found.text * shares[0], audio=found.audio * shares[1])
    learner.weighted_loss(found).backward()
    assert found.text.item() == pytest.approx(expected.text.item(), rel=1e-6)
    assert found.audio.item() == pytest.approx(expected.audio.item(), rel=1e-6)
    assert gradients(learner).keys() == exact.keys()
    for name, gradient in gradients(learner).items():
        assert torch.allclose(gradient, exact[name], rtol=1e-4, atol=1e-6), name


def test_captured_steps_are_the_steps_without_graphs():
    plain, captured = a_learner(dropout=0.0), a_learner(dropout=0.0)
    steps = graphs(captured)
    expected, found = run(plain, 10), run(captured, 10, steps)
    assert found == pytest.approx(expected, abs=1e-3) and len(steps) >= 1
    assert captured.step == 10 and steps.reason == ""
    for name, weight in weights(captured).items():
        assert torch.allclose(weight, weights(plain)[name], atol=1e-4), name
    # A checkpoint and a step without a graph need plain numbers, not the graph's tensors.
    assert all(isinstance(group["lr"], float) for group in captured.optimizer.param_groups)
    assert not any(group["capturable"] for group in captured.optimizer.param_groups)


def test_a_batch_that_is_not_finite_moves_nothing_as_a_graph_either():
    learner = a_learner()
    steps = graphs(learner)
    run(learner, 4, steps)
    bad = packed(0)
    bad.rows.conditioning[0, 0] = torch.nan
    before, recorded = weights(learner), len(steps)
    result = train_step(learner, bad, deferred=True, graphs=steps)
    assert not learner.read_deferred([result])[0].finite
    assert same(before, weights(learner)) and len(steps) == recorded >= 1
    # No NaN remains in the buffers.
    assert all(map(torch.isfinite, map(torch.tensor, run(learner, 4, steps))))


def test_capturing_moves_nothing_and_draws_the_dropout_of_the_step():
    learner, twin = a_learner(), a_learner()
    batch, losses = packed(1), []
    for learning, captures in ((learner, 1), (twin, 3)):
        train_step(learning, packed(0), deferred=True)
        steps = graphs(learning)
        steps._rate.fill_(1e-3)
        before = weights(learning)
        for _ in range(captures):
            assert steps._capture_graph(BatchSizes.of(batch.rows), batch.rows)
            torch.rand(3)  # whatever happens between two steps
        assert same(before, weights(learning))
        result = train_step(learning, batch, deferred=True, graphs=steps)
        losses.append(learning.read_deferred([result])[0])
    assert losses[0] == losses[1] and same(weights(learner), weights(twin))


def test_a_graph_is_captured_where_it_would_have_been_used_often():
    learner, recorder = a_learner(), Recomputing()
    steps = graphs(learner, recorder, after=3)
    used = []
    for _ in range(8):
        train_step(learner, packed(0), deferred=True, graphs=steps)
        used.append(recorder.recorded)
    assert used == [0, 0, 0, 1, 1, 1, 1, 1]


def test_there_are_no_more_graphs_than_may_be():
    learner, recorder = a_learner(), Recomputing()
    steps = graphs(learner, recorder)
    steps._graphs = [a_graph_of_nothing()] * (MAX_GRAPHS - 1)
    for clips in (2, 3, 12, 13, 20):
        train_step(learner, packed(0, clips), deferred=True, graphs=steps)
    assert len(steps) == MAX_GRAPHS and recorder.recorded == 1


@pytest.mark.parametrize(
    "recorder",
    [Recomputing(StepCost(1.0, 2.0, 1000)), Recomputing(free=2000)],
    ids=["a GPU that is busy", "memory that is short"],
)
def test_a_step_that_gains_nothing_or_has_no_room_is_not_captured(recorder):
    learner = a_learner()
    steps = graphs(learner, recorder)
    expected, found = run(a_learner(), 6), run(learner, 6, steps)
    assert found == expected and recorder.recorded == 0 and steps.reason == ""


def test_a_capture_that_fails_gives_its_reason_and_the_step_runs_without(caplog):
    learner, recorder = a_learner(), Recomputing()
    recorder.fault = RuntimeError("CUDA error: operation not permitted\nmore")
    steps = graphs(learner, recorder)
    assert run(learner, 6, steps) == run(a_learner(), 6)
    assert "without CUDA graphs, more slowly: CUDA error: operation not permitted" in caplog.text
    assert recorder.recorded == 1 and not steps


def test_a_replay_that_differs_is_found_before_it_moves_a_weight(caplog):
    learner, recorder = a_learner(), Recomputing()
    recorder.capture = lambda compute: lambda: None  # as if captured on another GPU
    steps = graphs(learner, recorder)
    assert run(learner, 6, steps) == run(a_learner(), 6)
    assert "off by" in caplog.text and steps.reason


def test_short_memory_releases_the_graphs(monkeypatch):
    learner = a_learner()
    steps = graphs(learner)
    run(learner, 3, steps)
    assert len(steps)
    tries = []

    def losses(rows: object) -> object:
        tries.append(rows)
        if len(tries) == 1:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
        return training.losses(learner.gpt, rows)

    monkeypatch.setattr(learner, "forward_losses", losses)
    result = train_step(learner, packed(0, clips=9), deferred=True, graphs=steps)
    assert learner.read_deferred([result])[0].finite
    assert len(steps) == 0 and "memory" in steps.reason


def test_a_cpu_has_no_graphs():
    assert graphs_of(a_learner()) is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"precision": "fp16"}, "fp16"),
        pytest.param({"optimizer": "adamw8bit"}, "OPTIMIZER=adamw8bit", marks=needs("eight_bit")),
        ({"trainable": TrainableParts(ema_decay=0.9)}, "the weights are averaged"),
        ({"trainable": TrainableParts(recompute=True)}, "GRADIENT_CHECKPOINTING"),
        ({}, ""),
    ],
)
def test_what_a_graph_cannot_hold_is_said(changes, reason):
    found = obstacle(a_learner(**changes))
    assert found.startswith(reason) and bool(found) == bool(reason)


def test_adapters_rehearsed():
    plain, captured = a_learner(dropout=0.0, **LORA), a_learner(dropout=0.0, **LORA)
    steps = graphs(captured)
    assert run(captured, 4, steps) == pytest.approx(run(plain, 4), abs=1e-3) and len(steps) >= 1


# On a GPU


@pytest.fixture
def device() -> str:
    return first_gpu()


def pair_on(device: str, dropout: float, **changes) -> tuple[Learner, Learner, CapturedSteps]:
    first = a_learner(dropout=dropout, **changes)
    pair = [Learner(copy.deepcopy(first.gpt), first.config, device) for _ in range(2)]
    steps = graphs_of(pair[1])
    assert steps is not None
    steps.capture_after, steps.gpu_bound = 0, float("inf")
    return *pair, steps


@GPU
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_fifty_captured_steps_on_a_gpu(device, precision):
    if precision == "bf16" and not torch.cuda.is_bf16_supported():
        pytest.skip("This GPU has no bf16.")
    plain, captured, steps = pair_on(device, 0.0, precision=precision)
    expected, found = run(plain, 50), run(captured, 50, steps)
    assert steps.reason == "" and len(steps) >= 1
    assert found == pytest.approx(expected, abs=1e-3 if precision == "fp32" else 2e-2)


@GPU
def test_a_graphs_dropout_on_a_gpu_is_that_of_the_step(device):
    """The same padded batch with and without a graph; each step draws another mask."""
    plain, captured, steps = pair_on(device, 0.1)
    without = CapturedSteps(plain, Recomputing())
    without.capture_after = 0
    expected, found = run(plain, 20, without), run(captured, 20, steps)
    assert found == pytest.approx(expected, abs=1e-3) and len(steps) == len(without) >= 1
    same_batch = [
        captured.read_deferred([train_step(captured, packed(0), deferred=True, graphs=steps)])[0]
        for _ in range(2)
    ]
    assert same_batch[0].loss != same_batch[1].loss


@GPU
def test_adapters_are_captured_too(device):
    first, recipe = a_learner(dropout=0.0).gpt, a_learner(**LORA).config
    pair = [Learner(copy.deepcopy(first), recipe, device) for _ in range(2)]
    steps = graphs_of(pair[1])
    assert steps is not None
    steps.capture_after, steps.gpu_bound = 0, float("inf")
    expected, found = run(pair[0], 12), run(pair[1], 12, steps)
    assert found == pytest.approx(expected, abs=1e-3)
    assert steps.reason == "" and len(steps) >= 1


@GPU
def test_a_failed_capture_on_a_gpu_leaves_training_well(device):
    """Dropout's generator, the stream and the allocator recover; otherwise the allocator would keep
    prefetched batches."""
    plain, captured, steps = pair_on(device, 0.1)
    whole = steps._run_step

    def waits(graph: object) -> None:
        whole(graph)
        torch.ones(1, device=device).item()

    steps._run_step = waits
    current = torch.cuda.current_stream()
    expected, found = run(plain, 8), run(captured, 8, steps)
    assert steps.reason and found == pytest.approx(expected, abs=1e-3)
    assert torch.cuda.current_stream() == current
    held, side = [], torch.cuda.Stream()
    for _ in range(20):
        with torch.cuda.stream(side):
            far = torch.empty(32 << 20, dtype=torch.uint8, device=device)
        far.record_stream(current)
        del far
        torch.cuda.synchronize()
        held.append(torch.cuda.memory_allocated())
    assert held[-1] <= held[2]


@GPU
def test_a_capture_while_another_thread_pins_memory(device):
    """As when batches are prefetched."""
    from concurrent.futures import ThreadPoolExecutor

    _, captured, steps = pair_on(device, 0.1)
    with ThreadPoolExecutor(1) as pool:
        pinning = pool.submit(lambda: [torch.empty(1 << 22).pin_memory() for _ in range(200)])
        run(captured, 10, steps)
        pinning.result()
    assert steps.reason == "" and len(steps) >= 1
