"""Trains the DVAE: 80 mel bands to one of 1,024 codes for every 46 ms.

First as an autoencoder, then with a codebook initialized by k-means in its latent space, then with
vector quantization that revives dead codes: a random codebook collapses.
"""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from demo_voice import stages
from demo_voice.recipe import BaseRecipe, StageSchedule
from demo_voice.stages import Workplace
from demo_voice.teachers import flite, people
from demo_voice.teachers.flite import TeacherSpeech
from demo_voice.teachers.people import GROUP_OF, GROUPS, UNKNOWN, Aligner
from xtts.audio import CODE_RATE, MEL_BANDS, MEL_HOP, SAMPLES_PER_CODE, dvae_mel
from xtts.model.vocoder import new_dvae

COMMITMENT = 0.25
PHONE_WEIGHT = 0.5
STEPS_BETWEEN_REVIVALS = 50
# A code that is used less than this share of the average use is dead.
DEAD_SHARE = 0.05
# A lower bound of the divisor, which keeps a nearly silent band from being amplified.
SMALLEST_SCALE = 1.0
FRAMES = 128
FRAMES_PER_CODE = SAMPLES_PER_CODE // MEL_HOP
# A code lasts 46 ms and can contain two phones.
HALVES = 2
# The bands are shifted by at most this share of their number.
STRETCH = 0.15
# In standard deviations of the bands: the loudness first, then slower and faster ripples.
FILTER = (0.3, 0.5, 0.4, 0.35, 0.25, 0.25, 0.15, 0.15)


class Excerpts:
    """Draws random segments from the clips.

    Args:
        mels: `[80, frames]` of each clip.
        people: The speaker of each clip.
        phones: The phone in each frame of each clip, `[frames]`.
    """

    def __init__(
        self, mels: Sequence[Tensor], people: Sequence[str], phones: Sequence[Tensor]
    ) -> None:
        self.mels, self.phones = mels, phones
        self.means = mean_spectra(mels, people)

    def segments(self, step: int, count: int) -> tuple[Tensor, Tensor]:
        """The inputs and targets of a step, each [count, 80, FRAMES]; the same step draws the same.

        The target lacks the speaker's mean spectrum and the input's random filter: codes that
        had to encode who speaks would encode that instead of the phone.
        """
        cut, wanted = [], []
        for clip, start in self.places(step, count):
            mel = self.mels[clip][:, start : start + FRAMES].float()
            # A short clip repeats its last frame, which is silent.
            cut.append(F.pad(mel, (0, FRAMES - mel.shape[1]), mode="replicate"))
            wanted.append(cut[-1] - self.means[clip])
        generator = torch.Generator().manual_seed(step + 1_000_000)
        heard = filtered(stretched(torch.stack(cut), generator), generator)
        return heard, torch.stack(wanted)

    def labels(self, step: int, count: int) -> Tensor:
        """The phone in each half of each code of a step's segments, [count, codes, 2]."""
        labels = torch.full((count, FRAMES), UNKNOWN)
        for row, (clip, start) in enumerate(self.places(step, count)):
            part = self.phones[clip][start : start + FRAMES]
            labels[row, : len(part)] = part
        per_half = FRAMES_PER_CODE // HALVES
        return labels.view(count, -1, HALVES, per_half)[..., per_half // 2]

    def places(self, step: int, count: int) -> list[tuple[int, int]]:
        """The clip and the first frame of each segment of a step."""
        draw = random.Random(f"segments/{step}")
        clips = draw.choices(range(len(self.mels)), k=count)
        return [
            (clip, draw.randint(0, max(0, self.mels[clip].shape[1] - FRAMES))) for clip in clips
        ]


def mel_of(speech: TeacherSpeech, index: int, mel_stats: Tensor) -> Tensor:
    """The DVAE's mel [80, frames] of a clip."""
    return dvae_mel(speech.at(index, CODE_RATE)[None], mel_stats)[0]


def scales(mels: Sequence[Tensor]) -> Tensor:
    """`mel_stats` [80]: each band's standard deviation. Coqui's front-end divides by it and
    subtracts no mean, which the biases learn."""
    return torch.cat([mel.float() for mel in mels], dim=1).std(1).clamp(min=SMALLEST_SCALE)


def learn(at: Workplace, speech: TeacherSpeech, aligner: Aligner) -> None:
    """Writes `mel_stats.pt` and `codec.pt` (the DVAE with its decoder), or continues from them."""
    torch.manual_seed(at.recipe.seed)
    chosen = _chosen(at.recipe, [clip.manner for clip in speech.clips])
    raw = [mel_of(speech, index, torch.ones(MEL_BANDS)).half() for index in chosen]
    begun = (at.folder / "codec.pt").is_file()
    stats = at.folder / "mel_stats.pt"
    mel_stats = torch.load(stats, weights_only=True) if begun else scales(raw)
    mels = [(mel.float() / mel_stats[:, None]).half() for mel in raw]
    phones_of_clip = people.phones_of(speech, chosen, at.folder / "phones.npz", aligner)
    nothing = torch.tensor([UNKNOWN])
    phones = [phones_of_clip.get(index, nothing) for index in chosen]
    torch.save(mel_stats, stats)
    dvae = new_dvae(at.recipe.dvae).to(at.device)
    examples = Excerpts(mels, [speech.clips[index].manner for index in chosen], phones)
    if not begun:
        _autoencode(dvae, examples, at)
        _start_codebook(dvae, examples, at)
    _quantise(dvae, examples, at)


def _chosen(recipe: BaseRecipe, manners: Sequence[str]) -> list[int]:
    """The first clips of each group of speakers that has clips, the same number of each. manners:
    the pseudo-speaker of every clip."""
    most = recipe.codec_clips // len({GROUP_OF[manner] for manner in manners})
    groups: list[list[int]] = [[] for _ in GROUPS]
    for index, manner in enumerate(manners):
        group = groups[GROUP_OF[manner]]
        if len(group) < most:
            group.append(index)
    return [index for group in groups for index in group]


def _autoencode(dvae: Any, examples: Excerpts, at: Workplace) -> None:
    stage = at.recipe.autoencoder

    def losses(step: int) -> tuple[Tensor, Tensor]:
        heard, wanted = examples.segments(step, stage.batch)
        with stages.low_precision(at.device):
            latents = dvae.encoder(heard.to(at.device))
            distance = F.l1_loss(dvae.decoder(latents).float(), wanted.to(at.device))
            loss = distance + 1e-3 * latents.float().square().mean()
        return loss, loss

    parts = {"dvae": dvae, "optimizer": new_optimizer(dvae, stage)}
    path = at.folder / "autoencoder.pt"
    stages.learn(path, stage, parts, losses, lambda means: f"L1 {means[0]:.4f}")


@torch.no_grad()
def _start_codebook(dvae: Any, examples: Excerpts, at: Workplace) -> None:
    """k-means (Lloyd's, 15 rounds) on the autoencoder's latents."""
    width, count = dvae.codebook.dim, dvae.codebook.n_embed
    batches = [examples.segments(-1 - index, at.recipe.codec.batch)[0] for index in range(32)]
    points = torch.cat(
        [dvae.encoder(batch.to(at.device)).transpose(1, 2).reshape(-1, width) for batch in batches]
    )
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
    _set_codebook(dvae.codebook, torch.arange(count), centres)


def _set_codebook(codebook: Any, which: Tensor, centres: Tensor) -> None:
    """Sets codes to new vectors, with the running sums that Coqui's `Quantize` keeps of them."""
    codebook.embed[:, which] = centres.T
    codebook.embed_avg[:, which] = centres.T
    codebook.cluster_size[which] = 1.0


def _quantise(dvae: Any, examples: Excerpts, at: Workplace) -> None:
    stage = at.recipe.codec
    reader = PhoneReader(dvae.codebook.dim).to(at.device)

    def losses(step: int) -> tuple[Tensor, Tensor, Tensor]:
        heard, wanted = examples.segments(step, stage.batch)
        phones = examples.labels(step, stage.batch).to(at.device)
        dvae.encoder.requires_grad_(step >= at.recipe.decoder_alone)
        with stages.low_precision(at.device):
            latents = dvae.encoder(heard.to(at.device)).transpose(1, 2).float()
        quantised, _, commitment = dvae.codebook(latents)
        with stages.low_precision(at.device):
            decoded = dvae.decoder(quantised.transpose(1, 2)).float()
        distance, wrong = F.l1_loss(decoded, wanted.to(at.device)), reader.loss(quantised, phones)
        if step % STEPS_BETWEEN_REVIVALS == 0 and step < 0.8 * stage.steps:
            _revive(dvae.codebook, latents.detach().reshape(-1, dvae.codebook.dim), step)
        return distance + COMMITMENT * commitment + PHONE_WEIGHT * wrong, distance, wrong

    def report(means: Sequence[float]) -> str:
        in_use = dvae.codebook.n_embed - len(_dead(dvae.codebook))
        return f"L1 {means[0]:.4f}, phones {means[1]:.3f}, {in_use} codes in use"

    parts = {"dvae": dvae, "reader": reader, "optimizer": new_optimizer(dvae, stage, reader)}
    stages.learn(at.folder / "codec.pt", stage, parts, losses, report)


class PhoneReader(nn.Module):
    """Predicts the phones in the two halves of each code from the code and its neighbours."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.read = nn.Conv1d(width, HALVES * len(flite.NAMES), 3, padding=1)

    def loss(self, quantised: Tensor, phones: Tensor) -> Tensor:
        """Cross-entropy of quantised [batch, codes, width] against [batch, codes, 2]."""
        logits = self.read(quantised.transpose(1, 2)).transpose(1, 2).float()
        logits = logits.reshape(-1, len(flite.NAMES))
        if bool((phones < 0).all()):
            return logits.sum() * 0.0
        return F.cross_entropy(logits, phones.flatten(), ignore_index=UNKNOWN)


def new_optimizer(dvae: Any, stage: StageSchedule, *others: nn.Module) -> torch.optim.Optimizer:
    """The optimizer of the codec."""
    weights = [weight for module in (dvae, *others) for weight in module.parameters()]
    return torch.optim.AdamW(weights, lr=stage.learning_rate, weight_decay=1e-4)


def keep_codebook(codebook: Any) -> None:
    """Restores the running sums of a codebook, which is packaged without them."""
    _set_codebook(codebook, torch.arange(codebook.n_embed), codebook.embed.T.clone())


def _dead(codebook: Any) -> Tensor:
    even = codebook.cluster_size.sum() / codebook.n_embed
    return torch.nonzero(codebook.cluster_size < DEAD_SHARE * even).flatten()


@torch.no_grad()
def _revive(codebook: Any, latents: Tensor, step: int) -> None:
    """Moves dead codes to the latents of this batch that are farthest from any code."""
    dead = _dead(codebook)
    distance = torch.cdist(latents, codebook.embed.T).amin(1)
    generator = torch.Generator().manual_seed(step)
    count = min(len(dead), len(latents))
    if count:
        chances = (distance.square() + 1e-9).cpu()
        places = torch.multinomial(chances, count, generator=generator)
        _set_codebook(codebook, dead[:count], latents[places.to(latents.device)])


def load(folder: Path, recipe: BaseRecipe) -> tuple[Any, Tensor]:
    """The learned DVAE with its decoder, and mel_stats."""
    dvae = new_dvae(recipe.dvae)
    dvae.load_state_dict(torch.load(folder / "codec.pt", weights_only=True)["dvae"])
    stats: Tensor = torch.load(folder / "mel_stats.pt", weights_only=True)
    return dvae.eval().requires_grad_(False), stats


def mean_spectra(mels: Sequence[Tensor], people: Sequence[str]) -> list[Tensor]:
    """For each clip, the mean spectrum [80, 1] of all clips of its speaker."""
    sums: dict[str, tuple[Tensor, int]] = {}
    for mel, name in zip(mels, people, strict=True):
        total, frames = sums.get(name, (torch.zeros(len(mel), 1), 0))
        sums[name] = total + mel.float().sum(1, keepdim=True), frames + mel.shape[1]
    means = {name: total / frames for name, (total, frames) in sums.items()}
    return [means[name] for name in people]


def stretched(mels: Tensor, generator: torch.Generator) -> Tensor:
    """Stretches the bands of half of the segments [count, 80, frames], as if another vocal tract
    had spoken them (https://arxiv.org/abs/1301.5143), so that voices unlike any teacher get codes
    too."""
    half, bands, frames = len(mels) // 2, mels.shape[1], mels.shape[2]
    stretch = 1 + STRETCH * (2 * torch.rand(half, 1, generator=generator) - 1)
    source = ((torch.linspace(-1, 1, bands) + 1) * stretch - 1).clamp(max=1)
    across = torch.linspace(-1, 1, frames).expand(half, bands, frames)
    grid = torch.stack((across, source[:, :, None].expand_as(across)), dim=-1)
    moved = F.grid_sample(mels[:half, None], grid, padding_mode="border", align_corners=True)
    return torch.cat((moved[:, 0], mels[half:]))


def filtered(mels: Tensor, generator: torch.Generator) -> Tensor:
    """Filters every second segment of [count, 80, frames] as another microphone would. The target
    stays unfiltered, so that the codes ignore timbre, which the vocoder gets from the speaker
    embedding. Otherwise a voice unlike any teacher (awb's bands differ from slt's by up to 1.3
    deviations) would need codes of its own.
    """
    bands = mels.shape[1]
    waves = torch.cos(torch.arange(len(FILTER))[:, None] * torch.pi * torch.arange(bands) / bands)
    gains = torch.randn(len(mels), len(FILTER), generator=generator) * torch.tensor(FILTER)
    gains[1::2] = 0.0
    return mels + (gains @ waves)[:, :, None]
