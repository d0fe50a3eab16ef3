"""Trains the vocoder on the GPT's latents: first by spectra alone, then against discriminators.

`xtts.model.discriminators` has the losses, which a person's vocoder is trained with, too.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from demo_voice import listener, pretraining, stages
from demo_voice.pretraining import Lessons, Pupil, lay_out
from demo_voice.recipe import BaseRecipe
from demo_voice.speech import Speech
from demo_voice.stages import StageContext
from demo_voice.teachers.hibari import RATE
from xtts.audio import CODE_RATE, SAMPLES_PER_CODE, VOCODER_RATE
from xtts.evaluation.spectral_distance import spectral_distance
from xtts.model.discriminators import Discriminators, discriminator_loss, generator_losses
from xtts.model.source_filter import SourceFilter, pitch_at_steps
from xtts.model.vocoder import Vocoder

# Codes in a segment (1.2 s). The loss ignores some codes at each end, which lack context.
SEGMENT_CODES, MARGIN_CODES = 26, 3
MARGIN_SAMPLES = round(MARGIN_CODES * SAMPLES_PER_CODE * VOCODER_RATE / CODE_RATE)
SEGMENT_SAMPLES = round(SEGMENT_CODES * SAMPLES_PER_CODE * VOCODER_RATE / CODE_RATE)
MEL_WEIGHT, MATCHING_WEIGHT, PITCH_WEIGHT, VOICING_WEIGHT = 15.0, 2.0, 15.0, 3.0
SEGMENTS_PER_ROW = 2


class Segments(NamedTuple):
    """A batch of segments.

    Attributes:
        latents: The GPT's, `[count, SEGMENT_CODES, width]`.
        speakers: Embeddings of other clips of the same persons, `[count, 512, 1]`.
        pitches: `[count, 4 * SEGMENT_CODES]`.
        samples: `[count, SEGMENT_SAMPLES]`.
        max_hz: The highest frequencies of the recordings, `[count]`.
    """

    latents: Tensor
    speakers: Tensor
    pitches: Tensor
    samples: Tensor
    max_hz: Tensor


class SegmentSource:
    """Draws segments of clips, except those of clips without known pitches."""

    def __init__(self, context: StageContext, speech: Speech, lessons: Lessons) -> None:
        encoder = listener.load(context).to(context.device)
        self.context, self.speech, self.lessons = context, speech, lessons
        self.embeddings = listener.embed_clips(encoder, speech)
        self.pupil = pretraining.load(context).to(context.device)
        sizes = speech.persons.bincount(minlength=len(speech.names)).float()
        is_usable = (speech.num_codes > SEGMENT_CODES) & ~speech.pitch[speech.code_starts, 0].isnan()
        is_usable &= torch.tensor([bool(clip.text) for clip in speech.clips], device=speech.device)
        weights = torch.tensor([person_weight(name) for name in speech.names], device=speech.device)
        self._weights = (is_usable * weights[speech.persons] / sizes[speech.persons] ** 0.5).cpu()
        self._max_hz = torch.tensor([highest_hz(name) for name in speech.names])

    @torch.no_grad()
    def draw(self, step: int, count: int) -> Segments:
        """The segments of a step; a function of the step."""
        speech, device = self.speech, self.context.device
        generator = torch.Generator().manual_seed(step + 7_000_000)
        num_rows = max(1, count // SEGMENTS_PER_ROW)
        clips = torch.multinomial(self._weights, num_rows, True, generator=generator).to(device)
        latents = compute_latents(self.pupil, self.lessons, clips, generator, self.context)
        row = torch.arange(num_rows, device=device).repeat_interleave(SEGMENTS_PER_ROW)
        clips = clips[row]
        room = speech.num_codes[clips] - SEGMENT_CODES + 1
        first = (torch.rand(len(clips), generator=generator).to(device) * room).long()
        codes = first[:, None] + torch.arange(SEGMENT_CODES, device=device)
        start = (first * SAMPLES_PER_CODE * RATE / CODE_RATE).round().long()
        return Segments(
            latents[row[:, None], codes],
            self.embeddings[speech.draw_others(clips, generator)][..., None],
            speech.pitch[speech.code_starts[clips][:, None] + codes].float().flatten(1),
            speech.excerpts(clips, start, SEGMENT_SAMPLES),
            self._max_hz[speech.persons[clips].cpu()].to(device),
        )


def person_weight(person: str) -> float:
    """How often a person's clips are drawn. hibari's voice is one person in many variants, of which
    the deep ones sound processed."""
    if person.startswith("deep"):
        return 0.0
    if person.startswith("hibari"):
        return 0.5
    return 0.7 if person.startswith("libri") else 2.5


def highest_hz(person: str) -> float:
    """The highest frequency in a person's recordings: the real ones were made at 16 kHz, and some
    are played at another rate."""
    if person.startswith(("libri", "bdl")):
        return 7_600.0 * float(person.partition("@")[2] or 1)
    return RATE / 2


def low_pass(sound: Tensor, max_hz: Tensor) -> Tensor:
    """Removes what lies above a frequency `[batch]` from each sound of `[batch, samples]`."""
    if bool((max_hz >= RATE / 2).all()):
        return sound
    spectra = torch.fft.rfft(sound.float())
    hertz = torch.linspace(0, RATE / 2, spectra.shape[1], device=sound.device)
    return torch.fft.irfft(spectra * (hertz <= max_hz[:, None]), sound.shape[1])


def compute_latents(
    pupil: Pupil, lessons: Lessons, clips: Tensor, generator: torch.Generator, context: StageContext
) -> Tensor:
    """The latents `[clips, codes, width]` that the GPT computes from the true codes."""
    rows = lessons.rows_of(clips, generator)
    grid = lay_out(rows, context.recipe)
    with stages.low_precision(context.device):
        hidden, _ = pupil.hidden(rows, grid)
    return pupil.latents(hidden, grid, rows.codes.shape[1])[:, :-1].float()


def learn(context: StageContext, speech: Speech, lessons: Lessons) -> None:
    """Writes `vocoder.pt`: the vocoder for this GPT's latents, and its discriminators."""
    torch.manual_seed(context.recipe.seed)
    stage, source = context.recipe.vocoder, SegmentSource(context, speech, lessons)
    net = first_vocoder(context, source).to(context.device)
    discriminators = Discriminators(context.recipe.critics).to(context.device)
    # A continued vocoder speaks already, and learns only the new speakers.
    quiet_steps = context.recipe.quiet_steps // (4 if context.base else 1)
    decoder: Any = net.waveform_decoder
    new_optimizer = partial(torch.optim.AdamW, lr=stage.learning_rate, betas=(0.8, 0.99), fused=True)
    net_optimizer = new_optimizer(net.parameters())
    discriminator_optimizer = new_optimizer(discriminators.parameters())
    low_precision = partial(stages.low_precision, context.device)
    zero = torch.zeros((), device=context.device)

    def take_step(step: int) -> Sequence[Tensor]:
        segments = source.draw(step, stage.batch)
        with low_precision():
            spoken = _speak(net, decoder, segments)
        end = min(spoken.sound.shape[1], segments.samples.shape[1]) - MARGIN_SAMPLES
        sound, target = (
            low_pass(wave[:, :end], segments.max_hz)[:, MARGIN_SAMPLES:]
            for wave in (spoken.sound, segments.samples)
        )
        distance = spectral_distance(sound, target)
        pitch_loss = PITCH_WEIGHT * spoken.pitch_error
        loss = MEL_WEIGHT * distance + pitch_loss + VOICING_WEIGHT * spoken.voicing_loss
        real_or_spoken = matching = zero
        if step >= quiet_steps:
            with low_precision():
                real_or_spoken = discriminator_loss(discriminators, target, sound.detach())
            stages.descend(real_or_spoken, [discriminator_optimizer], discriminators)
            with low_precision():
                adversarial, matching = generator_losses(discriminators, target, sound)
            loss = loss + adversarial + MATCHING_WEIGHT * matching
        stages.descend(loss, [net_optimizer], net)
        return distance, real_or_spoken, matching, spoken.pitch_error

    def report(means: Sequence[float]) -> str:
        names = ("mel", "critics", "features", "pitch")
        return ", ".join(f"{name} {mean:.4f}" for name, mean in zip(names, means, strict=True))

    parts: dict[str, stages.Stateful] = {
        "net": net,
        "critics": discriminators,
        "own": net_optimizer,
        "theirs": discriminator_optimizer,
    }
    clock = stages.Clock(context.seconds)
    stages.learn(context.folder / "vocoder.pt", stage, clock, parts, take_step, report)


class Spoken(NamedTuple):
    """The sound with the teacher's pitches, so that its spectra can be compared; and the losses of the
    predicted pitches: L1 in octaves, and the cross-entropy of voicing."""

    sound: Tensor
    pitch_error: Tensor
    voicing_loss: Tensor


def _speak(net: Vocoder, decoder: SourceFilter, segments: Segments) -> Spoken:
    steps = net.latent_steps(segments.latents)
    predicted, voicing = decoder.predicted_pitch(steps, segments.speakers)
    target, voiced = pitch_at_steps(segments.pitches, steps.shape[2])
    pitch_error = ((predicted.float() - target).abs() * voiced).sum() / voiced.sum().clamp(min=1)
    voicing_loss = F.binary_cross_entropy_with_logits(voicing.float(), voiced)
    # The phase at a segment's start is arbitrary.
    sound = net.compute(decoder.excite_at(steps, (target, voiced)), segments.speakers)
    return Spoken(sound, pitch_error, voicing_loss)


def first_vocoder(context: StageContext, source: SegmentSource) -> Vocoder:
    """The vocoder before its first step: random, or the base's. The base's first takes every speaker
    of the new encoder for the mean of all."""
    net = new_vocoder(context.recipe)
    if context.base is None:
        return net
    state = net.state_dict() | context.base.vocoder().state_dict()
    encoder = context.base.speaker_encoder().to(context.device)
    old = listener.embed_clips(encoder, source.speech, every=len(source.speech) // 200 + 1)
    weight, bias = (state[f"waveform_decoder.filters.speaker.{name}"] for name in ("weight", "bias"))
    state["waveform_decoder.filters.speaker.bias"] = bias + weight[:, :, 0] @ old.mean(0).to(weight)
    state["waveform_decoder.filters.speaker.weight"] = 0.1 * weight
    for name in ("weight", "bias"):  # the base's pitches do not depend on the speaker
        state[f"waveform_decoder.pitch.speaker.{name}"].zero_()
    net.load_state_dict(state)
    return net


def new_vocoder(recipe: BaseRecipe) -> Vocoder:
    """A vocoder with random weights."""
    return Vocoder(recipe.gpt.width, recipe.speaker_encoder.embedding_width, recipe.vocoder_shape)


def load(context: StageContext) -> Vocoder:
    """The learned vocoder, on the CPU."""
    net = new_vocoder(context.recipe)
    stages.load_finished(context.folder / "vocoder.pt", {"net": net})
    return net.eval().requires_grad_(False)


def load_discriminators(context: StageContext) -> Discriminators:
    """The learned discriminators, on the CPU."""
    discriminators = Discriminators(context.recipe.critics)
    stages.load_finished(context.folder / "vocoder.pt", {"critics": discriminators})
    return discriminators.requires_grad_(False)
