"""Trains the vocoder on the GPT's latents: first by spectra alone, then against discriminators.

`xtts.model.discriminators` has the losses, which a person's vocoder is trained with, too.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from demo_voice import listener, pretraining, stages
from demo_voice.pretraining import Lessons, Pupil, grid
from demo_voice.recipe import BaseRecipe
from demo_voice.speech import Speech
from demo_voice.stages import Workplace
from demo_voice.teachers.hibari import RATE
from xtts.audio import CODE_RATE, SAMPLES_PER_CODE, VOCODER_RATE
from xtts.evaluation.spectral_distance import spectral_distance
from xtts.model.discriminators import Discriminators, discriminator_loss, generator_losses
from xtts.model.source_filter import SourceFilter, pitch_at_steps
from xtts.model.vocoder import Vocoder

# Codes in a segment (1.2 s). The loss ignores some codes at each end, which lack context.
SEGMENT_CODES, UNJUDGED_CODES = 26, 3
MARGIN = round(UNJUDGED_CODES * SAMPLES_PER_CODE * VOCODER_RATE / CODE_RATE)
SEGMENT_SAMPLES = round(SEGMENT_CODES * SAMPLES_PER_CODE * VOCODER_RATE / CODE_RATE)
MEL_WEIGHT, MATCH_WEIGHT, PITCH_WEIGHT, VOICING_WEIGHT = 15.0, 2.0, 15.0, 3.0
SEGMENTS_PER_ROW = 2


class Segments:
    """Draws segments: the GPT's latents, the speaker's embedding from another clip, the pitches and
    the audio. Clips without known pitches are left out."""

    def __init__(self, at: Workplace, speech: Speech, lessons: Lessons) -> None:
        encoder = listener.load(at).to(at.device)
        self.at, self.speech, self.lessons = at, speech, lessons
        self.embeddings = listener.embeddings(encoder, speech)
        self.pupil = pretraining.load(at).to(at.device)
        sizes = speech.persons.bincount(minlength=len(speech.names)).float()
        usable = (speech.codes > SEGMENT_CODES) & ~speech.pitch[speech.code_starts, 0].isnan()
        usable &= torch.tensor([bool(clip.text) for clip in speech.clips], device=speech.device)
        shares = torch.tensor([share_of(name) for name in speech.names], device=speech.device)
        self._weights = (usable * shares[speech.persons] / sizes[speech.persons] ** 0.5).cpu()
        self._highest = torch.tensor([highest_hz(name) for name in speech.names])

    @torch.no_grad()
    def at_step(self, step: int, count: int) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Latents `[count, SEGMENT_CODES, width]`, speakers `[count, 512, 1]`, pitches `[count, 4 *
        SEGMENT_CODES]`, samples `[count, SEGMENT_SAMPLES]` and the highest frequencies of the
        recordings in Hz `[count]`; a function of the step."""
        speech, device = self.speech, self.at.device
        generator = torch.Generator().manual_seed(step + 7_000_000)
        rows = max(1, count // SEGMENTS_PER_ROW)
        clips = torch.multinomial(self._weights, rows, True, generator=generator).to(device)
        latents = latents_of(self.pupil, self.lessons, clips, generator, self.at)
        row = torch.arange(rows, device=device).repeat_interleave(SEGMENTS_PER_ROW)
        clips = clips[row]
        room = speech.codes[clips] - SEGMENT_CODES + 1
        first = (torch.rand(len(clips), generator=generator).to(device) * room).long()
        codes = first[:, None] + torch.arange(SEGMENT_CODES, device=device)
        start = (first * SAMPLES_PER_CODE * RATE / CODE_RATE).round().long()
        return (
            latents[row[:, None], codes],
            self.embeddings[speech.others(clips, generator)][..., None],
            speech.pitch[speech.code_starts[clips][:, None] + codes].float().flatten(1),
            speech.excerpts(clips, start, SEGMENT_SAMPLES),
            self._highest[speech.persons[clips].cpu()].to(device),
        )


def share_of(person: str) -> float:
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


def below(sound: Tensor, highest: Tensor) -> Tensor:
    """Sounds `[batch, samples]` without what lies above a frequency in Hz for each `[batch]`."""
    if bool((highest >= RATE / 2).all()):
        return sound
    spectra = torch.fft.rfft(sound.float())
    hertz = torch.linspace(0, RATE / 2, spectra.shape[1], device=sound.device)
    return torch.fft.irfft(spectra * (hertz <= highest[:, None]), sound.shape[1])


def latents_of(
    pupil: Pupil, lessons: Lessons, clips: Tensor, generator: torch.Generator, at: Workplace
) -> Tensor:
    """The latents `[clips, codes, width]` that the GPT computes from the true codes."""
    rows = lessons.rows(clips, generator)
    laid = grid(rows, at.recipe)
    with stages.low_precision(at.device):
        hidden, _ = pupil.hidden(rows, laid)
    return pupil.latents(hidden, laid, rows.codes.shape[1])[:, :-1].float()


def learn(at: Workplace, speech: Speech, lessons: Lessons) -> None:
    """Writes `vocoder.pt`: the vocoder for this GPT's latents, and its discriminators."""
    torch.manual_seed(at.recipe.seed)
    stage, segments = at.recipe.vocoder, Segments(at, speech, lessons)
    net = first(at, segments).to(at.device)
    critics = Discriminators(at.recipe.critics).to(at.device)
    # A continued vocoder speaks already; it has only the new speakers to learn.
    quiet_steps = at.recipe.quiet_steps // (4 if at.base else 1)
    decoder: Any = net.waveform_decoder
    new_optimizer = partial(torch.optim.AdamW, lr=stage.learning_rate, betas=(0.8, 0.99), fused=True)
    net_optimizer, critics_optimizer = new_optimizer(net.parameters()), new_optimizer(critics.parameters())
    low = partial(stages.low_precision, at.device)
    zero = torch.zeros((), device=at.device)

    def step_of(step: int) -> Sequence[Tensor]:
        latents, speaker, pitches, target, highest = segments.at_step(step, stage.batch)
        with low():
            sound, off, unsure = _spoken(net, decoder, latents, speaker, pitches)
        end = min(sound.shape[1], target.shape[1]) - MARGIN
        sound, target = (below(wave[:, :end], highest)[:, MARGIN:] for wave in (sound, target))
        distance = spectral_distance(sound, target)
        loss = MEL_WEIGHT * distance + PITCH_WEIGHT * off + VOICING_WEIGHT * unsure
        doubted = unlike = zero
        if step >= quiet_steps:
            with low():
                doubted = discriminator_loss(critics, target, sound.detach())
            stages.descend(doubted, [critics_optimizer], critics)
            with low():
                fooled, unlike = generator_losses(critics, target, sound)
            loss = loss + fooled + MATCH_WEIGHT * unlike
        stages.descend(loss, [net_optimizer], net)
        return distance, doubted, unlike, off

    def report(means: Sequence[float]) -> str:
        names = ("mel", "critics", "features", "pitch")
        return ", ".join(f"{name} {mean:.4f}" for name, mean in zip(names, means, strict=True))

    parts: dict[str, stages.Stateful] = {
        "net": net,
        "critics": critics,
        "own": net_optimizer,
        "theirs": critics_optimizer,
    }
    stages.learn(at.folder / "vocoder.pt", stage, stages.Clock(at.seconds), parts, step_of, report)


def _spoken(
    net: Vocoder, decoder: SourceFilter, latents: Tensor, speaker: Tensor, pitches: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The sound with the teacher's pitches, so that its spectra can be compared, and the losses of
    the predicted ones: L1 in octaves, and the cross-entropy of voicing."""
    steps = net.latent_steps(latents)
    height, voicing = decoder.predicted_pitch(steps, speaker)
    target, voiced = pitch_at_steps(pitches, steps.shape[2])
    off = ((height.float() - target).abs() * voiced).sum() / voiced.sum().clamp(min=1)
    unsure = F.binary_cross_entropy_with_logits(voicing.float(), voiced)
    # The phase at a segment's start is arbitrary.
    return net.compute(decoder.excite_at(steps, (target, voiced)), speaker), off, unsure


def first(at: Workplace, segments: "Segments") -> Vocoder:
    """The vocoder before its first step: random, or the base's, for whom every speaker of the new
    encoder is at first the mean of all."""
    net = new(at.recipe)
    if at.base is None:
        return net
    state = net.state_dict() | at.base.vocoder().state_dict()
    encoder = at.base.speaker_encoder().to(at.device)
    old = listener.embeddings(encoder, segments.speech, every=len(segments.speech) // 200 + 1)
    weight, bias = (state[f"waveform_decoder.filters.speaker.{name}"] for name in ("weight", "bias"))
    state["waveform_decoder.filters.speaker.bias"] = bias + weight[:, :, 0] @ old.mean(0).to(weight)
    state["waveform_decoder.filters.speaker.weight"] = 0.1 * weight
    for name in ("weight", "bias"):  # the base's pitches know no speaker
        state[f"waveform_decoder.pitch.speaker.{name}"].zero_()
    net.load_state_dict(state)
    return net


def new(recipe: BaseRecipe) -> Vocoder:
    """A vocoder with random weights."""
    return Vocoder(recipe.gpt.width, recipe.speaker_encoder.embedding_width, recipe.vocoder_shape)


def load(at: Workplace) -> Vocoder:
    """The learned vocoder, on the CPU."""
    net = new(at.recipe)
    stages.finished(at.folder / "vocoder.pt", {"net": net})
    return net.eval().requires_grad_(False)


def load_discriminators(at: Workplace) -> Discriminators:
    """The learned discriminators, on the CPU."""
    critics = Discriminators(at.recipe.critics)
    stages.finished(at.folder / "vocoder.pt", {"critics": critics})
    return critics.requires_grad_(False)
