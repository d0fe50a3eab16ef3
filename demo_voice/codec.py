"""Trains the DVAE: 80 mel bands to one of 1,024 codes for every 46 ms.

First as an autoencoder, then with a codebook initialised by k-means in its latent space, then with
vector quantisation that revives dead codes: a random codebook collapses. A codec that continues
from an earlier voice trains its new decoder first, against unchanged codes.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from demo_voice import stages
from demo_voice.speech import FRAMES_PER_CODE, Mels, Speech
from demo_voice.stages import StageContext
from demo_voice.teachers.hibari import PHONES_PER_CODE, PITCHES_PER_CODE, UNKNOWN_PHONE
from xtts.audio import MEL_BANDS
from xtts.model.loading import new_dvae

if TYPE_CHECKING:
    from TTS.tts.layers.xtts.dvae import DiscreteVAE, Quantize

COMMITMENT_WEIGHT = 0.25
PHONE_WEIGHT, PITCH_WEIGHT = 0.5, 1.0
STEPS_BETWEEN_REVIVALS = 50
# No code is revived after this share of the time.
LAST_REVIVAL_SHARE = 0.8
# A code is dead if it is used less than this share of the average.
MIN_USE = 0.05
EXCERPT_FRAMES = 128
EXCERPT_CODES = EXCERPT_FRAMES // FRAMES_PER_CODE
# The number of hibari's phones.
PHONE_IDS = 192
# The bands are shifted by at most this share of their number.
MAX_STRETCH = 0.15
# Standard deviations of a random filter: of the loudness, then of slower and faster ripples.
RIPPLE_SPREADS = (0.3, 0.5, 0.4, 0.35, 0.25, 0.25, 0.15, 0.15)


class Excerpt(NamedTuple):
    """Inputs and targets of a step: mels `[count, 80, EXCERPT_FRAMES]`, phones `[count, codes, 2]`, and
    pitches `[count, codes, 4]` relative to the clip's mean, NaN where there is none."""

    mels: Tensor
    targets: Tensor
    phones: Tensor
    pitches: Tensor


class Excerpts:
    """Draws excerpts of clips; all persons are equally likely."""

    def __init__(self, speech: Speech, mels: Mels) -> None:
        self.speech, self.mels = speech, mels
        self.means, self.pitches = mels.person_means(), relative_pitch(speech)
        sizes = speech.persons.bincount(minlength=len(speech.names)).float()
        self._weights = (1 / sizes)[speech.persons].cpu()

    def draw(self, step: int, count: int) -> Excerpt:
        """The excerpts of a step; a function of the step.

        The target lacks the speaker's mean spectrum and the input's random filter: otherwise the
        codes would encode the speaker instead of the phone.
        """
        speech, device = self.speech, self.speech.device
        generator = torch.Generator().manual_seed(step + 1_000_000)
        clips = torch.multinomial(self._weights, count, True, generator=generator).to(device)
        room = (speech.num_codes[clips] - EXCERPT_CODES).clamp(min=0) + 1
        first = (torch.rand(count, generator=generator).to(device) * room).long()
        codes = first[:, None] + torch.arange(EXCERPT_CODES, device=device)
        # A short clip repeats its last code, which is silent.
        codes = torch.minimum(codes, speech.num_codes[clips][:, None] - 1)
        codes = codes + speech.code_starts[clips][:, None]
        frames = codes[..., None] * FRAMES_PER_CODE + torch.arange(FRAMES_PER_CODE, device=device)
        mels = self.mels.codec[frames.flatten(1)].float().transpose(1, 2)
        targets = mels - self.means[speech.persons[clips]][:, :, None]
        mels = apply_filters(stretch_bands(mels, generator), generator)
        pitches = self.pitches[codes].float()
        pitches[: count // 2] = torch.nan  # `stretch_bands` moves the harmonics
        return Excerpt(mels, targets, speech.phones[codes].long(), pitches)


def learn(context: StageContext, speech: Speech) -> None:
    """Writes `codec.pt`: the DVAE with its decoder, and the scales of the mels."""
    torch.manual_seed(context.recipe.seed)
    path, stage = context.folder / "codec.pt", context.recipe.codec
    mels, scales = Mels(speech), Scales()
    if not path.is_file():
        scales.mel_stats.copy_(context.base.mel_stats if context.base else mels.compute_scales())
    else:
        stages.resume(path, {"scales": scales})
    mels.divide(scales.mel_stats)
    dvae, excerpts = new_dvae(context.recipe.dvae), Excerpts(speech, mels)
    if context.base:
        _continue_from(dvae, context.base.codec())
    dvae.to(context.device)
    reader = Reader(dvae.codebook.dim).to(context.device)
    optimizer = torch.optim.AdamW(
        [*dvae.parameters(), *reader.parameters()], lr=stage.learning_rate, weight_decay=1e-4
    )
    clock = stages.Clock(context.seconds)

    def take_step(step: int) -> Sequence[Tensor]:
        excerpt = excerpts.draw(step, stage.batch)
        is_early = step < context.recipe.autoencoder_steps
        # The decoder is new: until it has learned, it would destroy the base's encoder.
        encoder_learns = not (is_early and context.base)
        dvae.codebook.train(encoder_learns)
        with stages.low_precision(context.device), torch.set_grad_enabled(encoder_learns):
            latents = dvae.encoder(excerpt.mels).transpose(1, 2).float()
        if is_early and not context.base:
            quantised, commitment = latents, 1e-3 * latents.square().mean()
        else:
            if step == context.recipe.autoencoder_steps and not context.base:
                _start_codebook(dvae, excerpts, context)
            quantised, _, commitment = dvae.codebook(latents)
        with stages.low_precision(context.device):
            decoded = dvae.decoder(quantised.transpose(1, 2)).float()
        distance = F.l1_loss(decoded, excerpt.targets)
        phone_loss, pitch_error = reader.losses(quantised, excerpt.phones, excerpt.pitches)
        loss = distance + COMMITMENT_WEIGHT * commitment + PHONE_WEIGHT * phone_loss
        stages.descend(loss + PITCH_WEIGHT * pitch_error, [optimizer])
        is_late = step > context.recipe.autoencoder_steps
        if is_late and step % STEPS_BETWEEN_REVIVALS == 0 and clock.share < LAST_REVIVAL_SHARE:
            _revive(dvae.codebook, latents.detach().reshape(-1, dvae.codebook.dim), step)
        return distance, phone_loss, pitch_error

    def report(means: Sequence[float]) -> str:
        num_used = dvae.codebook.n_embed - len(_dead_codes(dvae.codebook))
        heads = f"phones {means[1]:.3f}, pitch {means[2]:.3f}"
        return f"L1 {means[0]:.4f}, {heads}, {num_used} codes in use"

    parts: dict[str, stages.Stateful] = {
        "dvae": dvae,
        "reader": reader,
        "scales": scales,
        "optimizer": optimizer,
    }
    stages.learn(path, stage, clock, parts, take_step, report)


class Scales(nn.Module):
    """`mel_stats` as a module, so that a snapshot holds them."""

    mel_stats: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mel_stats", torch.ones(MEL_BANDS))


class Reader(nn.Module):
    """Predicts the phones in the halves of each code, and the pitches in its quarters, from the code
    and its neighbours.

    Trained on spectra alone, the codec spends its codes on the speaker: it loses words in a new
    voice, and the melody of every voice.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.read = nn.Conv1d(width, PHONES_PER_CODE * PHONE_IDS, 3, padding=1)
        self.melody = nn.Conv1d(width, PITCHES_PER_CODE, 5, padding=2)

    def losses(self, quantised: Tensor, phones: Tensor, pitches: Tensor) -> tuple[Tensor, Tensor]:
        """The cross-entropy of phones `[batch, codes, 2]` and the L1 of pitches `[batch, codes, 4]`.

        Args:
            quantised: `[batch, codes, width]`.
            phones: `UNKNOWN_PHONE` where unknown.
            pitches: NaN where there is none.
        """
        codes = quantised.transpose(1, 2)
        logits = self.read(codes).transpose(1, 2).float()
        is_known = (phones != UNKNOWN_PHONE).flatten()
        entropies = F.cross_entropy(
            logits.reshape(-1, PHONE_IDS), phones.flatten().clamp(max=PHONE_IDS - 1), reduction="none"
        )
        phone_loss = (entropies * is_known).sum() / is_known.sum().clamp(min=1)
        is_voiced = ~pitches.isnan()
        errors = (self.melody(codes).transpose(1, 2).float() - pitches.nan_to_num()).abs()
        return phone_loss, (errors * is_voiced).sum() / is_voiced.sum().clamp(min=1)


def relative_pitch(speech: Speech) -> Tensor:
    """The pitches of all codes `[codes, 4]` in octaves above the mean of their clip, float16; NaN
    where unvoiced or unknown."""
    pitches = speech.pitch.float()
    pitches = torch.where(pitches > 0, pitches, torch.nan)
    clips = torch.arange(len(speech), device=speech.device).repeat_interleave(speech.num_codes)
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
def _start_codebook(dvae: "DiscreteVAE", excerpts: Excerpts, context: StageContext) -> None:
    """k-means (Lloyd's, 15 rounds) on the autoencoder's latents."""
    width, count = dvae.codebook.dim, dvae.codebook.n_embed
    all_mels = [excerpts.draw(-1 - index, context.recipe.codec.batch).mels for index in range(16)]
    points = torch.cat([dvae.encoder(mels).transpose(1, 2).reshape(-1, width) for mels in all_mels])
    generator = torch.Generator().manual_seed(1)
    centres = points[torch.randint(len(points), (count,), generator=generator)].clone()
    for _ in range(15):
        nearest = torch.cdist(points, centres).argmin(1)
        sums = torch.zeros_like(centres).index_add_(0, nearest, points)
        sizes = torch.bincount(nearest, minlength=count).to(sums)
        is_empty = sizes == 0
        centres = sums / sizes.clamp(min=1)[:, None]
        redrawn = torch.randint(len(points), (int(is_empty.sum()),), generator=generator)
        centres[is_empty] = points[redrawn]
    set_codebook(dvae.codebook, torch.arange(count), centres)


def set_codebook(codebook: "Quantize", codes: Tensor, centres: Tensor) -> None:
    """Sets the vectors of codes, and the running sums that Coqui's `Quantize` keeps of them."""
    codebook.embed[:, codes] = centres.T
    codebook.embed_avg[:, codes] = centres.T
    codebook.cluster_size[codes] = 1.0


def _dead_codes(codebook: "Quantize") -> Tensor:
    average_use = codebook.cluster_size.sum() / codebook.n_embed
    return torch.nonzero(codebook.cluster_size < MIN_USE * average_use).flatten()


@torch.no_grad()
def _revive(codebook: "Quantize", latents: Tensor, step: int) -> None:
    """Moves dead codes to the latents of this batch that are farthest from any code."""
    dead = _dead_codes(codebook)
    distance = torch.cdist(latents, codebook.embed.T).amin(1)
    generator = torch.Generator().manual_seed(step)
    count = min(len(dead), len(latents))
    if count:
        chances = (distance.square() + 1e-9).cpu()
        rows = torch.multinomial(chances, count, generator=generator)
        set_codebook(codebook, dead[:count], latents[rows.to(latents.device)])


def load(context: StageContext) -> tuple["DiscreteVAE", Tensor]:
    """The learned DVAE with its decoder, and mel_stats, on the CPU."""
    dvae, scales = new_dvae(context.recipe.dvae), Scales()
    stages.load_finished(context.folder / "codec.pt", {"dvae": dvae, "scales": scales})
    return dvae.eval().requires_grad_(False), scales.mel_stats


@torch.inference_mode()
def encode(dvae: "DiscreteVAE", mels: Mels) -> Tensor:
    """The codes of all clips, int64 `[codes]`."""
    speech, all_codes = mels.speech, torch.zeros(len(mels.codec) // FRAMES_PER_CODE, dtype=torch.long)
    all_codes = all_codes.to(speech.device)
    for clips in speech.num_codes.argsort().split(256):
        starts, num_codes = speech.code_starts[clips], speech.num_codes[clips]
        max_codes = int(num_codes.max())
        frames = torch.arange(max_codes * FRAMES_PER_CODE, device=speech.device)
        positions = (starts * FRAMES_PER_CODE)[:, None] + frames
        # The next clip follows in the buffer. The last frame, repeated, keeps it out of the last codes.
        is_inside = frames < (num_codes * FRAMES_PER_CODE)[:, None]
        clip_mels = mels.codec[positions.clamp(max=len(mels.codec) - 1)].float()
        last_frames = mels.codec[(starts + num_codes) * FRAMES_PER_CODE - 1]
        clip_mels = torch.where(is_inside[..., None], clip_mels, last_frames.float()[:, None])
        codes = dvae.get_codebook_indices(clip_mels.transpose(1, 2))
        offsets = torch.arange(max_codes, device=speech.device)
        is_inside = offsets < num_codes[:, None]
        all_codes[(starts[:, None] + offsets)[is_inside]] = codes[:, :max_codes][is_inside]
    return all_codes


def stretch_bands(mels: Tensor, generator: torch.Generator) -> Tensor:
    """Stretches the bands of half of the excerpts `[count, 80, frames]`, like another vocal tract
    (https://arxiv.org/abs/1301.5143), so that voices unlike any teacher get codes too."""
    half, bands, frames = len(mels) // 2, mels.shape[1], mels.shape[2]
    stretch = 1 + MAX_STRETCH * (2 * torch.rand(half, 1, generator=generator) - 1)
    source = ((torch.linspace(-1, 1, bands) + 1) * stretch - 1).clamp(max=1)
    across = torch.linspace(-1, 1, frames).expand(half, bands, frames)
    grid = torch.stack((across, source[:, :, None].expand_as(across)), dim=-1).to(mels.device)
    moved = F.grid_sample(mels[:half, None], grid, padding_mode="border", align_corners=True)
    return torch.cat((moved[:, 0], mels[half:]))


def apply_filters(mels: Tensor, generator: torch.Generator) -> Tensor:
    """Filters every second excerpt of `[count, 80, frames]` like another microphone. The target
    stays unfiltered, so that the codes ignore timbre, which the vocoder gets from the speaker
    embedding."""
    bands = mels.shape[1]
    waves = torch.cos(torch.arange(len(RIPPLE_SPREADS))[:, None] * torch.pi * torch.arange(bands) / bands)
    gains = torch.randn(len(mels), len(RIPPLE_SPREADS), generator=generator) * torch.tensor(RIPPLE_SPREADS)
    gains[1::2] = 0.0
    return mels + (gains @ waves)[:, :, None].to(mels.device)
