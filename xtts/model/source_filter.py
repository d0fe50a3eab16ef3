"""A vocoder for small voices: pulses and noise through filters that a network predicts.

An oscillator follows the predicted pitch, so the network shapes spectra instead of learning to
oscillate, as HiFi-GAN must. In the minutes that two CPU cores take here, HiFi-GAN finds no harmonic
above 1 kHz (docs/develop/log.md, "The base's vocoder"). Source and filter as in DDSP
(https://arxiv.org/abs/2001.04643), blocks as in ConvNeXt (https://arxiv.org/abs/2201.03545).

A sample depends on a limited part of the input, as in HiFi-GAN, except for the phase: that is the
sum of all earlier pitches. So `excite` adds the phase to the steps of a whole utterance, and
`forward` computes any window of them.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from xtts.model.shapes import VOCODER_RATE, SourceFilterShape

# Rows that `excite` adds to the steps: pitch in Hz, voicing, phase in cycles, place in the noise.
SOURCE_ROWS = 4
MIN_PITCH_HZ, MAX_PITCH_HZ = 40.0, 800.0
# The pulses have all harmonics below this.
MAX_HARMONIC_HZ = 11_000.0
# The noise is a fixed table of this many steps (2.7 s), so that chunks equal the whole.
NOISE_STEPS = 256
# The limit for harmonics and for noise.
_MAX_LOG_GAIN = 4.0
_MIDDLE_PITCH_HZ = 170.0


class Block(nn.Module):
    """A ConvNeXt block: a depthwise convolution and two linear layers, added to the input."""

    def __init__(self, channels: int, kernel: int, expansion: int) -> None:
        super().__init__()
        self.along = nn.Conv1d(channels, channels, kernel, padding=kernel // 2, groups=channels)
        self.norm = nn.LayerNorm(channels)
        self.widen = nn.Linear(channels, expansion * channels)
        self.narrow = nn.Linear(expansion * channels, channels)
        self.gain = nn.Parameter(torch.full((channels,), 0.2))

    def forward(self, x: Tensor, modulation: Tensor | None = None) -> Tensor:
        """`[batch, channels, steps]` -> the same shape. modulation: scale and shift of the normed
        channels, `[batch, 1, 2 * channels]`."""
        mixed = self.norm(self.along(x).transpose(1, 2))
        if modulation is not None:
            scale, shift = modulation.chunk(2, 2)
            mixed = mixed * (1 + scale) + shift
        return x + (self.gain * self.narrow(F.gelu(self.widen(mixed)))).transpose(1, 2)


class SpeakerModulation(nn.Module):
    """A speaker's scale and shift for every block (https://arxiv.org/abs/1709.07871)."""

    def __init__(self, speaker_width: int, channels: int, layers: int, between: int) -> None:
        super().__init__()
        self.narrow = nn.Linear(speaker_width, between)
        linears = [nn.Linear(between, 2 * channels) for _ in range(layers)]
        for linear in linears:
            nn.init.zeros_(linear.weight)
            nn.init.zeros_(linear.bias)
        self.of_block = nn.ModuleList(linears)

    def forward(self, speaker: Tensor) -> list[Tensor]:
        """Speaker `[batch, speaker_width, 1]` -> for each block `[batch, 1, 2 * channels]`."""
        narrow = F.gelu(self.narrow(speaker.transpose(1, 2)))
        return [linear(narrow) for linear in self.of_block]


class Trunk(nn.Module):
    """Steps `[batch, width, steps]` -> `[batch, steps, outputs]`, with an optional speaker."""

    def __init__(
        self,
        width: int,
        channels: int,
        layers: int,
        outputs: int,
        shape: SourceFilterShape,
        speaker_width: int = 0,
    ) -> None:
        super().__init__()
        self.first = nn.Conv1d(width, channels, shape.kernel, padding=shape.kernel // 2)
        self.speaker = nn.Conv1d(speaker_width, channels, 1) if speaker_width else None
        self.blocks = nn.ModuleList(Block(channels, shape.kernel, shape.expansion) for _ in range(layers))
        self.manners: SpeakerModulation | None = None
        if speaker_width and shape.speaker_channels:
            self.manners = SpeakerModulation(speaker_width, channels, layers, shape.speaker_channels)
        self.norm = nn.LayerNorm(channels)
        self.last = nn.Linear(channels, outputs)

    def forward(self, steps: Tensor, speaker: Tensor | None = None) -> Tensor:
        """speaker: `[batch, speaker_width, 1]`."""
        x = self.first(steps)
        if self.speaker is not None:
            x = x + self.speaker(speaker)
        manners = self.manners(speaker) if self.manners else [None] * len(self.blocks)
        for block, modulation in zip(self.blocks, manners, strict=True):
            x = block(x, modulation)
        outputs: Tensor = self.last(self.norm(x.transpose(1, 2)))
        return outputs


class SourceFilter(nn.Module):
    """The generator of `xtts.model.vocoder.Vocoder`, in place of HiFi-GAN's."""

    analysis: Tensor
    synthesis: Tensor
    turns: Tensor
    noise: Tensor

    def __init__(self, width: int, speaker_width: int, shape: SourceFilterShape) -> None:
        super().__init__()
        self.width, self.speaker_width, self.shape = width, speaker_width, shape
        self.bins = shape.window // 2 + 1
        self.pitch = Trunk(
            width,
            shape.pitch_channels,
            shape.pitch_layers,
            2,
            shape,
            speaker_width if shape.speaker_channels else 0,
        )
        self.filters = Trunk(width, shape.channels, shape.layers, 3 * self.bins, shape, speaker_width)
        with torch.no_grad():
            self.filters.last.weight.mul_(0.3)
            harmonics, turn, noise = self.filters.last.bias.view(3, self.bins)
            harmonics.fill_(-4.0), turn.zero_(), noise.fill_(-6.0)
        tables = _tables(shape)
        for name, table in zip(("analysis", "synthesis", "turns", "noise"), tables, strict=True):
            self.register_buffer(name, table, persistent=False)

    def predicted_pitch(self, steps: Tensor, speaker: Tensor | None) -> tuple[Tensor, Tensor]:
        """Latents at the steps `[batch, width, steps]` and a speaker `[batch, speaker_width, 1]` ->
        log2 of Hz and the logit of voicing, each `[batch, steps]`. Only a shape with
        `speaker_channels` hears the speaker."""
        height, voicing = self.pitch(steps, speaker).unbind(2)
        return height + math.log2(_MIDDLE_PITCH_HZ), voicing

    def excite(self, steps: Tensor, speaker: Tensor | None) -> Tensor:
        """Adds `SOURCE_ROWS` of the predicted pitch to the latents at all steps of an utterance
        `[batch, width, steps]`, spoken by a speaker `[batch, speaker_width, 1]`."""
        height, voicing = self.predicted_pitch(steps, speaker)
        return self.excite_at(steps, (height, (voicing > 0).to(height.dtype)))

    def excite_at(self, steps: Tensor, pitch: tuple[Tensor, Tensor]) -> Tensor:
        """As `excite`, with these pitches: log2 of Hz and voicing from 0 to 1, each `[batch,
        steps]`."""
        height, voiced = pitch
        # Without gradients: through the pulses they would be those of each harmonic's phase.
        hertz = (math.log(2) * height.detach().float()).exp().clamp(MIN_PITCH_HZ, MAX_PITCH_HZ)
        before, after = _neighbours(hertz)
        # The mean pitch of a step, within which the pitch is interpolated linearly.
        mean = 0.75 * hertz + 0.125 * (before + after)
        cycles = (mean.double() * (self.shape.hop / VOCODER_RATE)).cumsum(1)
        phase = F.pad(cycles - cycles.floor(), (1, -1)).to(hertz.dtype)
        place = torch.arange(steps.shape[2], device=steps.device) % NOISE_STEPS
        rows = (hertz, voiced.float(), phase, place.to(hertz.dtype).expand_as(hertz))
        return torch.cat((steps, torch.stack(rows, 1).to(steps.dtype)), 1)

    def forward(self, steps: Tensor, g: Tensor) -> Tensor:
        """Excited steps `[batch, width + 4, steps]` and a speaker `[batch, speaker_width, 1]` ->
        samples `[batch, 1, steps * hop]`."""
        filters = self.filters(steps[:, : self.width], g)
        with torch.autocast(steps.device.type, enabled=False):
            source = steps[:, self.width :].float()
            log_gain, turn, log_noise_gain = filters.float().unflatten(2, (3, self.bins)).unbind(2)
            pulses = self._spectra(self._pulses(*source[:, :3].unbind(1)))
            noise = self._spectra(self.noise[source[:, 3].long()])
            gain = log_gain.clamp(max=_MAX_LOG_GAIN).exp()
            angle = math.pi * torch.tanh(turn)
            real, imaginary = gain * torch.cos(angle), gain * torch.sin(angle)
            noise_gain = log_noise_gain.clamp(max=_MAX_LOG_GAIN).exp()
            spectra = torch.cat(
                (
                    pulses[0] * real - pulses[1] * imaginary + noise[0] * noise_gain,
                    pulses[0] * imaginary + pulses[1] * real + noise[1] * noise_gain,
                ),
                2,
            )
            return self._overlap_add(spectra)[:, None]

    def _pulses(self, hertz: Tensor, voiced: Tensor, phase: Tensor) -> Tensor:
        """`[batch, steps]` each -> samples `[batch, steps, hop]`: the sum of all harmonics, each
        with an amplitude of 1, by the closed form of Dirichlet's kernel."""
        pitches = torch.stack((*_neighbours(hertz), hertz), 2)
        cycles = phase[:, :, None] + pitches @ self.turns[:3]
        pitch_at_samples = pitches @ self.turns[3:]
        count = torch.floor(MAX_HARMONIC_HZ / pitch_at_samples) + 0.5
        angle = math.pi * (cycles - cycles.round())
        # There the quotient is 0 / 0; `count` is its limit.
        is_zero = angle.abs() < 1e-6
        quotient = torch.sin(2 * count * angle) / torch.where(
            is_zero, torch.ones_like(angle), 2 * torch.sin(angle)
        )
        pulses = torch.where(is_zero, count, quotient) - 0.5
        return pulses * (torch.stack((*_neighbours(voiced), voiced), 2) @ self.turns[3:])

    def _spectra(self, samples: Tensor) -> tuple[Tensor, Tensor]:
        """`[batch, steps, hop]` -> real and imaginary parts of the spectrum around each step,
        `[batch, steps, bins]`. As a product, because the FFT fails on some GPUs."""
        parts = self.shape.window // self.shape.hop
        flat = F.pad(samples.flatten(1), (self.shape.margin,) * 2)
        half_hops = flat.unflatten(1, (-1, self.shape.hop // 2))
        steps = samples.shape[1]
        frames = torch.cat([half_hops[:, part : part + 2 * steps - 1 : 2] for part in range(2 * parts)], 2)
        real, imaginary = (frames @ self.analysis).chunk(2, dim=2)
        return real, imaginary

    def _overlap_add(self, spectra: Tensor) -> Tensor:
        """Spectra `[batch, steps, 2 * bins]` -> samples `[batch, steps * hop]`."""
        hop, parts = self.shape.hop, self.shape.window // self.shape.hop
        frames = (spectra @ self.synthesis).unflatten(2, (parts, hop))
        total = sum(F.pad(frames[:, :, part], (0, 0, part, parts - 1 - part)) for part in range(parts))
        margin = self.shape.margin
        flat: Tensor = total.flatten(1)  # type: ignore[union-attr]
        return flat[:, margin : flat.shape[1] - margin]


def pitch_at_steps(pitches: Tensor, steps: int) -> tuple[Tensor, Tensor]:
    """Measured pitches `[batch, n]` (log2 of Hz, 0 where unvoiced) as log2 of Hz and voicing at the
    steps, each `[batch, steps]`. Where unvoiced, the pitch is that of the last voiced place, or of
    the first."""
    voiced = pitches > 0
    places = torch.arange(pitches.shape[1], device=pitches.device).expand_as(pitches)
    last_voiced = torch.where(voiced, places, -1).cummax(1).values
    first_voiced = voiced.float().argmax(1, keepdim=True)
    filled = pitches.gather(1, torch.where(last_voiced < 0, first_voiced, last_voiced))
    height = F.interpolate(filled[:, None], size=steps, mode="linear")[:, 0]
    return height, F.interpolate(voiced[:, None].float(), size=steps, mode="nearest")[:, 0]


def _neighbours(rows: Tensor) -> tuple[Tensor, Tensor]:
    """The values before and after each of `[batch, steps]`; the ends are repeated."""
    padded = torch.cat((rows[:, :1], rows, rows[:, -1:]), 1)
    return padded[:, :-2], padded[:, 2:]


def _tables(shape: SourceFilterShape) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Constants: `[window, 2 * bins]` from a frame to its spectrum and `[2 * bins, window]` back;
    `[6, hop]` from the values (before, after, now) of a step to the cycles and the value at each
    sample; `[NOISE_STEPS, hop]` of white noise."""
    window, hop = shape.window, shape.hop
    hann = torch.hann_window(window, dtype=torch.float64)
    turns = torch.arange(window, dtype=torch.float64)[:, None] * torch.arange(window // 2 + 1)
    angles = 2 * math.pi * (turns % window) / window
    analysis = hann[:, None] * torch.cat((angles.cos(), -angles.sin()), 1)
    # A real signal has every bin twice, except the first and the last.
    weights = torch.full((window // 2 + 1,), 2.0, dtype=torch.float64)
    weights[0] = weights[-1] = 1.0
    overlap = hann.square().sum() / hop
    synthesis = torch.cat((weights[:, None] * angles.cos().T, -weights[:, None] * angles.sin().T))
    synthesis = synthesis * hann / (window * overlap)
    # The distance of each sample from the middle of its step, in steps.
    distance = (torch.arange(hop, dtype=torch.float64) + 0.5) / hop - 0.5
    before, after = (-distance).clamp(min=0), distance.clamp(min=0)
    value = torch.stack((before, after, 1 - before - after))
    cycles = value.cumsum(1) / VOCODER_RATE
    noise = torch.randn(NOISE_STEPS, hop, generator=torch.Generator().manual_seed(0))
    return analysis.float(), synthesis.float(), torch.cat((cycles, value)).float(), noise
