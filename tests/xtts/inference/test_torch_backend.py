"""Many utterances in one batch: each is the same to the bit, whichever others there are."""

import gc
import random
import weakref
from collections.abc import Iterator

import pytest
import torch

from tests.xtts.inference.small_gpt import asked, said_by, speaking, utterance
from xtts.inference.torch_backend import DecodingError, DecodingSlots, TorchUtterance
from xtts.model.gpt import GPT


@pytest.fixture(scope="module")
def gpt() -> GPT:
    return speaking()


@pytest.fixture
def two_threads() -> Iterator[None]:
    """Threads share the rows, and unequal parts use different kernels."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def spoken_together(gpt: GPT, count: int, requests: list[int]) -> dict[int, TorchUtterance]:
    """The utterances of requests that come and go at random."""
    draw, slots = random.Random(7), DecodingSlots(gpt, count)
    spoken: dict[int, TorchUtterance] = {}
    while requests or slots.num_free < count:
        while requests and slots.num_free and draw.random() < 0.4:
            number = requests.pop()
            spoken[number] = utterance(gpt, number)
            slots.enter(*asked(number), spoken[number])
        slots.step()
        for slot, active in enumerate(slots.utterances):
            if active is not None and active.done:
                slots.leave(slot)
    return spoken


@pytest.mark.parametrize(
    ("kind", "count", "requests"),
    [
        pytest.param("fp32", 2, 14, marks=pytest.mark.slow),
        pytest.param("fp32", 5, 14, marks=pytest.mark.slow),
        ("fp32", 3, 5),
        pytest.param("int8", 3, 5, marks=pytest.mark.slow),
        ("int4", 3, 5),
    ],
)
def test_a_crowd_changes_no_bit(kind, count, requests, two_threads):
    gpt = speaking(kind)
    lengths = set()
    for number, crowded in spoken_together(gpt, count, list(range(requests))).items():
        expected = said_by(gpt, number, count)
        assert crowded.codes == expected.codes
        assert torch.equal(torch.stack(crowded.latents), torch.stack(expected.latents))
        lengths.add(len(crowded.codes))
    assert len(lengths) > requests // 4  # they ended at different times


def test_slots_say_what_one_alone_says(gpt):
    for number in range(6):
        plain, slotted = said_by(gpt, number, 1), said_by(gpt, number, 3)
        assert slotted.codes == plain.codes and slotted.stopped == plain.stopped
        assert torch.allclose(torch.stack(slotted.latents), torch.stack(plain.latents), atol=1e-5)


def test_whoever_leaves_early_frees_the_slot_and_disturbs_nobody(gpt):
    slots, stays = DecodingSlots(gpt, 2), utterance(gpt, 1)
    slots.enter(*asked(1), stays)
    goes = slots.enter(*asked(2), utterance(gpt, 2))
    assert slots.num_free == 0
    slots.step()
    slots.leave(goes)
    assert slots.num_free == 1
    while slots.step():
        pass
    assert stays.codes == said_by(gpt, 1, 2).codes


def test_an_ended_utterance_frees_its_memory_while_another_goes_on(gpt):
    slots = DecodingSlots(gpt, 2)
    slots.enter(*asked(1), utterance(gpt, 1))
    goes = utterance(gpt, 2)
    slot = slots.enter(*asked(2), goes)
    cache = weakref.ref(goes.cache.entries)
    slots.step()
    assert cache() is not None
    slots.leave(slot)
    gc.collect()
    assert cache() is None


def test_one_that_says_no_number_is_done_and_the_other_goes_on(gpt):
    slots, sound, sick = DecodingSlots(gpt, 2), utterance(gpt, 1), utterance(gpt, 2, 50)
    slots.enter(*asked(1), sound)
    slots.enter(*asked(2), sick)
    with torch.inference_mode():
        sick.cache.entries[:, :, 1, :, :5] = torch.nan
    while slots.step():
        pass
    assert isinstance(sick.error, DecodingError) and sick.done
    assert sound.codes == said_by(gpt, 1, 2).codes
