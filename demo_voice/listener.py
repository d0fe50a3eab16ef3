"""Trains the speaker encoder to distinguish persons, also those outside its training set.

It learns to distinguish the teachers' persons, and from a larger encoder, GE2E, which has heard
thousands of people and chooses in the product (`xtts.evaluation.speaker_judge`). The embedding also
has the mean spectrum and the pitch, because the vocoder imitates them.
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
from demo_voice.speech import Speech, new_resampler
from demo_voice.stages import StageContext
from demo_voice.teachers.hibari import RATE
from machine.errors import SotaqueError
from xtts.audio import SPEAKER_RATE, speaker_mel
from xtts.evaluation import speaker_judge
from xtts.model.vocoder import SpeakerEncoder

EXCERPT_SECONDS = 1.6
# The larger encoder hears so much of a clip.
MAX_TEACHER_SECONDS = 5.0
# The factor from cosines to logits, and the margin of the correct person (AM-softmax,
# https://arxiv.org/abs/1801.05599).
LOGITS_PER_COSINE, MARGIN = 20.0, 0.1
PERSON_WEIGHT, TEACHER_WEIGHT, SPECTRUM_WEIGHT, PITCH_WEIGHT = 0.3, 10.0, 1.0, 3.0
BANDS = 64
# log2 of 160 Hz.
MIDDLE_PITCH = 7.32
MAX_CLIPS_PER_PERSON = 12


def new_encoder(recipe: BaseRecipe) -> SpeakerEncoder:
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


def learn(context: StageContext, speech: Speech) -> None:
    """Writes `listener.pt`."""
    torch.manual_seed(context.recipe.seed)
    path = context.folder / "listener.pt"
    encoder = new_encoder(context.recipe).to(context.device).train()
    stage, width = context.recipe.listener, context.recipe.speaker_encoder.embedding_width
    heads = Heads(width, len(speech.names)).to(context.device)
    clips = first_clips(speech)
    targets = teacher_embeddings(context.folder / "ge2e.pt", speech, clips).to(context.device)
    pitches = clip_pitches(speech)[clips]
    weights = [*encoder.parameters(), *heads.parameters()]
    optimizer = torch.optim.AdamW(weights, lr=stage.learning_rate, weight_decay=1e-3)
    resample = new_resampler(SPEAKER_RATE).to(context.device)
    is_derived = torch.tensor(["hibari" in name or "deep" in name for name in speech.names])
    chances = torch.where(is_derived[speech.persons[clips].cpu()], 1.0, 2.0)

    def take_step(step: int) -> list[Tensor]:
        generator = torch.Generator().manual_seed(step)
        rows = torch.multinomial(chances, stage.batch, generator=generator).to(context.device)
        mels, spectra = _draw_batch(speech, clips[rows], generator, resample)
        with stages.low_precision(context.device):
            embedding = encoder.net(mels, l2_norm=True).float()
        labels = speech.persons[clips[rows]]
        cosines = embedding @ F.normalize(heads.persons, dim=1).T
        accuracy = (cosines.argmax(1) == labels).float().mean()
        margin = MARGIN * F.one_hot(labels, cosines.shape[1])
        person_loss = F.cross_entropy(LOGITS_PER_COSINE * (cosines - margin), labels)
        teacher_cosine = F.cosine_similarity(heads.teacher(embedding), targets[rows]).mean()
        spectrum_error = F.l1_loss(heads.spectrum(embedding), spectra)
        target_pitches = pitches[rows]
        is_known = ~target_pitches.isnan()
        errors = (heads.pitch(embedding) - target_pitches.nan_to_num()).abs()
        pitch_error = (errors * is_known).sum() / is_known.sum()
        loss = (
            PERSON_WEIGHT * person_loss
            + TEACHER_WEIGHT * (1 - teacher_cosine)
            + SPECTRUM_WEIGHT * spectrum_error
            + PITCH_WEIGHT * pitch_error
        )
        stages.descend(loss, [optimizer], encoder)
        return [accuracy, teacher_cosine, spectrum_error, pitch_error]

    def report(means: Sequence[float]) -> str:
        return (
            f"{means[0]:.1%} right, cosine to GE2E {means[1]:.3f}, spectrum {means[2]:.3f}, "
            f"pitch {means[3]:.3f} octaves"
        )

    parts: dict[str, stages.Stateful] = {"encoder": encoder, "heads": heads, "optimizer": optimizer}
    stages.learn(path, stage, stages.Clock(context.seconds), parts, take_step, report)


def first_clips(speech: Speech) -> Tensor:
    """The first `MAX_CLIPS_PER_PERSON` clips of each person."""
    return torch.cat([clips[:MAX_CLIPS_PER_PERSON] for clips in speech.clips_of_person])


def teacher_embeddings(path: Path, speech: Speech, clips: Tensor) -> Tensor:
    """GE2E's embeddings `[clips, 256]`, cached in a file because they take minutes."""
    if path.is_file():
        cached = torch.load(path, weights_only=True)
        if torch.equal(cached["clips"], clips.cpu()):
            embeddings: Tensor = cached["embeddings"]
            return embeddings
    weights = speaker_judge.weights_file()
    if weights is None:
        raise SotaqueError(f"The speaker encoder lacks its teacher: {speaker_judge.missing_reason()}")
    judge, resample = speaker_judge.SpeakerJudge(weights), new_resampler(SPEAKER_RATE)
    vectors = []
    for clip in clips.cpu().tolist():
        start, length = int(speech.starts[clip]), int(speech.num_samples[clip])
        wave = speech.wave[start : start + min(length, int(MAX_TEACHER_SECONDS * RATE))]
        vectors.append(judge.embedding(resample(wave.cpu().float() / 32768)))
    embeddings = torch.stack(vectors)
    torch.save({"clips": clips.cpu(), "embeddings": embeddings}, path)
    return embeddings


def clip_pitches(speech: Speech) -> Tensor:
    """The mean and standard deviation of each clip's pitch `[clips, 2]` in octaves, the mean relative
    to 160 Hz; NaN if unknown."""
    pitch = speech.pitch.float()
    is_voiced = pitch > 0
    clips = torch.arange(len(speech), device=speech.device).repeat_interleave(speech.num_codes)
    zeros = torch.zeros(len(speech), device=speech.device)
    octaves = torch.where(is_voiced, pitch - MIDDLE_PITCH, 0.0)
    count = zeros.index_add(0, clips, is_voiced.sum(1).float())
    mean = zeros.index_add(0, clips, octaves.sum(1)) / count
    mean_square = zeros.index_add(0, clips, octaves.square().sum(1)) / count
    return torch.stack((mean, (mean_square - mean.square()).clamp(min=0).sqrt()), 1)


def _draw_batch(
    speech: Speech, clips: Tensor, generator: torch.Generator, resample: nn.Module
) -> tuple[Tensor, Tensor]:
    """Random excerpts of clips: mels `[count, 64, frames]` for the encoder, with noise, and spectra
    `[count, 64]` without it, relative to their mean level."""
    count, length = len(clips), int(EXCERPT_SECONDS * RATE)
    room = (speech.num_samples[clips] - length).clamp(min=0) + 1
    start = (torch.rand(count, generator=generator).to(room.device) * room).long()
    waves = resample(speech.excerpts(clips, start, length))
    spectra = (speaker_mel(waves) + 1e-6).log().mean(2)
    spectra = (spectra - spectra.mean(1, keepdim=True)) / 4
    # Random loudness and a little noise, so that the embedding ignores both.
    gain = 10 ** (0.7 * torch.rand(count, 1, generator=generator) - 0.5)
    noise_level = 10 ** (2.5 * torch.rand(count, 1, generator=generator) - 5.0)
    waves = waves * gain.to(waves) + torch.randn_like(waves) * noise_level.to(waves)
    return speaker_mel(waves), spectra


def load(context: StageContext) -> SpeakerEncoder:
    """The learned speaker encoder, on the CPU."""
    encoder = new_encoder(context.recipe)
    stages.load_finished(context.folder / "listener.pt", {"encoder": encoder})
    return encoder.eval().requires_grad_(False)


@torch.inference_mode()
def embed_clips(encoder: SpeakerEncoder, speech: Speech, every: int = 1, max_seconds: float = 4.0) -> Tensor:
    """The embeddings `[clips, 512]` of the beginnings of every n-th clip."""
    resample = new_resampler(SPEAKER_RATE).to(speech.device)
    net: Any = encoder.net
    all_clips = torch.arange(0, len(speech), every, device=speech.device)
    vectors = torch.zeros(len(all_clips), net.proj_dim, device=speech.device)
    # Clips of similar length, so that none ends in padding.
    for rows in speech.num_samples[all_clips].argsort().split(64):
        clips = all_clips[rows]
        length = min(int(speech.num_samples[clips].min()), int(max_seconds * RATE))
        waves = speech.excerpts(clips, torch.zeros_like(clips), length)
        vectors[rows] = net(speaker_mel(resample(waves)), l2_norm=True).float()
    return vectors
