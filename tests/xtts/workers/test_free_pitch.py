"""The pitch of free speech becomes that of the person's clips."""

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from xtts.inference.voice import Voice, read_reference, voice_from_reference
from xtts.model import loading
from xtts.model.loading import Model
from xtts.model.source_filter import SourceFilter
from xtts.model.vocoder import Vocoder
from xtts.voices.base_models import DEMO
from xtts.workers.decoder_clips import ClipSound, SpokenClip
from xtts.workers.free_pitch import MIN_VOICED_TEXTS, move_pitch, speak

TEXTS = ("Good morning.", "The boats go out again.", "Nobody has seen her.", "It is late.")
HERTZ = 90.0


@pytest.fixture(scope="module")
def model() -> Model:
    return loading.load_model(DEMO)


@pytest.fixture(scope="module")
def voice(model: Model) -> Voice:
    recording = Path("train/data/demo/wavs/demo-90.flac")
    return voice_from_reference(model, read_reference(model.config, recording))


@pytest.fixture
def vocoder(model: Model) -> Iterator[Vocoder]:
    """The model's, with its weights put back at the end."""
    before = {name: tensor.clone() for name, tensor in model.vocoder.state_dict().items()}
    yield model.vocoder
    model.vocoder.load_state_dict(before)


def clips_of(model: Model, *, hertz: float = HERTZ) -> list[SpokenClip]:
    """Clips of a person who speaks at one pitch; half of their frames are unvoiced."""
    pitches = torch.tensor([0.0, math.log2(hertz)]).repeat(20)
    sound = ClipSound(torch.zeros(10), pitches, torch.zeros(10))
    ids = [model.tokenizer.split(text, "en")[0].ids for text in TEXTS]
    return [SpokenClip(sound, lambda: torch.zeros(1), row) for row in ids]


def median_hertz(vocoder: Vocoder, model: Model, voice: Voice, clips: list[SpokenClip]) -> list[float]:
    """The predicted pitch of each text."""
    decoder = vocoder.waveform_decoder
    assert isinstance(decoder, SourceFilter)
    found = []
    with torch.no_grad():
        for latents in speak(model, voice, [clip.ids for clip in clips], 0):
            assert latents is not None
            height, voicing = decoder.predicted_pitch(vocoder.latent_steps(latents[None]), voice.speaker)
            found.append(2 ** height[voicing > 0].median().item())
    return found


def test_the_mean_pitch_of_free_speech_is_the_persons(model, voice, vocoder):
    clips = clips_of(model)
    before = median_hertz(vocoder, model, voice, clips)
    octaves = move_pitch(vocoder, model, voice, clips, 0)
    after = median_hertz(vocoder, model, voice, clips)
    assert math.prod(before) ** (1 / len(before)) > 1.3 * HERTZ
    assert math.prod(after) ** (1 / len(after)) == pytest.approx(HERTZ, rel=1e-3)
    # Each text keeps its own distance to the others.
    assert after == pytest.approx([hertz * 2**octaves for hertz in before], rel=1e-4)
    # What is right does not move.
    assert move_pitch(vocoder, model, voice, clips, 0) == pytest.approx(0, abs=1e-5)


def test_the_same_seed_moves_it_to_the_bit_and_no_random_state_moves(model, voice, vocoder):
    torch.manual_seed(3)
    state = torch.get_rng_state()
    clips, bias = clips_of(model), vocoder.waveform_decoder.pitch.last.bias
    with torch.no_grad():
        start = bias.clone()
        first = move_pitch(vocoder, model, voice, clips, 5)
        bias.copy_(start)
    assert move_pitch(vocoder, model, voice, clips, 5) == first
    assert torch.equal(torch.get_rng_state(), state)


def test_it_stays_without_enough_texts_that_end_and_without_an_oscillator(model, voice, vocoder):
    unvoiced = clips_of(model)
    for clip in unvoiced[MIN_VOICED_TEXTS - 1 :]:
        clip.sound.pitches.zero_()  # All share it.
    assert move_pitch(vocoder, model, voice, unvoiced, 0) == 0.0
    other = Vocoder.__new__(Vocoder)
    torch.nn.Module.__init__(other)
    other.waveform_decoder = torch.nn.Identity()
    assert move_pitch(other, model, voice, clips_of(model), 0) == 0.0
