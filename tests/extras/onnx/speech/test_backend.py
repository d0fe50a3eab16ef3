"""Speech with ONNX Runtime: equal to torch's, whole or streamed, and without torch."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from extras.onnx import folder
from extras.onnx.export import exporter
from extras.onnx.speech.backend import OnnxBackend
from extras.onnx.speech.loading import OnnxModel, load_onnx_model, read_voice
from xtts.inference import speech
from xtts.inference.compute_config import ComputeConfig
from xtts.inference.defaults import SamplingParams
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.inference.torch_backend import TorchBackend, sampling_probabilities
from xtts.inference.voice import Voice
from xtts.model import loading as torchs
from xtts.model.loading import Model
from xtts.model.shapes import PLACEHOLDER_ID
from xtts.voices.base_models import DEMO

TEXT = "the old man walked along the river."
LONG = " ".join(["one two three four five six seven eight nine ten eleven."] * 14)
TIE = 1e-4


@pytest.mark.parametrize("text", ["one two.", TEXT, "a", "the river, the river and the river!"])
@pytest.mark.parametrize("penalty", [1.0, 5.0])
def test_greedy_codes_are_torchs_up_to_a_tie(text, penalty, torch_model, torch_voice, onnx_model, onnx_voice):
    rules = SamplingParams(greedy=True, repetition_penalty=penalty)
    expected, tied = torchs_codes(torch_model, torch_voice, text, rules, 60)
    found = codes_of(onnx_model, onnx_voice, text, rules, 60)
    assert len(expected) > 0 and found[: len(expected)] == expected
    assert tied or len(found) == len(expected)


@pytest.mark.slow
def test_the_embedded_voice_says_what_it_says_with_torch(tmp_path):
    """Learned weights at the packaged sizes: the same codes up to a tie, and the same sound."""
    exporter.export(exporter.source_of_folder(DEMO), tmp_path / "demo", ["fp32"])
    ours, theirs = (
        load_onnx_model(tmp_path / "demo", ComputeConfig(precision="fp32")),
        torchs.load_model(DEMO),
    )
    whose = read_voice(tmp_path / "demo" / folder.LATENTS_FILE, ours.config)
    voice = Voice(torch.from_numpy(whose.latents), torch.from_numpy(whose.speaker))
    rules = replace(ours.config.decoding, greedy=True)
    for text in ("The farmer found a silver coin.", "Good evening, my sister!", "one two three."):
        expected, tied = torchs_codes(theirs, voice, text, rules, 200)
        codes, most = codes_of(ours, whose, text, rules, 200), len(expected)
        assert most > 10 and codes[:most] == expected and (tied or len(codes) == most)
        request = SynthesisRequest(text, "en", sampling=rules, max_codes=most)
        sound = speech.synthesize(TorchBackend(theirs), voice, request).numpy()
        found = speech.synthesize(OnnxBackend(ours), whose, request)
        assert np.linalg.norm(found - sound) < 1e-3 * np.linalg.norm(sound)


def torchs_codes(
    model: Model, voice: Voice, text: str, rules: SamplingParams, most: int
) -> tuple[list[int], bool]:
    """torch's codes up to the first tie, and whether there was one: there, another order of
    summation may choose another code."""
    ids = model.tokenizer.encode(text, "en")
    backend = TorchBackend(model)
    said = backend.begin(voice, ids, rules, backend.random(0), most, ())
    seen = torch.zeros(1, model.gpt.shape.audio_ids, dtype=torch.bool)
    seen[0, [PLACEHOLDER_ID, model.gpt.shape.audio_start]] = True
    while True:
        logits = model.gpt.mel_head(said.latents[-1])[None]
        best = sampling_probabilities(logits, seen, [rules])[0][0].topk(2).values
        if float(best[0] - best[1]) < TIE:
            return said.codes[: len(said.latents) - 1], True
        if said.done:
            return said.codes, False
        seen[0, said.codes] = True
        backend.step([said])


def codes_of(model: OnnxModel, voice: Voice, text: str, rules: SamplingParams, most: int) -> list[int]:
    backend, ids = OnnxBackend(model), model.tokenizer.encode(text, "en")
    said = backend.begin(voice, ids, rules, backend.random(0), most, ())
    while not said.done:
        backend.step([said])
    return said.codes


def test_the_waveform_is_torchs_within_a_thousandth(torch_model, torch_voice, onnx_model, onnx_voice):
    rules = replace(onnx_model.config.decoding, greedy=True)
    for text in (TEXT, LONG):
        request = SynthesisRequest(text, "en", sampling=rules, max_codes=30)
        expected = speech.synthesize(TorchBackend(torch_model), torch_voice, request).numpy()
        found = speech.synthesize(OnnxBackend(onnx_model), onnx_voice, request)
        assert found.shape == expected.shape
        assert np.linalg.norm(found - expected) < 1e-3 * np.linalg.norm(expected)


@pytest.mark.parametrize("text", [TEXT, LONG, "a"])
@pytest.mark.parametrize("speed", [1.0, 1.3, 0.7])
def test_a_stream_joined_is_the_whole(text, speed, onnx_model, onnx_voice):
    request = SynthesisRequest(text, "en", seed=5, speed=speed, max_codes=70)
    whole = speech.synthesize(OnnxBackend(onnx_model), onnx_voice, request)
    chunks = list(speech.Speech(OnnxBackend(onnx_model), onnx_voice, request).chunks())
    joined = np.concatenate(chunks)
    assert joined.shape == whole.shape
    assert np.abs(joined - whole).max() < 1e-5
    assert len(chunks) > 2 or len(whole) < 24_000
