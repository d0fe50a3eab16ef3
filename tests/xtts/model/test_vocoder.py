"""Another memory layout gives the same sound."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from tests.xtts.model.test_streaming_vocoder import LIKE_PUBLISHED, SMALL, speaking
from xtts.audio import speaker_mel
from xtts.model.shapes import SpeakerEncoderShape
from xtts.model.vocoder import WAVEFORM_DECODER, SpeakerEncoder
from xtts.workers.decoder_learning import to_published


@pytest.mark.parametrize("shape", [SMALL, LIKE_PUBLISHED], ids=["embedded", "published"])
@pytest.mark.parametrize(("dtype", "most"), [(torch.float32, 1e-5), (torch.bfloat16, 0.05)])
def test_another_layout_makes_the_same_sound(shape, dtype, most):
    vocoder, _ = speaking(shape)
    latents, speaker = torch.randn(2, 9, 24), torch.randn(2, 32, 1)
    expected = vocoder(latents, speaker)
    vocoder.lay_out(dtype)
    sound = vocoder(latents, speaker)
    assert sound.shape == expected.shape and sound.dtype == torch.float32
    assert float((sound - expected).norm() / expected.norm()) < most


def test_another_layout_is_published_as_it_was():
    vocoder, _ = speaking(SMALL)
    like = {
        f"{WAVEFORM_DECODER}{name}": tensor for name, tensor in vocoder.waveform_decoder.state_dict().items()
    }
    before = to_published(vocoder, like)
    vocoder.lay_out(torch.float32)
    after = to_published(vocoder, like)
    assert before.keys() == after.keys() == like.keys()
    for name, tensor in after.items():
        assert torch.equal(tensor, before[name]) and tensor.is_contiguous()


def test_no_one_dimensional_convolution_is_left():
    vocoder, _ = speaking(LIKE_PUBLISHED)
    vocoder.lay_out(torch.float32)
    kinds = {type(module) for module in vocoder.modules()}
    assert nn.Conv2d in kinds and nn.ConvTranspose2d in kinds
    assert not kinds & {nn.Conv1d, nn.ConvTranspose1d}


def test_a_speaker_encoder_may_keep_the_spectrum_but_never_the_loudness():
    noise = torch.randn(1, 16_000, generator=torch.Generator().manual_seed(0))
    tilted = noise - 0.9 * torch.nn.functional.pad(noise[:, :-1], (1, 0))
    for keeps in (False, True):
        shape = SpeakerEncoderShape(32, (1, 1, 1, 1), (8, 8, 16, 16), keeps_spectrum=keeps)
        encoder = SpeakerEncoder(SimpleNamespace(speaker_encoder=shape)).eval()
        norm = encoder.net.instancenorm
        flat, steep, loud = (norm((speaker_mel(wave) + 1e-6).log()) for wave in (noise, tilted, 3 * noise))
        torch.testing.assert_close(flat, loud, atol=1e-3, rtol=0)
        heard = float((flat.mean(2) - steep.mean(2)).abs().max())
        assert (heard > 0.3) == keeps
