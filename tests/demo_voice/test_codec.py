"""The codec: what it learns from, and codes that come to life."""

import torch

from demo_voice import codec
from demo_voice.codec import Excerpts
from demo_voice.recipe import SHORT
from xtts.model.vocoder import new_dvae


def test_codec_learns_from_other_throats_and_other_microphones():
    rising = [torch.arange(80.0)[:, None].expand(80, 200)] * 3
    examples = Excerpts(rising, ["slt"] * 3, [])
    examples.means = [torch.zeros(80, 1)] * 3
    heard, wanted = examples.segments(3, 8)
    again = examples.segments(3, 8)
    assert torch.equal(again[0], heard) and torch.equal(again[1], wanted)
    # Half are stretched, every second is filtered, and neither is wanted back.
    assert torch.equal(wanted, rising[0][:, : codec.FRAMES].expand(8, -1, -1))
    moved = (heard - wanted).abs()
    altered = [True] * 5 + [False, True, False]
    assert torch.equal(moved.amax((1, 2)) > 0.05, torch.tensor(altered))
    only_stretched = moved[[1, 3]]
    assert 1 < only_stretched.max() < 80 * codec.STRETCH + 1
    # The stretch begins at the lowest band.
    assert only_stretched[:, 40:].mean() > only_stretched[:, :20].mean()


def test_who_speaks_is_not_wanted_back():
    """Two people say the same; each has a spectrum of its own, and one speaks in two clips."""
    said = torch.randn(80, 300, generator=torch.Generator().manual_seed(0))
    said -= said.mean(1, keepdim=True)
    dark, bright = torch.linspace(1, -1, 80)[:, None], torch.linspace(-1, 1, 80)[:, None]
    mels = [said + dark, said + bright, (said + dark)[:, :200]]
    examples = Excerpts(mels, ["dark", "bright", "dark"], [])
    people = examples.means
    assert torch.equal(people[0], people[2])
    assert torch.allclose(people[1], bright, atol=1e-5)
    assert (people[0] - dark).abs().mean() < 0.05
    _, wanted = examples.segments(0, 8)
    for row, (clip, start) in enumerate(examples.places(0, 8)):
        spoken = said[:, : mels[clip].shape[1]][:, start : start + codec.FRAMES]
        assert (wanted[row] - spoken).abs().mean() < 0.05


def test_the_codec_learns_from_as_many_clips_of_each_group():
    sizes = {"slt": SHORT.sentences, "lp": SHORT.accented, "bdl": SHORT.neighbouring}
    manners = [name for name, size in sizes.items() for _ in range(size)]
    chosen = [manners[index] for index in codec._chosen(SHORT, manners)]
    assert [chosen.count(name) for name in sizes] == [13, 13, 12]  # 12 is all that there is
    assert codec._chosen(SHORT, manners)[:13] == list(range(13))


def test_dead_codes_are_revived():
    torch.manual_seed(0)
    book = new_dvae(SHORT.dvae).codebook
    book.embed[:] = 100.0
    book.cluster_size[:] = 0.0
    book.cluster_size[:2] = 50.0
    before = torch.cdist(torch.randn(64, 8), book.embed.T).amin()
    codec._revive(book, torch.randn(64, 8), step=0)
    assert torch.cdist(torch.randn(64, 8), book.embed.T).amin() < before / 10
