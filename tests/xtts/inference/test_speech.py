"""A stream equals the whole speech and is in time; pieces of a long text join without a click."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from xtts.audio import VOCODER_RATE
from xtts.inference import speech
from xtts.inference.defaults import FADE_SECONDS, SamplingParams
from xtts.inference.speech import Speech, StreamFade
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.inference.torch_backend import DecodeStep, TorchBackend
from xtts.inference.voice import Voice, voice_from_reference
from xtts.model.loading import Model, load_model
from xtts.text.errors import TextError

RULES = SamplingParams(temperature=0.9, top_k=20, top_p=1.0, repetition_penalty=2.0)
LONG = "the tin hat and the inner thin tent. " * 24
# Codes of a piece: 1.9 s of sound, and random weights speak for half a minute.
MOST = 40


@pytest.fixture(scope="module")
def model(base_folder: Path) -> Model:
    loaded = load_model(base_folder)
    # With random weights, speech stops at once or never; this gives a few seconds.
    loaded.gpt.mel_head.bias[loaded.gpt.shape.audio_stop] -= 1.5
    return loaded


@pytest.fixture(scope="module")
def voice(model: Model) -> Voice:
    return voice_from_reference(model, torch.sin(torch.arange(66_150) / 20))


@pytest.mark.parametrize("text", ["a thin tin", LONG], ids=["one piece", "pieces"])
def test_a_stream_joined_is_what_speak_says(model, voice, text):
    request = SynthesisRequest(text, "en", sampling=RULES, seed=3, max_codes=MOST)
    whole = speech.synthesize(TorchBackend(model), voice, request)
    chunks = list(speech.Speech(TorchBackend(model), voice, request).chunks())
    joined = torch.cat(chunks)
    assert len(chunks) > 2 and len(joined) == len(whole)
    assert float((joined - whole).norm() / whole.norm()) < 1e-3


def test_a_stream_speaks_before_the_model_has_finished(monkeypatch, model, voice):
    steps = 0
    step = DecodeStep.__call__

    def counted(*arguments):
        nonlocal steps
        steps += 1
        return step(*arguments)

    monkeypatch.setattr(DecodeStep, "__call__", counted)
    request = SynthesisRequest("a thin tin", "en", sampling=RULES, seed=3)
    chunks = speech.Speech(TorchBackend(model), voice, request).chunks()
    first = next(chunks)
    heard_after = steps
    for _ in chunks:
        pass
    assert len(first) < 0.8 * VOCODER_RATE
    assert heard_after < 20 and steps > 2 * heard_after


def pieces_of(model: Model, voice: Voice, text: str) -> Iterator[torch.Tensor]:
    request = SynthesisRequest(text, "en", sampling=RULES, max_codes=MOST)
    spoken = Speech(TorchBackend(model), voice, request, chunked=False)
    while not spoken.done:
        yield torch.cat(list(spoken.next_piece()))


def test_pieces_join_at_silence(model, voice):
    pieces = list(pieces_of(model, voice, LONG))
    assert len(pieces) > 1
    for piece in pieces:
        assert piece[0] == 0.0 and piece[-1] == 0.0


@given(st.lists(st.integers(0, 700), max_size=12))
def test_a_fade_in_chunks_is_the_fade_of_the_whole(sizes):
    length = min(int(FADE_SECONDS * VOCODER_RATE), sum(sizes) // 2)
    envelope = np.ones(sum(sizes), np.float32)
    envelope[:length] *= np.linspace(0.0, 1.0, length)
    envelope[len(envelope) - length :] *= np.linspace(0.0, 1.0, length)[::-1]
    for arrays in (torch, np):
        fade = StreamFade(arrays)
        parts = [fade.push(arrays.ones(size, dtype=arrays.float32)) for size in sizes]
        assert np.allclose(arrays.concatenate([*parts, fade.end()]), envelope, atol=1e-6)


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
def test_memory_stays_flat_over_minutes_of_speech(model, voice):
    """`python -m benchmarks loading --sentences` does the same with the embedded voice."""
    text = "the tin hat and the inner thin tent. " * 250
    resident, seconds = list[int](), 0.0
    for piece in pieces_of(model, voice, text):
        seconds += len(piece) / VOCODER_RATE
        resident.append(_resident_bytes())
    assert len(resident) > 25 and seconds > 30
    # The first pieces allocate buffers and code that stay in memory.
    settled = resident[len(resident) // 4 :]
    assert max(settled) - settled[0] < 30e6


def test_a_text_of_two_people_is_spoken_by_both(model, voice):
    """Each piece uses the latents and vocoder of its speaker; a cast with only the voice itself
    changes no bit."""
    other = voice_from_reference(model, torch.sin(torch.arange(66_150) / 7))
    backend = TorchBackend(model)

    def spoken(text: str, cast: dict[str, Voice] | None = None) -> torch.Tensor:
        request = SynthesisRequest(text, "en", sampling=RULES, seed=3, max_codes=MOST)
        return torch.as_tensor(speech.synthesize(backend, voice, request, None, cast or {}))

    text = "a thin tin[pause:1s][voice:ben]the tin hat"
    alike = spoken(text, {"ben": voice})
    assert torch.equal(alike, spoken("a thin tin[pause:1s]the tin hat"))
    changed = spoken(text, {"ben": other})
    first = len(spoken("a thin tin")) - 2 * int(FADE_SECONDS * VOCODER_RATE)
    assert torch.equal(changed[:first], alike[:first])
    assert len(changed) != len(alike) or not torch.equal(changed, alike)


def test_a_voice_that_is_not_there_is_refused_by_name_before_anything_is_spoken(model, voice):
    request = SynthesisRequest("a[voice:bob]thin tin", "en")
    with pytest.raises(TextError, match="'bob'; there is ben, eva"):
        Speech(TorchBackend(model), voice, request, None, {"eva": voice, "ben": voice})
