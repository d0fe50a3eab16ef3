"""Decoding and the vocoder's windows as CUDA graphs replay them, tested without a GPU: the same
numbers at fixed addresses, without waiting for the device."""

import copy
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from extras.graphs import speech
from extras.graphs.speech import CudaGraphStep
from tests.xtts.inference.small_gpt import asked, said_by, speaking, utterance
from tests.xtts.inference.test_adapters import adapters_of
from xtts.inference import torch_backend
from xtts.inference.torch_backend import DecodeStep, DecodingSlots, prefill
from xtts.model.gpt import GPT, KeyValueCache


@pytest.fixture(scope="module")
def gpt() -> GPT:
    return speaking()


class Owner:
    """Whoever borrows rows."""


def with_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decoding uses the extra on the CPU, too."""
    monkeypatch.setattr(torch_backend, "speech_graphs", lambda _: speech)
    monkeypatch.setattr(speech, "captures_on", lambda _: FakeGraph())


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
    return prefill(DecodeStep(gpt), *asked(number), utterance(gpt, 0))


def says_what_plain_steps_say(
    gpt: GPT, steps: CudaGraphStep, caches: dict[int, KeyValueCache], codes: Tensor, position: int
) -> None:
    """Compares a step of all slots with a step of each slot alone."""
    found = steps(codes, torch.full_like(codes, position))
    for slot, cache in caches.items():
        row = slice(slot, slot + 1)
        expected = DecodeStep(gpt)(codes[row], torch.tensor([position]), cache)
        for latents, other, most in zip(found, expected, (1e-5, 1e-4), strict=True):
            assert torch.allclose(latents[row], other, atol=most)


@pytest.mark.parametrize("slots", [1, 3])
@torch.inference_mode()
def test_replayed_steps_say_what_plain_ones_say(gpt, monkeypatch, slots):
    monkeypatch.setattr(speech, "SPAN_STEP", 16)
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
    monkeypatch.setattr(speech, "SPAN_STEP", 48)
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
    monkeypatch.setattr(speech, "SPAN_STEP", 64)
    fake = FakeGraph()
    steps = CudaGraphStep(gpt, 6, fake)
    steps.prepare()
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
    with_graphs(monkeypatch)
    for number, expected in zip((1, 4), plain, strict=True):
        found = said_by(gpt, number)
        assert found.codes == expected.codes and len(found.codes) > 5
        assert torch.allclose(torch.stack(found.latents), torch.stack(expected.latents), atol=1e-5)


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
    with_graphs(monkeypatch)
    steps = speech.rows_of(gpt, 2, (0, 2), owner := Owner())
    del owner
    places = {layer: queries.data_ptr() for layer, queries in steps.caches.queries.items()}
    graphed = looked()
    assert len(plain) == len(graphed) == 2
    for rows, expected in zip(graphed, plain, strict=True):
        assert len(expected) > 5 and np.allclose(rows, expected, atol=1e-5)
    assert places == {layer: q.data_ptr() for layer, q in steps.caches.queries.items()}
    assert set(places) == {0, 2}


def refused(compute: Callable[[], tuple[Tensor, Tensor]]):
    compute()
    raise RuntimeError("CUDA error: operation not permitted when stream is capturing\nmore")


def empty(compute: Callable[[], tuple[Tensor, Tensor]]):
    """Like a capture of the stream of another GPU: nothing is replayed, and the results keep the
    values of the capture."""
    return tuple(torch.zeros_like(output) for output in compute()), lambda: None


@pytest.mark.parametrize(("capture", "reason"), [(refused, "operation not permitted"), (empty, "is off by")])
@torch.inference_mode()
def test_a_capture_that_fails_or_replays_something_else_is_told_and_not_used(gpt, caplog, capture, reason):
    steps, caches = CudaGraphStep(gpt, 1, capture), {0: read(gpt, 1)}
    steps.caches.enter(0, caches[0])
    for position in (1, 2, 3):
        says_what_plain_steps_say(gpt, steps, caches, torch.tensor([7]), position)
    assert reason in steps.reason and caplog.text.count("without CUDA graphs") == 1


def test_two_streams_of_one_model_do_not_write_into_one_cache(gpt, monkeypatch):
    """A notebook takes a chunk of one sentence, then one of another."""
    alone = [said_by(gpt, n) for n in (1, 4)]
    gpt = copy.copy(gpt)  # kept steps belong to the original
    with_graphs(monkeypatch)
    said = [utterance(gpt, n) for n in (1, 4)]
    streams = [DecodingSlots(gpt, 1) for _ in said]
    for stream, number, spoken in zip(streams, (1, 4), said, strict=True):
        stream.enter(*asked(number), spoken)
    while any(stream.step() for stream in streams):
        pass
    assert [part.codes for part in said] == [part.codes for part in alone]
    kept = speech._steps_by_gpt[gpt][1, ()]
    assert len(kept) == 2 and all(step.in_use for step in kept)
    del stream
    streams.clear()  # an abandoned stream returns its cache, too
    assert not any(step.in_use for step in kept)


def test_a_graph_is_not_replayed_for_rows_with_adapters_and_goes_on_afterwards():
    """At its capture, the adapters of later rows are unknown."""
    gpt = speaking()
    (_, anna, *_), fake = adapters_of(gpt), FakeGraph()
    with torch.inference_mode():
        steps, plain = CudaGraphStep(gpt, 2, fake), CudaGraphStep(gpt, 2, FakeGraph())
        for slot, number in enumerate((1, 2)):
            for rows in (steps, plain):
                rows.caches.enter(slot, prefill(DecodeStep(gpt), *asked(number), utterance(gpt, 0)))
        for position in range(1, 8):
            codes = torch.tensor([position, 2 * position])
            places = torch.full_like(codes, position)
            replayed, adapted = fake.replayed, position in (3, 4)
            found = [step.clone() for step in steps(codes, places, {1: anna} if adapted else {})]
            expected = plain(codes, places)
            assert (fake.replayed == replayed) is adapted
            assert torch.equal(found[0][0], expected[0][0])
            if position == 3:
                assert not torch.allclose(found[0][1], expected[0][1])
        assert steps.caches.lengths.tolist() == plain.caches.lengths.tolist()
