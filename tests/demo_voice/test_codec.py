"""The codec: its training data, and the revival of unused codes."""

import torch

from demo_voice import codec
from demo_voice.recipe import SHORT
from xtts.model.loading import new_dvae


def test_half_of_the_segments_are_stretched_and_every_second_is_filtered():
    rising = torch.arange(80.0)[None, :, None].expand(8, 80, 128).contiguous()
    generator = torch.Generator().manual_seed(3)
    moved = codec.apply_filters(codec.stretch_bands(rising, generator), generator) - rising
    altered = [True] * 5 + [False, True, False]
    assert torch.equal(moved.abs().amax((1, 2)) > 0.05, torch.tensor(altered))
    only_stretched = moved[[1, 3]].abs()
    assert 1 < only_stretched.max() < 80 * codec.MAX_STRETCH + 1
    # The stretch begins at the lowest band.
    assert only_stretched[:, 40:].mean() > only_stretched[:, :20].mean()


def test_unknown_phones_and_pitches_are_not_learned():
    torch.manual_seed(0)
    reader, quantised = codec.Reader(8), torch.randn(2, 32, 8)
    phones, pitches = torch.full((2, 32, 2), 255), torch.full((2, 32, 4), torch.nan)
    assert [loss.item() for loss in reader.losses(quantised, phones, pitches)] == [0.0, 0.0]
    phones[0, 3, 1], pitches[1, 4, 2] = 7, 5.0
    wrong, off = reader.losses(quantised, phones, pitches)
    assert wrong.item() > 1 and 4 < off.item() < 6
    (wrong + off).backward()
    assert all(bool(weight.grad.isfinite().all()) for weight in reader.parameters())


def test_dead_codes_are_revived():
    torch.manual_seed(0)
    book = new_dvae(SHORT.dvae).codebook
    book.embed[:] = 100.0
    book.cluster_size[:] = 0.0
    book.cluster_size[:2] = 50.0
    latents = torch.randn(64, 8)
    before = torch.cdist(latents, book.embed.T).amin()
    codec._revive(book, latents, 1)
    assert before > 100 and torch.cdist(latents, book.embed.T).amin() < 1e-3
    assert torch.equal(book.embed[:, :2], torch.full((8, 2), 100.0))  # codes in use stay
