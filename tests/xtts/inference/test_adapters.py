"""Rows with different adapters in one batch: each is the same to the bit as alone."""

import random

import pytest
import torch

from tests.models import random_adapter
from tests.xtts.inference.small_gpt import RULES, SHAPE, asked, said_by, speaking
from tests.xtts.inference.test_decode_step import FakeGraph
from tests.xtts.inference.test_torch_backend import two_threads  # noqa: F401
from tests.xtts.voices.adapters import RANK
from xtts.inference.decode_step import CudaGraphStep, DecodeStep
from xtts.inference.torch_backend import DecodingSlots, TorchUtterance, decode, prefill
from xtts.model.adapter import Adapter
from xtts.model.gpt import GPT
from xtts.model.kv_cache import SlotCaches


def adapters_of(gpt: GPT) -> list[Adapter | None]:
    """No adapter, and those of three people."""
    return [None, *(Adapter(gpt, random_adapter(SHAPE, one, RANK), 1.0, "") for one in (1, 2, 3))]


def utterance(gpt: GPT, number: int, adapter: Adapter | None) -> TorchUtterance:
    random_state = torch.Generator().manual_seed(number)
    return TorchUtterance(gpt, RULES, random_state, adapter=adapter)


def alone(gpt: GPT, number: int, adapter: Adapter | None, count: int) -> TorchUtterance:
    latents, text = asked(number)
    return decode(gpt, latents, [(text, utterance(gpt, number, adapter))], count)[0]


@pytest.mark.parametrize(
    ("kind", "count", "requests"),
    [
        pytest.param("fp32", 4, 16, marks=pytest.mark.slow),
        pytest.param("fp32", 6, 16, marks=pytest.mark.slow),
        pytest.param("int8", 4, 6, marks=pytest.mark.slow),
        ("fp32", 4, 6),
        ("int4", 4, 6),
        pytest.param("bf16", 4, 6, marks=pytest.mark.slow),
    ],
)
@pytest.mark.usefixtures("two_threads")
def test_a_crowd_of_different_adapters_changes_no_bit(kind, count, requests):
    gpt = speaking(kind)
    known = adapters_of(gpt)
    draw, slots, waiting = random.Random(7), DecodingSlots(gpt, count), list(range(requests))
    found: dict[int, TorchUtterance] = {}
    together = set()
    while waiting or slots.free < count:
        while waiting and slots.free and draw.random() < 0.4:
            number = waiting.pop()
            found[number] = utterance(gpt, number, known[number % 4])
            slots.enter(*asked(number), found[number])
        slots.step()
        there = [one for one in slots.utterances if one is not None]
        together.add(len({one.adapter for one in there}))
        for slot, said in enumerate(slots.utterances):
            if said is not None and said.done:
                slots.leave(slot)
    assert max(together) >= 3
    for number, said in found.items():
        wanted = alone(gpt, number, known[number % 4], count)
        assert said.codes == wanted.codes
        assert torch.equal(torch.stack(said.latents), torch.stack(wanted.latents))
        if number % 4 == 0:  # the same as in a model without adapters
            plain = said_by(gpt, number, count)
            assert torch.equal(torch.stack(said.latents), torch.stack(plain.latents))


def test_adapters_are_heard():
    """Each adapter gives other codes."""
    gpt = speaking()
    said = {tuple(alone(gpt, 2, one, 4).codes) for one in adapters_of(gpt)}
    assert len(said) == 4


def test_a_step_is_what_the_modules_of_each_say():
    gpt = speaking()
    known = adapters_of(gpt)
    with torch.inference_mode():
        caches, own = (
            [prefill(gpt, *asked(3), utterance(gpt, 0, one)) for one in known] for _ in range(2)
        )
        step = DecodeStep(gpt)
        adapters = {row: one for row, one in enumerate(known) if one}
        for position in range(1, 5):
            codes = torch.arange(4) + position
            found, _ = step(codes, torch.full_like(codes, position), SlotCaches(caches), adapters)
            for row, one in enumerate(known):
                speaks = one.gpt if one else gpt
                wanted, _ = speaks.prefill(
                    speaks.audio_input(codes[row : row + 1], position), own[row]
                )
                assert torch.allclose(found[row : row + 1], wanted, atol=1e-4)


def test_a_graph_is_not_replayed_for_rows_with_adapters_and_goes_on_afterwards():
    """At its capture, the adapters of later rows are unknown."""
    gpt = speaking()
    (_, anna, *_), fake = adapters_of(gpt), FakeGraph()
    with torch.inference_mode():
        steps, plain = CudaGraphStep(gpt, 2, fake), CudaGraphStep(gpt, 2, FakeGraph())
        for slot, number in enumerate((1, 2)):
            for one in (steps, plain):
                one.caches.enter(slot, prefill(gpt, *asked(number), utterance(gpt, 0, None)))
        for position in range(1, 8):
            codes = torch.tensor([position, 2 * position])
            places = torch.full_like(codes, position)
            replayed, adapted = fake.replayed, position in (3, 4)
            found = [one.clone() for one in steps(codes, places, {1: anna} if adapted else {})]
            wanted = plain(codes, places)
            assert (fake.replayed == replayed) is adapted
            assert torch.equal(found[0][0], wanted[0][0])
            if position == 3:
                assert not torch.allclose(found[0][1], wanted[0][1])
        assert steps.caches.lengths.tolist() == plain.caches.lengths.tolist()
