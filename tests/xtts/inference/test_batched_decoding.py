"""Many utterances in one model: each the same, bit for bit, whoever else is there."""

import random
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from xtts.inference.batched_decoding import DecodingSlots, NoFreeSlotError
from xtts.inference.decoding import DecodingError, DecodingResult, DecodingState, decode
from xtts.model.config import SamplingParams
from xtts.model.gpt import GPT, new_gpt, to_coqui
from xtts.model.loading import load_gpt
from xtts.model.shapes import NUM_LATENTS, GPTShape

SHAPE = GPTShape(
    text_ids=40, text_start=39, layers=3, width=64, heads=4, audio_ids=66, audio_start=64,
    audio_stop=65, max_text_tokens=40, max_audio_tokens=60,
)  # fmt: skip
RULES = SamplingParams(temperature=1.2, top_k=30, top_p=0.9, repetition_penalty=2.0)


def speaking(kind: str) -> GPT:
    found = new_gpt(SHAPE, seed=3)
    state = to_coqui(found.state_dict())
    config = SimpleNamespace(gpt=SHAPE)
    found = load_gpt(state, config, kind=kind).eval().requires_grad_(False)
    # A random model's logits are all alike; these are not, and STOP comes now and then.
    found.mel_head.weight.mul_(8.0)
    return found


@pytest.fixture(scope="module")
def gpt() -> GPT:
    return speaking("fp32")


@pytest.fixture
def two_threads() -> Iterator[None]:
    """Rows are shared among threads, and unlike parts are computed by unlike kernels."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def asked(number: int) -> tuple[Tensor, Tensor]:
    """(latents, text) of one request; no two are alike."""
    generator = torch.Generator().manual_seed(number)
    latents = torch.randn(1, NUM_LATENTS, SHAPE.width, generator=generator)
    return latents, torch.randint(1, 38, (3 + number % 11,), generator=generator)


def utterance(gpt: GPT, number: int, max_codes: int | None = None) -> DecodingState:
    return DecodingState(gpt, RULES, torch.Generator().manual_seed(number), max_codes)


def alone(gpt: GPT, number: int, count: int) -> DecodingResult:
    slots = DecodingSlots(gpt, count)
    slot = slots.enter(*asked(number), utterance(gpt, number))
    while slots.step():
        pass
    return slots.leave(slot)


def crowd(gpt: GPT, count: int, requests: list[int]) -> Iterator[tuple[int, DecodingResult]]:
    """Requests come and go at random; yields each with what it said."""
    draw = random.Random(7)
    slots, speaking = DecodingSlots(gpt, count), dict[int, int]()
    while requests or speaking:
        while requests and slots.free and draw.random() < 0.4:
            number = requests.pop()
            speaking[slots.enter(*asked(number), utterance(gpt, number))] = number
        slots.step()
        for slot in [slot for slot in speaking if slots.utterances[slot].done]:
            yield speaking.pop(slot), slots.leave(slot)


@pytest.mark.parametrize(
    ("kind", "count", "requests"),
    [("fp32", 2, 14), ("fp32", 5, 14), ("int8", 3, 5), ("int4", 3, 5)],
)
def test_a_crowd_changes_no_bit(kind: str, count: int, requests: int, two_threads: None) -> None:
    gpt = speaking(kind)
    lengths = set()
    for number, said in crowd(gpt, count, list(range(requests))):
        wanted = alone(gpt, number, count)
        assert torch.equal(said.codes, wanted.codes)
        assert torch.equal(said.latents, wanted.latents)
        lengths.add(len(said.codes))
    assert len(lengths) > requests // 4  # they did not all end together


def test_slots_say_what_the_plain_loop_says(gpt: GPT) -> None:
    for number in range(6):
        latents, text = asked(number)
        plain = decode(gpt, latents, text, RULES, torch.Generator().manual_seed(number))
        said = alone(gpt, number, 3)
        assert torch.equal(said.codes, plain.codes) and said.stopped == plain.stopped
        assert torch.allclose(said.latents, plain.latents, atol=1e-5)


def test_whoever_leaves_early_frees_the_slot_and_disturbs_nobody(gpt: GPT) -> None:
    slots = DecodingSlots(gpt, 2)
    stays = slots.enter(*asked(1), utterance(gpt, 1))
    goes = slots.enter(*asked(2), utterance(gpt, 2))
    with pytest.raises(NoFreeSlotError, match="All 2 slots speak"):
        slots.enter(*asked(3), utterance(gpt, 3))
    slots.step()
    assert len(slots.leave(goes).codes) <= 2
    assert slots.free == 1
    while slots.step():
        pass
    assert torch.equal(slots.leave(stays).codes, alone(gpt, 1, 2).codes)


def test_one_that_says_no_number_is_done_and_the_other_goes_on(gpt: GPT) -> None:
    slots = DecodingSlots(gpt, 2)
    sound = slots.enter(*asked(1), utterance(gpt, 1))
    sick = slots.enter(*asked(2), utterance(gpt, 2, max_codes=50))
    with torch.inference_mode():
        slots._caches.rows[sick].values[:, :, :, :5] = torch.nan
    while slots.step():
        pass
    assert isinstance(slots.utterances[sick].error, DecodingError)
    assert slots.utterances[sick].done
    assert torch.equal(slots.leave(sound).codes, alone(gpt, 1, 2).codes)
