"""Trains the DVAE: 80 mel bands to one of 1,024 codes for every 46 ms.

First as an autoencoder, then with a codebook initialised by k-means in its latent space, then with
vector quantisation that revives dead codes: a random codebook collapses. A codec that continues
from an earlier voice trains its new decoder first, against unchanged codes.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from demo_voice import stages
from demo_voice.speech import FRAMES_PER_CODE, Mels, Speech
from demo_voice.stages import Workplace
from demo_voice.teachers.hibari import PHONES_PER_CODE, PITCHES_PER_CODE
from xtts.audio import MEL_BANDS
from xtts.model.loading import new_dvae

if TYPE_CHECKING:
    from TTS.tts.layers.xtts.dvae import DiscreteVAE, Quantize

COMMITMENT = 0.25
PHONE_WEIGHT, PITCH_WEIGHT = 0.5, 1.0
STEPS_BETWEEN_REVIVALS = 50
# A code that is used less than this share of the average use is dead.
DEAD_SHARE = 0.05
FRAMES = 128
CODES = FRAMES // FRAMES_PER_CODE
# Ids of hibari's phones.
PHONE_IDS = 192
# The bands are shifted by at most this share of their number.
STRETCH = 0.15
# In standard deviations of the bands: the loudness first, then slower and faster ripples.
FILTER = (0.3, 0.5, 0.4, 0.35, 0.25, 0.25, 0.15, 0.15)


class Excerpts:
    """Random segments; all persons are equally likely."""

    def __init__(self, speech: Speech, mels: Mels) -> None:
        self.speech, self.mels = speech, mels
        self.means, self.pitches = mels.of_person(), relative_pitch(speech)
        sizes = speech.persons.bincount(minlength=len(speech.names)).float()
        self._weights = (1 / sizes)[speech.persons].cpu()

    def segments(self, step: int, count: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The inputs and targets of a step, each `[count, 80, FRAMES]`, the phones `[count, codes,
        2]` and the pitches `[count, codes, 4]` relative to the clip's mean, NaN where there is
        none; a function of the step.

        The target lacks the speaker's mean spectrum and the input's random filter: otherwise the
        codes would encode the speaker instead of the phone.
        """
        speech, device = self.speech, self.speech.device
        generator = torch.Generator().manual_seed(step + 1_000_000)
        clips = torch.multinomial(self._weights, count, True, generator=generator).to(device)
        room = (speech.codes[clips] - CODES).clamp(min=0) + 1
        first = (torch.rand(count, generator=generator).to(device) * room).long()
        codes = first[:, None] + torch.arange(CODES, device=device)
        # A short clip repeats its last code, which is silent.
        codes = torch.minimum(codes, speech.codes[clips][:, None] - 1)
        codes = codes + speech.code_starts[clips][:, None]
        frames = codes[..., None] * FRAMES_PER_CODE + torch.arange(FRAMES_PER_CODE, device=device)
        cut = self.mels.codec[frames.flatten(1)].float().transpose(1, 2)
        target = cut - self.means[speech.persons[clips]][:, :, None]
        heard = filtered(stretched(cut, generator), generator)
        pitches = self.pitches[codes].float()
        pitches[: count // 2] = torch.nan  # `stretched` moves the harmonics
        return heard, target, speech.phones[codes].long(), pitches


def learn(at: Workplace, speech: Speech) -> None:
    """Writes `codec.pt`: the DVAE with its decoder, and the scales of the mels."""
    torch.manual_seed(at.recipe.seed)
    path, stage = at.folder / "codec.pt", at.recipe.codec
    mels, scales = Mels(speech), Scales()
    if not path.is_file():
        scales.mel_stats.copy_(at.base.mel_stats if at.base else mels.scales())
    else:
        stages.resumed(path, {"scales": scales})
    mels.scale(scales.mel_stats)
    dvae, examples = new_dvae(at.recipe.dvae), Excerpts(speech, mels)
    if at.base:
        _continue_from(dvae, at.base.codec())
    dvae.to(at.device)
    reader = Reader(dvae.codebook.dim).to(at.device)
    optimizer = torch.optim.AdamW(
        [*dvae.parameters(), *reader.parameters()], lr=stage.learning_rate, weight_decay=1e-4
    )
    clock = stages.Clock(at.seconds)

    def step_of(step: int) -> Sequence[Tensor]:
        heard, target, phones, pitches = examples.segments(step, stage.batch)
        early = step < at.recipe.autoencoder_steps
        # The decoder is new: until it has learned, it would destroy the base's encoder.
        dvae.codebook.train(not (early and at.base))
        with stages.low_precision(at.device), torch.set_grad_enabled(not (early and at.base)):
            latents = dvae.encoder(heard).transpose(1, 2).float()
        if early and not at.base:
            quantised, commitment = latents, 1e-3 * latents.square().mean()
        else:
            if step == at.recipe.autoencoder_steps and not at.base:
                _start_codebook(dvae, examples, at)
            quantised, _, commitment = dvae.codebook(latents)
        with stages.low_precision(at.device):
            decoded = dvae.decoder(quantised.transpose(1, 2)).float()
        distance = F.l1_loss(decoded, target)
        wrong, off = reader.losses(quantised, phones, pitches)
        loss = distance + COMMITMENT * commitment + PHONE_WEIGHT * wrong + PITCH_WEIGHT * off
        stages.descend(loss, [optimizer])
        late = step > at.recipe.autoencoder_steps
        if late and step % STEPS_BETWEEN_REVIVALS == 0 and clock.share < 0.8:
            _revive(dvae.codebook, latents.detach().reshape(-1, dvae.codebook.dim), step)
        return distance, wrong, off

    def report(means: Sequence[float]) -> str:
        in_use = dvae.codebook.n_embed - len(_dead(dvae.codebook))
        read = f"phones {means[1]:.3f}, pitch {means[2]:.3f}"
        return f"L1 {means[0]:.4f}, {read}, {in_use} codes in use"

    parts: dict[str, stages.Stateful] = {
        "dvae": dvae,
        "reader": reader,
        "scales": scales,
        "optimizer": optimizer,
    }
    stages.learn(path, stage, clock, parts, step_of, report)


class Scales(nn.Module):
    """`mel_stats` as a module, so that a snapshot holds them."""

    mel_stats: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mel_stats", torch.ones(MEL_BANDS))


class Reader(nn.Module):
    """Predicts the phones in the two halves of each code, and the pitches in its quarters, from the
    code and its neighbours.

    Trained on spectra alone, the codec spends its codes on the speaker: it loses words in a new
    voice, and the melody of every voice.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.read = nn.Conv1d(width, PHONES_PER_CODE * PHONE_IDS, 3, padding=1)
        self.melody = nn.Conv1d(width, PITCHES_PER_CODE, 5, padding=2)

    def losses(self, quantised: Tensor, phones: Tensor, pitches: Tensor) -> tuple[Tensor, Tensor]:
        """Of quantised `[batch, codes, width]`: the cross-entropy of phones `[batch, codes, 2]`,
        where 255 is an unknown phone, and the L1 of pitches `[batch, codes, 4]`, where NaN is
        none."""
        codes = quantised.transpose(1, 2)
        logits = self.read(codes).transpose(1, 2).float()
        is_phone = (phones != 255).flatten()
        lost = F.cross_entropy(
            logits.reshape(-1, PHONE_IDS), phones.flatten().clamp(max=PHONE_IDS - 1), reduction="none"
        )
        wrong = (lost * is_phone).sum() / is_phone.sum().clamp(min=1)
        voiced = ~pitches.isnan()
        away = (self.melody(codes).transpose(1, 2).float() - pitches.nan_to_num()).abs()
        return wrong, (away * voiced).sum() / voiced.sum().clamp(min=1)


def relative_pitch(speech: Speech) -> Tensor:
    """The pitches of all codes `[codes, 4]` in octaves above the mean of their clip, float16; NaN
    where unvoiced or unknown."""
    pitches = speech.pitch.float()
    pitches = torch.where(pitches > 0, pitches, torch.nan)
    clips = torch.arange(len(speech), device=speech.device).repeat_interleave(speech.codes)
    sums, counts = torch.zeros(2, len(speech), device=speech.device)
    sums.index_add_(0, clips, pitches.nansum(1))
    counts.index_add_(0, clips, (~pitches.isnan()).sum(1).float())
    return (pitches - (sums / counts)[clips][:, None]).half()


def _continue_from(dvae: "DiscreteVAE", base: "DiscreteVAE") -> None:
    """Copies the encoder and the codebook of a base. Its decoder is not published."""
    dvae.encoder.load_state_dict(base.encoder.state_dict())
    count = dvae.codebook.n_embed
    set_codebook(dvae.codebook, torch.arange(count), base.codebook.embed.T.contiguous())


@torch.no_grad()
def _start_codebook(dvae: "DiscreteVAE", examples: Excerpts, at: Workplace) -> None:
    """k-means (Lloyd's, 15 rounds) on the autoencoder's latents."""
    width, count = dvae.codebook.dim, dvae.codebook.n_embed
    drawn = [examples.segments(-1 - index, at.recipe.codec.batch)[0] for index in range(16)]
    points = torch.cat([dvae.encoder(mels).transpose(1, 2).reshape(-1, width) for mels in drawn])
    generator = torch.Generator().manual_seed(1)
    centres = points[torch.randint(len(points), (count,), generator=generator)].clone()
    for _ in range(15):
        nearest = torch.cdist(points, centres).argmin(1)
        sums = torch.zeros_like(centres).index_add_(0, nearest, points)
        sizes = torch.bincount(nearest, minlength=count).to(sums)
        lost = sizes == 0
        centres = sums / sizes.clamp(min=1)[:, None]
        again = torch.randint(len(points), (int(lost.sum()),), generator=generator)
        centres[lost] = points[again]
    set_codebook(dvae.codebook, torch.arange(count), centres)


def set_codebook(codebook: "Quantize", which: Tensor, centres: Tensor) -> None:
    """Sets codes to new vectors, with the running sums that Coqui's `Quantize` keeps of them."""
    codebook.embed[:, which] = centres.T
    codebook.embed_avg[:, which] = centres.T
    codebook.cluster_size[which] = 1.0


def _dead(codebook: "Quantize") -> Tensor:
    even = codebook.cluster_size.sum() / codebook.n_embed
    return torch.nonzero(codebook.cluster_size < DEAD_SHARE * even).flatten()


@torch.no_grad()
def _revive(codebook: "Quantize", latents: Tensor, step: int) -> None:
    """Moves dead codes to the latents of this batch that are farthest from any code."""
    dead = _dead(codebook)
    distance = torch.cdist(latents, codebook.embed.T).amin(1)
    generator = torch.Generator().manual_seed(step)
    count = min(len(dead), len(latents))
    if count:
        chances = (distance.square() + 1e-9).cpu()
        places = torch.multinomial(chances, count, generator=generator)
        set_codebook(codebook, dead[:count], latents[places.to(latents.device)])


def load(at: Workplace) -> tuple["DiscreteVAE", Tensor]:
    """The learned DVAE with its decoder, and mel_stats, on the CPU."""
    dvae, scales = new_dvae(at.recipe.dvae), Scales()
    stages.finished(at.folder / "codec.pt", {"dvae": dvae, "scales": scales})
    return dvae.eval().requires_grad_(False), scales.mel_stats


@torch.inference_mode()
def encode(dvae: "DiscreteVAE", mels: Mels) -> Tensor:
    """The codes of all clips, int64 `[codes]`."""
    speech, all_codes = mels.speech, torch.zeros(len(mels.codec) // FRAMES_PER_CODE, dtype=torch.long)
    all_codes = all_codes.to(speech.device)
    for clips in speech.codes.argsort().split(256):
        longest = int(speech.codes[clips].max())
        frames = torch.arange(longest * FRAMES_PER_CODE, device=speech.device)
        places = (speech.code_starts[clips] * FRAMES_PER_CODE)[:, None] + frames
        # The next clip follows in the buffer. Silence instead keeps it out of the last codes.
        real = frames < (speech.codes[clips] * FRAMES_PER_CODE)[:, None]
        cut = mels.codec[places.clamp(max=len(mels.codec) - 1)].float()
        last = mels.codec[(speech.code_starts[clips] + speech.codes[clips]) * FRAMES_PER_CODE - 1]
        cut = torch.where(real[..., None], cut, last.float()[:, None])
        codes = dvae.get_codebook_indices(cut.transpose(1, 2))
        where = speech.code_starts[clips][:, None] + torch.arange(longest, device=speech.device)
        real = torch.arange(longest, device=speech.device) < speech.codes[clips][:, None]
        all_codes[where[real]] = codes[:, :longest][real]
    return all_codes


def stretched(mels: Tensor, generator: torch.Generator) -> Tensor:
    """Stretches the bands of half of the segments `[count, 80, frames]`, like another vocal tract
    (https://arxiv.org/abs/1301.5143), so that voices unlike any teacher get codes too."""
    half, bands, frames = len(mels) // 2, mels.shape[1], mels.shape[2]
    stretch = 1 + STRETCH * (2 * torch.rand(half, 1, generator=generator) - 1)
    source = ((torch.linspace(-1, 1, bands) + 1) * stretch - 1).clamp(max=1)
    across = torch.linspace(-1, 1, frames).expand(half, bands, frames)
    grid = torch.stack((across, source[:, :, None].expand_as(across)), dim=-1).to(mels.device)
    moved = F.grid_sample(mels[:half, None], grid, padding_mode="border", align_corners=True)
    return torch.cat((moved[:, 0], mels[half:]))


def filtered(mels: Tensor, generator: torch.Generator) -> Tensor:
    """Filters every second segment of `[count, 80, frames]` like another microphone. The target
    stays unfiltered, so that the codes ignore timbre, which the vocoder gets from the speaker
    embedding."""
    bands = mels.shape[1]
    waves = torch.cos(torch.arange(len(FILTER))[:, None] * torch.pi * torch.arange(bands) / bands)
    gains = torch.randn(len(mels), len(FILTER), generator=generator) * torch.tensor(FILTER)
    gains[1::2] = 0.0
    return mels + (gains @ waves)[:, :, None].to(mels.device)
