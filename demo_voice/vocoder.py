"""Trains the vocoder: first on mels, then on the GPT's latents, against discriminators.

Mels need no GPT, so both can be trained at the same time; only the first layer is replaced between
the two. A spectral distance alone makes the vocoder say an average: harmonics vanish above 1 kHz.
The discriminators and feature matching of HiFi-GAN (https://arxiv.org/abs/2010.05646), with
spectrograms instead of its scales (https://arxiv.org/abs/2106.07889), place pitch and phase.
"""

import itertools
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm

from demo_voice import listener, pretraining, stages
from demo_voice.pretraining import Lessons, Pupil, grid
from demo_voice.recipe import BaseRecipe, StageSchedule
from demo_voice.speech import FRAMES_PER_CODE, MEL_PER_CODE, Mels, Speech
from demo_voice.stages import Workplace
from demo_voice.teachers.hibari import RATE
from xtts.audio import CODE_RATE, SAMPLES_PER_CODE, VOCODER_RATE
from xtts.model.vocoder import Vocoder

# Codes in a segment (1.2 s). The loss ignores some codes at each end, which lack context.
SEGMENT_CODES, UNJUDGED_CODES = 26, 3
MARGIN = round(UNJUDGED_CODES * SAMPLES_PER_CODE * VOCODER_RATE / CODE_RATE)
SEGMENT_SAMPLES = round(SEGMENT_CODES * SAMPLES_PER_CODE * VOCODER_RATE / CODE_RATE)
PERIODS = (2, 3, 5, 7, 11)
WINDOWS = (2048, 1024, 512)
MEL_WEIGHT, MATCH_WEIGHT = 15.0, 2.0
# FFT sizes and mel bands of the spectral loss.
RESOLUTIONS = ((2048, 160), (1024, 80), (512, 40), (256, 20))
SEGMENTS_PER_ROW = 2
SECONDS_WITH_ONE_GPT = 30.0


class MelVocoder(nn.Module):
    """The vocoder after a layer that widens the mel frames of a code to the GPT's width."""

    def __init__(self, vocoder: Vocoder, width: int) -> None:
        super().__init__()
        self.widen = nn.Linear(MEL_PER_CODE, width)
        self.vocoder = vocoder

    def forward(self, inputs: Tensor, speaker: Tensor) -> Tensor:
        """Mels `[batch, codes, 320]` or latents `[batch, codes, width]`, speaker `[batch, 512, 1]`
        -> `[batch, samples]` at 24 kHz."""
        if inputs.shape[2] == MEL_PER_CODE:
            inputs = self.widen(inputs)
        waveform: Tensor = self.vocoder(inputs, speaker)
        return waveform


def _leaky(x: Tensor) -> Tensor:
    return F.leaky_relu(x, 0.1)


class PeriodCritic(nn.Module):
    """Judges every `period`-th sample together, like HiFi-GAN's multi-period discriminator."""

    def __init__(self, period: int, channels: int) -> None:
        super().__init__()
        self.period = period
        sizes = [1, channels, channels * 4, channels * 8, channels * 8]
        self.layers = nn.ModuleList(
            weight_norm(nn.Conv2d(a, b, (5, 1), (3, 1), (2, 0)))
            for a, b in itertools.pairwise(sizes)
        )
        self.last = weight_norm(nn.Conv2d(sizes[-1], 1, (3, 1), 1, (1, 0)))

    def forward(self, wave: Tensor) -> list[Tensor]:
        """Waves `[batch, samples]` -> the features of each layer, the verdict last."""
        short = -wave.shape[1] % self.period
        x = F.pad(wave[:, None], (0, short), "reflect").unflatten(2, (-1, self.period))
        seen = []
        for layer in self.layers:
            x = _leaky(layer(x))
            seen.append(x)
        return [*seen, self.last(x)]


class SpectrumCritic(nn.Module):
    """Judges the magnitudes of one window size."""

    def __init__(self, size: int, channels: int) -> None:
        super().__init__()
        self.size = size
        sizes = [1, channels, channels, channels, channels]
        self.layers = nn.ModuleList(
            weight_norm(nn.Conv2d(a, b, (9, 3), (2 if n else 1, 1), (4, 1)))
            for n, (a, b) in enumerate(itertools.pairwise(sizes))
        )
        self.last = weight_norm(nn.Conv2d(channels, 1, 3, 1, 1))

    def forward(self, wave: Tensor) -> list[Tensor]:
        """Waves `[batch, samples]` -> the features of each layer, the verdict last."""
        with torch.autocast(wave.device.type, enabled=False):
            x = magnitudes(wave.float(), self.size)[:, None].clamp(min=1e-5).pow(0.3)
        seen = []
        for layer in self.layers:
            x = _leaky(layer(x))
            seen.append(x)
        return [*seen, self.last(x)]


class Critics(nn.Module):
    """All discriminators."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.judges = nn.ModuleList(
            [
                *(PeriodCritic(period, channels) for period in PERIODS),
                *(SpectrumCritic(size, channels) for size in WINDOWS),
            ]
        )

    def forward(self, wave: Tensor) -> list[list[Tensor]]:
        """The features of each judge, its verdict last."""
        return [judge(wave) for judge in self.judges]


def magnitudes(wave: Tensor, size: int) -> Tensor:
    """`[batch, bins, frames]`."""
    window = torch.hann_window(size, device=wave.device)
    spectrum = torch.stft(wave, size, size // 4, size, window, return_complex=True)
    return (spectrum.real.square() + spectrum.imag.square() + 1e-9).sqrt()


def mel_distance(one: Tensor, other: Tensor) -> Tensor:
    """The mean L1 of log mels at several resolutions, up to 12 kHz."""
    found = []
    for size, bands in RESOLUTIONS:
        filters = _filters(size, bands).to(one.device)
        own, wanted = (
            (filters @ magnitudes(wave, size)).clamp(min=1e-3).log() for wave in (one, other)
        )
        found.append(F.l1_loss(own, wanted))
    return torch.stack(found).mean()


_FILTERS: dict[tuple[int, int], Tensor] = {}


def _filters(size: int, bands: int) -> Tensor:
    from torchaudio.functional import melscale_fbanks

    if (size, bands) not in _FILTERS:
        made = melscale_fbanks(size // 2 + 1, 0.0, VOCODER_RATE / 2, bands, VOCODER_RATE, "slaney")
        _FILTERS[size, bands] = made.T.contiguous() * size / 4
    return _FILTERS[size, bands]


class Ear:
    """Draws segments: their position in a clip, the speaker's embedding from another clip, and the
    audio."""

    def __init__(self, at: Workplace, speech: Speech) -> None:
        encoder = listener.load(at).to(at.device)
        self.speech, self.embeddings = speech, listener.embeddings(encoder, speech)
        sizes = speech.persons.bincount(minlength=len(speech.names)).float()
        long = (speech.codes > SEGMENT_CODES).float()
        self._weights = (long / sizes[speech.persons] ** 0.5).cpu()

    def places(self, step: int, count: int) -> tuple[Tensor, torch.Generator]:
        """Clips `[count]`; a function of the step."""
        generator = torch.Generator().manual_seed(step + 7_000_000)
        drawn = torch.multinomial(self._weights, count, True, generator=generator)
        return drawn.to(self.speech.device), generator

    def first(self, clips: Tensor, generator: torch.Generator) -> Tensor:
        """The first code of a segment of each clip."""
        room = self.speech.codes[clips] - SEGMENT_CODES + 1
        return (torch.rand(len(clips), generator=generator).to(clips.device) * room).long()

    def heard(
        self, clips: Tensor, first: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Embeddings `[clips, 512, 1]` and samples `[clips, SEGMENT_SAMPLES]`."""
        start = (first * SAMPLES_PER_CODE * RATE / CODE_RATE).round().long()
        others = self.speech.others(clips, generator)
        sound = self.speech.excerpts(clips, start, SEGMENT_SAMPLES)
        return self.embeddings[others][..., None], sound


def learn_from_mels(at: Workplace, speech: Speech, mels: Mels) -> None:
    """Writes `vocoder.pt` (the vocoder with its widening layer, and the critics)."""
    torch.manual_seed(at.recipe.seed)
    net = MelVocoder(new(at.recipe), at.recipe.gpt.width).to(at.device)
    ear, stage = Ear(at, speech), at.recipe.vocoder
    along = torch.arange(SEGMENT_CODES * FRAMES_PER_CODE, device=at.device)

    def segments(step: int) -> tuple[Tensor, Tensor, Tensor]:
        clips, generator = ear.places(step, stage.batch)
        first = ear.first(clips, generator)
        begin = (speech.code_starts[clips] + first) * FRAMES_PER_CODE
        inputs = mels.codec[begin[:, None] + along].float().unflatten(1, (SEGMENT_CODES, -1))
        return inputs.flatten(2), *ear.heard(clips, first, generator)

    _learn(at, net, stage, "vocoder.pt", segments)


def tune(at: Workplace, speech: Speech, lessons: Lessons) -> None:
    """Writes `tuning.pt` (the vocoder for this GPT's latents, and its critics)."""
    torch.manual_seed(at.recipe.seed)
    recipe, stage = at.recipe, at.recipe.tuning
    pupil = pretraining.load(at).to(at.device)
    net = MelVocoder(new(recipe), recipe.gpt.width).to(at.device)
    ear = Ear(at, speech)
    read = stages.Clock(SECONDS_WITH_ONE_GPT)

    @torch.no_grad()
    def segments(step: int) -> tuple[Tensor, Tensor, Tensor]:
        nonlocal read
        if read.share >= 1.0:
            # The GPT may still be training in parallel, so its newest weights are read.
            stages.resumed(at.folder / "pretraining.pt", {"pupil": pupil})
            read = stages.Clock(SECONDS_WITH_ONE_GPT)
        clips, generator = ear.places(step, max(1, stage.batch // SEGMENTS_PER_ROW))
        latents = latents_of(pupil, lessons, clips, generator, at)
        clips = clips.repeat_interleave(SEGMENTS_PER_ROW)
        first = ear.first(clips, generator)
        row = torch.arange(len(clips), device=at.device) // SEGMENTS_PER_ROW
        at_codes = first[:, None] + torch.arange(SEGMENT_CODES, device=at.device)
        return latents[row[:, None], at_codes], *ear.heard(clips, first, generator)

    begun = (at.folder / "tuning.pt").is_file()
    if not begun:
        stages.resumed(at.folder / "vocoder.pt", {"net": net})
        first: Any = net.vocoder.waveform_decoder.conv_pre
        read_latents(first, net.widen, pupil.mel_head)
    _learn(at, net, stage, "tuning.pt", segments, critics_from="" if begun else "vocoder.pt")


def latents_of(
    pupil: Pupil, lessons: Lessons, clips: Tensor, generator: torch.Generator, at: Workplace
) -> Tensor:
    """The latents `[clips, codes, width]` that the GPT computes from the true codes."""
    rows = lessons.rows(clips, generator)
    laid = grid(rows, at.recipe)
    with stages.low_precision(at.device):
        hidden, _ = pupil.hidden(rows, laid)
    return pupil.latents(hidden, laid, rows.codes.shape[1])[:, :-1].float()


@torch.no_grad()
def read_latents(first: Any, widen: nn.Linear, mel_head: nn.Linear) -> None:
    """Changes the vocoder's first convolution from widened mels to latents. The mel head predicts a
    code's mel from its latent and the next. All three maps are linear, so together they are one
    convolution, except for its outermost tap. The tuning starts from this."""
    taps = first.weight  # [out, width, 7]
    now, after = (widen.weight @ part for part in mel_head.weight.chunk(2, dim=1))
    # The next code is 1.09 steps away, between the first and the second tap to the right.
    far = VOCODER_RATE / CODE_RATE - 1
    whole = torch.einsum("oik,ij->ojk", taps, now)
    late = torch.einsum("oik,ij->ojk", taps, after)
    whole[:, :, 1:] += (1 - far) * late[:, :, :-1]
    whole[:, :, 2:] += far * late[:, :, :-2]
    first.bias += taps.sum(2) @ (widen.weight @ mel_head.bias + widen.bias)
    first.weight.copy_(whole)


def _learn(
    at: Workplace,
    net: MelVocoder,
    stage: StageSchedule,
    name: str,
    segments: Any,
    critics_from: str = "",
) -> None:
    critics = Critics(at.recipe.critics).to(at.device)
    if critics_from:
        stages.resumed(at.folder / critics_from, {"critics": critics})
    new_optimizer = partial(
        torch.optim.AdamW, lr=stage.learning_rate, betas=(0.8, 0.99), fused=True
    )
    own, theirs = new_optimizer(net.parameters()), new_optimizer(critics.parameters())
    low = partial(stages.low_precision, at.device)
    quiet = 0 if critics_from else at.recipe.quiet_steps
    zero = torch.zeros((), device=at.device)

    def step_of(step: int) -> Sequence[Tensor]:
        inputs, speaker, wanted = segments(step)
        with low():
            sound = net(inputs, speaker).float()
        end = min(sound.shape[1], wanted.shape[1]) - MARGIN
        sound, wanted = sound[:, MARGIN:end], wanted[:, MARGIN:end]
        distance = mel_distance(sound, wanted)
        if step < quiet:
            stages.descend(distance, [own], net)
            return distance, zero, zero
        with low():
            doubted = zero
            for real, fake in zip(critics(wanted), critics(sound.detach()), strict=True):
                doubted = (
                    doubted
                    + (real[-1].float() - 1).square().mean()
                    + fake[-1].float().square().mean()
                )
        stages.descend(doubted, [theirs], critics)
        critics.requires_grad_(False)
        with low():
            fooled, unlike = zero, zero
            with torch.no_grad():
                real_features = critics(wanted)
            for real, fake in zip(real_features, critics(sound), strict=True):
                fooled = fooled + (fake[-1].float() - 1).square().mean()
                for a, b in zip(real[:-1], fake[:-1], strict=True):
                    unlike = unlike + F.l1_loss(a.float(), b.float())
        critics.requires_grad_(True)
        loss = MEL_WEIGHT * distance + MATCH_WEIGHT * unlike + fooled
        stages.descend(loss, [own], net)
        return distance, doubted, unlike

    def report(means: Sequence[float]) -> str:
        return f"mel {means[0]:.4f}, critics {means[1]:.3f}, features {means[2]:.3f}"

    parts: dict[str, stages.Stateful] = {
        "net": net, "critics": critics, "own": own, "theirs": theirs
    }  # fmt: skip
    stages.learn(at.folder / name, stage, stages.Clock(at.seconds), parts, step_of, report)


def new(recipe: BaseRecipe) -> Vocoder:
    """A vocoder with random weights."""
    return Vocoder(recipe.gpt.width, recipe.speaker_encoder.embedding_width, recipe.vocoder_shape)


def load(at: Workplace) -> Vocoder:
    """The learned vocoder, on the CPU."""
    net = MelVocoder(new(at.recipe), at.recipe.gpt.width)
    stages.resumed(at.folder / "tuning.pt", {"net": net})
    return net.vocoder.eval().requires_grad_(False)
