"""The vocoder's graph and its interpolation, against torch's."""

import copy

import numpy as np
import onnxruntime
import pytest
import torch

from extras.onnx.export import graphs, weights
from extras.onnx.export.tracing import trace
from extras.onnx.speech.vocoder import OnnxVocoder
from xtts.model.shapes import SourceFilterShape, VocoderShape
from xtts.model.streaming_vocoder import ChunkedVocoder
from xtts.model.vocoder import Vocoder

ONE_A_CODE = VocoderShape(
    upsample_initial_channel=16,
    upsample_rates=(8, 8, 4, 4),
    upsample_kernel_sizes=(16, 16, 8, 8),
    resblock_kernel_sizes=(3,),
    resblock_dilation_sizes=((1,),),
)


SPEAKER = np.zeros((1, 32, 1), np.float32)


@pytest.mark.parametrize("shape", [VocoderShape(), ONE_A_CODE], ids=["XTTS-v2", "one step a code"])
@pytest.mark.parametrize("codes", [1, 2, 3, 5, 12, 57])
def test_steps_are_torchs(codes, shape):
    latents = torch.randn(codes, 8, generator=torch.Generator().manual_seed(codes))
    expected = Vocoder.latent_steps(type("Shaped", (), {"shape": shape})(), latents[None])[0].numpy()
    vocoder, given, count = OnnxVocoder(None, shape), list(latents.numpy()), expected.shape[1]
    for left, right in {(0, count), (count // 3, count), (count // 2, count // 2 + 1)}:
        found = vocoder.window(given, left, right, SPEAKER)[0]
        assert found.shape == expected[:, left:right].shape
        # torch computes positions in float32: 1e-6 of a few hundred steps off.
        assert np.abs(found - expected[:, left:right]).max() < 1e-4
    edge = shape.edge_steps
    held = vocoder.window(given, -edge, count + edge, SPEAKER)[0]
    assert np.abs(held - np.pad(expected, ((0, 0), (edge, edge)), "edge")).max() < 1e-4


def test_pieces_of_bounded_length_are_the_whole(onnx_model, onnx_voice):
    latents = np.random.default_rng(0).standard_normal((60, 64)).astype(np.float32)
    vocoders = copy.copy(onnx_model.vocoder), copy.copy(onnx_model.vocoder)
    for vocoder, most in zip(vocoders, (10**6, 5_000), strict=True):
        vocoder.max_samples = most
    whole, short = (ChunkedVocoder(vocoder, onnx_voice.speaker) for vocoder in vocoders)
    whole.add(latents)
    short.add(latents)
    (at_once,), many = list(whole.rest()), list(short.rest())
    assert len(many) > 10 and max(map(len, many)) <= 5_000
    assert np.abs(np.concatenate(many) - at_once).max() < 1e-5


SOURCE = SourceFilterShape(32, 2, 16, 1, window=512)


@pytest.mark.parametrize("codes", [3, 40])
def test_a_vocoder_with_an_oscillator_sounds_as_in_torch(codes, tmp_path):
    torch.manual_seed(0)
    vocoder, speaker = Vocoder(8, 32, SOURCE).eval(), torch.randn(1, 32, 1)
    sessions = []
    decoder = vocoder.waveform_decoder
    for name, graph in (("vocoder", graphs.vocoder_graph(vocoder)), ("source", graphs.source_graph(decoder))):
        weights.write(*trace(graph, folded=True), tmp_path / f"{name}.onnx")
        sessions.append(onnxruntime.InferenceSession(tmp_path / f"{name}.onnx"))
    latents, sounds = torch.randn(codes, 8), []
    with torch.inference_mode():
        exported = OnnxVocoder(sessions[0], SOURCE, 9_000, sessions[1])
        for spoken, who, given in ((vocoder, speaker, latents), (exported, speaker.numpy(), latents.numpy())):
            chunked = ChunkedVocoder(spoken, who)
            chunked.add(given)
            sounds.append(np.concatenate([np.asarray(part) for part in chunked.rest()]))
    assert len(sounds[0]) == len(sounds[1])
    assert np.abs(sounds[0] - sounds[1]).max() < 0.02 * np.abs(sounds[0]).max()
