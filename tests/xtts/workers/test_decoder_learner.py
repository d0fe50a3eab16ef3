"""Steps of a person's vocoder against discriminators: what they move, and how they resume."""

import copy
import math
import random
from pathlib import Path

import pytest
import torch

from xtts.model import vocoder
from xtts.model.discriminators import Discriminators
from xtts.model.shapes import SourceFilterShape, VocoderShape
from xtts.workers import decoder_clips, decoder_learner
from xtts.workers.decoder_clips import CONTEXT_CODES, PITCHES_PER_CODE, ClipSound, SpokenClip
from xtts.workers.decoder_learner import DecoderLearner
from xtts.workers.decoder_learning import to_published
from xtts.workers.decoder_schedule import MAX_FRUITLESS_CHECKS, STEPS_PER_CHECK

HERTZ = 100
SHAPES = {
    "oscillator": SourceFilterShape(16, 1, 16, 1),
    "HiFi-GAN": VocoderShape(
        upsample_initial_channel=16, resblock_kernel_sizes=(3,), resblock_dilation_sizes=((1, 3, 5),)
    ),
}


def a_clip(codes: int, seed: int) -> SpokenClip:
    """A hum with an unvoiced part, and random latents."""
    generator = torch.Generator().manual_seed(seed)
    time = torch.arange(round(codes * 1114.56)) / 24_000
    wave = sum(0.1 / n * torch.sin(2 * torch.pi * HERTZ * n * time) for n in range(1, 9))
    pitches = torch.full((codes * PITCHES_PER_CODE,), math.log2(HERTZ))
    pitches[20:26] = 0.0
    latents = torch.randn(1, codes, 16, generator=generator)
    return SpokenClip(ClipSound(torch.zeros(codes), pitches, wave), lambda: latents)


# Rows a quarter as long as those of a run, which a step takes a quarter of the time for.
FEW_CODES = 4 + 2 * CONTEXT_CODES
CLIPS = [a_clip(FEW_CODES + 2 * number, number) for number in range(3)]


def a_vocoder(shape: str) -> vocoder.Vocoder:
    torch.manual_seed(0)
    made = vocoder.Vocoder(16, 32, SHAPES[shape]).eval()
    for module in made.modules():
        if torch.nn.utils.parametrize.is_parametrized(module, "weight"):
            torch.nn.utils.parametrize.remove_parametrizations(module, "weight")
    made.lay_out(torch.float32)
    return made


def a_learner(shape: str, *, of_base: bool = True, **options: float) -> DecoderLearner:
    torch.manual_seed(1)
    brought = Discriminators(2) if of_base else None
    return DecoderLearner(a_vocoder(shape), brought, torch.randn(1, 32, 1), **options)  # type: ignore[arg-type]


def weights(module: torch.nn.Module) -> list[torch.Tensor]:
    return [weight.detach().clone() for weight in module.parameters()]


def equal(tensors: list[torch.Tensor], others: list[torch.Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(tensors, others, strict=True))


@pytest.fixture
def faster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder_learner, "DISCRIMINATOR_CHANNELS", 2)
    monkeypatch.setattr(decoder_learner, "ROWS_PER_STEP", 1)
    monkeypatch.setattr(decoder_clips, "ROW_CODES", FEW_CODES)


@pytest.mark.usefixtures("faster")
@pytest.mark.parametrize("shape", SHAPES)
def test_the_sound_comes_closer_and_every_weight_learns(shape):
    learner = a_learner(shape, rate=3e-3)
    before, started = learner.distance(learner.average, CLIPS), weights(learner.vocoder)
    for _ in range(10):
        learner.learn(CLIPS)
    assert learner.distance(learner.average, CLIPS) < 0.9 * before
    after = weights(learner.vocoder)
    assert not any(torch.equal(a, b) for a, b in zip(started, after, strict=True))
    assert all(weight.isfinite().all() for weight in after)


@pytest.mark.usefixtures("faster")
def test_an_oscillator_learns_the_person_s_pitch():
    """A new one speaks an octave higher."""

    def octaves_off() -> float:
        with torch.no_grad():
            steps = learner.average.latent_steps(CLIPS[0].full_row.latents)
            height, _ = learner.average.waveform_decoder.predicted_pitch(steps, None)
        return float((height - math.log2(HERTZ)).abs().mean())

    learner = a_learner("oscillator", rate=1e-2)
    before = octaves_off()
    for _ in range(12):
        learner.learn(CLIPS)
    assert octaves_off() < before / 3


@pytest.mark.usefixtures("faster")
def test_a_voice_of_inference_mode_trains_in_float32(monkeypatch):
    """As a loaded voice on a CPU without bfloat16, whose products do not copy the speaker."""
    monkeypatch.setattr(decoder_learner, "vocoder_type", lambda: torch.float32)
    monkeypatch.setattr(decoder_learner, "_convolves_quickly", lambda: False)
    with torch.inference_mode():
        speaker = torch.randn(1, 32, 1)
    learner = DecoderLearner(a_vocoder("oscillator"), Discriminators(2), speaker)
    learner.learn(CLIPS)
    assert learner.step == 1


@pytest.mark.usefixtures("faster")
def test_random_discriminators_learn_alone_first(monkeypatch):
    monkeypatch.setattr(decoder_learner, "WARM_UP_STEPS", 2)
    learner = a_learner("oscillator", of_base=False)
    generator, discriminators = weights(learner.vocoder), weights(learner.discriminators)
    for _ in range(2):
        learner.learn(CLIPS)
    assert (learner.warm_up_done, learner.step) == (2, 0)
    assert equal(weights(learner.vocoder), generator) and equal(weights(learner.average), generator)
    assert not equal(weights(learner.discriminators), discriminators)
    learner.learn(CLIPS)
    assert (learner.warm_up_done, learner.step) == (2, 1) and not equal(weights(learner.vocoder), generator)
    brought = a_learner("oscillator")
    brought.learn(CLIPS)
    assert (brought.warm_up_done, brought.step) == (0, 1)


@pytest.mark.usefixtures("faster")
def test_the_average_is_between_the_steps(monkeypatch):
    learner = a_learner("oscillator")
    expected = weights(learner.average)
    for step in range(1, 4):
        learner.learn(CLIPS)
        decay = decoder_learner.average_decay(step)
        new = weights(learner.vocoder)
        expected = [torch.lerp(a, b, 1 - decay) for a, b in zip(expected, new, strict=True)]
        assert equal(weights(learner.average), expected) and not equal(new, expected)


@pytest.mark.usefixtures("faster")
@pytest.mark.parametrize("shape", SHAPES)
def test_a_state_continues_to_the_bit(shape, tmp_path: Path, monkeypatch):
    """Weights, average, discriminators, both optimizers, steps and draws."""
    monkeypatch.setattr(decoder_learner, "WARM_UP_STEPS", 1)
    straight = a_learner(shape, of_base=False)
    for _ in range(5):
        straight.learn(CLIPS)
    first = a_learner(shape, of_base=False)
    for _ in range(3):
        first.learn(CLIPS)
    torch.save(first.state(), tmp_path / "state.pt")
    torch.manual_seed(5), random.seed(5)
    second = DecoderLearner(a_vocoder(shape), Discriminators(3), straight.speaker)
    second.restore(torch.load(tmp_path / "state.pt", weights_only=True))
    for _ in range(2):
        second.learn(CLIPS)
    for name in ("vocoder", "average", "discriminators"):
        assert equal(weights(getattr(straight, name)), weights(getattr(second, name))), name
    assert (second.step, second.warm_up_done) == (straight.step, straight.warm_up_done) == (4, 1)
    # A state of the published layout, as on a GPU, holds the same weights.
    state = copy.deepcopy(first.state())
    for name in ("vocoder", "average"):
        state[name] = {
            key: tensor[:, :, 0] if tensor.ndim == 4 else tensor for key, tensor in state[name].items()
        }
    second.restore(state)
    assert equal(weights(second.vocoder), weights(first.vocoder))


@pytest.mark.usefixtures("faster")
def test_training_ends_when_held_out_clips_no_longer_come_closer(monkeypatch):
    learner = a_learner("oscillator")
    distances = iter([0.9, 0.8, 0.8, 0.85, 0.7995, 0.5])
    monkeypatch.setattr(learner, "distance", lambda *_: next(distances))
    lengths = []
    for step in range(1, 5 * STEPS_PER_CHECK + 1):
        learner.step = step
        learner.check_progress(CLIPS, 1.0)
        if step % STEPS_PER_CHECK == 0:
            lengths.append((learner.checks_since_best, learner.finished))
    assert lengths == [(0, False), (0, False), (1, False), (2, True), (3, True)] and MAX_FRUITLESS_CHECKS == 2


def test_what_is_learned_is_published_under_the_base_s_names():
    learning = a_vocoder("oscillator")
    names = {
        f"{vocoder.WAVEFORM_DECODER}{name}": tensor
        for name, tensor in learning.waveform_decoder.state_dict().items()
    }
    published = to_published(learning, names)
    assert published.keys() == names.keys() and all(torch.equal(published[key], names[key]) for key in names)
