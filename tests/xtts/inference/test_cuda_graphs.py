"""What a CUDA graph replays, without a GPU: the same numbers at addresses that stay, and nothing
that waits for the device."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from xtts.inference import cuda_graphs
from xtts.inference.batched_decoding import DecodingSlots
from xtts.inference.cuda_graphs import CudaGraphStep
from xtts.inference.decoding import DecodingState, decode, prefill
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
    # 64 positions at first, 82 at last: alone, a graph for every 16; with others, one for all.
    assert fake.recorded == (3 if slots == 1 else 1)
    assert fake.replayed == 19 and not steps.reason
    wanted_lengths = [cache.length for cache in plain] + [0]
    assert steps.caches.lengths.tolist() == wanted_lengths[:slots]


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
    monkeypatch.setattr(cuda_graphs, "graphed_step", lambda *_, **__: steps)
    assert [said(number) for number in (1, 4)] == plain
    assert steps.caches.lengths.tolist() == [0, 0]
