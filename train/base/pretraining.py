"""The GPT learns to speak: phones and a voice's latents in, the teacher's codes out.

A loop of its own beside `train.loop`, on the same model, rows and arithmetic, because it needs two
losses that a fine-tune has not: attention is guided to the diagonal while it is young, and a linear
head reads the mel out of the latents, so that the vocoder finds the spectrum there. Both are
dropped when the voice is packed. Called by `train.base.__main__`.
"""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from train.base import pace
from train.base.recipe import BaseRecipe
from train.base.targets import MEL_PER_CODE, Targets
from train.base.teacher import MANNERS, Speech
from xtts.audio import CODE_RATE, MEL_BANDS, conditioning_mel
from xtts.gpt import GPT, new_gpt
from xtts.rows import Rows, pack
from xtts.transformer import Attention, KeyValueCache

REFERENCES_PER_MANNER = 60
REFERENCE_FRAMES = (80, 160)
# Longer clips are left out: a step costs as much as its longest rows.
MOST_CODES = 70
# Batches are drawn from within a half of the pseudo-speakers, and sorted in such windows.
FAMILIES = 2
WINDOW_BATCHES = 24
GUIDED_LAYERS, GUIDED_HEADS = (1, 2), 2
# Width of the diagonal, as a share of the sentence.
DIAGONAL = 0.1
GUIDE_WEIGHT, MEL_WEIGHT, TEXT_WEIGHT = 0.3, 0.5, 0.02
VALIDATION_CLIPS = 96


@dataclass(frozen=True)
class Lesson:
    """A batch: rows, which clips, and which reference mel each row is conditioned on."""

    rows: Rows
    clips: tuple[int, ...]
    reference_of: Tensor
    mels: Tensor


class Lessons:
    """Batches of clips of like length. One reference of each pseudo-speaker serves all its rows of
    a batch: reading references would cost more than reading rows."""

    def __init__(
        self, targets: Targets, references: dict[str, list[Tensor]], recipe: BaseRecipe
    ) -> None:
        self.targets = targets
        self.references = references
        self.recipe = recipe
        self.heard = [
            index
            for index, clip in enumerate(targets.clips)
            if clip.manner in recipe.pretrained and targets.counts[index] <= MOST_CODES
        ]
        self.kept_back = tuple(self.heard[: min(VALIDATION_CLIPS, len(self.heard) // 8)])

    def batch(self, clips: Sequence[int], seed: str) -> Lesson:
        """The lesson of these clips."""
        draw = random.Random(seed)
        manners = sorted({self.targets.clips[clip].manner for clip in clips})
        heard = [self._reference(draw, manner) for manner in manners]
        rows = pack(
            [self.targets.tokens[clip] for clip in clips],
            [self.targets.codes(clip) for clip in clips],
            heard,
            self.recipe.gpt,
            stop_input=True,
        )
        mels = torch.cat([self.targets.mels(clip) for clip in clips])
        which = [manners.index(self.targets.clips[clip].manner) for clip in clips]
        return Lesson(rows, tuple(clips), torch.tensor(which), mels)

    def _reference(self, draw: random.Random, manner: str) -> Tensor:
        mel = draw.choice(self.references[manner])
        frames = min(mel.shape[1], draw.randint(*REFERENCE_FRAMES))
        start = draw.randint(0, mel.shape[1] - frames)
        return mel[:, start : start + frames].float()

    def training(self, first: int) -> Iterator[Lesson]:
        """The lessons from number `first` on, endless; the order depends on the seed alone."""
        number, epoch = 0, 0
        while True:
            for group in self._epoch(epoch):
                if number >= first:
                    yield self.batch(group, f"lesson/{self.recipe.seed}/{number}")
                number += 1
            epoch += 1

    def _epoch(self, epoch: int) -> list[list[int]]:
        """Clips of like length and of few pseudo-speakers together: fewer references to read."""
        draw = random.Random(f"epoch/{self.recipe.seed}/{epoch}")
        names = [manner.name for manner in MANNERS if manner.name in self.recipe.pretrained]
        order = self.heard[len(self.kept_back) :]
        draw.shuffle(order)
        groups = []
        for family in range(FAMILIES):
            part = [
                clip
                for clip in order
                if names.index(self.targets.clips[clip].manner) % FAMILIES == family
            ]
            groups += self._cut(part)
        draw.shuffle(groups)
        return groups

    def _cut(self, order: Sequence[int]) -> list[list[int]]:
        size = self.recipe.pretraining.batch
        length = self.targets.row_length
        groups = []
        for start in range(0, len(order), size * WINDOW_BATCHES):
            part = sorted(order[start : start + size * WINDOW_BATCHES], key=length)
            groups += [part[first : first + size] for first in range(0, len(part), size)]
        return [group for group in groups if len(group) == size or len(groups) == 1]


def references(speech: Speech, mel_stats: Tensor) -> dict[str, list[Tensor]]:
    """Conditioning mels [80, frames] of some clips of each pseudo-speaker."""
    found: dict[str, list[Tensor]] = {manner.name: [] for manner in MANNERS}
    for index, clip in enumerate(speech.clips):
        kept = found[clip.manner]
        if len(kept) < REFERENCES_PER_MANNER and clip.seconds > 1.5:
            mel = conditioning_mel(speech.at(index, CODE_RATE)[None], mel_stats)[0]
            kept.append(mel.half())
    return found


class Pupil(nn.Module):
    """The GPT with the mel head that only learning needs."""

    def __init__(self, gpt: GPT) -> None:
        super().__init__()
        self.gpt = gpt
        # A code's latent was made before the code was known; the next one has seen it.
        self.mel_head = nn.Linear(2 * gpt.shape.width, MEL_PER_CODE)

    def hidden(self, lesson: Lesson) -> Tensor:
        """As `GPT.hidden`, with each reference read once."""
        gpt, rows = self.gpt, lesson.rows
        latents = gpt.conditioning_latents(rows.conditioning, rows.conditioning_lengths)
        latents = latents[lesson.reference_of.to(latents.device)]
        text = gpt.text_embedding(rows.text) + gpt.text_pos_embedding(rows.text_positions)
        audio = gpt.mel_embedding(rows.audio) + gpt.mel_pos_embedding(rows.audio_positions)
        grid = text.new_zeros(rows.rows * rows.length, gpt.shape.width)
        grid = grid.index_copy(0, rows.conditioning_slots, latents.flatten(0, 1).to(grid.dtype))
        grid = grid.index_copy(0, rows.text_slots, text).index_copy(0, rows.audio_slots, audio)
        return gpt.final_norm(gpt.gpt(grid.view(rows.rows, rows.length, -1))).flatten(0, 1)

    def losses(self, lesson: Lesson) -> dict[str, Tensor]:
        """Cross-entropies of text and audio, L1 of the mel."""
        hidden, rows = self.hidden(lesson), lesson.rows
        audio = hidden.index_select(0, rows.audio_target_slots)
        said = self.gpt.mel_head(audio)
        real = rows.audio_targets != self.gpt.shape.audio_stop
        after = hidden.index_select(0, (rows.audio_target_slots + 1).clamp(max=len(hidden) - 1))
        mels = self.mel_head(torch.cat((audio, after), dim=1)[real])
        text = self.gpt.text_head(hidden.index_select(0, rows.text_target_slots))
        return {
            "text": F.cross_entropy(text.float(), rows.text_targets),
            "audio": F.cross_entropy(said.float(), rows.audio_targets),
            "mel": F.l1_loss(mels.float(), lesson.mels.to(mels.device)),
        }


class QuickAttention(Attention):
    """The same arithmetic by two matrix products: on a CPU, for rows as short as these, 3 times as
    fast as the flash kernel's backward in bfloat16. `shares` [rows, heads, length, length] stay
    for the guide when `watched`."""

    watched = False
    shares: Tensor

    def forward(self, x: Tensor, cache: KeyValueCache | None, layer: int) -> Tensor:
        if cache is not None:
            return super().forward(x, cache, layer)
        rows, length, width = x.shape
        parts = self.c_attn(x).view(rows, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        with torch.autocast(x.device.type, enabled=False):
            queries, keys, values = parts.flatten(1, 2)
            later = torch.full((length, length), -1e9, device=x.device).triu(1).to(queries.dtype)
            scores = torch.baddbmm(
                later.expand(len(queries), -1, -1), queries, keys.transpose(1, 2),
                alpha=(width // self.heads) ** -0.5,
            )  # fmt: skip
            shares = scores.softmax(-1)
            mixed = shares @ values
        if self.watched:
            self.shares = shares.unflatten(0, (rows, self.heads))[:, :GUIDED_HEADS]
        mixed = mixed.unflatten(0, (rows, self.heads)).transpose(1, 2).reshape(rows, length, width)
        return self.dropout(self.c_proj(mixed))


class Guide:
    """Pulls two heads of two early layers to the diagonal from audio to text."""

    def __init__(self, gpt: GPT) -> None:
        for block in gpt.gpt.h:
            block.attn.__class__ = QuickAttention
        layers = [layer for layer in GUIDED_LAYERS if layer < len(gpt.gpt.h)]
        self.watched = [gpt.gpt.h[layer].attn for layer in layers]

    def watch(self, wanted: bool) -> None:
        """Keeps attention in the next forward, or not: it takes time and memory."""
        for attention in self.watched:
            attention.watched = wanted

    def loss(self, rows: Rows) -> Tensor:
        """Minus the log of the attention that lies round the diagonal, mean over audio inputs."""
        ideal = diagonal(rows)
        real = ideal.sum(-1) > 0
        found = []
        for attention in self.watched:
            near = (attention.shares.float() * ideal[:, None]).sum(-1)
            found.append(-(near.transpose(1, 2)[real] + 1e-4).log().mean())
        return torch.stack(found).mean()


def diagonal(rows: Rows) -> Tensor:
    """[rows, length, length]: 1 where an audio input should look at the text, down to 0 off it."""
    size, length = rows.rows, rows.length
    place = torch.full((2, size * length), -1.0, device=rows.text.device)
    for part, (slots, positions) in enumerate(
        ((rows.text_slots, rows.text_positions), (rows.audio_slots, rows.audio_positions))
    ):
        row = slots // length
        longest = torch.zeros(size, device=slots.device)
        longest.scatter_reduce_(0, row, positions.float(), "amax")
        place[part, slots] = positions.float() / longest[row].clamp(min=1)
    text, audio = place.view(2, size, length)
    near = torch.exp(-((audio[:, :, None] - text[:, None, :]) ** 2) / (2 * DIAGONAL**2))
    return near * (audio >= 0)[:, :, None] * (text >= 0)[:, None, :]


def learn(
    recipe: BaseRecipe,
    speech: Speech,
    targets: Targets,
    mel_stats: Tensor,
    folder: Path,
    device: torch.device,
) -> None:
    """Writes `pretraining.pt` (the GPT and its mel head) into `folder`."""
    stage = recipe.pretraining
    gpt = new_gpt(recipe.gpt, recipe.seed)
    pupil = Pupil(gpt).to(device)
    guide = Guide(gpt)
    optimizer = torch.optim.AdamW(
        pupil.parameters(), lr=stage.learning_rate, betas=(0.9, 0.96), weight_decay=0.01,
        fused=True,
    )
    parts: dict[str, pace.Stateful] = {"pupil": pupil, "optimizer": optimizer}
    lessons = Lessons(targets, references(speech, mel_stats), recipe)
    told: list[tuple[float, ...]] = []
    path = folder / "pretraining.pt"
    counter = pace.steps(path, stage, parts, [optimizer], lambda _: _told(told, pupil, lessons))
    waiting: Iterator[Lesson] | None = None
    for step in counter:
        waiting = waiting or lessons.training(step)
        told.append(_step(pupil, guide, optimizer, next(waiting), step, recipe, device))


def _step(
    pupil: Pupil,
    guide: Guide,
    optimizer: torch.optim.Optimizer,
    lesson: Lesson,
    step: int,
    recipe: BaseRecipe,
    device: torch.device,
) -> tuple[float, ...]:
    torch.manual_seed(recipe.seed * 1_000_003 + step)
    pupil.train()
    lesson = replace(lesson, rows=lesson.rows.to(device))
    with pace.low_precision(device):
        guided = step < recipe.guided_steps
        guide.watch(guided)
        losses = pupil.losses(lesson)
        losses["guide"] = guide.loss(lesson.rows) if guided else torch.zeros(())
    fade = max(0.0, 1.0 - step / recipe.guided_steps)
    total = (
        losses["audio"]
        + TEXT_WEIGHT * losses["text"]
        + MEL_WEIGHT * losses["mel"]
        + GUIDE_WEIGHT * fade * losses["guide"]
    )
    optimizer.zero_grad(set_to_none=True)
    total.backward()  # type: ignore[no-untyped-call]
    nn.utils.clip_grad_norm_(pupil.parameters(), 1.0)
    optimizer.step()
    return tuple(float(losses[name].detach()) for name in ("audio", "text", "mel", "guide"))


def _told(told: list[tuple[float, ...]], pupil: Pupil, lessons: Lessons) -> str:
    recent = told[-50:]
    means = [sum(column) / len(recent) for column in zip(*recent, strict=True)]
    names = ("audio", "text", "mel", "guide")
    seen = ", ".join(f"{name} {mean:.3f}" for name, mean in zip(names, means, strict=True))
    return f"{seen}; validation {validate(pupil, lessons):.3f}"


@torch.no_grad()
def validate(pupil: Pupil, lessons: Lessons) -> float:
    """Nats a code on clips that were kept back."""
    pupil.eval()
    if not lessons.kept_back:
        return math.nan
    device = next(pupil.parameters()).device
    lesson = lessons.batch(lessons.kept_back, "validation")
    lesson = replace(lesson, rows=lesson.rows.to(device))
    with pace.low_precision(device):
        return float(pupil.losses(lesson)["audio"])


def load(folder: Path, recipe: BaseRecipe) -> Pupil:
    """The learned GPT with its mel head."""
    pupil = Pupil(new_gpt(recipe.gpt, recipe.seed))
    found = torch.load(folder / "pretraining.pt", map_location="cpu", weights_only=True)
    pupil.load_state_dict(found["pupil"])
    return pupil.eval().requires_grad_(False)
