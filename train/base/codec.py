"""The DVAE: 80 mel bands in, one of 1,024 codes for every 46 ms out.

An autoencoder first, then a codebook from k-means in its space, then vector quantisation in which
dead codes are revived: a random codebook collapses. Called by `train.base.__main__`.
"""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from train.base import pace
from train.base.recipe import BaseRecipe
from train.base.teacher import Speech
from xtts.audio import CODE_RATE, MEL_BANDS, dvae_mel
from xtts.vocoder import new_dvae

FRAMES = 128
COMMITMENT = 0.25
STEPS_BETWEEN_REVIVALS = 50
# A code that fewer than this share of an even use would come to is dead.
DEAD_SHARE = 0.05
# Bands are moved by at most this share of their number.
STRETCH = 0.08
# In standard deviations of the bands: the loudness first, then slower and faster ripples.
FILTER = (0.25, 0.3, 0.25, 0.2, 0.15, 0.15, 0.1, 0.1)
# A band hardly used would be blown up by a smaller divisor.
SMALLEST_SCALE = 1.0


def mel_of(speech: Speech, index: int, mel_stats: Tensor) -> Tensor:
    """The DVAE's mel [80, frames] of a clip."""
    return dvae_mel(speech.at(index, CODE_RATE)[None], mel_stats)[0]


def scales(mels: Sequence[Tensor]) -> Tensor:
    """`mel_stats` [80]: each band's standard deviation. Coqui's front-end divides and subtracts
    nothing; the mean is left to biases."""
    return torch.cat([mel.float() for mel in mels], dim=1).std(1).clamp(min=SMALLEST_SCALE)


def learn(recipe: BaseRecipe, speech: Speech, folder: Path, device: torch.device) -> None:
    """Writes `mel_stats.pt` and `codec.pt` (the DVAE with its decoder) into `folder`."""
    torch.manual_seed(recipe.seed)
    # The first are as good as any: later clips may still be spoken.
    chosen = range(min(recipe.codec_clips, len(speech.clips)))
    raw = [mel_of(speech, index, torch.ones(MEL_BANDS)).half() for index in chosen]
    mel_stats = scales(raw)
    mels = [(mel.float() / mel_stats[:, None]).half() for mel in raw]
    torch.save(mel_stats, folder / "mel_stats.pt")
    dvae = new_dvae(recipe.dvae).to(device)
    with torch.no_grad():
        mean = torch.cat([mel.float().mean(1, keepdim=True) for mel in mels], dim=1).mean(1)
        dvae.decoder[-1].bias.copy_(mean)
    _autoencode(dvae, recipe, mels, folder, device)
    if not (folder / "codec.pt").is_file():
        _start_codebook(dvae, mels, recipe.codec.batch, device)
    _quantise(dvae, recipe, mels, folder, device)


def _segments(
    mels: Sequence[Tensor], step: int, count: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    """(heard, wanted), each [count, 80, FRAMES], from random places, the same for the same step."""
    draw = random.Random(f"segments/{step}")
    cut = []
    for mel in draw.choices(mels, k=count):
        if mel.shape[1] < FRAMES:
            # Repeats its last frame, which is silence.
            mel = F.pad(mel.float(), (0, FRAMES - mel.shape[1]), mode="replicate")
        start = draw.randint(0, mel.shape[1] - FRAMES)
        cut.append(mel[:, start : start + FRAMES].float())
    generator = torch.Generator().manual_seed(step + 1_000_000)
    wanted = _stretched(torch.stack(cut), generator)
    return _filtered(wanted, generator).to(device), wanted.to(device)


def _stretched(mels: Tensor, generator: torch.Generator) -> Tensor:
    """Half of [count, 80, frames] as if another throat had made them, pitch and all: the bands are
    stretched (https://arxiv.org/abs/1301.5143). A voice that no teacher has must find codes too."""
    half, bands, frames = len(mels) // 2, mels.shape[1], mels.shape[2]
    stretch = 1 + STRETCH * (2 * torch.rand(half, 1, generator=generator) - 1)
    source = ((torch.linspace(-1, 1, bands) + 1) * stretch - 1).clamp(max=1)
    across = torch.linspace(-1, 1, frames).expand(half, bands, frames)
    grid = torch.stack((across, source[:, :, None].expand_as(across)), dim=-1)
    moved = F.grid_sample(mels[:half, None], grid, padding_mode="border", align_corners=True)
    return torch.cat((moved[:, 0], mels[half:]))


def _filtered(mels: Tensor, generator: torch.Generator) -> Tensor:
    """Every second of [count, 80, frames] as another microphone would have heard it. The codes are
    to say what it would be without: who speaks is left to the vocoder, and the timbre of a voice
    that no teacher has (awb's bands lie up to 1.3 deviations off slt's) takes no codes of its own.
    """
    bands = mels.shape[1]
    waves = torch.cos(torch.arange(len(FILTER))[:, None] * torch.pi * torch.arange(bands) / bands)
    gains = torch.randn(len(mels), len(FILTER), generator=generator) * torch.tensor(FILTER)
    gains[1::2] = 0.0
    return mels + (gains @ waves)[:, :, None]


def _decoded(dvae: Any, latents: Tensor) -> Tensor:
    found: Tensor = dvae.decoder(latents)
    return found.float()


def _autoencode(
    dvae: Any, recipe: BaseRecipe, mels: Sequence[Tensor], folder: Path, device: torch.device
) -> None:
    stage = recipe.autoencoder
    optimizer = torch.optim.AdamW(dvae.parameters(), lr=stage.learning_rate, weight_decay=1e-4)
    parts: dict[str, pace.Stateful] = {"dvae": dvae, "optimizer": optimizer}
    losses: list[float] = []
    counter = pace.steps(
        folder / "autoencoder.pt", stage, parts, [optimizer], lambda _: _told(losses)
    )
    for step in counter:
        heard, wanted = _segments(mels, step, stage.batch, device)
        with pace.low_precision(device):
            latents = dvae.encoder(heard)
            loss = (
                F.l1_loss(_decoded(dvae, latents), wanted) + 1e-3 * latents.float().square().mean()
            )
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))


def _told(losses: list[float]) -> str:
    recent = losses[-50:]
    return f"L1 {sum(recent) / max(1, len(recent)):.4f}"


@torch.no_grad()
def _start_codebook(dvae: Any, mels: Sequence[Tensor], batch: int, device: torch.device) -> None:
    """k-means (Lloyd's, 15 rounds) on the autoencoder's latents."""
    width = dvae.codebook.dim
    batches = [_segments(mels, -1 - index, batch, device)[1] for index in range(32)]
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
    dvae: Any, recipe: BaseRecipe, mels: Sequence[Tensor], folder: Path, device: torch.device
) -> None:
    stage = recipe.codec
    optimizer = torch.optim.AdamW(dvae.parameters(), lr=stage.learning_rate, weight_decay=1e-4)
    parts: dict[str, pace.Stateful] = {"dvae": dvae, "optimizer": optimizer}
    losses: list[float] = []
    counter = pace.steps(
        folder / "codec.pt", stage, parts, [optimizer],
        lambda _: f"{_told(losses)}, {_in_use(dvae)} codes in use",
    )  # fmt: skip
    for step in counter:
        heard, wanted = _segments(mels, step, stage.batch, device)
        with pace.low_precision(device):
            latents = dvae.encoder(heard).transpose(1, 2).float()
        quantised, _, commitment = dvae.codebook(latents)
        with pace.low_precision(device):
            found = _decoded(dvae, quantised.transpose(1, 2))
        distance = F.l1_loss(found, wanted)
        optimizer.zero_grad(set_to_none=True)
        (distance + COMMITMENT * commitment).backward()
        optimizer.step()
        losses.append(float(distance.detach()))
        if step % STEPS_BETWEEN_REVIVALS == 0 and step < 0.8 * stage.steps:
            _revive(dvae.codebook, latents.detach().reshape(-1, dvae.codebook.dim), step)


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
