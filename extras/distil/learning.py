"""Trains the student to imitate its teacher.

The loss of a code, given the codes before it, is a weighted sum of

    the divergence of the student's distribution from the teacher's (Hinton et al. 2015,
        https://arxiv.org/abs/1503.02531), in nats,
    the cross-entropy of the code, in lessons that the teacher spoke, and
    the squared error of the latent, the vocoder's input (as for the hidden states of DistilBERT,
        https://arxiv.org/abs/1910.01108), as a share of the latents' variance.

The conditioning encoder is the teacher's and frozen, so every recording has the teacher's latents.
The weights of the sum are from one experiment (docs/develop/log.md, "Half the layers").

    OUTPUT_DIR/distillation/student.pt    student, optimizer and epoch, after every epoch
"""

import logging
import math
import random
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from extras.distil.lessons import Lesson
from machine.storage.files import replace_file
from train.optim.optimizer import NonFiniteError, new_optimizer, weight_groups
from train.progress import Progress
from xtts.model import training
from xtts.model.gpt import GPT
from xtts.model.training import STOP_TARGETS, pack, row_length

log = logging.getLogger("train")

# The weights of the cross-entropy and of the latents' error, beside 1 for the divergence.
CROSS_ENTROPY_WEIGHT = 0.2
LATENT_WEIGHT = 2.0
# The positions of a batch, which is packed without padding.
BATCH_POSITIONS = 2600
# The learning rate of a GPT with REFERENCE_WIDTH channels; it falls in proportion to the width
# (https://arxiv.org/abs/2203.03466).
LEARNING_RATE = 1e-3
REFERENCE_WIDTH = 256
WARMUP_STEPS = 20
WEIGHT_DECAY = 0.01
# The limit of the gradient's norm.
MAX_NORM = 1.0
# A placeholder: the conditioning is given as latents.
_NO_MEL = torch.zeros(80, 4)
_FROZEN_PREFIXES = ("conditioning_encoder.", "conditioning_perceiver.", "text_head.")


class Agreement(NamedTuple):
    """The agreement of a student with its teacher on some lessons.

    Attributes:
        divergence: The mean divergence in nats.
        same_code: The share of codes with the same likeliest code.
        latent_error: The squared error of the latents, as a share of their variance.
    """

    divergence: float
    same_code: float
    latent_error: float


@dataclass(frozen=True)
class TaughtLessons:
    """Lessons with the teacher's latents, which the student learns to reproduce.

    Attributes:
        latents: For each lesson `[codes + 1, width]`, on the CPU; the last one predicts STOP.
        voices: The latents of the narrators, `[narrators, 32, width]`.
        head: The teacher's layer from latents to codes.
        variance: The variance of all latents.
    """

    lessons: Sequence[Lesson]
    latents: Sequence[Tensor]
    voices: Tensor
    head: nn.Linear
    variance: float


class _CodeTerms(NamedTuple):
    """The terms of the loss, for each code of a batch and the STOP of each lesson `[targets]`.

    Attributes:
        divergence: The divergence of the student's distribution from the teacher's.
        cross_entropy: The cross-entropy of the code.
        same_code: 1 if the likeliest code is the teacher's, otherwise 0.
        latent_error: The squared error of the latent, as a share of the latents' variance.
    """

    divergence: Tensor
    cross_entropy: Tensor
    same_code: Tensor
    latent_error: Tensor


def with_targets(teacher: GPT, lessons: Sequence[Lesson], voices: Tensor) -> TaughtLessons:
    """Computes the teacher's latents of all lessons, on its device."""
    latents: list[Tensor] = []
    teacher.eval()
    batches = list(split_into_batches(range(len(lessons)), lessons))
    with torch.no_grad(), Progress("Encoding the lessons", len(lessons), "texts") as progress:
        for batch in batches:
            batch_lessons = [lessons[index] for index in batch]
            batch_latents = _latents(teacher, batch_lessons, voices).cpu()
            latents += [
                part.clone()
                for part in batch_latents.split([len(lesson.codes) + 1 for lesson in batch_lessons])
            ]
            progress.add(len(batch))
    all_latents = torch.cat(latents)
    head = nn.Linear(all_latents.shape[1], teacher.shape.audio_ids)
    head.load_state_dict({name: tensor.cpu() for name, tensor in teacher.mel_head.state_dict().items()})
    return TaughtLessons(lessons, latents, voices, head.requires_grad_(False), float(all_latents.var()))


def learn(
    student: GPT,
    taught: TaughtLessons,
    *,
    epochs: int,
    seed: int,
    path: Path,
    key: str,
    autocast: AbstractContextManager[object],
) -> None:
    """Trains the student, on its device, for `epochs`; resumes an interrupted training.

    Args:
        path: The file student.pt.
        key: Identifies the training, except for `epochs`.

    Raises NonFiniteError, DiskFull, WriteError.
    """
    peak_rate = LEARNING_RATE * REFERENCE_WIDTH / student.shape.width
    optimizer = optimizer_of(student, peak_rate)
    taught.head.to(next(student.parameters()).device)
    epochs_done = _resume(student, optimizer, path, key)
    batches_by_epoch = [list(_epoch_batches(taught.lessons, seed, epoch)) for epoch in range(epochs)]
    step = sum(map(len, batches_by_epoch[:epochs_done]))
    num_steps = sum(map(len, batches_by_epoch))
    if epochs_done:
        state = "continues" if epochs_done < epochs else "is finished"
        log.info("The student was trained for %d of %d epochs and %s.", epochs_done, epochs, state)
    student.train()
    with Progress("Training the student", num_steps, "steps") as progress:
        progress.add(step)
        for epoch in range(epochs_done, epochs):
            for batch in batches_by_epoch[epoch]:
                for group in optimizer.param_groups:
                    group["lr"] = peak_rate * _share_of_peak_rate(step, num_steps)
                step += 1
                if not math.isfinite(take_step(student, optimizer, taught, batch, autocast)):
                    raise NonFiniteError(
                        f"The student's loss was not finite at step {step}. Set PRECISION=fp32 and "
                        "repeat the command, which resumes at the last epoch."
                    )
                progress.add()
            _save(student, optimizer, epoch + 1, path, key)
    student.eval().requires_grad_(False)


def optimizer_of(student: GPT, rate: float) -> torch.optim.Optimizer:
    """The optimizer of the trained parameters; freezes the rest."""
    for name, parameter in student.named_parameters():
        parameter.requires_grad_(not name.startswith(_FROZEN_PREFIXES))
    return new_optimizer("adamw", weight_groups(student, WEIGHT_DECAY), rate)


def take_step(
    student: GPT,
    optimizer: torch.optim.Optimizer,
    taught: TaughtLessons,
    batch: Sequence[int],
    autocast: AbstractContextManager[object],
) -> float:
    """Takes one step on a batch of lessons, given by number. Returns the sum of loss and gradient
    norm; if it is not finite, the weights are unchanged."""
    with autocast:
        loss = _loss(student, taught, batch)
    optimizer.zero_grad()
    loss.backward()
    trained = [weight for weight in student.parameters() if weight.requires_grad]
    loss_and_norm = float(loss.detach() + torch.nn.utils.clip_grad_norm_(trained, MAX_NORM))
    if math.isfinite(loss_and_norm):
        optimizer.step()
    return loss_and_norm


@torch.no_grad()
def agreement(student: GPT, taught: TaughtLessons) -> Agreement | None:
    """The agreement on the held-out lessons; None without such lessons."""
    held_out = [index for index, lesson in enumerate(taught.lessons) if lesson.is_held_out]
    if not held_out:
        return None
    was_training = student.training
    student.eval()
    sums, count = torch.zeros(3, dtype=torch.float64), 0
    for batch in split_into_batches(held_out, taught.lessons):
        terms = _code_terms(student, taught, batch)
        batch_sums = [terms.divergence.sum(), terms.same_code.sum(), terms.latent_error.sum()]
        sums += torch.stack(batch_sums).double().cpu()
        count += len(terms.divergence)
    student.train(was_training)
    return Agreement(*(sums / count).tolist())


def split_into_batches(order: Sequence[int], lessons: Sequence[Lesson]) -> Iterator[list[int]]:
    """Divides lessons, in this order, into batches of at most BATCH_POSITIONS positions; a longer
    lesson is a batch."""
    batch, positions = list[int](), 0
    for index in order:
        lesson = lessons[index]
        length = row_length(len(lesson.ids), len(lesson.codes), stop_input=True)
        if batch and positions + length > BATCH_POSITIONS:
            yield batch
            batch, positions = [], 0
        batch.append(index)
        positions += length
    if batch:
        yield batch


def _epoch_batches(lessons: Sequence[Lesson], seed: int, epoch: int) -> Iterator[list[int]]:
    order = [index for index, lesson in enumerate(lessons) if not lesson.is_held_out]
    random.Random(f"distillation/{seed}/{epoch}").shuffle(order)
    return split_into_batches(order, lessons)


def _share_of_peak_rate(step: int, num_steps: int) -> float:
    """The learning rate of a step as a share of the peak: linear warm-up, and a cosine to 0."""
    warm_up = min(1.0, (step + 1) / min(WARMUP_STEPS, max(1, num_steps)))
    return warm_up * (0.5 + 0.5 * math.cos(math.pi * step / max(1, num_steps)))


def _loss(student: GPT, taught: TaughtLessons, batch: Sequence[int]) -> Tensor:
    terms = _code_terms(student, taught, batch)
    target_counts = torch.tensor([len(taught.latents[index]) for index in batch])
    by_teacher = torch.tensor([taught.lessons[index].by_teacher for index in batch])
    is_counted = by_teacher.repeat_interleave(target_counts).to(terms.cross_entropy.device)
    cross_entropy = (terms.cross_entropy * is_counted).sum() / is_counted.sum().clamp(min=1)
    return (
        terms.divergence.mean()
        + CROSS_ENTROPY_WEIGHT * cross_entropy
        + LATENT_WEIGHT * terms.latent_error.mean()
    )


def _code_terms(student: GPT, taught: TaughtLessons, batch: Sequence[int]) -> _CodeTerms:
    lessons = [taught.lessons[index] for index in batch]
    device = next(student.parameters()).device
    latents = _latents(student, lessons, taught.voices).float()
    targets = torch.cat([taught.latents[index] for index in batch]).to(device)
    stop = torch.tensor([student.shape.audio_stop])
    codes = torch.cat([part for lesson in lessons for part in (lesson.codes, stop)]).to(device)
    student_log_probs = F.log_softmax(student.mel_head(latents).float(), -1)
    teacher_log_probs = F.log_softmax(taught.head(targets).float(), -1)
    return _CodeTerms(
        divergence=(teacher_log_probs.exp() * (teacher_log_probs - student_log_probs)).sum(-1),
        cross_entropy=F.nll_loss(student_log_probs, codes, reduction="none"),
        same_code=(student_log_probs.argmax(-1) == teacher_log_probs.argmax(-1)).float(),
        latent_error=(latents - targets).square().mean(-1) / taught.variance,
    )


def _latents(gpt: GPT, lessons: Sequence[Lesson], voices: Tensor) -> Tensor:
    """The latents `[codes + 1 of every lesson, width]` of a GPT."""
    rows = pack(
        [lesson.ids for lesson in lessons],
        [lesson.codes for lesson in lessons],
        [_NO_MEL] * len(lessons),
        gpt.shape,
        stop_input=True,
    )
    # Only the first STOP target of a clip is used, because decoding ends there.
    is_used = torch.cat(
        [torch.arange(len(lesson.codes) + STOP_TARGETS) <= len(lesson.codes) for lesson in lessons]
    )
    device = next(gpt.parameters()).device
    slots = rows.audio_target_slots[is_used].to(device)
    conditioning = voices[[lesson.narrator for lesson in lessons]].to(device)
    return training.hidden_states(gpt, rows.to(device), conditioning).index_select(0, slots).float()


def _save(student: GPT, optimizer: torch.optim.Optimizer, epoch: int, path: Path, key: str) -> None:
    content = {
        "key": key,
        "epoch": epoch,
        "student": student.state_dict(),
        "optimizer": optimizer.state_dict(),
    }
    replace_file(path, lambda file: torch.save(content, file))


def _resume(student: GPT, optimizer: torch.optim.Optimizer, path: Path, key: str) -> int:
    """Loads the state of an interrupted distillation; returns the number of finished epochs."""
    try:
        content = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        if content["key"] != key:
            return 0
    except FileNotFoundError:
        return 0
    except Exception as error:
        log.warning("%s cannot be read (%s); the student starts again.", path, error)
        return 0
    student.load_state_dict(content["student"])
    optimizer.load_state_dict(content["optimizer"])
    return int(content["epoch"])
