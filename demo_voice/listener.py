"""Trains the speaker encoder to distinguish persons, also those outside its training set.

It learns from a larger encoder, GE2E, which has heard thousands of people and chooses in the
product (`xtts.evaluation.speaker_judge`), and to distinguish the teachers' persons. Because the
vocoder has to imitate them, the embedding also says the mean spectrum and the pitch.
"""

from collections.abc import Sequence
from pathlib import Path
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
from machine.errors import SotaqueError
from xtts.audio import SPEAKER_RATE, speaker_mel
from xtts.evaluation import speaker_judge
from xtts.model.vocoder import SpeakerEncoder

# Seconds of an excerpt, and of the part of a clip that the larger encoder hears.
SECONDS, HEARD_SECONDS = 1.6, 5.0
# The factor from cosines to logits, and the margin of the correct person (AM-softmax,
# https://arxiv.org/abs/1801.05599).
SHARPNESS, MARGIN = 20.0, 0.1
PERSON_WEIGHT, TEACHER_WEIGHT, SPECTRUM_WEIGHT, PITCH_WEIGHT = 0.3, 10.0, 1.0, 3.0
BANDS = 64
# log2 of 160 Hz.
MIDDLE_PITCH = 7.32
# The most clips of a person.
CLIPS_PER_PERSON = 12


def new(recipe: BaseRecipe) -> SpeakerEncoder:
    """A speaker encoder with random weights."""
    shape: Any = SimpleNamespace(speaker_encoder=recipe.speaker_encoder)
    return SpeakerEncoder(shape)


class Heads(nn.Module):
    """Reads from an embedding what the vocoder needs; dropped after training."""

    def __init__(self, width: int, persons: int) -> None:
        super().__init__()
        self.persons = nn.Parameter(torch.randn(persons, width))
        self.teacher = nn.Linear(width, speaker_judge.WIDTH)
        self.spectrum = nn.Linear(width, BANDS)
        # The mean pitch in octaves from 160 Hz, and its standard deviation.
        self.pitch = nn.Linear(width, 2)


def learn(at: Workplace, speech: Speech) -> None:
    """Writes `listener.pt`."""
    torch.manual_seed(at.recipe.seed)
    path, encoder = at.folder / "listener.pt", new(at.recipe).to(at.device).train()
    stage, width = at.recipe.listener, at.recipe.speaker_encoder.embedding_width
    heads = Heads(width, len(speech.names)).to(at.device)
    clips = some_clips(speech)
    targets = teacher_embeddings(at.folder / "ge2e.pt", speech, clips).to(at.device)
    pitches = clip_pitches(speech)[clips]
    weights = [*encoder.parameters(), *heads.parameters()]
    optimizer = torch.optim.AdamW(weights, lr=stage.learning_rate, weight_decay=1e-3)
    resample = resampler(SPEAKER_RATE).to(at.device)
    real = torch.tensor(["hibari" not in name and "deep" not in name for name in speech.names])
    chances = torch.where(real[speech.persons[clips].cpu()], 2.0, 1.0)

    def step_of(step: int) -> list[Tensor]:
        generator = torch.Generator().manual_seed(step)
        rows = torch.multinomial(chances, stage.batch, generator=generator).to(at.device)
        waves, spectra = _batch(speech, clips[rows], generator, resample)
        with stages.low_precision(at.device):
            embedding = encoder.net(waves, l2_norm=True).float()
        labels = speech.persons[clips[rows]]
        cosines = embedding @ F.normalize(heads.persons, dim=1).T
        right = (cosines.argmax(1) == labels).float().mean()
        margin = MARGIN * F.one_hot(labels, cosines.shape[1])
        person = F.cross_entropy(SHARPNESS * (cosines - margin), labels)
        taught = F.cosine_similarity(heads.teacher(embedding), targets[rows]).mean()
        away = F.l1_loss(heads.spectrum(embedding), spectra)
        height = pitches[rows]
        voiced = ~height.isnan()
        off = ((heads.pitch(embedding) - height.nan_to_num()).abs() * voiced).sum() / voiced.sum()
        loss = (
            PERSON_WEIGHT * person
            + TEACHER_WEIGHT * (1 - taught)
            + SPECTRUM_WEIGHT * away
            + PITCH_WEIGHT * off
        )
        stages.descend(loss, [optimizer], encoder)
        return [right, taught, away, off]

    def report(means: Sequence[float]) -> str:
        return (
            f"{means[0]:.1%} right, cosine to GE2E {means[1]:.3f}, spectrum {means[2]:.3f}, "
            f"pitch {means[3]:.3f} octaves"
        )

    parts: dict[str, stages.Stateful] = {"encoder": encoder, "heads": heads, "optimizer": optimizer}
    stages.learn(path, stage, stages.Clock(at.seconds), parts, step_of, report)


def some_clips(speech: Speech) -> Tensor:
    """The first `CLIPS_PER_PERSON` clips of each person."""
    return torch.cat([clips[:CLIPS_PER_PERSON] for clips in speech.of_person])


def teacher_embeddings(path: Path, speech: Speech, clips: Tensor) -> Tensor:
    """GE2E's embeddings `[clips, 256]`, kept in a file because they take minutes."""
    if path.is_file():
        cached = torch.load(path, weights_only=True)
        if torch.equal(cached["clips"], clips.cpu()):
            embeddings: Tensor = cached["embeddings"]
            return embeddings
    weights = speaker_judge.weights_file()
    if weights is None:
        raise SotaqueError(f"The speaker encoder lacks its teacher: {speaker_judge.missing()}")
    judge, resample = speaker_judge.SpeakerJudge(weights), resampler(SPEAKER_RATE)
    heard = []
    for clip in clips.cpu().tolist():
        start, length = int(speech.starts[clip]), int(speech.counts[clip])
        wave = speech.wave[start : start + min(length, int(HEARD_SECONDS * RATE))]
        heard.append(judge.embedding(resample(wave.cpu().float() / 32768)))
    embeddings = torch.stack(heard)
    torch.save({"clips": clips.cpu(), "embeddings": embeddings}, path)
    return embeddings


def clip_pitches(speech: Speech) -> Tensor:
    """The mean and standard deviation of each clip's pitch `[clips, 2]` in octaves, the mean from
    160 Hz; NaN if unknown."""
    pitch = speech.pitch.float()
    voiced = pitch > 0
    clips = torch.arange(len(speech), device=speech.device).repeat_interleave(speech.codes)
    zeros = torch.zeros(len(speech), device=speech.device)
    height = torch.where(voiced, pitch - MIDDLE_PITCH, 0.0)
    count = zeros.index_add(0, clips, voiced.sum(1).float())
    mean = zeros.index_add(0, clips, height.sum(1)) / count
    square = zeros.index_add(0, clips, height.square().sum(1)) / count
    return torch.stack((mean, (square - mean.square()).clamp(min=0).sqrt()), 1)


def _batch(
    speech: Speech, clips: Tensor, generator: torch.Generator, resample: nn.Module
) -> tuple[Tensor, Tensor]:
    """Excerpts of clips: mels for the encoder `[count, 64, frames]`, and their spectra without
    noise `[count, 64]`, relative to the mean level."""
    count, length = len(clips), int(SECONDS * RATE)
    room = (speech.counts[clips] - length).clamp(min=0) + 1
    start = (torch.rand(count, generator=generator).to(room.device) * room).long()
    waves = resample(speech.excerpts(clips, start, length))
    quiet = (speaker_mel(waves) + 1e-6).log()
    spectra = quiet.mean(2)
    spectra = (spectra - spectra.mean(1, keepdim=True)) / 4
    # Random loudness and a little noise, so that the embedding ignores both.
    loud = 10 ** (0.7 * torch.rand(count, 1, generator=generator) - 0.5)
    noisy = 10 ** (2.5 * torch.rand(count, 1, generator=generator) - 5.0)
    waves = waves * loud.to(waves) + torch.randn_like(waves) * noisy.to(waves)
    return speaker_mel(waves), spectra


def load(at: Workplace) -> SpeakerEncoder:
    """The learned speaker encoder, on the CPU."""
    encoder = new(at.recipe)
    stages.finished(at.folder / "listener.pt", {"encoder": encoder})
    return encoder.eval().requires_grad_(False)


@torch.inference_mode()
def embeddings(encoder: SpeakerEncoder, speech: Speech, every: int = 1, seconds: float = 4.0) -> Tensor:
    """An embedding `[clips, 512]` of the beginning of every n-th clip."""
    resample = resampler(SPEAKER_RATE).to(speech.device)
    net: Any = encoder.net
    chosen = torch.arange(0, len(speech), every, device=speech.device)
    vectors = torch.zeros(len(chosen), net.proj_dim, device=speech.device)
    # Clips of similar length, so that none ends in padding.
    for rows in speech.counts[chosen].argsort().split(64):
        clips = chosen[rows]
        length = min(int(speech.counts[clips].min()), int(seconds * RATE))
        waves = speech.excerpts(clips, torch.zeros_like(clips), length)
        vectors[rows] = net(speaker_mel(resample(waves)), l2_norm=True).float()
    return vectors
