"""Decoding one code, without modules and as a CUDA graph replays it, tested without a GPU: the same
numbers at fixed addresses, without waiting for the device. How many slots fit on a card."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from demo_voice.new_gpt import new_gpt
from machine.devices.graph_capture import cuda_graph
from tests.xtts.inference.small_gpt import SHAPE, asked, said_by, speaking, utterance
from xtts.inference import decode_step
from xtts.inference.decode_step import CudaGraphStep, DecodeStep
from xtts.inference.torch_backend import DecodingSlots, prefill
from xtts.model import quantization
from xtts.model.gpt import GPT
from xtts.model.kv_cache import KeyValueCache
from xtts.model.shapes import GPTShape


def filled(gpt: GPT, rows: int) -> KeyValueCache:
    """A cache that holds nine positions."""
    cache = gpt.gpt.new_cache(rows, 30)
    gpt.prefill(
        torch.randn(rows, 9, SHAPE.width, generator=torch.Generator().manual_seed(1)), cache
    )
    return cache


@pytest.mark.parametrize("kind", quantization.KINDS)
@pytest.mark.parametrize("rows", [1, 3])
@torch.inference_mode()
def test_a_step_says_what_the_modules_say(kind, rows):
    gpt = new_gpt(SHAPE, seed=3).eval()
    for name, linear in list(gpt.gpt.named_modules()):
        if isinstance(linear, nn.Linear) and kind != "bf16":
            parent, _, own = name.rpartition(".")
            packed = quantization.packed_linear(kind, linear.weight, linear.bias)
            setattr(gpt.gpt.get_submodule(parent), own, packed)
    if kind == "bf16":
        gpt.gpt.to(torch.bfloat16)
        gpt.gpt.cache_type = torch.bfloat16
    ours, theirs = filled(gpt, rows), filled(gpt, rows)
    step = DecodeStep(gpt)
    for number in range(1, 6):
        codes = torch.arange(rows) + number
        positions = torch.full_like(codes, number)
        found = step(codes, positions, ours)
        wanted = gpt.prefill(gpt.audio_input(codes, positions), theirs)
        for one, other in zip(found, wanted, strict=True):
            assert torch.equal(one, other) and one.dtype == torch.float32
    assert ours.length == theirs.length == 14


@torch.inference_mode()
def test_a_memory_in_bfloat16_is_as_far_off_as_its_bits_allow():
    gpt = new_gpt(SHAPE, seed=3).eval()
    gpt.mel_head.weight.mul_(8.0)
    exact, step = filled(gpt, 2), DecodeStep(gpt)
    gpt.gpt.cache_type = torch.bfloat16
    short = filled(gpt, 2)
    assert short.entries.dtype == torch.bfloat16
    for number in range(1, 6):
        codes = torch.tensor([number, 3 * number])
        wanted, _ = step(codes, torch.full_like(codes, number), exact)
        found, _ = step(codes, torch.full_like(codes, number), short)
        assert 0 < float((found - wanted).norm() / wanted.norm()) < 0.01
        assert found.dtype == torch.float32


@pytest.fixture(scope="module")
def gpt() -> GPT:
    return speaking()


class NoWaiting(TorchDispatchMode):
    """Refuses what a graph cannot hold: reading a device value, or a shape from a value."""

    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        name = function.name()
        assert not name.startswith(("aten::_local_scalar_dense", "aten::nonzero", "aten::item"))
        return function(*arguments, **(named or {}))


class FakeGraph:
    """Records one watched run; replays from its addresses into its results."""

    def __init__(self) -> None:
        self.recorded = self.replayed = 0

    def __call__(self, compute: Callable[[], tuple[Tensor, Tensor]]):
        self.recorded += 1
        compute()  # the warm-up
        with NoWaiting():
            found = compute()

        def replay() -> None:
            self.replayed += 1
            for there, new in zip(found, compute(), strict=True):
                there.copy_(new)

        return found, replay


def read(gpt: GPT, number: int) -> KeyValueCache:
    return prefill(gpt, *asked(number), utterance(gpt, 0))


def says_what_plain_steps_say(
    gpt: GPT, steps: CudaGraphStep, caches: dict[int, KeyValueCache], codes: Tensor, position: int
) -> None:
    """Compares a step of all slots with a step of each slot alone."""
    found = steps(codes, torch.full_like(codes, position))
    for slot, cache in caches.items():
        row = slice(slot, slot + 1)
        wanted = gpt.prefill(gpt.audio_input(codes[row], position), cache)
        for one, other, most in zip(found, wanted, (1e-5, 1e-4), strict=True):
            assert torch.allclose(one[row], other, atol=most)


@pytest.mark.parametrize("slots", [1, 3])
@torch.inference_mode()
def test_replayed_steps_say_what_plain_ones_say(gpt, monkeypatch, slots):
    monkeypatch.setattr(decode_step, "SPAN", 16)
    fake = FakeGraph()
    steps = CudaGraphStep(gpt, slots, fake)
    plain = {slot: read(gpt, number) for slot, number in enumerate((5, 1)[:slots])}
    for slot, cache in plain.items():
        steps.caches.enter(slot, cache)
    for position in range(1, 20):
        codes = torch.tensor([position, 2 * position, 0])[:slots]
        says_what_plain_steps_say(gpt, steps, plain, codes, position)
    # 64 positions at first, 82 at the end: a graph for every 16.
    assert fake.recorded == 3
    assert fake.replayed == 19 and not steps.reason
    wanted_lengths = [cache.length for cache in plain.values()] + [0]
    assert steps.caches.lengths.tolist() == wanted_lengths[:slots]


@torch.inference_mode()
def test_who_speaks_alone_does_not_attend_in_empty_slots(gpt, monkeypatch):
    """Others come and go: the attended span changes, but not the codes."""
    monkeypatch.setattr(decode_step, "SPAN", 48)
    fake = FakeGraph()
    steps, caches = CudaGraphStep(gpt, 6, fake), {0: read(gpt, 1)}
    steps.caches.enter(0, caches[0])
    seen = []
    for position in range(1, 16):
        for slot in (1, 2, 3, 4) if position == 6 else ():
            caches[slot] = read(gpt, slot)
            steps.caches.enter(slot, caches[slot])
        for slot in {3: (), 11: (4,), 14: (1, 2, 3)}.get(position, ()):
            steps.caches.leave(slot)
            del caches[slot]
        says_what_plain_steps_say(gpt, steps, caches, torch.arange(6) + position, position)
        seen.append((steps.caches.attended, steps.caches.span))
    assert [attended for attended, _ in seen] == [1] * 5 + [6] * 5 + [4] * 3 + [1] * 2
    assert {span for _, span in seen} == {48, 96}
    assert fake.recorded == len(set(seen)) and not steps.reason


@torch.inference_mode()
def test_a_crowd_records_everything_before_anybody_speaks(gpt, monkeypatch):
    monkeypatch.setattr(decode_step, "SPAN", 64)
    fake = FakeGraph()
    steps = CudaGraphStep(gpt, 6, fake)
    steps.record()
    # 1, 4 and 6 slots; 64, 128 and all 140 positions.
    assert fake.recorded == len(steps._graphs) == 3 * -(-steps.caches.capacity // 64)
    assert steps.caches.lengths.tolist() == [0] * 6
    steps.caches.enter(0, read(gpt, 5))
    for position in range(1, 20):
        steps(torch.arange(6), torch.full((6,), position))
    assert fake.recorded == len(steps._graphs)


@torch.inference_mode()
def test_a_slot_that_is_left_disturbs_nobody(gpt):
    steps, caches = CudaGraphStep(gpt, 2, FakeGraph()), {0: read(gpt, 1), 1: read(gpt, 2)}
    for slot, cache in caches.items():
        steps.caches.enter(slot, cache)
    says_what_plain_steps_say(gpt, steps, caches, torch.tensor([1, 2]), 1)
    steps.caches.leave(0)
    stays = {1: caches[1]}
    for position in range(2, 5):
        says_what_plain_steps_say(gpt, steps, stays, torch.tensor([0, position]), position)
    assert steps.caches.lengths.tolist() == [0, caches[1].length]


def test_the_loop_says_the_same_codes_with_graphs(gpt, monkeypatch):
    """Two utterances, one after the other, through the same graph."""
    plain = [said_by(gpt, n) for n in (1, 4)]
    with torch.inference_mode():
        steps = CudaGraphStep(gpt, 1, FakeGraph())
    monkeypatch.setattr(decode_step, "graphed_step", lambda *_, **__: steps.borrow())
    for number, wanted in zip((1, 4), plain, strict=True):
        found = said_by(gpt, number)
        assert found.codes == wanted.codes and len(found.codes) > 5
        assert torch.allclose(torch.stack(found.latents), torch.stack(wanted.latents), atol=1e-5)


def test_the_queries_of_every_slot_lie_in_fixed_buffers(gpt, monkeypatch):
    """The guard's queries of two utterances: attention is the same with graphs."""
    heads = ((0, 1), (2, 3))

    def looked() -> list[np.ndarray]:
        slots = DecodingSlots(gpt, 2, (0, 2))
        said = [utterance(gpt, number, None, heads) for number in (1, 4)]
        for number, state in zip((1, 4), said, strict=True):
            slots.enter(*asked(number), state)
        while slots.step():
            pass
        found = [state.attention() for state in said]
        return [rows for rows in found if rows is not None]

    plain = looked()
    with torch.inference_mode():
        steps = CudaGraphStep(gpt, 2, FakeGraph(), (0, 2))
    monkeypatch.setattr(decode_step, "graphed_step", lambda *_, **__: steps)
    places = {layer: queries.data_ptr() for layer, queries in steps.caches.queries.items()}
    graphed = looked()
    assert len(plain) == len(graphed) == 2
    for rows, wanted in zip(graphed, plain, strict=True):
        assert len(wanted) > 5 and np.allclose(rows, wanted, atol=1e-5)
    assert places == {layer: q.data_ptr() for layer, q in steps.caches.queries.items()}
    assert set(places) == {0, 2}


def refused(compute: Callable[[], tuple[Tensor, Tensor]]):
    compute()
    raise RuntimeError("CUDA error: operation not permitted when stream is capturing\nmore")


def empty(compute: Callable[[], tuple[Tensor, Tensor]]):
    """Like a capture of the stream of another GPU: nothing is replayed, and the results keep the
    values of the capture."""
    return tuple(torch.zeros_like(one) for one in compute()), lambda: None


@pytest.mark.parametrize(
    ("capture", "reason"), [(refused, "operation not permitted"), (empty, "is off by")]
)
@torch.inference_mode()
def test_a_capture_that_fails_or_replays_something_else_is_told_and_not_used(
    gpt, caplog, capture, reason
):
    steps, caches = CudaGraphStep(gpt, 1, capture), {0: read(gpt, 1)}
    steps.caches.enter(0, caches[0])
    for position in (1, 2, 3):
        says_what_plain_steps_say(gpt, steps, caches, torch.tensor([7]), position)
    assert reason in steps.reason and caplog.text.count("without CUDA graphs") == 1
    assert decode_step.graphed_step(gpt) is None  # a CPU never uses a graph


def test_two_streams_of_one_model_do_not_write_into_one_cache(gpt, monkeypatch):
    """A notebook takes a chunk of one sentence, then one of another."""
    kept: list[CudaGraphStep] = []

    def borrowed(*_: object, **__: object) -> CudaGraphStep:
        free = next((one for one in kept if not one.in_use), None)
        if free is None:
            kept.append(free := CudaGraphStep(gpt, 1, FakeGraph()))
        return free.borrow()

    alone = [said_by(gpt, n) for n in (1, 4)]
    monkeypatch.setattr(decode_step, "graphed_step", borrowed)
    said = [utterance(gpt, n) for n in (1, 4)]
    streams = [DecodingSlots(gpt, 1) for _ in said]
    for stream, number, one in zip(streams, (1, 4), said, strict=True):
        stream.enter(*asked(number), one)
    while any(stream.step() for stream in streams):
        pass
    assert [one.codes for one in said] == [one.codes for one in alone]
    assert len(kept) == 2 and all(one.in_use for one in kept)
    del stream
    streams.clear()  # an abandoned stream returns its cache, too
    assert not any(one.in_use for one in kept)


class FakeCuda:
    """Records the calls of `cuda_graph` to torch.cuda, in order; a stream is its number."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:
        self.said: list[str] = []
        self.on, self.streams, self.fails = "own", 0, fails
        fakes = {
            "device": self.device, "Stream": self.new_stream, "stream": self.inside,
            "current_stream": lambda: SimpleNamespace(
                name=self.on, wait_stream=lambda other: self.said.append(f"wait {other.name}")
            ),
            "set_stream": self.set_stream, "CUDAGraph": lambda: SimpleNamespace(replay=None),
            "graph": self.graph, "graph_pool_handle": lambda: (0, 1), "current_device": lambda: 0,
            "default_generators": [
                SimpleNamespace(
                    clone_state=lambda: "kept",
                    graphsafe_set_state=lambda state: self.said.append(f"random {state}"),
                )
            ],
        }  # fmt: skip
        for name, fake in fakes.items():
            monkeypatch.setattr(torch.cuda, name, fake)

    @contextmanager
    def device(self, device: torch.device) -> Iterator[None]:
        self.said.append(f"on {device}")
        yield
        self.said.append("off")

    def new_stream(self) -> SimpleNamespace:
        self.streams += 1
        return SimpleNamespace(name=f"side {self.streams}", wait_stream=lambda _: None)

    @contextmanager
    def inside(self, stream: SimpleNamespace) -> Iterator[None]:
        before, self.on = self.on, stream.name
        yield
        self.on = before

    def set_stream(self, stream: SimpleNamespace) -> None:
        self.on = stream.name

    @contextmanager
    def graph(
        self, _graph: object, pool: object, stream: SimpleNamespace, capture_error_mode: str
    ) -> Iterator[None]:
        """Like torch 2.11: if ending the capture fails, the stream stays current."""
        self.said.append(f"capture {capture_error_mode} on {stream.name}")
        before, self.on = self.on, stream.name
        yield
        if self.fails:
            raise RuntimeError("CUDA error: operation failed due to a previous error")
        self.on = before


@pytest.mark.parametrize("fails", [False, True])
def test_a_capture_is_of_its_own_gpu_and_leaves_its_thread_on_its_stream(monkeypatch, fails):
    fake, ran = FakeCuda(monkeypatch, fails), list[str]()
    nothing = torch.zeros(1), torch.zeros(1)

    def compute() -> tuple[Tensor, Tensor]:
        ran.append(fake.on)
        return nothing

    with pytest.raises(RuntimeError, match="previous error") if fails else nullcontext():
        cuda_graph(compute, torch.device("cuda:1"))
    assert fake.said[0] == "on cuda:1"
    assert "capture thread_local on side 1" in fake.said
    assert ran == ["side 1"] * 3 and fake.on == "own"
    assert ("random kept" in fake.said) == fails


def test_slots_wait_once_a_step(gpt, monkeypatch):
    """Reading the chosen codes waits for the GPU, so all rows are read at once."""
    slots = DecodingSlots(gpt, 3)
    for n in range(1, 4):
        slots.enter(*asked(n), utterance(gpt, n))
    waits, steps = list[int](), 0
    tolist = torch.Tensor.tolist
    monkeypatch.setattr(torch.Tensor, "tolist", lambda one: (waits.append(1), tolist(one))[1])
    while slots.step():
        steps += 1
    assert len(waits) == steps > 5


XTTS_V2 = GPTShape(text_ids=6681, text_start=261)
GB = 1_000_000_000
WEIGHTS = 1_770_000_000
SLOT = 257_000_000


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The memory of GPU 1: free bytes, and those that torch keeps for later."""
    card = SimpleNamespace(free=0, kept=0)

    def free(device: torch.device) -> tuple[int, int]:
        assert device == torch.device("cuda:1")
        return card.free, 0

    monkeypatch.setattr(torch.cuda, "mem_get_info", free)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: card.kept + 7)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _: 7)
    return card


# The parts of XTTS-v2's GPT that are read.
ON_GPU = SimpleNamespace(
    mel_head=SimpleNamespace(weight=SimpleNamespace(device=torch.device("cuda:1"))),
    shape=XTTS_V2, gpt=SimpleNamespace(cache_type=torch.float32),
    parameters=lambda: [SimpleNamespace(nbytes=WEIGHTS)],
)  # fmt: skip


@pytest.mark.parametrize(
    ("free", "slots"),
    # Free memory of cards with 8, 12, 16, 24 and 141 GB, after loading context and model.
    [(5 * GB, 4), (9 * GB, 12), (13 * GB, 16), (21 * GB, 16), (138 * GB, 16), (1 * GB, 1)],
)
def test_two_voices_fit_beside_each_other(card, free, slots):
    card.free = free
    found = decode_step.slots_on(ON_GPU, 16, beside_another=False)
    assert found == slots
    if found > 1:
        card.free -= found * SLOT + WEIGHTS
        assert decode_step.slots_on(ON_GPU, found, beside_another=True) == found


def test_a_slot_in_16_bits_takes_half(card):
    card.free = 3 * GB
    short = SimpleNamespace(**{**vars(ON_GPU), "gpt": SimpleNamespace(cache_type=torch.bfloat16)})
    found = [decode_step.slots_on(one, 99, beside_another=True) for one in (ON_GPU, short)]
    assert found[1] // 2 == found[0] == (3 * GB - decode_step.OTHERS_BYTES) // SLOT


def test_a_cpu_makes_what_is_asked_for():
    gpt = new_gpt(GPTShape(text_ids=40, text_start=39, layers=1, width=64, heads=4), seed=0)
    assert decode_step.slots_on(gpt, 16, beside_another=False) == 16


def test_memory_that_torch_keeps_for_later_counts_as_free(card):
    card.free = decode_step.OTHERS_BYTES + 4 * SLOT
    assert decode_step.slots_on(ON_GPU, 99, beside_another=True) == 4
    card.kept = 8 * SLOT
    assert decode_step.slots_on(ON_GPU, 99, beside_another=True) == 12
