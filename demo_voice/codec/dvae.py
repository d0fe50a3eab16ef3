"""Trains the DVAE: 80 mel bands in, one of 1,024 codes for every 46 ms out.

First as an autoencoder, then with a codebook initialized by k-means in its latent space, then with
vector quantization that revives dead codes: a random codebook collapses. Called by
`demo_voice.__main__`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from demo_voice import stages
from demo_voice.codec import excerpts
from demo_voice.recipe import BaseRecipe, StageSchedule
from demo_voice.teachers import phone_timing
from demo_voice.teachers.flite import TeacherSpeech
from demo_voice.teachers.people import GROUP_OF, GROUPS, PEOPLE
from demo_voice.teachers.phone_timing import Aligner
from xtts.audio import CODE_RATE, MEL_BANDS, dvae_mel
from xtts.model.vocoder import new_dvae

COMMITMENT = 0.25
PHONE_WEIGHT = 0.5
STEPS_BETWEEN_REVIVALS = 50
# A code that fewer than this share of an even use would come to is dead.
DEAD_SHARE = 0.05
# A band hardly used would be blown up by a smaller divisor.
SMALLEST_SCALE = 1.0


def mel_of(speech: TeacherSpeech, index: int, mel_stats: Tensor) -> Tensor:
    """The DVAE's mel [80, frames] of a clip."""
    return dvae_mel(speech.at(index, CODE_RATE)[None], mel_stats)[0]


def scales(mels: Sequence[Tensor]) -> Tensor:
    """`mel_stats` [80]: each band's standard deviation. Coqui's front-end divides and subtracts
    nothing; the mean is left to biases."""
    return torch.cat([mel.float() for mel in mels], dim=1).std(1).clamp(min=SMALLEST_SCALE)


def learn(
    recipe: BaseRecipe, speech: TeacherSpeech, folder: Path, device: torch.device, aligner: Aligner
) -> None:
    """Writes `mel_stats.pt` and `codec.pt` (the DVAE with its decoder) into `folder`; goes on with
    those that are there."""
    torch.manual_seed(recipe.seed)
    chosen = _chosen(recipe, [clip.manner for clip in speech.clips])
    raw = [mel_of(speech, index, torch.ones(MEL_BANDS)).half() for index in chosen]
    begun = (folder / "codec.pt").is_file()
    stats = folder / "mel_stats.pt"
    mel_stats = torch.load(stats, weights_only=True) if begun else scales(raw)
    mels = [(mel.float() / mel_stats[:, None]).half() for mel in raw]
    said = phone_timing.of_clips(speech, chosen, folder / "phones.npz", aligner, PEOPLE)
    nothing = torch.tensor([phone_timing.UNKNOWN])
    phones = [said.get(index, nothing) for index in chosen]
    torch.save(mel_stats, stats)
    dvae = new_dvae(recipe.dvae).to(device)
    people = excerpts.mean_spectra(mels, [speech.clips[index].manner for index in chosen])
    if not begun:
        _autoencode(dvae, recipe, mels, people, folder, device)
        _start_codebook(dvae, mels, people, recipe.codec.batch, device)
    _quantise(dvae, recipe, mels, people, phones, folder, device)


def _chosen(recipe: BaseRecipe, manners: Sequence[str]) -> list[int]:
    """The first clips of each group of people that is there, of each as many, given the manner of
    every clip."""
    most = recipe.codec_clips // len({GROUP_OF[manner] for manner in manners})
    found: list[list[int]] = [[] for _ in GROUPS]
    for index, manner in enumerate(manners):
        group = found[GROUP_OF[manner]]
        if len(group) < most:
            group.append(index)
    return [index for group in found for index in group]


def _decoded(dvae: Any, latents: Tensor) -> Tensor:
    found: Tensor = dvae.decoder(latents)
    return found.float()


def _autoencode(
    dvae: Any,
    recipe: BaseRecipe,
    mels: Sequence[Tensor],
    people: Sequence[Tensor],
    folder: Path,
    device: torch.device,
) -> None:
    stage = recipe.autoencoder
    optimizer = new_optimizer(dvae, stage)
    parts: dict[str, stages.Stateful] = {"dvae": dvae, "optimizer": optimizer}
    losses: list[float] = []
    counter = stages.steps(
        folder / "autoencoder.pt", stage, parts, [optimizer],
        lambda _: f"L1 {stages.recent_mean(losses):.4f}",
    )  # fmt: skip
    for step in counter:
        heard, wanted = excerpts.segments(mels, people, step, stage.batch, device)
        with stages.low_precision(device):
            latents = dvae.encoder(heard)
            loss = (
                F.l1_loss(_decoded(dvae, latents), wanted) + 1e-3 * latents.float().square().mean()
            )
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))


@torch.no_grad()
def _start_codebook(
    dvae: Any, mels: Sequence[Tensor], people: Sequence[Tensor], batch: int, device: torch.device
) -> None:
    """k-means (Lloyd's, 15 rounds) on the autoencoder's latents."""
    width = dvae.codebook.dim
    batches = [excerpts.segments(mels, people, -1 - index, batch, device)[0] for index in range(32)]
    points = torch.cat(
        [dvae.encoder(batch).transpose(1, 2).reshape(-1, width) for batch in batches]
    )
    generator = torch.Generator().manual_seed(1)
    count = dvae.codebook.n_embed
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
    """Puts codes in new places, with the running sums that Coqui's `Quantize` keeps of them."""
    start = 1.0
    codebook.embed[:, which] = centres.T
    codebook.embed_avg[:, which] = centres.T * start
    codebook.cluster_size[which] = start


def _quantise(
    dvae: Any,
    recipe: BaseRecipe,
    mels: Sequence[Tensor],
    people: Sequence[Tensor],
    phones: Sequence[Tensor],
    folder: Path,
    device: torch.device,
) -> None:
    stage = recipe.codec
    reader = PhoneReader(dvae.codebook.dim).to(device)
    optimizer = new_optimizer(dvae, stage, reader)
    parts: dict[str, stages.Stateful] = {"dvae": dvae, "reader": reader, "optimizer": optimizer}
    losses: list[float] = []
    misread: list[float] = []
    counter = stages.steps(
        folder / "codec.pt", stage, parts, [optimizer],
        lambda _: f"L1 {stages.recent_mean(losses):.4f}, phones {stages.recent_mean(misread):.3f}, "
        f"{_in_use(dvae)} codes in use",
    )  # fmt: skip
    for step in counter:
        heard, wanted = excerpts.segments(mels, people, step, stage.batch, device)
        said = excerpts.labels(mels, phones, step, stage.batch).to(device)
        dvae.encoder.requires_grad_(step >= recipe.decoder_alone)
        with stages.low_precision(device):
            latents = dvae.encoder(heard).transpose(1, 2).float()
        quantised, _, commitment = dvae.codebook(latents)
        with stages.low_precision(device):
            found = _decoded(dvae, quantised.transpose(1, 2))
        distance, wrong = F.l1_loss(found, wanted), reader.loss(quantised, said)
        optimizer.zero_grad(set_to_none=True)
        (distance + COMMITMENT * commitment + PHONE_WEIGHT * wrong).backward()
        optimizer.step()
        losses.append(float(distance.detach()))
        misread.append(float(wrong.detach()))
        if step % STEPS_BETWEEN_REVIVALS == 0 and step < 0.8 * stage.steps:
            _revive(dvae.codebook, latents.detach().reshape(-1, dvae.codebook.dim), step)


class PhoneReader(nn.Module):
    """Reads two phones out of each code and its neighbours: what sounds in its halves."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.read = nn.Conv1d(width, excerpts.HALVES * len(phone_timing.NAMES), 3, padding=1)

    def loss(self, quantised: Tensor, said: Tensor) -> Tensor:
        """Cross-entropy of quantised [batch, codes, width] against [batch, codes, 2]."""
        found = self.read(quantised.transpose(1, 2)).transpose(1, 2).float()
        found = found.reshape(-1, len(phone_timing.NAMES))
        if bool((said < 0).all()):
            return found.sum() * 0.0
        return F.cross_entropy(found, said.flatten(), ignore_index=phone_timing.UNKNOWN)


def new_optimizer(dvae: Any, stage: StageSchedule, *others: nn.Module) -> torch.optim.Optimizer:
    """With which a codec learns."""
    weights = [weight for module in (dvae, *others) for weight in module.parameters()]
    return torch.optim.AdamW(weights, lr=stage.learning_rate, weight_decay=1e-4)


def keep_codebook(codebook: Any) -> None:
    """The running sums of a codebook that was packed without them."""
    _set_codebook(codebook, torch.arange(codebook.n_embed), codebook.embed.T.clone())


def _dead(codebook: Any) -> Tensor:
    even = codebook.cluster_size.sum() / codebook.n_embed
    return torch.nonzero(codebook.cluster_size < DEAD_SHARE * even).flatten()


def _in_use(dvae: Any) -> int:
    return int(dvae.codebook.n_embed - len(_dead(dvae.codebook)))


@torch.no_grad()
def _revive(codebook: Any, latents: Tensor, step: int) -> None:
    """Dead codes go where the present batch is worst served."""
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
