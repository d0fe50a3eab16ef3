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
    for number, said in spoken_together(gpt, count, list(range(requests))).items():
        wanted = said_by(gpt, number, count)
        assert said.codes == wanted.codes
        assert torch.equal(torch.stack(said.latents), torch.stack(wanted.latents))
        lengths.add(len(said.codes))
    assert len(lengths) > requests // 4  # they ended at different times


def test_slots_say_what_one_alone_says(gpt):
    for number in range(6):
        plain, said = said_by(gpt, number, 1), said_by(gpt, number, 3)
        assert said.codes == plain.codes and said.stopped == plain.stopped
        assert torch.allclose(torch.stack(said.latents), torch.stack(plain.latents), atol=1e-5)


def test_whoever_leaves_early_frees_the_slot_and_disturbs_nobody(gpt):
    slots, stays = DecodingSlots(gpt, 2), utterance(gpt, 1)
    slots.enter(*asked(1), stays)
    goes = slots.enter(*asked(2), utterance(gpt, 2))
    assert slots.free == 0
    slots.step()
    slots.leave(goes)
    assert slots.free == 1
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
