"""Pretrains the GPT: phones and voice latents to the teacher's codes.

It has a loop of its own, on the same model, rows and arithmetic as `train.trainer`, because it
needs two losses that a fine-tune does not have: guided attention in the first steps, and a linear
head that predicts the mel from the latents, so that the latents contain the spectrum for the
vocoder. Both are dropped when the voice is packaged. Guided attention
(https://arxiv.org/abs/1710.08969) pulls two heads in each of two early layers to the diagonal from
audio to text.
"""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from demo_voice import stages
from demo_voice.gpt.batches import Lesson, Lessons, references
from demo_voice.gpt.passages import alone
from demo_voice.gpt.targets import MEL_PER_CODE, Targets
from demo_voice.recipe import BaseRecipe
from demo_voice.stages import Workplace
from demo_voice.teachers.flite import TeacherSpeech
from xtts.audio import MEL_BANDS
from xtts.model.gpt import GPT, new_gpt
from xtts.model.kv_cache import Cache
from xtts.model.packed_batch import PackedBatch
from xtts.model.transformer import Attention

GUIDE_WEIGHT, MEL_WEIGHT, TEXT_WEIGHT, CALM_WEIGHT = 0.3, 0.5, 0.02, 0.05
VOICE_WEIGHT = 1.0

LOGGED = ("audio", "text", "mel", "guide", "calm", "voice")
GUIDED_LAYERS, GUIDED_HEADS = (1, 2), 2
# Width of the diagonal, as a share of the sentence.
DIAGONAL = 0.1


class Pupil(nn.Module):
    """The GPT with the mel head, which only the training needs."""

    def __init__(self, gpt: GPT) -> None:
        super().__init__()
        self.gpt = gpt
        # A code's latent is computed before the code is known; the next latent has seen the code.
        self.mel_head = nn.Linear(2 * gpt.shape.width, MEL_PER_CODE)
        # Predicts the mean spectrum of a reference from its latents. Without this loss the latents
        # of all recordings became equal: early in training a constant serves the GPT better than a
        # voice, and after that no gradient separates them again.
        self.voice_head = nn.Linear(gpt.shape.width, MEL_BANDS)
        blocks: list[Any] = list(gpt.conditioning_encoder.attn)
        for block in blocks:
            # As Coqui's `zero_module`: each block starts as the identity.
            nn.init.zeros_(block.proj_out.weight)
            nn.init.zeros_(block.proj_out.bias)

    def heard(self, lesson: Lesson) -> Tensor:
        """The latents of each reference, [references, 32, width], computed once for all its
        rows."""
        rows = lesson.rows
        return self.gpt.conditioning_latents(rows.conditioning, rows.conditioning_lengths)

    def hidden(self, lesson: Lesson, heard: Tensor | None = None) -> Tensor:
        """As `GPT.hidden`. heard: the references' latents, if they were computed already."""
        gpt, rows = self.gpt, lesson.rows
        heard = self.heard(lesson) if heard is None else heard
        latents = heard[lesson.reference_of.to(heard.device)]
        text = gpt.text_embedding(rows.text) + gpt.text_pos_embedding(rows.text_positions)
        audio = gpt.mel_embedding(rows.audio) + gpt.mel_pos_embedding(rows.audio_positions)
        grid = text.new_zeros(rows.rows * rows.length, gpt.shape.width)
        grid = grid.index_copy(0, rows.conditioning_slots, latents.flatten(0, 1).to(grid.dtype))
        grid = grid.index_copy(0, rows.text_slots, text).index_copy(0, rows.audio_slots, audio)
        return gpt.final_norm(gpt.gpt(grid.view(rows.rows, rows.length, -1))).flatten(0, 1)

    def latent_pairs(self, hidden: Tensor, lesson: Lesson) -> Tensor:
        """The inputs of the mel head: each code's latent and the next one's, [codes, 2 width]."""
        slots = lesson.rows.audio_target_slots
        real = lesson.rows.audio_targets != self.gpt.shape.audio_stop
        after = (slots + 1).clamp(max=len(hidden) - 1)
        return torch.cat((hidden[slots], hidden[after]), dim=1)[real]

    def losses(self, lesson: Lesson) -> dict[str, Tensor]:
        """Cross-entropies of text and audio, L1 of the mel and of the references' mean spectra."""
        heard, rows = self.heard(lesson), lesson.rows
        hidden = self.hidden(lesson, heard)
        audio = hidden.index_select(0, rows.audio_target_slots)
        logits = self.gpt.mel_head(audio)
        mels = self.mel_head(self.latent_pairs(hidden, lesson))
        text = self.gpt.text_head(hidden.index_select(0, rows.text_target_slots))
        return {
            "text": F.cross_entropy(text.float(), rows.text_targets),
            "audio": F.cross_entropy(logits.float(), rows.audio_targets),
            "mel": F.l1_loss(mels.float(), lesson.mels.to(mels.device)),
            "voice": F.l1_loss(self.voice_head(heard.mean(1)).float(), mean_spectra(rows)),
        }


def mean_spectra(rows: PackedBatch) -> Tensor:
    """The mean frame of each reference's mel, [references, 80]."""
    mels, lengths = rows.conditioning, rows.conditioning_lengths
    real = torch.arange(mels.shape[2], device=mels.device) < lengths[:, None]
    return (mels * real[:, None]).sum(2) / lengths[:, None]


def learn(at: Workplace, speech: TeacherSpeech, targets: Targets, mel_stats: Tensor) -> None:
    """Writes `pretraining.pt` (the GPT and its mel head)."""
    recipe, stage = at.recipe, at.recipe.pretraining
    gpt = new_gpt(recipe.gpt, recipe.seed)
    pupil = Pupil(gpt).to(at.device)
    guide, calm = Guide(gpt), Calm(gpt)
    lessons = Lessons(targets, references(speech, recipe.pretrained), mel_stats, recipe)

    def losses(step: int) -> list[Tensor]:
        lesson = lessons.at(step)
        torch.manual_seed(recipe.seed * 1_000_003 + step)
        pupil.train()
        lesson = lesson.to(at.device)
        with stages.low_precision(at.device):
            guided = step < recipe.guided_steps
            guide.watch(guided)
            losses_of_lesson = pupil.losses(lesson)
            losses_of_lesson["guide"] = guide.loss(lesson.rows) if guided else torch.zeros(())
            losses_of_lesson["calm"] = calm.loss()
        fade = max(0.0, 1.0 - step / recipe.guided_steps)
        total = (
            losses_of_lesson["audio"]
            + TEXT_WEIGHT * losses_of_lesson["text"]
            + MEL_WEIGHT * losses_of_lesson["mel"]
            + GUIDE_WEIGHT * fade * losses_of_lesson["guide"]
            + CALM_WEIGHT * losses_of_lesson["calm"]
            + VOICE_WEIGHT * losses_of_lesson["voice"]
        )
        return [total, *(losses_of_lesson[name] for name in LOGGED)]

    def report(means: Sequence[float]) -> str:
        seen = ", ".join(f"{name} {mean:.3f}" for name, mean in zip(LOGGED, means, strict=True))
        return f"{seen}; validation {validate(pupil, lessons):.3f}"

    parts: dict[str, stages.Stateful] = {"pupil": pupil, **optimizers(pupil, stage.learning_rate)}
    path = at.folder / "pretraining.pt"
    stages.learn(path, stage, parts, losses, report, clip=(pupil, 1.0))


def optimizers(pupil: Pupil, rate: float) -> dict[str, torch.optim.Optimizer]:
    """Muon (https://kellerjordan.github.io/posts/muon) for the transformer's matrices, which learn
    with it in fewer steps; AdamW for everything else. One learning rate fits both."""
    matrices = [weight for weight in pupil.gpt.gpt.parameters() if weight.ndim == 2]
    ours = {id(weight) for weight in matrices}
    others = [weight for weight in pupil.parameters() if id(weight) not in ours]
    device = next(pupil.parameters()).device
    muon = torch.optim.Muon if stages.quick_in_bf16(device) else Float32Muon
    return {
        "muon": muon(matrices, lr=rate, weight_decay=0.01, adjust_lr_fn="match_rms_adamw"),
        "optimizer": torch.optim.AdamW(
            others, lr=rate, betas=(0.9, 0.96), weight_decay=0.01, fused=True
        ),
    }


@torch.no_grad()
def validate(pupil: Pupil, lessons: Lessons) -> float:
    """The loss on the validation clips, in nats per code."""
    pupil.eval()
    if not lessons.kept_back:
        return math.nan
    device = next(pupil.parameters()).device
    lesson = lessons.batch(alone(lessons.kept_back), "validation").to(device)
    with stages.low_precision(device):
        return float(pupil.losses(lesson)["audio"])


def load(folder: Path, recipe: BaseRecipe) -> Pupil:
    """The learned GPT with its mel head."""
    pupil = Pupil(new_gpt(recipe.gpt, recipe.seed))
    content = torch.load(folder / "pretraining.pt", map_location="cpu", weights_only=True)
    pupil.load_state_dict(content["pupil"])
    return pupil.eval().requires_grad_(False)


class QuickAttention(Attention):
    """The same arithmetic as two matrix products. On a CPU and for rows as short as these, 3 times
    as fast as the flash kernel's backward in bfloat16. With `watched`, it keeps the attention as
    `shares` [rows, heads, length, length] for the guide."""

    watched = False
    shares: Tensor

    def forward(self, x: Tensor, cache: Cache | None, layer: int) -> Tensor:
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
        blocks: list[Any] = list(gpt.gpt.h)
        for block in blocks:
            block.attn.__class__ = QuickAttention
        layers = [layer for layer in GUIDED_LAYERS if layer < len(gpt.gpt.h)]
        self.watched: list[Any] = [gpt.gpt.h[layer].attn for layer in layers]

    def watch(self, wanted: bool) -> None:
        """Sets whether the next forward keeps the attention, which takes time and memory."""
        for attention in self.watched:
            attention.watched = wanted

    def loss(self, rows: PackedBatch) -> Tensor:
        """Minus the log of the attention near the diagonal, as the mean over audio inputs."""
        ideal = diagonal(rows)
        real = ideal.sum(-1) > 0
        losses = []
        for attention in self.watched:
            near = (attention.shares.float() * ideal[:, None]).sum(-1)
            losses.append(-(near.transpose(1, 2)[real] + 1e-4).log().mean())
        return torch.stack(losses).mean()


class Calm:
    """Keeps the perceiver's output, before its norm, at a mean square of at most 1.

    Nothing between its layers is normed, and its gates multiply. Without this loss the output grew
    within one training until its squares overflowed; the norm then divided by infinity, every
    recording became the same 32 zeros, and no gradient was left.
    """

    def __init__(self, gpt: GPT) -> None:
        gpt.conditioning_perceiver.norm.register_forward_pre_hook(self._see)
        self._square = torch.zeros(())

    def _see(self, norm: Any, inputs: tuple[Tensor]) -> None:
        self._square = inputs[0].float().square().mean()

    def loss(self) -> Tensor:
        """The log of the mean square where it is above 1, else 0."""
        return self._square.clamp(min=1.0).log()


def diagonal(rows: PackedBatch) -> Tensor:
    """[rows, length, length]: 1 where an audio input should attend to the text, falling to 0 around
    it."""
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


class Float32Muon(torch.optim.Muon):
    """`torch.optim.Muon` with "match_rms_adamw": the same state and, up to rounding, the same
    steps. torch's own orthogonalises in bf16, which takes 45 times as long on a processor without
    bf16 products."""

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """One step; `closure` is not called: the losses of this training need none."""
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._move(weight, weight.grad, group)

    def _move(self, weight: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        state, momentum = self.state[weight], group["momentum"]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(gradient)
        mean = state["momentum_buffer"].lerp_(gradient, 1 - momentum)
        ahead = gradient.lerp(mean, momentum)  # Nesterov's
        update = orthogonal(ahead, group["ns_coefficients"], group["ns_steps"], group["eps"])
        weight.mul_(1 - group["lr"] * group["weight_decay"])
        # Scales the step, whose singular values are near 1, to the usual size of AdamW's.
        weight.add_(update, alpha=-group["lr"] * 0.2 * max(weight.shape) ** 0.5)


def orthogonal(
    matrix: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float
) -> Tensor:
    """The matrix with all singular values near 1, by Newton and Schulz's iteration with a quintic
    (https://kellerjordan.github.io/posts/muon), in the matrix's own precision."""
    first, third, fifth = coefficients
    wide = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    wide = wide / wide.norm().clamp(min=eps)
    for _ in range(steps):
        gram = wide @ wide.T
        wide = torch.addmm(
            wide, torch.addmm(gram, gram, gram, beta=third, alpha=fifth), wide, beta=first
        )
    return wide if matrix.shape[0] <= matrix.shape[1] else wide.T
