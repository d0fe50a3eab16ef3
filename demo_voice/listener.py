"""Trains the speaker encoder to distinguish persons, so that it can also embed new voices."""

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from demo_voice import stages
from demo_voice.recipe import BaseRecipe
from demo_voice.speech import Speech, resampler
from demo_voice.stages import Workplace
from demo_voice.teachers.hibari import RATE
from xtts.audio import SPEAKER_RATE, speaker_mel
from xtts.model.vocoder import SpeakerEncoder

SECONDS = 1.8
# The factor from cosines to logits, and the margin of the correct person (AM-softmax,
# https://arxiv.org/abs/1801.05599).
SHARPNESS, MARGIN = 20.0, 0.1


def new(recipe: BaseRecipe) -> SpeakerEncoder:
    """A speaker encoder with random weights."""
    shape: Any = SimpleNamespace(speaker_encoder=recipe.speaker_encoder)
    return SpeakerEncoder(shape)


def learn(at: Workplace, speech: Speech) -> None:
    """Writes `listener.pt`: the base's, if there is one."""
    torch.manual_seed(at.recipe.seed)
    path, encoder = at.folder / "listener.pt", new(at.recipe)
    if at.base:
        encoder.net.load_state_dict(at.base.speaker_encoder().net.state_dict())
        stages.save(path, {"encoder": encoder}, 0, 0.0)
        return
    encoder = encoder.to(at.device).train()
    stage, width = at.recipe.listener, at.recipe.speaker_encoder.embedding_width
    holder = nn.ParameterList([nn.Parameter(torch.randn(len(speech.names), width))]).to(at.device)
    weights = [*encoder.parameters(), *holder.parameters()]
    optimizer = torch.optim.AdamW(weights, lr=stage.learning_rate, weight_decay=1e-4)
    resample = resampler(SPEAKER_RATE).to(at.device)

    def step_of(step: int) -> list[Tensor]:
        waves, labels = _batch(speech, stage.batch, step)
        mel = speaker_mel(resample(waves))
        with stages.low_precision(at.device):
            embedding = encoder.net(mel, l2_norm=True).float()
        cosines = embedding @ F.normalize(holder[0], dim=1).T
        right = (cosines.argmax(1) == labels).float().mean()
        one = F.one_hot(labels, cosines.shape[1])
        loss = F.cross_entropy(SHARPNESS * (cosines - MARGIN * one), labels)
        stages.descend(loss, [optimizer], encoder)
        return [right]

    parts: dict[str, stages.Stateful] = {
        "encoder": encoder, "persons": holder, "optimizer": optimizer
    }  # fmt: skip
    clock = stages.Clock(at.seconds)
    stages.learn(path, stage, clock, parts, step_of, lambda means: f"{means[0]:.1%} right")


def _batch(speech: Speech, count: int, step: int) -> tuple[Tensor, Tensor]:
    """(waves `[count, samples]` at 24 kHz, persons `[count]`); all persons are equally likely."""
    generator = torch.Generator().manual_seed(step)
    labels = torch.randint(len(speech.names), (count,), generator=generator)
    firsts = torch.stack([speech.of_person[int(one)][0] for one in labels])
    clips = speech.others(firsts, generator)
    length = int(SECONDS * RATE)
    room = (speech.counts[clips] - length).clamp(min=0) + 1
    start = (torch.rand(count, generator=generator).to(room.device) * room).long()
    waves = speech.excerpts(clips, start, length)
    # Random loudness and a little noise, so that the embedding ignores both.
    loud = 10 ** (0.7 * torch.rand(count, 1, generator=generator) - 0.5)
    noisy = 10 ** (2.5 * torch.rand(count, 1, generator=generator) - 5.0)
    waves = waves * loud.to(waves) + torch.randn_like(waves) * noisy.to(waves)
    return waves, labels.to(waves.device)


def load(at: Workplace) -> SpeakerEncoder:
    """The learned speaker encoder, on the CPU."""
    encoder = new(at.recipe)
    stages.finished(at.folder / "listener.pt", {"encoder": encoder})
    return encoder.eval().requires_grad_(False)


@torch.inference_mode()
def embeddings(encoder: SpeakerEncoder, speech: Speech, seconds: float = 4.0) -> Tensor:
    """An embedding `[clips, 512]` of the beginning of every clip."""
    resample = resampler(SPEAKER_RATE).to(speech.device)
    net: Any = encoder.net
    found = torch.zeros(len(speech), net.proj_dim, device=speech.device)
    # Clips of similar length, so that none ends in padding.
    for clips in speech.counts.argsort().split(256):
        length = min(int(speech.counts[clips].min()), int(seconds * RATE))
        waves = speech.excerpts(clips, torch.zeros_like(clips), length)
        found[clips] = net(speaker_mel(resample(waves)), l2_norm=True).float()
    return found
