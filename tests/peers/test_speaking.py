"""Conditioning and speaking against Coqui's `Xtts` on the same files."""

import numpy as np
import pytest
import soundfile
import torch

from tests.datasets import a_sound
from tests.models import tiny_base
from tests.peers.test_export import loaded_by_coqui
from xtts import audio
from xtts.inference import voice
from xtts.inference.defaults import SamplingParams
from xtts.inference.torch_backend import TorchUtterance, decode
from xtts.model import loading as model


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    folder = tiny_base(tmp_path_factory.mktemp("coqui") / "base", coqui_vocoder=True)
    return loaded_by_coqui(folder), model.load_model(folder)


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    """9.4 s in stereo at 44,100 Hz: two full chunks of 4 s and a rest."""
    path = tmp_path_factory.mktemp("recording") / "voice.wav"
    sound = np.stack([a_sound(9.4, 44_100, seed=1), a_sound(9.4, 44_100, seed=2)], axis=1)
    soundfile.write(path, sound, 44_100)
    return audio.read(path, audio.CODE_RATE)


@pytest.fixture(scope="module")
def whose(both, recording):
    return voice.voice_from_reference(both[1], recording)


def test_a_voice_is_coquis(both, recording):
    xtts, ours = both
    found = voice.voice_from_reference(ours, recording)
    latents = xtts.get_gpt_cond_latents(recording[None], audio.CODE_RATE, length=30, chunk_length=4)
    assert found.latents.shape == (1, 32, 64)
    assert torch.allclose(found.latents, latents, atol=2e-5)
    speaker = xtts.get_speaker_embedding(recording[None], audio.CODE_RATE)
    assert found.speaker.shape == (1, 512, 1)
    assert torch.allclose(found.speaker, speaker, atol=1e-5)


WORDS = "the old man said hello to a thin hen, then he went on along the river in the rain".split()


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(number, marks=() if number in (0, 1, 3, 6, 19) else pytest.mark.slow)
        for number in range(20)
    ],
)
def test_a_waveform_is_coquis(both, whose, number):
    """The same codes through both vocoders, ours with its weight norm folded in."""
    xtts, ours = both
    text = " ".join(WORDS[number % 7 : number % 7 + 2 + number // 2])
    ids = torch.tensor(ours.tokenizer.encode(text, "en"))
    assert ids.tolist() == xtts.tokenizer.encode(text, "en")
    rules = SamplingParams(greedy=True, repetition_penalty=10.0)
    said = TorchUtterance(ours.gpt, rules, torch.Generator(), 4 + number)
    decode(ours.gpt, whose.latents, [(ids, said)])
    latents = torch.stack(said.latents)[None]
    with torch.inference_mode():
        waveform = ours.vocoder(latents, whose.speaker)[0]
        theirs = xtts.hifigan_decoder(latents, g=whose.speaker).squeeze()
    assert waveform.shape == theirs.shape
    assert (waveform - theirs).norm() / theirs.norm() < 1e-4


def test_the_speakers_similarity_is_a_cosine(both, recording):
    _, ours = both
    whose = voice.voice_from_reference(ours, recording)
    same = voice.similarity(ours, recording, audio.CODE_RATE, whose)
    assert same == pytest.approx(1.0, abs=1e-5)
    other = torch.from_numpy(a_sound(4.0, 24_000, seed=9, pitch=300.0))
    assert voice.similarity(ours, other, 24_000, whose) < 0.9999
