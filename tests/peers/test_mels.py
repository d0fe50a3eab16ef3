"""The three mel front-ends against Coqui's."""

import pytest
import torch

from xtts.audio import conditioning_mel, dvae_mel, speaker_mel


@pytest.fixture
def waveform():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(2, 31_000, generator=generator) * torch.linspace(0, 0.5, 31_000)


@pytest.fixture
def mel_stats():
    return torch.rand(80, generator=torch.Generator().manual_seed(1)) + 0.5


def test_dvae_mel(waveform, mel_stats):
    from TTS.tts.layers.xtts.dvae import dvae_wav_to_mel

    theirs = dvae_wav_to_mel(waveform, mel_norms=mel_stats)
    assert dvae_mel(waveform, mel_stats).shape == (2, 80, 1 + 31_000 // 256)
    assert torch.allclose(dvae_mel(waveform, mel_stats), theirs, atol=1e-5)


def test_conditioning_mel(waveform, mel_stats):
    from TTS.tts.models.xtts import wav_to_mel_cloning

    theirs = wav_to_mel_cloning(
        waveform,
        mel_norms=mel_stats,
        n_fft=2048,
        hop_length=256,
        win_length=1024,
        power=2,
        normalized=False,
        sample_rate=22050,
        f_min=0,
        f_max=8000,
        n_mels=80,
    )
    assert torch.allclose(conditioning_mel(waveform, mel_stats), theirs, atol=1e-5)


def test_speaker_mel(waveform):
    from TTS.encoder.models.resnet import ResNetSpeakerEncoder

    config = {
        "fft_size": 512,
        "win_length": 400,
        "hop_length": 160,
        "sample_rate": 16000,
        "preemphasis": 0.97,
        "num_mels": 64,
    }
    encoder = ResNetSpeakerEncoder(
        layers=[1, 1, 1, 1], num_filters=[8, 8, 8, 8], use_torch_spec=True, audio_config=config
    )
    theirs = encoder.torch_spec(waveform)
    found = speaker_mel(waveform)
    assert torch.allclose(found, theirs, rtol=1e-4, atol=1e-5 * theirs.max())
