"""Spectrogram discriminators, against which a vocoder is trained.

With a spectral distance alone, the filters learn an average. These networks learn to tell
recordings from vocoded speech by spectrograms of several window sizes
(https://arxiv.org/abs/2106.07889), with least-squares losses and feature matching as in HiFi-GAN
(https://arxiv.org/abs/2010.05646). None judges samples, because a vocoder
with an oscillator places every period itself.

They train the vocoder of `demo_voice` and a person's (`xtts.workers.decoder_learner`). A base model
may bring its own in `discriminators.safetensors`.
"""

import itertools
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm

from machine.text import first_line
from xtts.model.config import ConfigError

FILE = "discriminators.safetensors"
# The limit of a base model's file: the float16 weights of up to 39 channels.
MAX_BYTES = 1_500_000
# In samples; also the FFT sizes.
WINDOW_SIZES = (2048, 1024, 512, 256)


class SpectrogramDiscriminator(nn.Module):
    """Judges the magnitudes of one window size."""

    def __init__(self, size: int, channels: int) -> None:
        super().__init__()
        self.size = size
        sizes = [1, channels, channels, 2 * channels, 2 * channels]
        # (bins, frames) of each kernel.
        kernels = [(9, 3), (9, 3), (9, 3), (3, 3)]
        self.layers = nn.ModuleList(
            weight_norm(nn.Conv2d(a, b, kernel, (2, 1), (kernel[0] // 2, 1)))
            for (a, b), kernel in zip(itertools.pairwise(sizes), kernels, strict=True)
        )
        self.last = weight_norm(nn.Conv2d(sizes[-1], 1, 3, 1, 1))

    def forward(self, wave: Tensor) -> list[Tensor]:
        """Waves `[batch, samples]` -> the features of each layer, the verdict last. The spectrogram
        is computed on the wave's device, the features on that of the weights."""
        with torch.autocast(wave.device.type, enabled=False):
            x = magnitudes(wave.float(), self.size)[:, None].clamp(min=1e-4).log() / 4
        x = x.to(next(self.parameters()).device)
        features = []
        for layer in self.layers:
            x = F.leaky_relu(layer(x), 0.1)
            features.append(x)
        return [*features, self.last(x)]


class Discriminators(nn.Module):
    """A discriminator of each window size."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.channels = channels
        # The name in the files of bases and in snapshots of `demo_voice`.
        self.judges = nn.ModuleList(SpectrogramDiscriminator(size, channels) for size in WINDOW_SIZES)

    def forward(self, wave: Tensor) -> list[list[Tensor]]:
        """The features of each discriminator, its verdict last."""
        return [judge(wave) for judge in self.judges]


def magnitudes(wave: Tensor, size: int) -> Tensor:
    """`[batch, samples]` -> `[batch, bins, frames]`."""
    window = torch.hann_window(size, device=wave.device)
    spectrum = torch.stft(wave, size, size // 4, size, window, return_complex=True)
    return (spectrum.real.square() + spectrum.imag.square() + 1e-9).sqrt()


def discriminator_loss(discriminators: Discriminators, recording: Tensor, sound: Tensor) -> Tensor:
    """The least-squares loss of the discriminators: 1 for a recording, 0 for a vocoder's sound."""
    losses = [
        (real[-1].float() - 1).square().mean() + fake[-1].float().square().mean()
        for real, fake in zip(discriminators(recording), discriminators(sound), strict=True)
    ]
    return torch.stack(losses).sum()


def generator_losses(
    discriminators: Discriminators, recording: Tensor, sound: Tensor
) -> tuple[Tensor, Tensor]:
    """The vocoder's adversarial loss and the L1 of the features (feature matching). The
    discriminators get no gradients."""
    discriminators.requires_grad_(False)
    with torch.no_grad():
        of_recording = discriminators(recording)
    adversarial, matching = [], []
    for real, fake in zip(of_recording, discriminators(sound), strict=True):
        adversarial.append((fake[-1].float() - 1).square().mean())
        for real_features, fake_features in zip(real[:-1], fake[:-1], strict=True):
            matching.append(F.l1_loss(fake_features.float(), real_features.float()))
    discriminators.requires_grad_(True)
    return torch.stack(adversarial).sum(), torch.stack(matching).sum()


def read_discriminators(base: Path) -> Discriminators | None:
    """The discriminators of a base model's folder; None if it has none. Raises ConfigError."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    path = base / FILE
    if not path.is_file():
        return None
    try:
        tensors = {name: tensor.float() for name, tensor in load_file(path).items()}
        discriminators = Discriminators(tensors["judges.0.layers.0.bias"].shape[0])
        discriminators.load_state_dict(tensors)
    except (OSError, SafetensorError, KeyError, RuntimeError) as error:
        raise ConfigError(
            f"{path} cannot be read as discriminators ({first_line(error)}). Take the file that "
            "was published with the base, or delete it: a decoder then begins with random ones."
        ) from error
    return discriminators


def write_discriminators(base: Path, discriminators: Discriminators) -> None:
    """Writes `discriminators.safetensors` into a base model's folder, in float16. Raises
    ConfigError if it would be larger than `MAX_BYTES`."""
    from safetensors.torch import save

    tensors = {
        name: tensor.detach().cpu().half().contiguous()
        for name, tensor in discriminators.state_dict().items()
    }
    data = save(tensors)
    if len(data) > MAX_BYTES:
        raise ConfigError(
            f"{FILE} would have {len(data):,} bytes with {discriminators.channels} channels; at "
            f"most {MAX_BYTES:,} are allowed. Train discriminators with fewer channels."
        )
    (base / FILE).write_bytes(data)
