"""The oscillator, its phase, and the filters of the embedded voice's vocoder."""

import math

import numpy as np
import pytest
import torch

from tests.xtts.model.test_streaming_vocoder import SOURCE, WIDTH, speaking
from xtts.model.shapes import VOCODER_RATE, SourceFilterShape
from xtts.model.source_filter import SourceFilter, pitch_at_steps

HOP = SOURCE.hop


def pitched(hertz: torch.Tensor) -> torch.Tensor:
    """The pulses `[samples]` of a voice with these pitches `[steps]`."""
    decoder = SourceFilter(WIDTH, 32, SOURCE)
    pitch = torch.log2(hertz)[None], torch.ones(1, len(hertz))
    rows = decoder.excite_at(torch.zeros(1, WIDTH, len(hertz)), pitch)[:, WIDTH:]
    return decoder._pulses(*rows[:, :3].unbind(1)).flatten()


def test_pulses_are_all_harmonics_below_the_highest():
    pulses = pitched(torch.full((40,), 201.0))
    time = (torch.arange(40 * HOP, dtype=torch.float64) + 1) / VOCODER_RATE
    harmonics = sum(torch.cos(2 * math.pi * 201 * n * time) for n in range(1, 55))
    assert float((pulses - harmonics).abs().max()) < 0.1  # of 54


def test_the_phase_goes_on_from_step_to_step_while_the_pitch_glides():
    pulses = pitched(torch.linspace(90, 400, 200))
    # One peak for each cycle.
    peaks = (pulses > 20).nonzero().flatten()
    peaks = peaks[torch.cat((torch.tensor([True]), peaks.diff() > 5))]
    cycles = torch.linspace(90, 400, 200).sum() * HOP / VOCODER_RATE
    assert abs(len(peaks) - float(cycles)) < 3
    assert float(peaks.diff().max()) < 1.1 * VOCODER_RATE / 90


def test_the_phase_goes_on_where_the_pitch_bends():
    """The phase at a step is that at the step before plus the cycles between, as pulses turn."""
    hertz = torch.tensor([120.0, 120.0, 170.0, 170.0, 110.0, 300.0, 300.0])
    decoder = SourceFilter(WIDTH, 32, SOURCE)
    height = torch.log2(hertz)[None]
    rows = decoder.excite_at(torch.zeros(1, WIDTH, 7), (height, torch.ones(1, 7)))[0, WIDTH:]
    # The pitch in the middle of each step is given, and it is linear in between.
    places = (torch.arange(7 * HOP, dtype=torch.float64) + 0.5) / HOP - 0.5
    along = np.interp(places.numpy(), np.arange(7), hertz.double().numpy())
    turned = np.cumsum(along.reshape(7, HOP).sum(1) / VOCODER_RATE)[:-1]
    difference = rows[2, 1:].double().numpy() - turned
    assert np.abs(difference - difference.round()).max() < 1e-4


def test_filters_of_gain_one_change_nothing():
    decoder = SourceFilter(WIDTH, 32, SOURCE)
    samples = torch.randn(1, 20, HOP)
    sound = decoder._overlap_add(torch.cat(decoder._spectra(samples), 2))
    inside = slice(SOURCE.window, -SOURCE.window)
    torch.testing.assert_close(sound[:, inside], samples.flatten(1)[:, inside], atol=1e-5, rtol=0)


def test_unvoiced_steps_are_noise_alone_and_the_noise_has_the_gain_that_is_asked_for():
    vocoder, speaker = speaking(SourceFilterShape(16, 1, 16, 1))
    decoder = vocoder.waveform_decoder
    decoder.filters.last.weight.zero_()
    harmonics, _, noise = decoder.filters.last.bias.view(3, -1)
    harmonics.fill_(0.0), noise.fill_(math.log(0.1))
    steps, low = torch.zeros(1, WIDTH, 200), torch.full((1, 200), 7.0)
    hiss = vocoder.sound(decoder.excite_at(steps, (low, torch.zeros(1, 200))), speaker)[0]
    assert float(hiss[2000:-2000].std()) == pytest.approx(0.1, rel=0.05)
    voice = vocoder.sound(decoder.excite_at(steps, (low, torch.ones(1, 200))), speaker)[0]
    period = 24_000 // 128
    assert float((voice - hiss)[4000 : 4000 + period].amax()) > 20


def test_no_sample_depends_on_what_is_further_than_reach_except_by_its_phase():
    vocoder, speaker = speaking(SOURCE)
    decoder = vocoder.waveform_decoder
    steps = torch.randn(1, WIDTH, 120)
    other = steps.clone()
    other[:, :, 60] += 10.0
    before, after = decoder.excite(steps, None), decoder.excite(other, None)
    touched = (before != after)[0, WIDTH : WIDTH + 2].any(0).nonzero().flatten()
    first = int(touched.min())
    after[:, WIDTH + 2, 61:] = before[:, WIDTH + 2, 61:]
    moved = (vocoder.sound(before, speaker) - vocoder.sound(after, speaker))[0].abs() > 1e-5
    changed = moved.nonzero().flatten() // HOP
    assert first >= 60 - SOURCE.reach
    assert 60 - SOURCE.reach <= int(changed.min()) and int(changed.max()) <= 60 + SOURCE.reach
    # Few more than needed: each extra step is computed twice at every edge of a chunk.
    assert SOURCE.reach <= 2 * (60 - int(changed.min())) + 6


def test_the_spectral_loss_trains_the_filters_and_not_the_pitch():
    decoder = SourceFilter(WIDTH, 32, SOURCE)
    steps, speaker = torch.randn(1, WIDTH, 30), torch.randn(1, 32, 1)
    decoder(decoder.excite(steps, speaker), speaker).square().mean().backward()
    assert all(float(weight.grad.abs().sum()) > 0 for weight in decoder.filters.parameters())
    assert all(weight.grad is None for weight in decoder.pitch.parameters())


def test_the_pitch_goes_on_through_unvoiced_places():
    pitches = torch.tensor([[0.0, 7.0, 7.0, 0.0, 0.0, 8.0, 8.0, 0.0]])
    height, voiced = pitch_at_steps(pitches, 8)
    assert height.tolist() == [[7.0, 7.0, 7.0, 7.0, 7.0, 8.0, 8.0, 8.0]]
    assert voiced.tolist() == [[0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0]]
    silent, none = pitch_at_steps(torch.zeros(1, 8), 9)
    assert silent.isfinite().all() and not none.any()


def test_a_speaker_changes_every_block_of_filters_and_nothing_before_it_has_learned():
    shape = SourceFilterShape(16, 2, 16, 1, speaker_channels=8)
    decoder = SourceFilter(WIDTH, 32, shape)
    steps, (anna, ben) = torch.randn(1, WIDTH, 20), torch.randn(2, 1, 32, 1)
    blocks = decoder.filters.blocks
    seen: list[torch.Tensor] = []
    for block in blocks:
        block.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[1]))
    decoder.filters(steps, anna)
    assert [float(manner.detach().abs().max()) for manner in seen] == [0.0, 0.0]
    for linear in decoder.filters.manners.of_block:
        torch.nn.init.normal_(linear.weight)
    seen.clear()
    decoder.filters(steps, anna), decoder.filters(steps, ben)
    assert [manner.shape for manner in seen] == [(1, 1, 32)] * 4
    assert all(not torch.allclose(block, other) for block, other in zip(seen[:2], seen[2:], strict=True))


def test_a_speaker_moves_the_pitch_of_the_same_latents():
    decoder = SourceFilter(WIDTH, 32, SourceFilterShape(16, 2, 16, 1, speaker_channels=8))
    steps, (anna, ben) = torch.randn(1, WIDTH, 20), torch.randn(2, 1, 32, 1)
    hertz = [decoder.excite(steps, speaker)[0, WIDTH] for speaker in (anna, ben, anna)]
    assert torch.equal(hertz[0], hertz[2]) and not torch.allclose(hertz[0], hertz[1])
