"""Speed is Coqui's interpolation and fades are those of the whole, with torch and with numpy."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from xtts.inference.defaults import FADE_SECONDS
from xtts.inference.shaping import SpeedChange, StreamFade, fade_out
from xtts.model.shapes import VOCODER_RATE

FADE = int(FADE_SECONDS * VOCODER_RATE)


@pytest.mark.parametrize("speed", [0.25, 0.7, 1.3, 2.0, 4.0])
@pytest.mark.parametrize("count", [5, 40])
def test_speed_is_coquis_interpolation(speed: float, count: int) -> None:
    latents = torch.randn(count, 8, generator=torch.Generator().manual_seed(count))
    wanted = F.interpolate(latents.t()[None], scale_factor=1 / speed, mode="linear")[0].t()
    for arrays, given_latents in ((torch, latents), (np, latents.numpy())):
        tempo = SpeedChange(speed, arrays)
        found = arrays.concatenate([*(tempo.add(one) for one in given_latents), tempo.rest()])
        assert np.allclose(found, wanted, atol=1e-5)


def test_speed_one_changes_no_bit() -> None:
    latent, tempo = torch.randn(8), SpeedChange(1.0, torch)
    assert torch.equal(tempo.add(latent)[0], latent) and len(tempo.rest()) == 0


@given(st.lists(st.integers(0, 700), max_size=12))
def test_a_fade_in_chunks_is_the_fade_of_the_whole(sizes: list[int]) -> None:
    length = min(FADE, sum(sizes) // 2)
    wanted = np.ones(sum(sizes), np.float32)
    wanted[:length] *= np.linspace(0.0, 1.0, length)
    wanted[len(wanted) - length :] *= np.linspace(1.0, 0.0, length)
    for arrays in (torch, np):
        fade = StreamFade(arrays)
        parts = [fade.push(arrays.ones(size, dtype=arrays.float32)) for size in sizes]
        assert np.allclose(arrays.concatenate([*parts, fade.end()]), wanted, atol=1e-6)


@pytest.mark.parametrize("length", [10, 120, 500])
def test_a_cut_end_is_faded_out(length: int) -> None:
    found = fade_out(torch.ones(length), torch)
    assert (
        found[-1] == 0
        and (found[:-FADE] == 1).all()
        and np.allclose(found, fade_out(np.ones(length, np.float32), np))
    )
