"""The GPT's own pretraining: what its heads read."""

import torch

from demo_voice.gpt.pretraining import Pupil, mean_spectra
from demo_voice.recipe import SHORT
from xtts.model.gpt import new_gpt
from xtts.model.packed_batch import pack


def test_a_mean_spectrum_leaves_padding_out() -> None:
    mels = [torch.full((80, 40), 2.0), torch.full((80, 90), -1.0)]
    tokens, codes = [torch.tensor([5, 6])] * 2, [torch.tensor([1, 2, 3])] * 2
    rows = pack(tokens, codes, mels, SHORT.gpt, stop_input=True)
    found = mean_spectra(rows)
    torch.testing.assert_close(found, torch.tensor([[2.0], [-1.0]]).expand(2, 80))


def test_recordings_start_out_different() -> None:
    """Frames are themselves until mixing them pays: two voices are two from the first step on."""
    gpt = Pupil(new_gpt(SHORT.gpt, 1)).gpt
    mel = torch.randn(2, 80, 100, generator=torch.Generator().manual_seed(1)) - 2
    mel[1, :40] += 1
    with torch.no_grad():
        frames = gpt.conditioning_encoder(mel)
        low, high = gpt.conditioning_latents(mel)
    assert (frames[0] - frames[1]).mean(1).norm() > 0.1 * frames[0].mean(1).norm()
    assert (low - high).norm() > 0.01 * low.norm()
