"""The step as a graph, against torch's transformer and cache."""

import copy

import numpy as np
import pytest
import torch

from extras.onnx.speech.gpt import BLOCK_PLACES
from extras.onnx.speech.loading import load_onnx_model
from xtts.inference import torch_backend
from xtts.inference.compute_config import ComputeConfig
from xtts.inference.defaults import SamplingParams
from xtts.inference.torch_backend import DecodeStep, TorchUtterance, decode
from xtts.model.shapes import NUM_LATENTS

IDS = [5, 9, 13, 20]


def test_latents_and_logits_are_torchs_at_every_step(torch_model, torch_voice, onnx_model, onnx_voice):
    gpt = torch_model.gpt
    codes = torch.arange(1, 50)
    with torch.inference_mode():
        cache = gpt.gpt.new_cache(1, 200)
        start = torch.tensor([gpt.shape.audio_start])
        prefix = gpt.prefix(torch_voice.latents, torch.tensor(IDS))
        step = DecodeStep(gpt)
        expected = [step.prefill(torch.cat((prefix, gpt.audio_input(start, 0)), 1), cache)]
        for place, code in enumerate(codes, start=1):
            expected.append(step(code[None], torch.tensor([place]), cache))
    past, *first = onnx_model.gpt.begin(onnx_voice.latents, IDS)
    found = [first]
    for place, code in enumerate(codes.tolist(), start=1):
        found.append(list(onnx_model.gpt.step(code, place, past)))
    assert past.length > BLOCK_PLACES  # the past has grown
    for (latent, logits), (their_latent, their_logits) in zip(found, expected, strict=True):
        assert np.abs(latent - their_latent[0].numpy()).max() < 1e-5
        assert np.abs(logits - their_logits[0].numpy()).max() < 1e-5


@pytest.mark.parametrize(("kind", "most"), [("int8", 0.02), ("int4", 0.2)])
def test_fewer_bits_are_near(kind, most, onnx_model, onnx_folder, onnx_voice):
    rounded = load_onnx_model(onnx_folder, ComputeConfig(precision=kind))
    _, exact, _ = onnx_model.gpt.begin(onnx_voice.latents, IDS)
    _, near, _ = rounded.gpt.begin(onnx_voice.latents, IDS)
    distance = np.linalg.norm(near - exact) / np.linalg.norm(exact)
    assert most / 20 < distance < most


def test_where_every_head_looks_is_where_torchs_looks(
    torch_model, torch_voice, onnx_model, onnx_voice, monkeypatch
):
    """Both get the same codes; the text's span includes START and STOP."""
    gpt, codes = torch_model.gpt, list(range(1, 30))
    shape = gpt.shape
    everyone = [(layer, head) for layer in range(shape.layers) for head in range(shape.heads)]
    said = TorchUtterance(gpt, SamplingParams(), torch.Generator(), len(codes), everyone)
    forced = iter(codes)
    monkeypatch.setattr(torch_backend, "sample", lambda *_: torch.tensor([next(forced)]))
    decode(gpt, torch_voice.latents, [(torch.tensor(IDS), said)])
    past, *_ = onnx_model.gpt.begin(onnx_voice.latents, IDS)
    for place, code in enumerate(codes[:-1], start=1):
        onnx_model.gpt.step(code, place, past)
    found = past.attention(everyone, NUM_LATENTS + len(IDS) + 2)
    expected = said.attention_by_head()
    assert onnx_model.gpt.tells_queries and len(past._queries) == len(codes)
    for head in everyone:
        assert found[head].shape == expected[head].shape == (len(codes), len(IDS) + 2)
        assert np.abs(found[head] - expected[head]).max() < 1e-4


def test_an_export_of_an_earlier_version_speaks_and_tells_nothing(onnx_model):
    """Its graph has four outputs."""
    new = onnx_model.gpt._session

    class Earlier:
        def get_outputs(self):
            return new.get_outputs()[:4]

        def run(self, _, feed):
            return new.run(None, feed)[:4]

    gpt = copy.copy(onnx_model.gpt)
    gpt._session, gpt.tells_queries = Earlier(), False
    past, latent, _ = gpt.begin(np.zeros((1, 32, gpt.shape.width), np.float32), IDS)
    assert past._queries == [] and np.isfinite(latent).all()
