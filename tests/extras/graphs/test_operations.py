"""Upper bounds for the operations of a code on a GPU, counted without one (`tests.operations`)."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from unittest import mock

import pytest
import torch
from torch import Tensor

from demo_voice.new_gpt import new_gpt
from extras.graphs.speech import CudaGraphStep
from tests.operations import as_on_a_gpu, at_full_depth, counts_of, small_shape
from xtts.inference import torch_backend
from xtts.inference.defaults import SamplingParams
from xtts.inference.torch_backend import DecodeStep, DecodingSlots, TorchUtterance
from xtts.model.shapes import NUM_LATENTS

CODES = 8


@torch.inference_mode()
def code_in_graph(layers: int, slots: int) -> tuple[Counter[str], float]:
    """The operations in a captured step; one launch replays it."""
    gpt = new_gpt(small_shape(layers), seed=0).eval()
    steps = CudaGraphStep(gpt, slots, _replayed)
    codes, places = torch.zeros(slots, dtype=torch.long), torch.ones(slots, dtype=torch.long)
    plain = DecodeStep(gpt)
    return counts_of(lambda: plain(codes, places, steps.caches))


@torch.inference_mode()
def code_beside(layers: int, slots: int) -> tuple[Counter[str], float]:
    """The cost of a code outside its replay: tokens in, sampling, the stop code.

    `slots` rows all speak. The waits are those of one step of all rows.
    """
    gpt = new_gpt(small_shape(layers), seed=0).eval()
    gpt.mel_head.bias[gpt.shape.audio_stop] = -1e4
    rules = SamplingParams(temperature=0.75, top_k=50, top_p=0.85, repetition_penalty=5.0)
    steps = CudaGraphStep(gpt, slots, _replayed)
    graphs = SimpleNamespace(rows_of=lambda *_: steps.borrow())
    with mock.patch.object(torch_backend, "speech_graphs", lambda _: graphs):
        decoding_slots = DecodingSlots(gpt, slots)
        for slot in range(slots):
            utterance = TorchUtterance(gpt, rules, torch.Generator().manual_seed(slot))
            decoding_slots.enter(torch.zeros(1, NUM_LATENTS, 64), torch.arange(2, 20), utterance)
        decoding_slots.step()
        with as_on_a_gpu():
            names, waits = counts_of(lambda: [decoding_slots.step() for _ in range(CODES)])
    return Counter({name: often / CODES for name, often in names.items()}), waits / CODES


def _replayed(compute: Callable[[], tuple[Tensor, ...]]) -> tuple[tuple[Tensor, ...], Callable[[], object]]:
    """A replay dispatches nothing, so it costs only its launch."""
    return compute(), lambda: None


@pytest.mark.parametrize(
    ("count", "slots", "most", "waits"),
    [
        # 458 before the mask was made once for all layers.
        (code_in_graph, 1, 345, 0),
        (code_in_graph, 16, 345, 0),
        # 35 and 470 before rows were sampled together, with 2 and 32 waits.
        (code_beside, 1, 42, 1),
        (code_beside, 16, 75, 1),
    ],
)
def test_no_more_than_was_counted(count, slots, most, waits):
    found = at_full_depth(partial(count, slots=slots))
    assert 0.9 * most <= found.operations <= most
    assert found.waits == waits
