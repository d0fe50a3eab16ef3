"""Where the parts of a model compute: the only FFT of speaking may stand elsewhere."""

from pathlib import Path

import pytest
import torch

from xtts import model, speaking, vocoder, voice
from xtts.audio import speaker_mel


@pytest.mark.parametrize("mel_device", ["cpu", "meta"])
def test_the_speakers_mel_is_taken_where_it_is_told(
    monkeypatch: pytest.MonkeyPatch, base_folder: Path, mel_device: str
) -> None:
    """ "meta" stands for a GPU: a device that is not the CPU. All else stays on the model's own."""
    sound = 0.1 * torch.randn(40_000, generator=torch.Generator().manual_seed(0))
    wanted = voice.from_reference(model.load(base_folder), sound)
    seen: list[str] = []

    def spy(waveform: torch.Tensor) -> torch.Tensor:
        seen.append(waveform.device.type)
        on_cpu = waveform.cpu() if waveform.device.type == "cpu" else resampled
        return speaker_mel(on_cpu)

    resampled = voice.resample(sound, voice.CODE_RATE, voice.SPEAKER_RATE)[None]
    monkeypatch.setattr(vocoder, "speaker_mel", spy)
    loaded = model.load(base_folder, "cpu", mel_device)
    assert loaded.speaker_encoder.mel_device == torch.device(mel_device)
    found = voice.from_reference(loaded, sound)
    assert seen == [mel_device]
    assert torch.equal(found.speaker, wanted.speaker) and found.speaker.device.type == "cpu"
    assert torch.equal(found.latents, wanted.latents)


def test_a_speaker_passes_it_on(base_folder: Path) -> None:
    for mel_device in ("cpu", "meta"):
        speaker = speaking.Speaker(base_folder, "cpu", mel_device=mel_device)
        assert speaker._model.speaker_encoder.mel_device.type == mel_device
    default = speaking.Speaker(base_folder, "cpu")
    assert default._model.speaker_encoder.mel_device.type == "cpu"
