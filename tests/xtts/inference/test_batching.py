"""Speech in a batch equals speech alone; speed and fades are tested separately."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.xtts.inference.crowds import sounds_of
from xtts.inference import speech, voice
from xtts.inference.speech import ContinuousBatcher
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.inference.torch_backend import TorchBackend
from xtts.inference.voice import Voice
from xtts.model.loading import Model, load_model

TEXT = "hello there. " + "and one more sentence that is rather long, with words in it. " * 12


def made_and_heard(base_folder: Path) -> tuple[Model, Voice]:
    made = load_model(base_folder)
    noise = torch.randn(22_050, generator=torch.Generator().manual_seed(1)) * 0.1
    return made, voice.voice_from_reference(made, noise)


def test_a_crowd_says_what_a_stream_says(base_folder):
    made, whose = made_and_heard(base_folder)
    assert len(made.tokenizer.split(TEXT, "en")) > 1
    long = SynthesisRequest(TEXT, "en", seed=4, max_codes=15)
    quick = SynthesisRequest("hello", "en", seed=1, speed=2.0, max_codes=15)
    batcher = ContinuousBatcher(TorchBackend(made, 2))
    sounds = sounds_of(batcher, whose, {"long": long, "quick": quick})
    pulled = torch.cat(list(speech.Speech(TorchBackend(made), whose, long).chunks())).numpy()
    assert sounds["long"].shape == pulled.shape
    assert np.allclose(sounds["long"], pulled, atol=1e-4)
    usual = speech.synthesize(TorchBackend(made), whose, replace(quick, speed=1.0))
    assert len(sounds["quick"]) == pytest.approx(len(usual) / 2, abs=2048)


def test_between_two_pieces_a_slot_is_free_and_the_speech_is_the_same(base_folder):
    """One slot: a short text is spoken between two pieces of a long one, which is the same to the
    bit as alone. Pieces that reached the code limit are counted."""
    made, whose = made_and_heard(base_folder)
    batcher = ContinuousBatcher(TorchBackend(made, 1))
    long = SynthesisRequest(TEXT, "en", seed=4, max_codes=8)
    alone = sounds_of(batcher, whose, {"long": long})["long"]
    batcher.enter("long", whose, long)
    chunks: list[Tensor] = []
    order: list[str] = []
    while not batcher.empty:
        for output in batcher.step():
            if output.name == "long":
                chunks += output.chunks
            if output.speech.done or output.speech.paused:
                order.append(output.name)
            if output.speech.done and output.name == "long":
                pieces = len(made.tokenizer.split(TEXT, "en"))
                assert 1 < output.speech.cut_pieces <= pieces
            if output.speech.paused and len(order) == 1:
                assert not batcher.busy and batcher.num_free == 1 and not batcher.empty
                batcher.enter("short", whose, SynthesisRequest("hello", "en", seed=1, max_codes=8))
            elif output.speech.paused or (output.name == "short" and output.speech.done):
                batcher.begin_next_piece("long")
    assert order[:3] == ["long", "short", "long"]
    assert np.array_equal(torch.cat(chunks).numpy(), alone)
    assert not batcher.begin_next_piece("long")


def test_the_likeliest_code_does_not_depend_on_the_seed(base_folder):
    made, whose = made_and_heard(base_folder)
    batcher = ContinuousBatcher(TorchBackend(made, 2))
    greedy = SynthesisRequest("hello", "en", seed=1, temperature=0.0, max_codes=9)
    sounds = sounds_of(batcher, whose, {"one": greedy, "two": replace(greedy, seed=2)})
    assert np.array_equal(sounds["one"], sounds["two"])
