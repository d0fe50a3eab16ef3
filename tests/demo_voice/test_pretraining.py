"""Pretraining of the GPT: rows as in a fine-tune, the heads' inputs, and finite losses."""

import math

import pytest
import torch
from torch import nn

from demo_voice.new_gpt import new_gpt
from demo_voice.pretraining import (
    MIDDLE_PITCH,
    Calm,
    Guide,
    Pupil,
    Rows,
    diagonal,
    lay_out,
    mean_spectra,
    pitch_loss,
)
from demo_voice.recipe import SHORT
from xtts.model import training
from xtts.model.training import pack

LENGTHS = ((7, 20, 64), (12, 9, 40), (3, 31, 100))


@pytest.fixture
def batch() -> tuple[Rows, list[list[torch.Tensor]]]:
    """Rows, and the texts, codes and references before padding."""
    torch.manual_seed(0)
    texts = [torch.randint(3, 49, (n,)) for n, _, _ in LENGTHS]
    codes = [torch.randint(0, 1024, (n,)) for _, n, _ in LENGTHS]
    heard = [torch.randn(80, n) for _, _, n in LENGTHS]
    padded = nn.utils.rnn.pad_sequence
    references = torch.stack([nn.functional.pad(one, (0, 100 - one.shape[1])) for one in heard])
    columns = [torch.tensor(column) for column in zip(*LENGTHS, strict=True)]
    rows = Rows(
        padded(texts, batch_first=True),
        columns[0],
        padded(codes, batch_first=True),
        columns[1],
        references,
        columns[2],
        torch.arange(3),
        torch.zeros(3, 31, 320),
        torch.zeros(3, 31, 4),
    )
    return rows, [texts, codes, heard]


def test_rows_are_those_of_a_fine_tune(batch):
    """Losses and latents equal those of the packed batches in `train`."""
    rows, (texts, codes, heard) = batch
    pupil = Pupil(new_gpt(SHORT.gpt, 1)).eval()
    packed = pack(texts, codes, heard, SHORT.gpt, stop_input=True)
    wanted, grid = training.losses(pupil.gpt, packed), lay_out(rows, SHORT)
    found = pupil.losses(rows, grid)
    torch.testing.assert_close(found["audio"], wanted.audio)
    torch.testing.assert_close(found["text"], wanted.text)
    hidden, _ = pupil.hidden(rows, grid)
    latents = pupil.latents(hidden, grid, 31)
    slots, first = packed.audio_slots, 0
    for row, own in enumerate(codes):
        theirs = training.hidden_states(pupil.gpt, packed)[slots[first : first + len(own)]]
        torch.testing.assert_close(latents[row, : len(own)], theirs, atol=1e-5, rtol=1e-5)
        first += len(own) + 4  # START and three STOP inputs are latents too


def test_a_mean_spectrum_leaves_padding_out(batch):
    rows, (_, _, heard) = batch
    wanted = torch.stack([one.mean(1) for one in heard])
    torch.testing.assert_close(mean_spectra(rows), wanted)


def test_the_guide_wants_the_text_in_its_order(batch):
    rows, _ = batch
    ideal = diagonal(lay_out(rows, SHORT))
    texts, codes = LENGTHS[0][:2]
    audio = texts + 2
    assert int(ideal[0, audio].argmax()) == 0
    assert int(ideal[0, audio + codes].argmax()) >= texts - 1
    assert not ideal[0, :audio].any() and not ideal[0, :, audio:].any()


def test_watching_changes_nothing(batch):
    rows, _ = batch
    pupil, grid = Pupil(new_gpt(SHORT.gpt, 1)).eval(), lay_out(batch[0], SHORT)
    plain, guide = pupil.losses(rows, grid)["audio"], Guide(pupil.gpt)
    guide.watch(True)
    torch.testing.assert_close(pupil.losses(rows, grid)["audio"], plain)
    loss = guide.loss(grid)
    loss.backward()
    assert loss > 0 and pupil.gpt.gpt.h[1].attn.c_attn.weight.grad.abs().sum() > 0


def test_a_pitch_counts_only_where_it_is_known():
    pitches = torch.tensor([[8.0, 0.0, math.nan, math.nan], [math.nan] * 4])
    right = torch.tensor([[8.0 - MIDDLE_PITCH, 3.0, 9.0, 9.0, 40.0, -40.0, 9.0, -9.0], [5.0] * 8])
    assert float(pitch_loss(right, pitches)) < 1e-6
    right[0, 0] += 0.25
    assert float(pitch_loss(right, pitches)) == pytest.approx(0.25)
    right[0, 5] = 40.0  # claims that the unvoiced is voiced
    assert float(pitch_loss(right, pitches)) > 5


def test_recordings_start_out_different():
    """The encoder starts close to the identity, so two voices differ from the first step."""
    gpt = Pupil(new_gpt(SHORT.gpt, 1)).gpt
    mel = torch.randn(2, 80, 100, generator=torch.Generator().manual_seed(1)) - 2
    mel[1, :40] += 1
    with torch.no_grad():
        frames = gpt.conditioning_encoder(mel)
        low, high = gpt.conditioning_latents(mel)
    assert (frames[0] - frames[1]).mean(1).norm() > 0.1 * frames[0].mean(1).norm()
    assert (low - high).norm() > 0.01 * low.norm()


def test_loud_latents_are_calmed():
    gpt = new_gpt(SHORT.gpt, 1)
    calm = Calm(gpt)
    with torch.no_grad():
        gpt.conditioning_perceiver.latents.mul_(1e3)
        gpt.conditioning_latents(torch.randn(1, 80, 60))
    assert calm.loss() > 1
