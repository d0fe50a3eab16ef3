"""Trains the speaker encoder to distinguish pseudo-speakers, so that new voices get a place."""

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from demo_voice import stages
from demo_voice.recipe import BaseRecipe
from demo_voice.stages import Workplace
from demo_voice.teachers.flite import TeacherSpeech
from demo_voice.teachers.people import PEOPLE
from xtts.audio import SPEAKER_RATE, speaker_mel
from xtts.model.vocoder import SpeakerEncoder

SECONDS = 1.6
# The factor from cosines to logits (AM-softmax, https://arxiv.org/abs/1801.05599).
SHARPNESS = 16.0


def new(recipe: BaseRecipe) -> SpeakerEncoder:
    """A speaker encoder with random weights."""
    shape: Any = SimpleNamespace(speaker_encoder=recipe.speaker_encoder)
    return SpeakerEncoder(shape)


def learn(at: Workplace, speech: TeacherSpeech) -> None:
    """Writes `listener.pt`."""
    torch.manual_seed(at.recipe.seed)
    stage = at.recipe.listener
    encoder = new(at.recipe).to(at.device)
    holder, optimizer = company(encoder, at.recipe)
    encoder.train()

    def losses(step: int) -> tuple[Tensor, Tensor]:
        waves, labels = _batch(speech, stage.batch, step)
        mel = speaker_mel(waves).to(at.device)
        with stages.low_precision(at.device):
            embedding = encoder.net(mel, l2_norm=True).float()
        logits = SHARPNESS * embedding @ F.normalize(holder[0], dim=1).T
        right = (logits.argmax(1).cpu() == labels).float().mean()
        return F.cross_entropy(logits, labels.to(at.device)), right

    parts: dict[str, stages.Stateful] = {
        "encoder": encoder,
        "speakers": holder,
        "optimizer": optimizer,
    }
    path = at.folder / "listener.pt"
    stages.learn(path, stage, parts, losses, lambda means: f"{means[0]:.1%} right")


def company(
    encoder: SpeakerEncoder, recipe: BaseRecipe
) -> tuple[nn.ParameterList, torch.optim.Optimizer]:
    """What only the training needs: a direction for every speaker, and the optimizer."""
    first = next(encoder.parameters())
    width = recipe.speaker_encoder.embedding_width
    holder = nn.ParameterList([nn.Parameter(torch.randn(len(PEOPLE), width))]).to(first.device)
    weights = [*encoder.parameters(), *holder.parameters()]
    rate = recipe.listener.learning_rate
    return holder, torch.optim.AdamW(weights, lr=rate, weight_decay=1e-4)


def _batch(speech: TeacherSpeech, count: int, step: int) -> tuple[Tensor, Tensor]:
    """(waves [count, samples] at 16 kHz, manners [count]), with all pseudo-speakers equally
    often."""
    draw = random.Random(f"listener/{step}")
    clips = [speech.by_manner.get(name, []) for name in PEOPLE]
    labels = draw.choices([number for number, own in enumerate(clips) if own], k=count)
    length = int(SECONDS * SPEAKER_RATE)
    waves = []
    for label in labels:
        wave = speech.samples(draw.choice(clips[label]))
        start = draw.randint(0, max(0, len(wave) - length))
        part = wave[start : start + length]
        # Random loudness and a little noise, which do not depend on the speaker.
        loud = 10 ** draw.uniform(-0.5, 0.2)
        noise = torch.randn(length) * 10 ** draw.uniform(-5.0, -3.0)
        waves.append(F.pad(part, (0, length - len(part))) * loud + noise)
    return torch.stack(waves), torch.tensor(labels)


def load(folder: Path, recipe: BaseRecipe) -> SpeakerEncoder:
    """The learned speaker encoder."""
    encoder = new(recipe)
    content = torch.load(folder / "listener.pt", map_location="cpu", weights_only=True)
    encoder.load_state_dict(content["encoder"])
    return encoder.eval().requires_grad_(False)
