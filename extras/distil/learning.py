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

OWN_WEIGHT, LATENT_WEIGHT = 0.2, 2.0
# The positions of a batch, which is packed without padding.
POSITIONS = 2600
# For a GPT with 256 channels; scaled down in proportion to the width
# (https://arxiv.org/abs/2203.03466).
LEARNING_RATE, OF_WIDTH = 1e-3, 256
WARMUP_STEPS = 20
WEIGHT_DECAY, MOST_NORM = 0.01, 1.0
# A placeholder: the conditioning is given as latents.
_NO_MEL = torch.zeros(80, 4)
_FROZEN = ("conditioning_encoder.", "conditioning_perceiver.", "text_head.")


class Agreement(NamedTuple):
    """The agreement of a student with its teacher on some lessons: the divergence in nats, the
    share of codes with the same likeliest code, and the squared error of the latents as a share of
    their variance."""

    divergence: float
    same_code: float
    latent_error: float


@dataclass(frozen=True)
class Taught:
    """Lessons with the teacher's latents, `[codes + 1, width]` each on the CPU, the last of which
    predicts STOP; voices `[narrators, 32, width]`; variance: of all latents."""

    lessons: Sequence[Lesson]
    latents: Sequence[Tensor]
    voices: Tensor
    head: nn.Linear
    variance: float


def taught_by(teacher: GPT, lessons: Sequence[Lesson], voices: Tensor) -> Taught:
    """Computes the teacher's latents of all lessons, on its device."""
    latents: list[Tensor] = []
    teacher.eval()
    batches = list(cut(range(len(lessons)), lessons))
    with torch.no_grad(), Progress("Encoding the lessons", len(lessons), "texts") as progress:
        for batch in batches:
            batch_lessons = [lessons[index] for index in batch]
            batch_latents = _latents(teacher, batch_lessons, voices).cpu()
            latents += [
                part.clone()
                for part in batch_latents.split([len(lesson.codes) + 1 for lesson in batch_lessons])
            ]
            progress.add(len(batch))
    every = torch.cat(latents)
    head = nn.Linear(every.shape[1], teacher.shape.audio_ids)
    head.load_state_dict({name: tensor.cpu() for name, tensor in teacher.mel_head.state_dict().items()})
    return Taught(lessons, latents, voices, head.requires_grad_(False), float(every.var()))


def learn(
    student: GPT,
    taught: Taught,
    *,
    epochs: int,
    seed: int,
    path: Path,
    key: str,
    autocast: AbstractContextManager[object],
) -> None:
    """Trains the student, on its device, for `epochs`; resumes an interrupted training.

    path: student.pt; key: identifies the training, except for `epochs`. Raises NonFiniteError,
    DiskFull, WriteError.
    """
    rate = LEARNING_RATE * OF_WIDTH / student.shape.width
    optimizer = optimizer_of(student, rate)
    taught.head.to(next(student.parameters()).device)
    first = _resume(student, optimizer, path, key)
    plan = [list(_batches(taught.lessons, seed, epoch)) for epoch in range(epochs)]
    step, total = sum(map(len, plan[:first])), sum(map(len, plan))
    if first:
        left = "continues" if first < epochs else "is finished"
        log.info("The student was trained for %d of %d epochs and %s.", first, epochs, left)
    student.train()
    with Progress("Training the student", total, "steps") as progress:
        progress.add(step)
        for epoch in range(first, epochs):
            for batch in plan[epoch]:
                for group in optimizer.param_groups:
                    group["lr"] = rate * _factor(step, total)
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
        parameter.requires_grad_(not name.startswith(_FROZEN))
    return new_optimizer("adamw", weight_groups(student, WEIGHT_DECAY), rate)


def take_step(
    student: GPT,
    optimizer: torch.optim.Optimizer,
    taught: Taught,
    batch: Sequence[int],
    autocast: AbstractContextManager[object],
) -> float:
    """Takes one step on a batch of lessons, given by number. Returns the sum of loss and gradient
    norm; if it is not finite, the weights are unchanged."""
    with autocast:
        loss = _loss(student, taught, batch)
    optimizer.zero_grad()
    loss.backward()
    learned = [weight for weight in student.parameters() if weight.requires_grad]
    total = float(loss.detach() + torch.nn.utils.clip_grad_norm_(learned, MOST_NORM))
    if math.isfinite(total):
        optimizer.step()
    return total


@torch.no_grad()
def agreement(student: GPT, taught: Taught) -> Agreement | None:
    """The agreement on the held-out lessons; None without such lessons."""
    chosen = [index for index, lesson in enumerate(taught.lessons) if lesson.held_out]
    if not chosen:
        return None
    was_training = student.training
    student.eval()
    sums, count = torch.zeros(3, dtype=torch.float64), 0
    for batch in cut(chosen, taught.lessons):
        divergence, _, same, error = _terms(student, taught, batch)
        sums += torch.stack([divergence.sum(), same.sum(), error.sum()]).double().cpu()
        count += len(divergence)
    student.train(was_training)
    return Agreement(*(sums / count).tolist())


def cut(order: Sequence[int], lessons: Sequence[Lesson]) -> Iterator[list[int]]:
    """Divides lessons, in this order, into batches of about POSITIONS positions."""
    batch, positions = list[int](), 0
    for index in order:
        lesson = lessons[index]
        length = row_length(len(lesson.ids), len(lesson.codes), stop_input=True)
        if batch and positions + length > POSITIONS:
            yield batch
            batch, positions = [], 0
        batch.append(index)
        positions += length
    if batch:
        yield batch


def _batches(lessons: Sequence[Lesson], seed: int, epoch: int) -> Iterator[list[int]]:
    order = [index for index, lesson in enumerate(lessons) if not lesson.held_out]
    random.Random(f"distillation/{seed}/{epoch}").shuffle(order)
    return cut(order, lessons)


def _factor(step: int, total: int) -> float:
    """The learning rate of a step as a share of the peak: linear warm-up, then a cosine to 0."""
    warm = min(1.0, (step + 1) / min(WARMUP_STEPS, max(1, total)))
    return warm * (0.5 + 0.5 * math.cos(math.pi * step / max(1, total)))


def _loss(student: GPT, taught: Taught, batch: Sequence[int]) -> Tensor:
    divergence, surprise, _, error = _terms(student, taught, batch)
    spoken = [taught.lessons[index].spoken for index in batch for _ in _targets(taught, index)]
    is_spoken = torch.tensor(spoken, device=surprise.device)
    cross_entropy = (surprise * is_spoken).sum() / is_spoken.sum().clamp(min=1)
    return divergence.mean() + OWN_WEIGHT * cross_entropy + LATENT_WEIGHT * error.mean()


def _targets(taught: Taught, index: int) -> range:
    return range(len(taught.latents[index]))


def _terms(student: GPT, taught: Taught, batch: Sequence[int]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """For each code of a batch and the STOP of each lesson: the divergence, the cross-entropy,
    whether the likeliest code is the teacher's, and the error of the latent."""
    lessons = [taught.lessons[index] for index in batch]
    device = next(student.parameters()).device
    latents = _latents(student, lessons, taught.voices).float()
    targets = torch.cat([taught.latents[index] for index in batch]).to(device)
    stop = torch.tensor([student.shape.audio_stop])
    codes = torch.cat([part for lesson in lessons for part in (lesson.codes, stop)]).to(device)
    students = F.log_softmax(student.mel_head(latents).float(), -1)
    teachers = F.log_softmax(taught.head(targets).float(), -1)
    divergence = (teachers.exp() * (teachers - students)).sum(-1)
    cross_entropy = F.nll_loss(students, codes, reduction="none")
    same = (students.argmax(-1) == teachers.argmax(-1)).float()
    error = (latents - targets).square().mean(-1) / taught.variance
    return divergence, cross_entropy, same, error


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
    return training.hidden(gpt, rows.to(device), conditioning).index_select(0, slots).float()


def _save(student: GPT, optimizer: torch.optim.Optimizer, epoch: int, path: Path, key: str) -> None:
    content = {
        "key": key,
        "epoch": epoch,
        "student": student.state_dict(),
        "optimizer": optimizer.state_dict(),
    }
    replace_file(path, lambda file: torch.save(content, file))


def _resume(student: GPT, optimizer: torch.optim.Optimizer, path: Path, key: str) -> int:
    """Loads the state of an interrupted distillation; returns the number of its epochs."""
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
