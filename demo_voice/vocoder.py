"""Trains the vocoder on the GPT's latents: first by spectra alone, then against discriminators.

A spectral distance alone makes the filters say an average. The discriminators see spectrograms
(https://arxiv.org/abs/2106.07889) and their features are matched, as in HiFi-GAN
(https://arxiv.org/abs/2010.05646). None judges samples, because the oscillator places every period.
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
from demo_voice.recipe import BaseRecipe
from demo_voice.speech import Speech
from demo_voice.stages import Workplace
from demo_voice.teachers.hibari import RATE
from xtts.audio import CODE_RATE, SAMPLES_PER_CODE, VOCODER_RATE
from xtts.model.source_filter import SourceFilter, pitch_at_steps
from xtts.model.vocoder import Vocoder

# Codes in a segment (1.2 s). The loss ignores some codes at each end, which lack context.
SEGMENT_CODES, UNJUDGED_CODES = 26, 3
MARGIN = round(UNJUDGED_CODES * SAMPLES_PER_CODE * VOCODER_RATE / CODE_RATE)
SEGMENT_SAMPLES = round(SEGMENT_CODES * SAMPLES_PER_CODE * VOCODER_RATE / CODE_RATE)
# FFT sizes of the discriminators.
WINDOWS = (2048, 1024, 512, 256)
MEL_WEIGHT, MATCH_WEIGHT, PITCH_WEIGHT, VOICING_WEIGHT = 15.0, 2.0, 15.0, 3.0
# FFT sizes and mel bands of the spectral loss.
RESOLUTIONS = ((2048, 160), (1024, 80), (512, 40), (256, 20))
SEGMENTS_PER_ROW = 2


class SpectrumCritic(nn.Module):
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
        """Waves `[batch, samples]` -> the features of each layer, the verdict last."""
        with torch.autocast(wave.device.type, enabled=False):
            x = magnitudes(wave.float(), self.size)[:, None].clamp(min=1e-4).log() / 4
        seen = []
        for layer in self.layers:
            x = F.leaky_relu(layer(x), 0.1)
            seen.append(x)
        return [*seen, self.last(x)]


class Critics(nn.Module):
    """All discriminators."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.judges = nn.ModuleList(SpectrumCritic(size, channels) for size in WINDOWS)

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


class Segments:
    """Draws segments: the GPT's latents, the speaker's embedding from another clip, the pitches and
    the audio. Clips without known pitches are left out."""

    def __init__(self, at: Workplace, speech: Speech, lessons: Lessons) -> None:
        encoder = listener.load(at).to(at.device)
        self.at, self.speech, self.lessons = at, speech, lessons
        self.embeddings = listener.embeddings(encoder, speech)
        self.pupil = pretraining.load(at).to(at.device)
        sizes = speech.persons.bincount(minlength=len(speech.names)).float()
        usable = (speech.codes > SEGMENT_CODES) & ~speech.pitch[speech.code_starts, 0].isnan()
        self._weights = (usable / sizes[speech.persons] ** 0.5).cpu()

    @torch.no_grad()
    def at_step(self, step: int, count: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Latents `[count, SEGMENT_CODES, width]`, speakers `[count, 512, 1]`, pitches `[count, 4 *
        SEGMENT_CODES]` and samples `[count, SEGMENT_SAMPLES]`; a function of the step."""
        speech, device = self.speech, self.at.device
        generator = torch.Generator().manual_seed(step + 7_000_000)
        rows = max(1, count // SEGMENTS_PER_ROW)
        clips = torch.multinomial(self._weights, rows, True, generator=generator).to(device)
        latents = latents_of(self.pupil, self.lessons, clips, generator, self.at)
        row = torch.arange(rows, device=device).repeat_interleave(SEGMENTS_PER_ROW)
        clips = clips[row]
        room = speech.codes[clips] - SEGMENT_CODES + 1
        first = (torch.rand(len(clips), generator=generator).to(device) * room).long()
        codes = first[:, None] + torch.arange(SEGMENT_CODES, device=device)
        start = (first * SAMPLES_PER_CODE * RATE / CODE_RATE).round().long()
        return (
            latents[row[:, None], codes],
            self.embeddings[speech.others(clips, generator)][..., None],
            speech.pitch[speech.code_starts[clips][:, None] + codes].float().flatten(1),
            speech.excerpts(clips, start, SEGMENT_SAMPLES),
        )


def latents_of(
    pupil: Pupil, lessons: Lessons, clips: Tensor, generator: torch.Generator, at: Workplace
) -> Tensor:
    """The latents `[clips, codes, width]` that the GPT computes from the true codes."""
    rows = lessons.rows(clips, generator)
    laid = grid(rows, at.recipe)
    with stages.low_precision(at.device):
        hidden, _ = pupil.hidden(rows, laid)
    return pupil.latents(hidden, laid, rows.codes.shape[1])[:, :-1].float()


def learn(at: Workplace, speech: Speech, lessons: Lessons) -> None:
    """Writes `vocoder.pt`: the vocoder for this GPT's latents, and its critics."""
    torch.manual_seed(at.recipe.seed)
    stage, segments = at.recipe.vocoder, Segments(at, speech, lessons)
    net, critics = new(at.recipe).to(at.device), Critics(at.recipe.critics).to(at.device)
    decoder: Any = net.waveform_decoder
    new_optimizer = partial(
        torch.optim.AdamW, lr=stage.learning_rate, betas=(0.8, 0.99), fused=True
    )
    own, theirs = new_optimizer(net.parameters()), new_optimizer(critics.parameters())
    low = partial(stages.low_precision, at.device)
    zero = torch.zeros((), device=at.device)

    def step_of(step: int) -> Sequence[Tensor]:
        latents, speaker, pitches, wanted = segments.at_step(step, stage.batch)
        with low():
            sound, off, unsure = _spoken(net, decoder, latents, speaker, pitches)
        end = min(sound.shape[1], wanted.shape[1]) - MARGIN
        sound, wanted = sound[:, MARGIN:end], wanted[:, MARGIN:end]
        distance = mel_distance(sound, wanted)
        loss = MEL_WEIGHT * distance + PITCH_WEIGHT * off + VOICING_WEIGHT * unsure
        doubted = unlike = zero
        if step >= at.recipe.quiet_steps:
            with low():
                doubted = _doubted(critics, wanted, sound.detach())
            stages.descend(doubted, [theirs], critics)
            critics.requires_grad_(False)
            with low():
                fooled, unlike = _fooled(critics, wanted, sound)
            critics.requires_grad_(True)
            loss = loss + fooled + MATCH_WEIGHT * unlike
        stages.descend(loss, [own], net)
        return distance, doubted, unlike, off

    def report(means: Sequence[float]) -> str:
        names = ("mel", "critics", "features", "pitch")
        return ", ".join(f"{name} {mean:.4f}" for name, mean in zip(names, means, strict=True))

    parts: dict[str, stages.Stateful] = {
        "net": net, "critics": critics, "own": own, "theirs": theirs
    }  # fmt: skip
    stages.learn(at.folder / "vocoder.pt", stage, stages.Clock(at.seconds), parts, step_of, report)


def _spoken(
    net: Vocoder, decoder: SourceFilter, latents: Tensor, speaker: Tensor, pitches: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The sound with the teacher's pitches, so that its spectra can be compared, and the losses of
    the predicted ones: L1 in octaves, and the cross-entropy of voicing."""
    steps = net.latent_steps(latents)
    height, voicing = decoder.predicted_pitch(steps)
    wanted, voiced = pitch_at_steps(pitches, steps.shape[2])
    off = ((height.float() - wanted).abs() * voiced).sum() / voiced.sum().clamp(min=1)
    unsure = F.binary_cross_entropy_with_logits(voicing.float(), voiced)
    # The phase at a segment's start is arbitrary.
    return net.computed(decoder.excited(steps, (wanted, voiced)), speaker), off, unsure


def _doubted(critics: Critics, wanted: Tensor, sound: Tensor) -> Tensor:
    """The least-squares loss of the critics."""
    losses = [
        (real[-1].float() - 1).square().mean() + fake[-1].float().square().mean()
        for real, fake in zip(critics(wanted), critics(sound), strict=True)
    ]
    return torch.stack(losses).sum()


def _fooled(critics: Critics, wanted: Tensor, sound: Tensor) -> tuple[Tensor, Tensor]:
    """The vocoder's adversarial loss, and the L1 of the critics' features."""
    with torch.no_grad():
        real_features = critics(wanted)
    fooled, unlike = [], []
    for real, fake in zip(real_features, critics(sound), strict=True):
        fooled.append((fake[-1].float() - 1).square().mean())
        for a, b in zip(real[:-1], fake[:-1], strict=True):
            unlike.append(F.l1_loss(b.float(), a.float()))
    return torch.stack(fooled).sum(), torch.stack(unlike).sum()


def new(recipe: BaseRecipe) -> Vocoder:
    """A vocoder with random weights."""
    return Vocoder(recipe.gpt.width, recipe.speaker_encoder.embedding_width, recipe.vocoder_shape)


def load(at: Workplace) -> Vocoder:
    """The learned vocoder, on the CPU."""
    net = new(at.recipe)
    stages.finished(at.folder / "vocoder.pt", {"net": net})
    return net.eval().requires_grad_(False)
