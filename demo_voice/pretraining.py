"""Pretrains the GPT: phones and voice latents to the codec's codes.

It uses the model and rows of `train` in a separate loop, because it needs losses that a fine-tune
lacks: guided attention in the first steps (https://arxiv.org/abs/1710.08969), and linear
heads that predict mel and pitch from the latents, so that the latents contain both for the vocoder.
They are dropped when the voice is packaged.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from demo_voice import codec, stages
from demo_voice.base import count_pairs
from demo_voice.new_gpt import new_gpt
from demo_voice.recipe import BaseRecipe
from demo_voice.speech import FRAMES_PER_CODE, MEL_PER_CODE, Mels, Speech, token_ids
from demo_voice.stages import StageContext
from demo_voice.teachers.hibari import PITCHES_PER_CODE
from demo_voice.text.sentences import is_judged
from xtts.audio import MEL_BANDS
from xtts.model import training
from xtts.model.gpt import GPT, Attention, AttentionLayout
from xtts.model.shapes import NUM_LATENTS
from xtts.model.training import STOP_TARGETS
from xtts.model.varlen import VarlenLayout

TEXT_WEIGHT, MEL_WEIGHT, PITCH_WEIGHT, GUIDE_WEIGHT = 0.02, 0.5, 0.3, 0.3
VOICE_WEIGHT, CALM_WEIGHT = 0.5, 0.05
LOGGED = ("audio", "text", "mel", "pitch", "voice", "guide")
GUIDED_LAYERS, GUIDED_HEADS = (1, 2), 2
# The standard deviation of the diagonal, as a share of the sentence.
DIAGONAL_WIDTH = 0.1
# The maximum length of a reference is drawn from this range, 1.5 to 6 seconds.
REFERENCE_CODES = (32, 128)
# Rows of one person in a batch share a reference: encoding it costs twice as much as the row.
ROWS_PER_REFERENCE = 8
# The length of a batch's clips, relative to its target length.
MAX_RELATIVE_LENGTH = 1.3
# How often a real person at another rate is drawn, compared with others.
VARIANT_WEIGHT = 0.3
MAX_VALIDATION_CLIPS = 96
# Without START and STOP.
MAX_TEXT_IDS = 200
IGNORED = -100
# log2 of 160 Hz: pitches are predicted relative to it.
MIDDLE_PITCH = 7.32


class Rows(NamedTuple):
    """A batch of clips: ids `[rows, n]` and codes `[rows, m]`, right-padded, with their lengths;
    references `[references, 80, frames]` with lengths; the reference of each row; and the targets
    of the linear heads, mels `[rows, m, 320]` and pitches `[rows, m, 4]`."""

    text: Tensor
    text_lengths: Tensor
    codes: Tensor
    code_lengths: Tensor
    references: Tensor
    reference_lengths: Tensor
    reference_of: Tensor
    mels: Tensor
    pitches: Tensor


class Lessons:
    """Draws batches of clips of similar length. codes: of all clips; persons: those to learn from."""

    def __init__(self, speech: Speech, mels: Mels, codes: Tensor, persons: Sequence[str]) -> None:
        self.speech, self.mels, self.codes = speech, mels, codes
        ids = [torch.tensor(token_ids(clip.text)) for clip in speech.clips]
        self.text_lengths = torch.tensor([len(row) for row in ids], device=speech.device)
        self.text = nn.utils.rnn.pad_sequence(ids, batch_first=True).to(speech.device)
        persons_of_clips, allowed = speech.persons.tolist(), set(persons)
        clips = [
            index
            for index, person in enumerate(persons_of_clips)
            if speech.names[person] in allowed
            and speech.clips[index].text
            and len(ids[index]) <= MAX_TEXT_IDS
            and not is_judged(speech.clips[index].text)
        ]
        self.validation_clips = torch.tensor(clips[: min(MAX_VALIDATION_CLIPS, len(clips) // 8)])
        training_clips = torch.tensor(clips[len(self.validation_clips) :])
        training_clips = training_clips[speech.num_codes.cpu()[training_clips].argsort()]
        numbers = speech.persons.cpu()[training_clips]
        # The clips of each person, the shortest first.
        self.clips_of = [training_clips[numbers == person] for person in numbers.unique()]
        names = [speech.names[int(person)] for person in numbers.unique()]
        lengths = speech.num_codes.cpu()
        self._lengths, self._lengths_of = lengths[training_clips], [lengths[clips] for clips in self.clips_of]
        self._min_lengths = torch.stack([of_person[0] for of_person in self._lengths_of])
        self._max_lengths = torch.stack([of_person[-1] for of_person in self._lengths_of])
        self._weights = torch.tensor([VARIANT_WEIGHT if "@" in name else 1.0 for name in names])

    def batch(self, step: int, num_rows: int) -> Rows:
        """The batch of a step; a function of the step."""
        generator = torch.Generator().manual_seed(step)
        target = self._lengths[int(torch.randint(len(self._lengths), (), generator=generator))]
        max_length = MAX_RELATIVE_LENGTH * target
        fits = (self._min_lengths <= max_length) & (self._max_lengths * MAX_RELATIVE_LENGTH >= target)
        persons = torch.multinomial(
            self._weights * fits, max(1, num_rows // ROWS_PER_REFERENCE), True, generator=generator
        )
        clips, reference_of = [], []
        for number, person in enumerate(persons.tolist()):
            candidates, lengths = self.clips_of[person], self._lengths_of[person]
            count = min(ROWS_PER_REFERENCE, len(candidates))
            # The clips of about the target's length, so that a batch has little padding.
            middle = int(torch.searchsorted(lengths, target))
            first = min(max(0, middle - count // 2), len(candidates) - count)
            is_short = lengths[first : first + count] <= max_length
            clips.append(candidates[first : first + count][is_short])
            reference_of += [number] * int(is_short.sum())
        first_clips = torch.stack([group[0] for group in clips]).to(self.speech.device)
        return self._rows(
            torch.cat(clips).to(self.speech.device),
            self.speech.draw_others(first_clips, generator),
            torch.tensor(reference_of, device=self.speech.device),
            generator,
        )

    def rows_of(self, clips: Tensor, generator: torch.Generator) -> Rows:
        """The batch of these clips, each with a separate reference."""
        reference_of = torch.arange(len(clips), device=clips.device)
        return self._rows(clips, self.speech.draw_others(clips, generator), reference_of, generator)

    def _rows(
        self, clips: Tensor, reference_clips: Tensor, reference_of: Tensor, generator: torch.Generator
    ) -> Rows:
        """The rows of these clips. reference_clips: the clips from which references are cut."""
        speech, device = self.speech, self.speech.device
        text_lengths, lengths = self.text_lengths[clips], speech.num_codes[clips]
        text = self.text[clips][:, : int(text_lengths.max())]
        offsets = torch.arange(int(lengths.max()), device=device)
        positions = speech.code_starts[clips][:, None] + torch.minimum(offsets, lengths[:, None] - 1)
        frames = positions[..., None] * FRAMES_PER_CODE + torch.arange(FRAMES_PER_CODE, device=device)
        mels = self.mels.codec[frames].flatten(2)
        references, reference_lengths = self._cut_references(reference_clips, generator)
        return Rows(
            text,
            text_lengths,
            self.codes[positions],
            lengths,
            references,
            reference_lengths,
            reference_of,
            mels,
            speech.pitch[positions],
        )

    def _cut_references(self, clips: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """A random excerpt of each clip's mel, `[clips, 80, frames]`, zero-padded, and their lengths."""
        speech, device = self.speech, self.speech.device
        max_codes = int(torch.randint(*REFERENCE_CODES, (1,), generator=generator))
        num_codes = speech.num_codes[clips].clamp(max=max_codes)
        room = speech.num_codes[clips] - num_codes + 1
        first = (torch.rand(len(clips), generator=generator).to(device) * room).long()
        first_frame = (speech.code_starts[clips] + first) * FRAMES_PER_CODE
        num_frames = num_codes * FRAMES_PER_CODE
        offsets = torch.arange(int(num_frames.max()), device=device)
        frames = (first_frame[:, None] + offsets).clamp(max=len(self.mels.conditioning) - 1)
        references = self.mels.conditioning[frames].float().transpose(1, 2)
        is_inside = offsets < num_frames[:, None]
        return references * is_inside[:, None], num_frames


class Grid(NamedTuple):
    """Rows as the GPT reads them: inputs `[rows, length]` with masks of text and audio, positions and
    targets (`IGNORED` for inputs without one), and the start of each row's audio."""

    text: Tensor
    is_text: Tensor
    audio: Tensor
    is_audio: Tensor
    text_positions: Tensor
    audio_positions: Tensor
    text_targets: Tensor
    audio_targets: Tensor
    audio_starts: Tensor


def lay_out(rows: Rows, recipe: BaseRecipe) -> Grid:
    """Lays rows out like `xtts.model.training.pack`, but padded; a test compares the two."""
    shape, device = recipe.gpt, rows.text.device
    starts = rows.text_lengths + 2
    ends = starts + rows.code_lengths + STOP_TARGETS
    num_ids, num_codes, start = rows.text_lengths[:, None], rows.code_lengths[:, None], starts[:, None]
    position = torch.arange(int(ends.max()), device=device)[None].expand(len(starts), -1)
    is_text, is_audio = position < start, (position >= start) & (position < ends[:, None])
    ids = rows.text.gather(1, (position - 1).clamp(0, rows.text.shape[1] - 1))
    text = torch.where(position <= num_ids, ids, shape.text_stop)
    text = torch.where(position == 0, shape.text_start, text)
    next_ids = rows.text.gather(1, position.clamp(max=rows.text.shape[1] - 1))
    text_targets = torch.where(position == num_ids, shape.text_stop, IGNORED)
    text_targets = torch.where(position < num_ids, next_ids, text_targets)
    audio_position = (position - start).clamp(min=0)
    codes = rows.codes.gather(1, (audio_position - 1).clamp(0, rows.codes.shape[1] - 1))
    audio = torch.where(audio_position <= num_codes, codes, shape.audio_stop)
    audio = torch.where(audio_position == 0, shape.audio_start, audio)
    next_codes = rows.codes.gather(1, audio_position.clamp(max=rows.codes.shape[1] - 1))
    audio_targets = torch.where(audio_position < num_codes, next_codes, shape.audio_stop)
    audio_targets = torch.where(is_audio, audio_targets, IGNORED)
    return Grid(text, is_text, audio, is_audio, position, audio_position, text_targets, audio_targets, starts)


class Pupil(nn.Module):
    """The GPT with the heads that only the training needs."""

    def __init__(self, gpt: GPT) -> None:
        super().__init__()
        self.gpt = gpt
        width = gpt.shape.width
        # A code's latent is computed before the code is known; the next latent has seen the code.
        self.mel_head = nn.Linear(2 * width, MEL_PER_CODE)
        # For each of the four pitches of a code: its octaves from 160 Hz, and whether it is voiced.
        self.pitch_head = nn.Linear(2 * width, 2 * PITCHES_PER_CODE)
        # Predicts the mean spectrum of a reference from its latents. Without this loss the latents
        # of all recordings became equal: early in training, a constant helps the GPT more than a
        # voice, and later no gradient separates them again.
        self.voice_head = nn.Linear(width, MEL_BANDS)
        blocks: list[Any] = list(gpt.conditioning_encoder.attn)
        for block in blocks:
            # Like Coqui's `zero_module`: each block starts as the identity.
            nn.init.zeros_(block.proj_out.weight)
            nn.init.zeros_(block.proj_out.bias)

    def hidden(self, rows: Rows, grid: Grid) -> tuple[Tensor, Tensor]:
        """The GPT's output `[rows, length, width]` without the conditioning's, and the latents of the
        references `[references, 32, width]`."""
        gpt = self.gpt
        lengths = rows.reference_lengths
        layout = VarlenLayout.of(lengths.tolist()).map_tensors(lambda tensor: tensor.to(lengths.device))
        voice_latents = training.latents_of_mels(gpt, rows.references, layout)
        text = gpt.text_embedding(grid.text) + gpt.text_pos_embedding(
            grid.text_positions.clamp(max=gpt.shape.text_positions - 1)
        )
        audio = gpt.mel_embedding(grid.audio) + gpt.mel_pos_embedding(
            grid.audio_positions.clamp(max=gpt.shape.audio_positions - 1)
        )
        inputs = text * grid.is_text[..., None] + audio * grid.is_audio[..., None]
        inputs = torch.cat((voice_latents.to(inputs.dtype)[rows.reference_of], inputs), 1)
        return gpt.final_norm(gpt.gpt(inputs))[:, NUM_LATENTS:], voice_latents

    def latents(self, hidden: Tensor, grid: Grid, num_codes: int) -> Tensor:
        """The latents of the codes and of the position after them, `[rows, num_codes + 1, width]`."""
        positions = grid.audio_starts[:, None] + torch.arange(num_codes + 1, device=hidden.device)
        positions = positions.clamp(max=hidden.shape[1] - 1)
        return hidden.gather(1, positions[..., None].expand(-1, -1, hidden.shape[2]))

    def losses(self, rows: Rows, grid: Grid) -> dict[str, Tensor]:
        """Cross-entropies of text and audio; L1 of mels, pitches and the references' spectra."""
        hidden, voice_latents = self.hidden(rows, grid)
        audio = self.gpt.mel_head(hidden[grid.is_audio])
        text = self.gpt.text_head(hidden[grid.is_text])
        max_codes = rows.codes.shape[1]
        latents = self.latents(hidden, grid, max_codes)
        is_code = torch.arange(max_codes, device=hidden.device) < rows.code_lengths[:, None]
        pairs = torch.cat((latents[:, :-1], latents[:, 1:]), 2)[is_code]
        return {
            "text": F.cross_entropy(text.float(), grid.text_targets[grid.is_text], ignore_index=IGNORED),
            "audio": F.cross_entropy(audio.float(), grid.audio_targets[grid.is_audio]),
            "mel": F.l1_loss(self.mel_head(pairs).float(), rows.mels[is_code].float()),
            "pitch": pitch_loss(self.pitch_head(pairs).float(), rows.pitches[is_code].float()),
            "voice": F.l1_loss(self.voice_head(voice_latents.mean(1)).float(), mean_spectra(rows)),
        }


def pitch_loss(predicted: Tensor, pitches: Tensor) -> Tensor:
    """L1 of log2 pitch in voiced frames, and cross-entropy of voicing.

    predicted: `[codes, 8]`; pitches: `[codes, 4]`, 0 where unvoiced, NaN where unknown.
    """
    octaves, voicing = predicted.chunk(2, 1)
    is_known, target = ~pitches.isnan(), pitches.nan_to_num()
    is_voiced = (target > 0) & is_known
    errors = (octaves - (target - MIDDLE_PITCH)).abs()
    error = (errors * is_voiced).sum() / is_voiced.sum().clamp(min=1)
    entropies = F.binary_cross_entropy_with_logits(voicing, (target > 0).float(), reduction="none")
    return error + 0.5 * (entropies * is_known).sum() / is_known.sum().clamp(min=1)


def mean_spectra(rows: Rows) -> Tensor:
    """The mean frame of each reference, `[references, 80]`; references are zero-padded."""
    return rows.references.sum(2) / rows.reference_lengths[:, None]


def learn(context: StageContext, speech: Speech) -> None:
    """Writes `pretraining.pt` (the GPT and its heads)."""
    recipe, stage = context.recipe, context.recipe.pretraining
    lessons = new_lessons(context, speech)
    gpt = first_gpt(context, lessons)
    pupil = Pupil(gpt).to(context.device)
    guide, calm = Guide(gpt), Calm(gpt)
    optimizers = _optimizers(pupil, stage.learning_rate)
    clock = stages.Clock(context.seconds)
    # An earlier voice's heads follow the text already.
    guided_steps = 0 if context.base else recipe.guided_steps

    def take_step(step: int) -> list[Tensor]:
        rows = lessons.batch(step, stage.batch)
        grid = lay_out(rows, recipe)
        torch.manual_seed(recipe.seed * 1_000_003 + step)
        pupil.train()
        is_guided = step < guided_steps
        with stages.low_precision(context.device):
            guide.watch(is_guided)
            losses = pupil.losses(rows, grid)
            losses["guide"] = guide.loss(grid) if is_guided else torch.zeros((), device=context.device)
            calm_loss = calm.loss()
        guide_share = max(0.0, 1.0 - step / guided_steps) if is_guided else 0.0
        total = (
            losses["audio"]
            + TEXT_WEIGHT * losses["text"]
            + MEL_WEIGHT * losses["mel"]
            + PITCH_WEIGHT * losses["pitch"]
            + VOICE_WEIGHT * losses["voice"]
            + GUIDE_WEIGHT * guide_share * losses["guide"]
            + CALM_WEIGHT * calm_loss
        )
        stages.descend(total, list(optimizers.values()), pupil)
        return [losses[name] for name in LOGGED]

    def report(means: Sequence[float]) -> str:
        shown = ", ".join(f"{name} {mean:.3f}" for name, mean in zip(LOGGED, means, strict=True))
        return f"{shown}; validation {validate(pupil, lessons, context):.3f}"

    parts: dict[str, stages.Stateful] = {"pupil": pupil, **optimizers}
    stages.learn(context.folder / "pretraining.pt", stage, clock, parts, take_step, report)


def first_gpt(context: StageContext, lessons: Lessons) -> GPT:
    """The GPT before its first step: random, or the base's."""
    if context.base is None:
        return new_gpt(context.recipe.gpt, context.recipe.seed)
    old_codes = codec.encode(context.base.codec().to(context.device), lessons.mels)
    return context.base.gpt(count_pairs(lessons.codes, old_codes, context.recipe.dvae.num_codes))


def new_lessons(context: StageContext, speech: Speech) -> Lessons:
    """The lessons of these clips, encoded by the trained codec."""
    dvae, mel_stats = codec.load(context)
    mels = Mels(speech, mel_stats)
    codes = codec.encode(dvae.to(context.device), mels)
    return Lessons(speech, mels, codes, speech.names)


def _optimizers(pupil: Pupil, rate: float) -> dict[str, torch.optim.Optimizer]:
    """Muon (https://kellerjordan.github.io/posts/muon) for the transformer's matrices, which then
    need fewer steps; AdamW for everything else. One learning rate fits both."""
    matrices = [weight for weight in pupil.gpt.gpt.parameters() if weight.ndim == 2]
    matrix_ids = {id(weight) for weight in matrices}
    others = [weight for weight in pupil.parameters() if id(weight) not in matrix_ids]
    return {
        "muon": torch.optim.Muon(matrices, lr=rate, weight_decay=0.01, adjust_lr_fn="match_rms_adamw"),
        "optimizer": torch.optim.AdamW(others, lr=rate, betas=(0.9, 0.96), weight_decay=0.01, fused=True),
    }


@torch.no_grad()
def validate(pupil: Pupil, lessons: Lessons, context: StageContext) -> float:
    """The loss on the validation clips, in nats per code."""
    if not len(lessons.validation_clips):
        return math.nan
    pupil.eval()
    clips = lessons.validation_clips.to(context.device)
    rows = lessons.rows_of(clips, torch.Generator().manual_seed(0))
    with stages.low_precision(context.device):
        return float(pupil.losses(rows, lay_out(rows, context.recipe))["audio"])


def load(context: StageContext) -> Pupil:
    """The trained GPT with its heads, on the CPU."""
    pupil = Pupil(new_gpt(context.recipe.gpt, context.recipe.seed))
    stages.load_finished(context.folder / "pretraining.pt", {"pupil": pupil})
    return pupil.eval().requires_grad_(False)


class WatchedAttention(Attention):
    """Attention with the same results. While `is_watched`, it stores the weights of the first heads
    in `shares` `[rows, heads, length, length]` for the guide."""

    is_watched = False
    shares: Tensor

    def forward(self, x: Tensor, layout: AttentionLayout | None, layer: int) -> Tensor:
        if not self.is_watched or layout is not None:
            return super().forward(x, layout, layer)
        rows, length, width = x.shape
        split = self.c_attn(x).view(rows, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        queries, keys, values = split
        scores = queries @ keys.transpose(2, 3) * (width // self.heads) ** -0.5
        causal_mask = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        shares = scores.float().masked_fill(causal_mask, -torch.inf).softmax(-1)
        self.shares = shares[:, :GUIDED_HEADS]
        mixed = (shares.to(values.dtype) @ values).transpose(1, 2).reshape(rows, length, width)
        return self.dropout(self.c_proj(mixed))


class Guide:
    """Pulls two heads of two early layers to the diagonal from audio to text."""

    def __init__(self, gpt: GPT) -> None:
        layers = [layer for layer in GUIDED_LAYERS if layer < len(gpt.gpt.h)]
        self.attentions: list[Any] = [gpt.gpt.h[layer].attn for layer in layers]
        for attention in self.attentions:
            attention.__class__ = WatchedAttention

    def watch(self, enabled: bool) -> None:
        """Sets whether the next forward stores the attention, which takes time and memory."""
        for attention in self.attentions:
            attention.is_watched = enabled

    def loss(self, grid: Grid) -> Tensor:
        """Minus the log of the attention near the diagonal, as the mean over audio inputs."""
        weights = diagonal(grid)
        losses = []
        for attention in self.attentions:
            shares = attention.shares[:, :, NUM_LATENTS:, NUM_LATENTS:]
            share_near = (shares * weights[:, None]).sum(-1)
            losses.append(-(share_near.transpose(1, 2)[grid.is_audio] + 1e-4).log().mean())
        return torch.stack(losses).mean()


def diagonal(grid: Grid) -> Tensor:
    """`[rows, length, length]`: 1 where an audio input should attend to the text, falling to 0
    around it."""
    text = grid.text_positions / grid.audio_starts[:, None]
    last = (grid.audio_positions * grid.is_audio).amax(1, keepdim=True).clamp(min=1)
    audio = grid.audio_positions / last
    weights = torch.exp(-((audio[:, :, None] - text[:, None, :]) ** 2) / (2 * DIAGONAL_WIDTH**2))
    return weights * grid.is_audio[:, :, None] * grid.is_text[:, None, :]


class Calm:
    """Keeps the perceiver's output, before its norm, at a mean square of at most 1.

    Nothing between its layers is normed, and its gates multiply. Without this loss, the output grew
    within one training until its squares overflowed. Then the norm divided by infinity, every
    recording became the same 32 zeros, and no gradient was left.
    """

    def __init__(self, gpt: GPT) -> None:
        gpt.conditioning_perceiver.norm.register_forward_pre_hook(self._store_square)
        self._mean_square = torch.zeros(())

    def _store_square(self, norm: nn.Module, inputs: tuple[Tensor]) -> None:
        self._mean_square = inputs[0].float().square().mean()

    def loss(self) -> Tensor:
        """The log of the mean square if that is above 1, else 0."""
        return self._mean_square.clamp(min=1.0).log()
