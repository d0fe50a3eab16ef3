"""Rows with different adapters in one batch: each is the same to the bit as alone."""

import random

import pytest
import torch

from tests.models import random_adapter
from tests.xtts.inference.small_gpt import RULES, SHAPE, asked, said_by, speaking
from tests.xtts.inference.test_torch_backend import two_threads  # noqa: F401
from tests.xtts.voices.adapters import RANK
from xtts.inference.torch_backend import DecodeStep, DecodingSlots, TorchUtterance, decode, prefill
from xtts.model.adapter import Adapter
from xtts.model.gpt import GPT, SlotCaches


def adapters_of(gpt: GPT) -> list[Adapter | None]:
    """No adapter, and those of three people."""
    return [None, *(Adapter(gpt, random_adapter(SHAPE, seed, RANK), 1.0, "") for seed in (1, 2, 3))]


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
    adapters = adapters_of(gpt)
    draw, slots, waiting = random.Random(7), DecodingSlots(gpt, count), list(range(requests))
    spoken: dict[int, TorchUtterance] = {}
    together = set()
    while waiting or slots.num_free < count:
        while waiting and slots.num_free and draw.random() < 0.4:
            number = waiting.pop()
            spoken[number] = utterance(gpt, number, adapters[number % 4])
            slots.enter(*asked(number), spoken[number])
        slots.step()
        there = [active for active in slots.utterances if active is not None]
        together.add(len({active.adapter for active in there}))
        for slot, state in enumerate(slots.utterances):
            if state is not None and state.done:
                slots.leave(slot)
    assert max(together) >= 3
    for number, state in spoken.items():
        expected = alone(gpt, number, adapters[number % 4], count)
        assert state.codes == expected.codes
        assert torch.equal(torch.stack(state.latents), torch.stack(expected.latents))
        if number % 4 == 0:  # the same as in a model without adapters
            plain = said_by(gpt, number, count)
            assert torch.equal(torch.stack(state.latents), torch.stack(plain.latents))


def test_adapters_are_heard():
    """Each adapter gives other codes."""
    gpt = speaking()
    texts = {tuple(alone(gpt, 2, adapter, 4).codes) for adapter in adapters_of(gpt)}
    assert len(texts) == 4


def test_a_step_is_what_a_prefill_of_all_codes_says():
    gpt, (latents, text) = speaking(), asked(3)
    all_adapters, step = adapters_of(gpt), DecodeStep(gpt)
    with torch.inference_mode():
        caches = [prefill(DecodeStep(gpt), *asked(3), utterance(gpt, 0, adapter)) for adapter in all_adapters]
        start = gpt.audio_input(torch.tensor([SHAPE.audio_start]), 0)
        embedded = [torch.cat((gpt.prefix(latents, text), start), 1)] * len(all_adapters)
        adapters = {row: adapter for row, adapter in enumerate(all_adapters) if adapter}
        for position in range(1, 5):
            codes = torch.arange(4) + position
            latents_now, _ = step(codes, torch.full_like(codes, position), SlotCaches(caches), adapters)
            for row, adapter in enumerate(all_adapters):
                code = gpt.audio_input(codes[row : row + 1], position)
                embedded[row] = torch.cat((embedded[row], code), 1)
                expected, _ = step.prefill(embedded[row], gpt.gpt.new_cache(1, 100), adapter)
                assert torch.allclose(latents_now[row : row + 1], expected, atol=1e-4)
