"""What the vocoder is trained on."""

import torch

from demo_voice.vocoder import highest_hz, low_pass


def test_a_recording_of_16_khz_is_compared_only_where_it_has_sound():
    wave = torch.randn(2, 12_000, generator=torch.Generator().manual_seed(0))
    highest = torch.tensor([highest_hz("libri19@0.5"), highest_hz("af_heart")])
    spectra = torch.fft.rfft(low_pass(wave, highest)).abs()
    hertz = torch.linspace(0, 12_000, spectra.shape[1])
    assert spectra[0, hertz > 3_810].max() < 1e-3
    assert spectra[0, hertz < 3_790].min() > 1e-3
    torch.testing.assert_close(low_pass(wave, highest)[1], wave[1], atol=1e-5, rtol=0)
