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
from demo_voice.base import paired
from demo_voice.new_gpt import new_gpt
from demo_voice.recipe import BaseRecipe
from demo_voice.speech import FRAMES_PER_CODE, MEL_PER_CODE, Mels, Speech, token_ids
from demo_voice.stages import Workplace
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
# Width of the diagonal, as a share of the sentence.
DIAGONAL = 0.1
# The least and the most codes of a reference, in 46 ms: 1.5 to 6 seconds.
REFERENCE_CODES = (32, 128)
# Rows of one person in a batch share a reference: encoding one costs twice the rest of a row.
ROWS_PER_REFERENCE = 8
# A batch's clips have at most this factor of its target length.
LONGER = 1.3
# How often a real person at another rate is drawn, compared with others.
CHANCE_OF_VARIANT = 0.3
VALIDATION_CLIPS = 96
# Text ids of the longest clip, without START and STOP.
MAX_IDS = 200
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
    """Draws batches of clips of similar length."""

    def __init__(self, speech: Speech, mels: Mels, codes: Tensor, taught: Sequence[str]) -> None:
        self.speech, self.mels, self.codes = speech, mels, codes
        ids = [torch.tensor(token_ids(clip.text)) for clip in speech.clips]
        self.text_lengths = torch.tensor([len(row) for row in ids], device=speech.device)
        self.text = nn.utils.rnn.pad_sequence(ids, batch_first=True).to(speech.device)
        persons, allowed = speech.persons.tolist(), set(taught)
        heard = [
            index
            for index, person in enumerate(persons)
            if speech.names[person] in allowed
            and speech.clips[index].text
            and len(ids[index]) <= MAX_IDS
            and not is_judged(speech.clips[index].text)
        ]
        self.kept_back = torch.tensor(heard[: min(VALIDATION_CLIPS, len(heard) // 8)])
        rest = torch.tensor(heard[len(self.kept_back) :])
        rest = rest[speech.codes.cpu()[rest].argsort()]
        numbers = speech.persons.cpu()[rest]
        # The clips of each person, the shortest first.
        self.clips_of = [rest[numbers == person] for person in numbers.unique()]
        names = [speech.names[int(person)] for person in numbers.unique()]
        codes = speech.codes.cpu()
        self._lengths, self._of_person = codes[rest], [codes[clips] for clips in self.clips_of]
        self._shortest = torch.stack([lengths[0] for lengths in self._of_person])
        self._longest = torch.stack([lengths[-1] for lengths in self._of_person])
        self._chances = torch.tensor([CHANCE_OF_VARIANT if "@" in name else 1.0 for name in names])

    def at(self, step: int, count: int) -> Rows:
        """The batch of a step; a function of the step."""
        generator = torch.Generator().manual_seed(step)
        target = self._lengths[int(torch.randint(len(self._lengths), (), generator=generator))]
        fitting = (self._shortest <= LONGER * target) & (self._longest * LONGER >= target)
        people = torch.multinomial(
            self._chances * fitting, max(1, count // ROWS_PER_REFERENCE), True, generator=generator
        )
        clips, owners = [], []
        for number, person in enumerate(people.tolist()):
            candidates, lengths = self.clips_of[person], self._of_person[person]
            rows = min(ROWS_PER_REFERENCE, len(candidates))
            # The clips of about the target's length, so that a batch has little padding.
            middle = int(torch.searchsorted(lengths, target))
            first = min(max(0, middle - rows // 2), len(candidates) - rows)
            near = lengths[first : first + rows] <= LONGER * target
            clips.append(candidates[first : first + rows][near])
            owners += [number] * int(near.sum())
        firsts = torch.stack([group[0] for group in clips]).to(self.speech.device)
        return self._rows(
            torch.cat(clips).to(self.speech.device),
            self.speech.others(firsts, generator),
            torch.tensor(owners, device=self.speech.device),
            generator,
        )

    def rows(self, clips: Tensor, generator: torch.Generator) -> Rows:
        """The batch of these clips, each with a separate reference."""
        owners = torch.arange(len(clips), device=clips.device)
        return self._rows(clips, self.speech.others(clips, generator), owners, generator)

    def _rows(self, clips: Tensor, heard: Tensor, owners: Tensor, generator: torch.Generator) -> Rows:
        """heard: the clips from which references are cut; owners: the reference of each row."""
        speech, device = self.speech, self.speech.device
        text_lengths, lengths = self.text_lengths[clips], speech.codes[clips]
        text = self.text[clips][:, : int(text_lengths.max())]
        along = torch.arange(int(lengths.max()), device=device)
        places = speech.code_starts[clips][:, None] + torch.minimum(along, lengths[:, None] - 1)
        frames = places[..., None] * FRAMES_PER_CODE + torch.arange(FRAMES_PER_CODE, device=device)
        mels = self.mels.codec[frames].flatten(2)
        max_codes = int(torch.randint(*REFERENCE_CODES, (1,), generator=generator))
        heard_lengths = speech.codes[heard].clamp(max=max_codes)
        room = speech.codes[heard] - heard_lengths + 1
        first = (torch.rand(len(heard), generator=generator).to(device) * room).long()
        begin = (speech.code_starts[heard] + first) * FRAMES_PER_CODE
        span = torch.arange(int(heard_lengths.max()) * FRAMES_PER_CODE, device=device)
        at = (begin[:, None] + span).clamp(max=len(self.mels.heard) - 1)
        references = self.mels.heard[at].float().transpose(1, 2)
        real = span < (heard_lengths * FRAMES_PER_CODE)[:, None]
        return Rows(
            text,
            text_lengths,
            self.codes[places],
            lengths,
            references * real[:, None],
            heard_lengths * FRAMES_PER_CODE,
            owners,
            mels,
            speech.pitch[places],
        )


class Grid(NamedTuple):
    """Rows as the GPT reads them: inputs `[rows, length]` with their positions, a mask of the
    audio inputs, targets (`IGNORED` for inputs without one), and the start of each row's audio."""

    text: Tensor
    is_text: Tensor
    audio: Tensor
    is_audio: Tensor
    text_positions: Tensor
    audio_positions: Tensor
    text_targets: Tensor
    audio_targets: Tensor
    audio_starts: Tensor


def grid(rows: Rows, recipe: BaseRecipe) -> Grid:
    """Lays rows out like `xtts.model.training.pack`, but padded; a test compares the two."""
    shape, device = recipe.gpt, rows.text.device
    starts = rows.text_lengths + 2
    ends = starts + rows.code_lengths + STOP_TARGETS
    along = torch.arange(int(ends.max()), device=device)[None]
    texts, codes = rows.text_lengths[:, None], rows.code_lengths[:, None]
    at, start = along.expand(len(starts), -1), starts[:, None]
    is_text, is_audio = at < start, (at >= start) & (at < ends[:, None])
    ids = rows.text.gather(1, (at - 1).clamp(0, rows.text.shape[1] - 1))
    text = torch.where(at == 0, shape.text_start, torch.where(at <= texts, ids, shape.text_stop))
    place = (at - start).clamp(min=0)
    code = rows.codes.gather(1, (place - 1).clamp(0, rows.codes.shape[1] - 1))
    audio = torch.where(place == 0, shape.audio_start, torch.where(place <= codes, code, shape.audio_stop))
    next_text = rows.text.gather(1, at.clamp(max=rows.text.shape[1] - 1))
    text_targets = torch.where(at < texts, next_text, torch.where(at == texts, shape.text_stop, IGNORED))
    next_code = rows.codes.gather(1, place.clamp(max=rows.codes.shape[1] - 1))
    audio_targets = torch.where(place < codes, next_code, shape.audio_stop)
    audio_targets = torch.where(is_audio, audio_targets, IGNORED)
    return Grid(text, is_text, audio, is_audio, at, place, text_targets, audio_targets, starts)


class Pupil(nn.Module):
    """The GPT with the heads that only the training needs."""

    def __init__(self, gpt: GPT) -> None:
        super().__init__()
        self.gpt = gpt
        width = gpt.shape.width
        # A code's latent is computed before the code is known; the next latent has seen the code.
        self.mel_head = nn.Linear(2 * width, MEL_PER_CODE)
        # For each of the four pitches of a code: its height, and whether the frame is voiced.
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

    def hidden(self, rows: Rows, laid: Grid) -> tuple[Tensor, Tensor]:
        """The GPT's output `[rows, length, width]` after the conditioning, and the latents of
        the references `[references, 32, width]`."""
        gpt = self.gpt
        lengths = rows.reference_lengths
        clips = VarlenLayout.of(lengths.tolist()).map_tensors(lambda tensor: tensor.to(lengths.device))
        heard = training.latents_of_mels(gpt, rows.references, clips)
        text = gpt.text_embedding(laid.text) + gpt.text_pos_embedding(
            laid.text_positions.clamp(max=gpt.shape.text_positions - 1)
        )
        audio = gpt.mel_embedding(laid.audio) + gpt.mel_pos_embedding(
            laid.audio_positions.clamp(max=gpt.shape.audio_positions - 1)
        )
        inputs = text * laid.is_text[..., None] + audio * laid.is_audio[..., None]
        whole = torch.cat((heard.to(inputs.dtype)[rows.reference_of], inputs), 1)
        return gpt.final_norm(gpt.gpt(whole))[:, NUM_LATENTS:], heard

    def latents(self, hidden: Tensor, laid: Grid, count: int) -> Tensor:
        """The latents of the codes and of the position after them, `[rows, count + 1, width]`."""
        at = laid.audio_starts[:, None] + torch.arange(count + 1, device=hidden.device)
        at = at.clamp(max=hidden.shape[1] - 1)
        return hidden.gather(1, at[..., None].expand(-1, -1, hidden.shape[2]))

    def losses(self, rows: Rows, laid: Grid) -> dict[str, Tensor]:
        """Cross-entropies of text and audio; L1 of mels, pitches and the references' spectra."""
        hidden, heard = self.hidden(rows, laid)
        audio = self.gpt.mel_head(hidden[laid.is_audio])
        text = self.gpt.text_head(hidden[laid.is_text])
        count = rows.codes.shape[1]
        latents = self.latents(hidden, laid, count)
        real = torch.arange(count, device=hidden.device) < rows.code_lengths[:, None]
        pairs = torch.cat((latents[:, :-1], latents[:, 1:]), 2)[real]
        return {
            "text": F.cross_entropy(text.float(), laid.text_targets[laid.is_text], ignore_index=IGNORED),
            "audio": F.cross_entropy(audio.float(), laid.audio_targets[laid.is_audio]),
            "mel": F.l1_loss(self.mel_head(pairs).float(), rows.mels[real].float()),
            "pitch": pitch_loss(self.pitch_head(pairs).float(), rows.pitches[real].float()),
            "voice": F.l1_loss(self.voice_head(heard.mean(1)).float(), mean_spectra(rows)),
        }


def pitch_loss(predicted: Tensor, pitches: Tensor) -> Tensor:
    """L1 of log2 pitch in voiced frames, and cross-entropy of voicing. predicted:
    `[codes, 8]`; pitches: `[codes, 4]`, 0 where unvoiced, NaN where unknown."""
    height, voiced = predicted.chunk(2, 1)
    measured, target = ~pitches.isnan(), pitches.nan_to_num()
    sounds = (target > 0) & measured
    wrong = ((height - (target - MIDDLE_PITCH)).abs() * sounds).sum() / sounds.sum().clamp(min=1)
    unsure = F.binary_cross_entropy_with_logits(voiced, (target > 0).float(), reduction="none")
    return wrong + 0.5 * (unsure * measured).sum() / measured.sum().clamp(min=1)


def mean_spectra(rows: Rows) -> Tensor:
    """The mean frame of each reference, `[references, 80]`; references are zero-padded."""
    return rows.references.sum(2) / rows.reference_lengths[:, None]


def learn(at: Workplace, speech: Speech) -> None:
    """Writes `pretraining.pt` (the GPT and its heads)."""
    recipe, stage = at.recipe, at.recipe.pretraining
    lessons = new_lessons(at, speech)
    gpt = first_gpt(at, lessons)
    pupil = Pupil(gpt).to(at.device)
    guide, calm = Guide(gpt), Calm(gpt)
    optimizers = _optimizers(pupil, stage.learning_rate)
    clock = stages.Clock(at.seconds)
    # An earlier voice's heads follow the text already.
    guided_steps = 0 if at.base else recipe.guided_steps

    def step_of(step: int) -> list[Tensor]:
        rows = lessons.at(step, stage.batch)
        laid = grid(rows, recipe)
        torch.manual_seed(recipe.seed * 1_000_003 + step)
        pupil.train()
        guided = step < guided_steps
        with stages.low_precision(at.device):
            guide.watch(guided)
            losses = pupil.losses(rows, laid)
            losses["guide"] = guide.loss(laid) if guided else torch.zeros((), device=at.device)
            steady = calm.loss()
        fade = max(0.0, 1.0 - step / guided_steps) if guided else 0.0
        total = (
            losses["audio"]
            + TEXT_WEIGHT * losses["text"]
            + MEL_WEIGHT * losses["mel"]
            + PITCH_WEIGHT * losses["pitch"]
            + VOICE_WEIGHT * losses["voice"]
            + GUIDE_WEIGHT * fade * losses["guide"]
            + CALM_WEIGHT * steady
        )
        stages.descend(total, list(optimizers.values()), pupil)
        return [losses[name] for name in LOGGED]

    def report(means: Sequence[float]) -> str:
        seen = ", ".join(f"{name} {mean:.3f}" for name, mean in zip(LOGGED, means, strict=True))
        return f"{seen}; validation {validate(pupil, lessons, at):.3f}"

    parts: dict[str, stages.Stateful] = {"pupil": pupil, **optimizers}
    stages.learn(at.folder / "pretraining.pt", stage, clock, parts, step_of, report)


def first_gpt(at: Workplace, lessons: Lessons) -> GPT:
    """The GPT before its first step: random, or the base's."""
    if at.base is None:
        return new_gpt(at.recipe.gpt, at.recipe.seed)
    old_codes = codec.encode(at.base.codec().to(at.device), lessons.mels)
    return at.base.gpt(paired(lessons.codes, old_codes, at.recipe.dvae.num_codes))


def new_lessons(at: Workplace, speech: Speech) -> Lessons:
    """The lessons of these clips, encoded by the trained codec."""
    dvae, mel_stats = codec.load(at)
    mels = Mels(speech, mel_stats)
    codes = codec.encode(dvae.to(at.device), mels)
    return Lessons(speech, mels, codes, speech.names)


def _optimizers(pupil: Pupil, rate: float) -> dict[str, torch.optim.Optimizer]:
    """Muon (https://kellerjordan.github.io/posts/muon) for the transformer's matrices, which then
    need fewer steps; AdamW for everything else. One learning rate fits both."""
    matrices = [weight for weight in pupil.gpt.gpt.parameters() if weight.ndim == 2]
    ours = {id(weight) for weight in matrices}
    others = [weight for weight in pupil.parameters() if id(weight) not in ours]
    return {
        "muon": torch.optim.Muon(matrices, lr=rate, weight_decay=0.01, adjust_lr_fn="match_rms_adamw"),
        "optimizer": torch.optim.AdamW(others, lr=rate, betas=(0.9, 0.96), weight_decay=0.01, fused=True),
    }


@torch.no_grad()
def validate(pupil: Pupil, lessons: Lessons, at: Workplace) -> float:
    """The loss on the validation clips, in nats per code."""
    if not len(lessons.kept_back):
        return math.nan
    pupil.eval()
    clips = lessons.kept_back.to(at.device)
    rows = lessons.rows(clips, torch.Generator().manual_seed(0))
    with stages.low_precision(at.device):
        return float(pupil.losses(rows, grid(rows, at.recipe))["audio"])


def load(at: Workplace) -> Pupil:
    """The trained GPT with its heads, on the CPU."""
    pupil = Pupil(new_gpt(at.recipe.gpt, at.recipe.seed))
    stages.finished(at.folder / "pretraining.pt", {"pupil": pupil})
    return pupil.eval().requires_grad_(False)


class WatchedAttention(Attention):
    """Attention with the same results. While `watched`, it keeps the weights of the first heads as
    `shares` `[rows, heads, length, length]` for the guide."""

    watched = False
    shares: Tensor

    def forward(self, x: Tensor, layout: AttentionLayout | None, layer: int) -> Tensor:
        if not self.watched or layout is not None:
            return super().forward(x, layout, layer)
        rows, length, width = x.shape
        parts = self.c_attn(x).view(rows, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        queries, keys, values = parts
        scores = queries @ keys.transpose(2, 3) * (width // self.heads) ** -0.5
        later = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        shares = scores.float().masked_fill(later, -torch.inf).softmax(-1)
        self.shares = shares[:, :GUIDED_HEADS]
        mixed = (shares.to(values.dtype) @ values).transpose(1, 2).reshape(rows, length, width)
        return self.dropout(self.c_proj(mixed))


class Guide:
    """Pulls two heads of two early layers to the diagonal from audio to text."""

    def __init__(self, gpt: GPT) -> None:
        layers = [layer for layer in GUIDED_LAYERS if layer < len(gpt.gpt.h)]
        self.watched: list[Any] = [gpt.gpt.h[layer].attn for layer in layers]
        for attention in self.watched:
            attention.__class__ = WatchedAttention

    def watch(self, enabled: bool) -> None:
        """Sets whether the next forward keeps the attention, which takes time and memory."""
        for attention in self.watched:
            attention.watched = enabled

    def loss(self, laid: Grid) -> Tensor:
        """Minus the log of the attention near the diagonal, as the mean over audio inputs."""
        ideal = diagonal(laid)
        losses = []
        for attention in self.watched:
            shares = attention.shares[:, :, NUM_LATENTS:, NUM_LATENTS:]
            near = (shares * ideal[:, None]).sum(-1)
            losses.append(-(near.transpose(1, 2)[laid.is_audio] + 1e-4).log().mean())
        return torch.stack(losses).mean()


def diagonal(laid: Grid) -> Tensor:
    """`[rows, length, length]`: 1 where an audio input should attend to the text, falling to 0
    around it."""
    text = laid.text_positions / laid.audio_starts[:, None]
    last = (laid.audio_positions * laid.is_audio).amax(1, keepdim=True).clamp(min=1)
    audio = laid.audio_positions / last
    near = torch.exp(-((audio[:, :, None] - text[:, None, :]) ** 2) / (2 * DIAGONAL**2))
    return near * laid.is_audio[:, :, None] * laid.is_text[:, None, :]


class Calm:
    """Keeps the perceiver's output, before its norm, at a mean square of at most 1.

    Nothing between its layers is normed, and its gates multiply. Without this loss the output grew
    within one training until its squares overflowed; the norm then divided by infinity, every
    recording became the same 32 zeros, and no gradient was left.
    """

    def __init__(self, gpt: GPT) -> None:
        gpt.conditioning_perceiver.norm.register_forward_pre_hook(self._see)
        self._square = torch.zeros(())

    def _see(self, norm: nn.Module, inputs: tuple[Tensor]) -> None:
        self._square = inputs[0].float().square().mean()

    def loss(self) -> Tensor:
        """The log of the mean square if that is above 1, else 0."""
        return self._square.clamp(min=1.0).log()
