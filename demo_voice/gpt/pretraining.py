"""Pretrains the GPT: phones and voice latents in, the teacher's codes out.

A loop of its own beside `train.trainer`, on the same model, rows and arithmetic, because it needs
two losses that a fine-tune does not have: guided attention in the first steps, and a linear head
that predicts the mel from the latents, so that the vocoder finds the spectrum in them. Both are
dropped when the voice is packaged.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from demo_voice import stages
from demo_voice.gpt.batches import Lesson, Lessons, references
from demo_voice.gpt.guidance import Calm, Guide
from demo_voice.gpt.muon import Float32Muon
from demo_voice.gpt.passages import alone
from demo_voice.gpt.targets import MEL_PER_CODE, Targets
from demo_voice.recipe import BaseRecipe
from demo_voice.stages import Workplace
from demo_voice.teachers.flite import TeacherSpeech
from xtts.audio import MEL_BANDS
from xtts.model.gpt import GPT, new_gpt
from xtts.model.packed_batch import PackedBatch

GUIDE_WEIGHT, MEL_WEIGHT, TEXT_WEIGHT, CALM_WEIGHT = 0.3, 0.5, 0.02, 0.05
VOICE_WEIGHT = 1.0

LOGGED = ("audio", "text", "mel", "guide", "calm", "voice")


class Pupil(nn.Module):
    """The GPT with the mel head that only learning needs."""

    def __init__(self, gpt: GPT) -> None:
        super().__init__()
        self.gpt = gpt
        # A code's latent was made before the code was known; the next one has seen it.
        self.mel_head = nn.Linear(2 * gpt.shape.width, MEL_PER_CODE)
        # Reads the mean spectrum of a reference out of its latents. Without it they became the same
        # for everybody: a constant serves a young GPT better than a voice, and attention over
        # attention makes one of every recording, with no gradient left to come back by.
        self.voice_head = nn.Linear(gpt.shape.width, MEL_BANDS)
        blocks: list[Any] = list(gpt.conditioning_encoder.attn)
        for block in blocks:
            # As Coqui's `zero_module`: each frame is itself until something is gained by mixing.
            nn.init.zeros_(block.proj_out.weight)
            nn.init.zeros_(block.proj_out.bias)

    def heard(self, lesson: Lesson) -> Tensor:
        """Each reference's latents [references, 32, width], read once for all its rows."""
        rows = lesson.rows
        return self.gpt.conditioning_latents(rows.conditioning, rows.conditioning_lengths)

    def hidden(self, lesson: Lesson, heard: Tensor | None = None) -> Tensor:
        """As `GPT.hidden`; `heard` where the references have been read."""
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
        """What the mel head reads of each code: its latent and the next one's [codes, 2 width]."""
        slots = lesson.rows.audio_target_slots
        real = lesson.rows.audio_targets != self.gpt.shape.audio_stop
        after = (slots + 1).clamp(max=len(hidden) - 1)
        return torch.cat((hidden[slots], hidden[after]), dim=1)[real]

    def losses(self, lesson: Lesson) -> dict[str, Tensor]:
        """Cross-entropies of text and audio, L1 of the mel and of the references' mean spectra."""
        heard, rows = self.heard(lesson), lesson.rows
        hidden = self.hidden(lesson, heard)
        audio = hidden.index_select(0, rows.audio_target_slots)
        said = self.gpt.mel_head(audio)
        mels = self.mel_head(self.latent_pairs(hidden, lesson))
        text = self.gpt.text_head(hidden.index_select(0, rows.text_target_slots))
        return {
            "text": F.cross_entropy(text.float(), rows.text_targets),
            "audio": F.cross_entropy(said.float(), rows.audio_targets),
            "mel": F.l1_loss(mels.float(), lesson.mels.to(mels.device)),
            "voice": F.l1_loss(self.voice_head(heard.mean(1)).float(), mean_spectra(rows)),
        }


def mean_spectra(rows: PackedBatch) -> Tensor:
    """[references, 80]: the mean frame of each reference's mel."""
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
            found = pupil.losses(lesson)
            found["guide"] = guide.loss(lesson.rows) if guided else torch.zeros(())
            found["calm"] = calm.loss()
        fade = max(0.0, 1.0 - step / recipe.guided_steps)
        total = (
            found["audio"]
            + TEXT_WEIGHT * found["text"]
            + MEL_WEIGHT * found["mel"]
            + GUIDE_WEIGHT * fade * found["guide"]
            + CALM_WEIGHT * found["calm"]
            + VOICE_WEIGHT * found["voice"]
        )
        return [total, *(found[name] for name in LOGGED)]

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
    """Nats a code on clips that were kept back."""
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
    found = torch.load(folder / "pretraining.pt", map_location="cpu", weights_only=True)
    pupil.load_state_dict(found["pupil"])
    return pupil.eval().requires_grad_(False)
