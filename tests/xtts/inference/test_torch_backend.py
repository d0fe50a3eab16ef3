"""Many utterances in one model: each the same, bit for bit, whoever else is there."""

import random
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from xtts.inference.defaults import SamplingParams
from xtts.inference.torch_backend import (
    DecodingError,
    DecodingSlots,
    TorchUtterance,
    decode,
)
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


def utterance(gpt: GPT, number: int, max_codes: int | None = None) -> TorchUtterance:
    return TorchUtterance(gpt, RULES, torch.Generator().manual_seed(number), max_codes)


def alone(gpt: GPT, number: int, count: int) -> TorchUtterance:
    latents, text = asked(number)
    return decode(gpt, latents, [(text, utterance(gpt, number))], count)[0]


def crowd(gpt: GPT, count: int, requests: list[int]) -> dict[int, TorchUtterance]:
    """What each says where they come and go at random."""
    draw, slots = random.Random(7), DecodingSlots(gpt, count)
    found: dict[int, TorchUtterance] = {}
    while requests or slots.free < count:
        while requests and slots.free and draw.random() < 0.4:
            number = requests.pop()
            found[number] = utterance(gpt, number)
            slots.enter(*asked(number), found[number])
        slots.step()
        for slot, said in enumerate(slots.utterances):
            if said is not None and said.done:
                slots.leave(slot)
    return found


@pytest.mark.parametrize(
    ("kind", "count", "requests"),
    [("fp32", 2, 14), ("fp32", 5, 14), ("int8", 3, 5), ("int4", 3, 5)],
)
def test_a_crowd_changes_no_bit(kind: str, count: int, requests: int, two_threads: None) -> None:
    gpt = speaking(kind)
    lengths = set()
    for number, said in crowd(gpt, count, list(range(requests))).items():
        wanted = alone(gpt, number, count)
        assert said.codes == wanted.codes
        assert torch.equal(torch.stack(said.latents), torch.stack(wanted.latents))
        lengths.add(len(said.codes))
    assert len(lengths) > requests // 4  # they did not all end together


def test_slots_say_what_one_alone_says(gpt: GPT) -> None:
    for number in range(6):
        plain, said = alone(gpt, number, 1), alone(gpt, number, 3)
        assert said.codes == plain.codes and said.stopped == plain.stopped
        assert torch.allclose(torch.stack(said.latents), torch.stack(plain.latents), atol=1e-5)


def test_whoever_leaves_early_frees_the_slot_and_disturbs_nobody(gpt: GPT) -> None:
    slots, stays = DecodingSlots(gpt, 2), utterance(gpt, 1)
    slots.enter(*asked(1), stays)
    goes = slots.enter(*asked(2), utterance(gpt, 2))
    assert slots.free == 0
    slots.step()
    slots.leave(goes)
    assert slots.free == 1
    while slots.step():
        pass
    assert stays.codes == alone(gpt, 1, 2).codes


def test_one_that_says_no_number_is_done_and_the_other_goes_on(gpt: GPT) -> None:
    slots, sound, sick = DecodingSlots(gpt, 2), utterance(gpt, 1), utterance(gpt, 2, max_codes=50)
    slots.enter(*asked(1), sound)
    cache = slots._rows[slots.enter(*asked(2), sick)]
    with torch.inference_mode():
        cache.entries[:, :, 1, :, :5] = torch.nan
    while slots.step():
        pass
    assert isinstance(sick.error, DecodingError) and sick.done
    assert sound.codes == alone(gpt, 1, 2).codes
