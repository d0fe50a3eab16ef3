"""What a CUDA graph replays, without a GPU: the same numbers at addresses that stay, and nothing
that waits for the device."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from machine.devices.graph_capture import cuda_graph
from xtts.inference import cuda_graphs, decoding
from xtts.inference.batched_decoding import DecodingSlots
from xtts.inference.cuda_graphs import CudaGraphStep
from xtts.inference.decoding import DecodingState, decode, iterate_codes, prefill
from xtts.model.config import SamplingParams
from xtts.model.gpt import GPT, new_gpt
from xtts.model.kv_cache import KeyValueCache
from xtts.model.shapes import NUM_LATENTS, GPTShape

SHAPE = GPTShape(
    text_ids=40, text_start=39, layers=3, width=64, heads=4, audio_ids=66, audio_start=64,
    audio_stop=65, max_text_tokens=40, max_audio_tokens=60,
)  # fmt: skip
RULES = SamplingParams(temperature=1.2, top_k=30, top_p=0.9, repetition_penalty=2.0)


@pytest.fixture(scope="module")
def gpt() -> GPT:
    found = new_gpt(SHAPE, seed=3).eval().requires_grad_(False)
    found.mel_head.weight.mul_(8.0)
    return found


class NoWaiting(TorchDispatchMode):
    """Refuses what a graph cannot hold: asking the device for a value, or a shape that depends on
    one."""

    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        name = function.name()
        assert not name.startswith(("aten::_local_scalar_dense", "aten::nonzero", "aten::item"))
        return function(*arguments, **(named or {}))


class FakeGraph:
    """Records by running once under watch; replays into the results of the recording, reading the
    addresses that it saw."""

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


def asked(number: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(number)
    latents = torch.randn(1, NUM_LATENTS, SHAPE.width, generator=generator)
    return latents, torch.randint(1, 38, (3 + 5 * number,), generator=generator)


def read(gpt: GPT, number: int) -> KeyValueCache:
    return prefill(gpt, *asked(number), DecodingState(gpt, RULES, torch.Generator()))


@pytest.mark.parametrize("slots", [1, 3])
@torch.inference_mode()
def test_replayed_steps_say_what_plain_ones_say(
    gpt: GPT, monkeypatch: pytest.MonkeyPatch, slots: int
) -> None:
    monkeypatch.setattr(cuda_graphs, "SPAN", 16)
    fake = FakeGraph()
    steps, plain = CudaGraphStep(gpt, slots, fake), [read(gpt, 5), read(gpt, 1)][:slots]
    for slot, cache in enumerate(plain):
        steps.enter(slot, cache)
    for position in range(1, 20):
        codes = torch.tensor([position, 2 * position, 0])[:slots]
        together, logits = steps(codes, torch.full_like(codes, position))
        for row, cache in enumerate(plain):
            wanted = gpt.prefill(gpt.audio_input(codes[row : row + 1], position), cache)
            assert torch.allclose(together[row : row + 1], wanted[0], atol=1e-5)
            assert torch.allclose(logits[row : row + 1], wanted[1], atol=1e-4)
    # 64 positions at first, 82 at last: a graph for every 16.
    assert fake.recorded == 3
    assert fake.replayed == 19 and not steps.reason
    wanted_lengths = [cache.length for cache in plain] + [0]
    assert steps.caches.lengths.tolist() == wanted_lengths[:slots]


@torch.inference_mode()
def test_who_speaks_alone_does_not_attend_in_empty_slots(
    gpt: GPT, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others come and go: what is attended to changes, and what is said does not."""
    monkeypatch.setattr(cuda_graphs, "SPAN", 48)
    fake = FakeGraph()
    steps, caches = CudaGraphStep(gpt, 6, fake), {0: read(gpt, 1)}
    steps.enter(0, caches[0])
    seen = []
    for position in range(1, 16):
        for slot in (1, 2, 3, 4) if position == 6 else ():
            caches[slot] = read(gpt, slot)
            steps.enter(slot, caches[slot])
        for slot in {3: (), 11: (4,), 14: (1, 2, 3)}.get(position, ()):
            steps.leave(slot)
            del caches[slot]
        codes = torch.arange(6) + position
        found, _ = steps(codes, torch.full_like(codes, position))
        seen.append((steps.caches.attended, steps.caches.span))
        for slot, cache in caches.items():
            wanted, _ = gpt.prefill(gpt.audio_input(codes[slot : slot + 1], position), cache)
            assert torch.allclose(found[slot : slot + 1], wanted, atol=1e-5)
    assert [attended for attended, _ in seen] == [1] * 5 + [6] * 5 + [4] * 3 + [1] * 2
    assert {span for _, span in seen} == {48, 96}
    assert fake.recorded == len(set(seen)) and not steps.reason


@torch.inference_mode()
def test_a_crowd_records_everything_before_anybody_speaks(
    gpt: GPT, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_graphs, "SPAN", 64)
    fake = FakeGraph()
    steps = CudaGraphStep(gpt, 6, fake)
    steps.record()
    # 1, 4 and 6 slots; 64, 128 and all 140 positions.
    assert fake.recorded == len(steps._graphs) == 3 * -(-steps.caches.capacity // 64)
    assert steps.caches.lengths.tolist() == [0] * 6
    steps.enter(0, read(gpt, 5))
    for position in range(1, 20):
        steps(torch.arange(6), torch.full((6,), position))
    assert fake.recorded == len(steps._graphs)


@torch.inference_mode()
def test_a_slot_that_is_left_disturbs_nobody(gpt: GPT) -> None:
    steps, cache = CudaGraphStep(gpt, 2, FakeGraph()), read(gpt, 2)
    steps.enter(0, read(gpt, 1))
    steps.enter(1, cache)
    steps(torch.tensor([1, 2]), torch.ones(2, dtype=torch.long))
    gpt.prefill(gpt.audio_input(torch.tensor([2]), 1), cache)
    steps.leave(0)
    for position in range(2, 5):
        found, _ = steps(torch.tensor([0, position]), torch.tensor([0, position]))
        wanted, _ = gpt.prefill(gpt.audio_input(torch.tensor([position]), position), cache)
        assert torch.allclose(found[1:], wanted, atol=1e-5)
    assert steps.caches.lengths.tolist() == [0, cache.length]


@torch.inference_mode()
def test_where_capturing_fails_it_is_told_and_spoken_all_the_same(
    gpt: GPT, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(compute):
        compute()
        raise RuntimeError("CUDA error: operation not permitted when stream is capturing\nmore")

    steps, cache = CudaGraphStep(gpt, 1, refused), read(gpt, 1)
    steps.enter(0, cache)
    for position in (1, 2, 3):
        found, _ = steps(torch.tensor([7]), torch.tensor([position]))
        wanted, _ = gpt.prefill(gpt.audio_input(torch.tensor([7]), position), cache)
        assert torch.allclose(found, wanted, atol=1e-5)
    assert steps.reason.startswith("CUDA error: operation not permitted")
    assert caplog.text.count("without CUDA graphs") == 1


def test_the_loop_says_the_same_codes_with_graphs(
    gpt: GPT, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two utterances behind each other through the same graph."""
    plain = [decode(gpt, *asked(n), RULES, torch.Generator().manual_seed(n)) for n in (1, 4)]
    with torch.inference_mode():
        steps = CudaGraphStep(gpt, 1, FakeGraph())
    monkeypatch.setattr(cuda_graphs, "graphed_step", lambda _, **__: steps)
    for number, wanted in zip((1, 4), plain, strict=True):
        found = decode(gpt, *asked(number), RULES, torch.Generator().manual_seed(number))
        assert torch.equal(found.codes, wanted.codes) and len(found.codes) > 5
        assert torch.allclose(found.latents, wanted.latents, atol=1e-5)


def test_the_queries_of_every_slot_lie_in_fixed_buffers(
    gpt: GPT, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the guard asks for, of two at once: where they looked is the same with graphs."""
    heads = ((0, 1), (2, 3))

    def looked() -> list[np.ndarray]:
        slots = DecodingSlots(gpt, 2, (0, 2))
        said = [
            DecodingState(gpt, RULES, torch.Generator().manual_seed(number), None, heads)
            for number in (1, 4)
        ]
        for number, state in zip((1, 4), said, strict=True):
            slots.enter(*asked(number), state)
        while slots.step():
            pass
        found = [state.attention() for state in said]
        return [rows for rows in found if rows is not None]

    plain = looked()
    with torch.inference_mode():
        steps = CudaGraphStep(gpt, 2, FakeGraph(), (0, 2))
    monkeypatch.setattr(cuda_graphs, "graphed_step", lambda *_, **__: steps)
    places = {layer: queries.data_ptr() for layer, queries in steps.caches.queries.items()}
    graphed = looked()
    assert len(plain) == len(graphed) == 2
    for rows, wanted in zip(graphed, plain, strict=True):
        assert len(wanted) > 5 and np.allclose(rows, wanted, atol=1e-5)
    assert places == {layer: q.data_ptr() for layer, q in steps.caches.queries.items()}
    assert set(places) == {0, 2}


def test_a_cpu_never_sees_a_graph(gpt: GPT) -> None:
    assert cuda_graphs.graphed_step(gpt) is None


def test_slots_speak_through_graphs(gpt: GPT, monkeypatch: pytest.MonkeyPatch) -> None:
    def said(number: int) -> list[int]:
        slots = DecodingSlots(gpt, 2)
        generator = torch.Generator().manual_seed(number)
        slot = slots.enter(*asked(number), DecodingState(gpt, RULES, generator))
        while slots.step():
            pass
        return slots.leave(slot).codes.tolist()

    plain = [said(number) for number in (1, 4)]
    with torch.inference_mode():
        steps = CudaGraphStep(gpt, 2, FakeGraph())
    monkeypatch.setattr(cuda_graphs, "graphed_step", lambda *_, **__: steps.borrow())
    assert [said(number) for number in (1, 4)] == plain
    assert steps.caches.lengths.tolist() == [0, 0]


@torch.inference_mode()
def test_a_replay_that_says_something_else_is_not_believed(
    gpt: GPT, caplog: pytest.LogCaptureFixture
) -> None:
    """As where the stream that was captured is another GPU's: nothing is replayed, and what the
    capture left in the results stays there."""

    def empty(compute: Callable[[], tuple[Tensor, Tensor]]):
        return tuple(torch.zeros_like(one) for one in compute()), lambda: None

    steps, cache = CudaGraphStep(gpt, 1, empty), read(gpt, 1)
    steps.enter(0, cache)
    for position in (1, 2):
        found, _ = steps(torch.tensor([7]), torch.tensor([position]))
        wanted, _ = gpt.prefill(gpt.audio_input(torch.tensor([7]), position), cache)
        assert torch.allclose(found, wanted, atol=1e-5)
    assert "is off by" in steps.reason and caplog.text.count("without CUDA graphs") == 1


def test_two_streams_of_one_model_do_not_write_into_one_cache(
    gpt: GPT, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A notebook that takes a chunk of one sentence, then one of another."""
    kept: list[CudaGraphStep] = []

    def borrowed(_gpt: GPT, **_: object) -> CudaGraphStep:
        free = next((one for one in kept if not one.in_use), None)
        if free is None:
            kept.append(free := CudaGraphStep(gpt, 1, FakeGraph()))
        return free.borrow()

    alone = [decode(gpt, *asked(n), RULES, torch.Generator().manual_seed(n)) for n in (1, 4)]
    monkeypatch.setattr(cuda_graphs, "graphed_step", borrowed)
    said = [DecodingState(gpt, RULES, torch.Generator().manual_seed(n)) for n in (1, 4)]
    streams = [iterate_codes(gpt, *asked(n), one) for n, one in zip((1, 4), said)]
    while any(not one.done for one in said):
        for stream in streams:
            next(stream, None)
    assert all(list(stream) == [] for stream in streams)
    for found, wanted in zip(said, alone, strict=True):
        assert torch.equal(found.decoded().codes, wanted.codes)
    assert len(kept) == 2
    # One that nobody asks for the rest of gives its cache back as well.
    left = iterate_codes(gpt, *asked(1), DecodingState(gpt, RULES, torch.Generator()))
    next(left)
    next(left)
    assert sum(one.in_use for one in kept) == 1
    left.close()
    assert not any(one.in_use for one in kept) and len(kept) == 2


class FakeCuda:
    """What `cuda_graph` says to torch.cuda, in order; a stream is its number."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:
        self.said: list[str] = []
        self.on, self.streams, self.fails = "own", 0, fails
        fakes = {
            "device": self.device, "Stream": self.new_stream, "stream": self.inside,
            "current_stream": lambda: SimpleNamespace(
                name=self.on, wait_stream=lambda other: self.said.append(f"wait {other.name}")
            ),
            "set_stream": self.set_stream, "CUDAGraph": lambda: SimpleNamespace(replay=None),
            "graph": self.graph,
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
        """As torch 2.11: where ending the capture fails, the stream is not left."""
        self.said.append(f"capture {capture_error_mode} on {stream.name}")
        before, self.on = self.on, stream.name
        yield
        if self.fails:
            raise RuntimeError("CUDA error: operation failed due to a previous error")
        self.on = before


@pytest.mark.parametrize("fails", [False, True])
def test_a_capture_is_of_its_own_gpu_and_leaves_its_thread_on_its_stream(
    monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
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


def test_slots_of_a_gpu_say_the_same_and_wait_once_a_step(
    gpt: GPT, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chosen for all rows at once; an utterance that is not finite ends alone."""

    def said(count: int) -> list[list[int]]:
        slots, found = DecodingSlots(gpt, count), dict[int, list[int]]()
        numbers = {
            slots.enter(*asked(n), DecodingState(gpt, RULES, torch.Generator().manual_seed(n))): n
            for n in range(1, count + 1)
        }
        while slots.step():
            pass
        for slot, number in numbers.items():
            found[number] = slots.leave(slot).codes.tolist()
        return [found[number] for number in sorted(found)]

    plain = [said(1)[0], said(3)]
    monkeypatch.setattr(decoding, "waits_for_nothing", lambda _: False)
    waits: list[int] = []
    tolist = torch.Tensor.tolist
    monkeypatch.setattr(torch.Tensor, "tolist", lambda one: (waits.append(1), tolist(one))[1])
    rows = decoding.sample_rows
    steps: list[int] = []
    monkeypatch.setattr(decoding, "sample_rows", lambda *all_: (steps.append(1), rows(*all_))[1])
    assert [said(1)[0], said(3)] == plain
    # The last look at an utterance's codes, by `said`, is one each.
    assert len(waits) == len(steps) + 4


def test_an_utterance_that_is_not_finite_ends_alone_on_a_gpu_too(
    gpt: GPT, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoding, "waits_for_nothing", lambda _: False)
    slots = DecodingSlots(gpt, 2)
    pair = [DecodingState(gpt, RULES, torch.Generator().manual_seed(n)) for n in (1, 2)]
    for number, utterance in enumerate(pair):
        slots.enter(*asked(number + 1), utterance)
    sampled = decoding.sample_rows

    def poisoned(logits: Tensor, *others: object) -> Tensor:
        logits[0] = torch.nan
        return sampled(logits, *others)  # type: ignore[arg-type]

    monkeypatch.setattr(decoding, "sample_rows", poisoned)
    slots.step()
    assert pair[0].error is not None and pair[0].done
    assert pair[1].error is None and len(pair[1].codes) == 2
