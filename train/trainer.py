"""The training loop: `train_step` runs one step, and `Trainer.train` runs the epochs.

A step is forward, backward, gradient clipping and the optimizer step. An epoch is its steps with
their log lines, then validation, a checkpoint and a sample. `train.setup` builds a Trainer. The
checkpoint is written before the sample is spoken, so a fault while speaking costs a sample and
never an epoch.
"""

import itertools
import logging
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, overload

import torch
from torch import Tensor

from machine.devices import cuda_errors
from machine.memory import trim_heap
from train.checkpointing.async_writer import CheckpointWriter
from train.checkpointing.checkpoints import Checkpoints
from train.dataset.batches import Batch, Batches, OomBackoff, agreed, copier_for, prefetch
from train.distributed import World
from train.early_stopping import EarlyStopping
from train.evaluation.blending import conclude
from train.evaluation.evaluator import Evaluator
from train.learner import DeferredStepResult, Learner, StepResult
from train.losses import DECIDING_LOSS, LOSS_TERMS
from train.metrics.flops import step_flops
from train.metrics.logs import DeferredMetrics, Logs, TrainedStep
from train.resilience.heartbeat import Heartbeat
from train.resilience.stopping import StopRequest
from train.sampling.sample_files import sample_is_missing
from train.sampling.sampler import LONGEST_SAMPLE_SECONDS, Sampler
from train.settings import TrainSettings
from xtts.model.gpt import Losses, to_coqui

log = logging.getLogger("train")

# 5.3 GB of a full-size model with its optimizer, at 3 MB/s: a slow disk over a slow network.
LONGEST_SAVE_SECONDS = 1800.0


@overload
def train_step(
    learner: Learner, batch: Batch, *, deferred: Literal[False] = False
) -> StepResult: ...
@overload
def train_step(
    learner: Learner, batch: Batch, *, deferred: bool
) -> StepResult | DeferredStepResult: ...
def train_step(
    learner: Learner, batch: Batch, *, deferred: bool = False
) -> StepResult | DeferredStepResult:
    """One step; a non-finite loss or gradient moves no weight.

    Args:
        deferred: do not wait for the numbers: the device itself skips a non-finite step, and
            `Learner.read_deferred` reads the results later. Only where `learner.can_defer`.

    Raises:
        NonFiniteError: at the third non-finite step in a row, and in fp16 when its scale stays
            below 1; of deferred steps, when they are read.
    """
    learning_rate = learner.start_step(batch)
    losses, loss = _forward_backward_retried(learner, batch)
    norm = learner.gradient_norm()
    means = (term.mean(losses) for term in LOSS_TERMS)
    numbers = torch.stack((*means, loss, norm.to(loss))).detach()
    if deferred:
        numbers = learner.over_all_ranks(numbers)
        learner.clip_gradients(norm)
        learner.optimizer_step(non_finite=~torch.isfinite(numbers[-2] + numbers[-1]))
        result: StepResult | DeferredStepResult = DeferredStepResult(numbers, learning_rate)
    elif (result := learner.read(numbers, learning_rate)).finite:
        learner.clip_gradients(norm)
        learner.optimizer_step()
    # Here, not before the next step: at full size 1.8 GB less while saving and speaking.
    learner.optimizer.zero_grad(set_to_none=True)
    if isinstance(result, StepResult):
        learner.count_step(result)
    learner.step += 1
    return result


def forward_backward(learner: Learner, batch: Batch) -> tuple[Losses, Tensor]:
    """The losses of a batch and their weighted sum, whose gradients are in the weights then."""
    losses = learner.forward(batch)
    loss = learner.weighted_loss(losses)
    learner.scaler.scale(loss).backward()
    return losses, loss


def _forward_backward_retried(learner: Learner, batch: Batch) -> tuple[Losses, Tensor]:
    """`forward_backward`; where memory was short, once more with all of it given back."""
    try:
        return forward_backward(learner, batch)
    except Exception as error:
        found = cuda_errors.classify(error)
        if found is None or not found.transient:
            raise
    # Behind the `except`: the error held the tensors that are to go.
    log.warning("Step %d once more, after: %s", learner.step, found.words)
    learner.optimizer.zero_grad(set_to_none=True)
    cuda_errors.free_after_fault(str(learner.device))
    return forward_backward(learner, batch)


@dataclass(frozen=True)
class Trainer:
    """The epochs of one run, from batch `first_batch` of epoch `first_epoch` on; its parts are put
    together by `train.setup.open_trainer`. logs and evaluator: of rank 0 alone."""

    settings: TrainSettings
    num_epochs: int
    learner: Learner
    batches: Batches
    validation: Batches | None
    early_stopping: EarlyStopping
    checkpoints: Checkpoints
    writer: CheckpointWriter
    logs: Logs | None
    sampler: Sampler
    heartbeat: Heartbeat
    stop: StopRequest
    first_epoch: int = 1
    first_batch: int = 0
    started_at: float = 0.0  # time.perf_counter()
    # Judges epochs against the base, whose folder this is.
    evaluator: Evaluator | None = None
    base: Path = Path()
    # Epochs that are to speak when their checkpoints are written, and how long each was learned.
    unsampled: list[int] = field(default_factory=list)
    epoch_seconds: dict[int, float] = field(default_factory=dict)

    @cached_property
    def unlogged(self) -> DeferredMetrics:
        """Steps whose numbers are not logged yet."""
        return DeferredMetrics(self.learner, self.logs, self.settings.log_every)

    @property
    def world(self) -> World:
        """The processes that take each step together."""
        return self.learner.world

    def run(self) -> int:
        """Trains what is left to train, after a sample that the last run left out.

        Returns:
            The exit code, see `train`.
        """
        if self.world.is_main:
            self._sample_missing()
        self.world.barrier()
        if self.first_epoch > 1 and self._stops_early(self.first_epoch - 1):
            return self._finish()
        if self.first_epoch > self.num_epochs:
            log.info(nothing_left(self.first_epoch - 1, self.first_batch, self.num_epochs))
        else:
            if self.evaluator:  # what judging costs is part of the time that is left
                with self.heartbeat.allow(LONGEST_SAMPLE_SECONDS, "trying how fast is spoken"):
                    self.evaluator.foresee(self.first_epoch)
            log.info("Ready to learn after %.1f s.", time.perf_counter() - self.started_at)
        return self.train()

    def train(self) -> int:
        """Trains from the first epoch to the last.

        A stop while validating is a stop inside the epoch: the next start validates, and saves it.

        Returns:
            0 when all epochs are done; 143 or 130 when a signal came and the state was saved, be it
            while the last epoch was judged.

        Raises:
            NonFiniteError: (65) what was saved before stays.
            DiskFull: (74) likewise.
        """
        self.stop.has_state = True
        for epoch in range(self.first_epoch, self.num_epochs + 1):
            if not self._learn(epoch):
                return self.stop.exit_code
            if self._stops_early(epoch):
                break
        return self._finish()

    def _learn(self, epoch: int) -> bool:
        """One epoch: steps, validation, logs, checkpoint, sample. False where a signal came; what
        there was to save is saved then."""
        done = self.first_batch if epoch == self.first_epoch else 0
        began = clock = time.perf_counter()
        for number, batch in self._batches(epoch, done):
            waited = time.perf_counter() - clock
            result = self._step_or_backoff(epoch, done, batch)
            if result is None:  # out of memory: its clips come again in smaller batches
                continue
            self.stop.step_seconds = time.perf_counter() - clock
            self._log_step(epoch, number, batch, result, waited)
            done = number
            if self._stop_requested(batch):
                return self._save_interrupted(epoch, done)
            self._sample_saved()
            clock = time.perf_counter()
        ended, judged = time.perf_counter(), self._judging_seconds()
        validation = self._validate(epoch)
        if self._stop_requested():
            return self._save_interrupted(epoch, done)
        self.epoch_seconds[epoch] = time.perf_counter() - began
        if self.logs:
            self.logs.epoch(epoch, self.learner.step, validation)
        if self._save_due(epoch):
            self._save(epoch, validation)
            if not self._stop_requested():
                self.unsampled.append(epoch)
                self._sample_saved()
            # An epoch that SAVE_EVERY leaves unsaved is saved after the next one's first step.
            if self._stop_requested():
                return False
        if self.logs:  # what is judged in another process overlaps the steps
            took = time.perf_counter() - ended - (self._judging_seconds() - judged)
            self.logs.remaining.ended(max(0.0, took))
        return True

    # Batches and steps

    def _batches(self, epoch: int, done: int) -> Iterator[tuple[int, Batch]]:
        """The batches of the epoch after the first `done`, under the watchdog's eyes; each with
        how many of the plan are done with it. Planned again where the budget is halved."""
        copier = copier_for(self.learner.device)
        halvings = -1
        while halvings != len(self.batches.halvings):
            halvings, planned = len(self.batches.halvings), len(self.batches.plan(epoch))
            ahead = prefetch(self.batches.epoch(epoch, done), copier)
            ahead = agreed(ahead, self.world, lambda: self.stop.requested)
            for batch in self.heartbeat.watch(ahead, "learning"):
                number = min(done + self.world.size, planned)
                yield number, batch
                if halvings != len(self.batches.halvings):
                    break
                done = number

    def _step_or_backoff(
        self, epoch: int, done: int, batch: Batch
    ) -> StepResult | DeferredStepResult | None:
        """`train_step`; None where memory was too short, also at the second try: from here on the
        batches are of half the seconds.

        Raises what the step raised where that would not help: for a single clip, and with several
        processes, whose others wait inside the same step.
        """
        learner = self.learner
        try:
            return train_step(learner, batch, deferred=learner.can_defer)
        except Exception as error:
            found = cuda_errors.classify(error)
            smaller = self.batches.halved(epoch, batch.clips)
            if (
                found is None
                or not found.transient
                or smaller is None
                or not self.world.is_single_process
            ):
                raise
        # Behind the `except`: the error held the tensors that are to go.
        learner.optimizer.zero_grad(set_to_none=True)
        cuda_errors.free_after_fault(str(learner.device))
        self.batches.halvings.append(OomBackoff(epoch, done, smaller))
        log.warning(
            "Memory is short (%s): batches are of %.1f s from here on, and stay so when the run "
            "goes on.", found.words, smaller,
        )  # fmt: skip
        return None

    def _log_step(
        self, epoch: int, number: int, batch: Batch, result: StepResult | DeferredStepResult,
        waited: float,
    ) -> None:  # fmt: skip
        names = [self.batches.clips[clip].name for clip in batch.clips]
        flops = step_flops(batch.rows, self.learner.gpt.shape, self.learner.weights.trainable_share)
        took = self.stop.step_seconds
        self.unlogged.add(
            TrainedStep(epoch, number, self.learner.step, batch, result, waited, took, names, flops)
        )

    # Decisions

    def _stop_requested(self, batch: Batch | None = None) -> bool:
        """Whether a signal came, to this process or to any other of the run. After a step of
        several processes: as they agreed on it with its batch, at most two steps before."""
        if self.world.is_single_process:
            return self.stop.requested
        if batch and batch.agreement:
            wanted = batch.agreement.stop
        else:
            wanted = bool(self.world.all_reduce(float(self.stop.requested))[0])
        if wanted and not self.stop.requested:
            self.stop.signal_number = signal.SIGTERM
        return wanted

    def _stops_early(self, trained: int) -> bool:
        """EARLY_STOPPING after epoch `trained`, logged with its reason. Of several processes only
        one knows the verdict: they go by the loss, which all of them know."""
        if self.evaluator and self.settings.early_stopping and self.world.is_single_process:
            known = self.evaluator.run.evaluation()
            if known and known.verdict:
                judged = {one.epoch for one in known.candidates if one.kind == "epoch"}
                newer = range(max(judged, default=0) + 1, trained + 1)
                unjudged = sum(self.checkpoints.due(epoch, self.num_epochs) for epoch in newer)
                self.early_stopping.record_verdict(known.verdict.epoch, judged, unjudged)
        if self.early_stopping.over:
            log.info(self.early_stopping.reason)
        return self.early_stopping.over

    def _save_due(self, epoch: int) -> bool:
        """SAVE_EVERY, and always the last epoch."""
        return self.checkpoints.due(epoch, self.num_epochs) or self.early_stopping.over

    def _sample_due(self, epoch: int) -> bool:
        """SAMPLE_EVERY, and always the last epoch; only what is saved can be spoken."""
        due = epoch % self.settings.sample_every == 0 or epoch == self.num_epochs
        return (due or self.early_stopping.over) and self._save_due(epoch)

    # Validation, checkpoints, samples

    def _validate(self, epoch: int) -> dict[str, float] | None:
        """The losses on the validation clips, where they are due: VALIDATION_EVERY, and always the
        last epoch. Of no worth after a stop."""
        self.unlogged.flush()
        due = epoch % self.settings.validation_every == 0 or epoch == self.num_epochs
        if self.validation is None or not due:
            return None
        batches = self.heartbeat.watch(self.validation.epoch(epoch), "validating")
        found = self.learner.evaluate(
            itertools.takewhile(lambda _: not self.stop.requested, batches)
        )
        if not self.stop.requested:
            self.early_stopping.record_loss(epoch, found[DECIDING_LOSS])
        return found

    def _save(self, epoch: int, validation: dict[str, float] | None) -> None:
        """Writes the epoch's checkpoint with the state to go on from. Rank 0 writes, the others
        wait."""
        self._finish_writing()
        losses = {
            f"validation_{term.name}": validation[term.name] if validation else None
            for term in LOSS_TERMS
        }
        with self.heartbeat.allow(LONGEST_SAVE_SECONDS, "writing a checkpoint"):
            if self.world.is_main:
                step = self.learner.step
                beside = self.writer.background
                state = {
                    "model": self.learner.weights.unsaved_state()
                    if beside
                    else self.learner.model_state(),
                    "trainer": self._trainer_state(),
                }
                self.writer.write(
                    state,
                    lambda kept: self.checkpoints.save_epoch(
                        # Turned in the writer's thread: no step waits for it.
                        epoch, step, to_coqui(kept["model"]) if beside else kept["model"],
                        kept["trainer"], losses,
                    ),
                )  # fmt: skip
            self.world.barrier()
        # Gradients and the copies just written are gone; speaking the sample needs the room.
        trim_heap()
        self.stop.write_seconds = self.writer.seconds

    def _save_interrupted(self, epoch: int, batch: int) -> Literal[False]:
        """Writes the state inside an epoch, `batch` of whose batches are done."""
        with self.heartbeat.allow(LONGEST_SAVE_SECONDS, "writing a checkpoint"):
            self.unlogged.flush()
            self.writer.finish()
            saved = None
            if self.world.is_main:
                saved = self.checkpoints.save_interrupted(
                    epoch, self.learner.step, batch, self.learner.model_state(),
                    self._trainer_state(),
                )  # fmt: skip
            self.world.barrier()
        if saved:
            log.info("Stopped inside epoch %d; saved %s.", epoch, saved.path.name)
        return False

    def _trainer_state(self) -> dict[str, Any]:
        return {
            **self.learner.trainer_state(),
            "batch_seconds": self.batches.batch_seconds,
            "halvings": [list(one) for one in self.batches.halvings],
            "patience": self.early_stopping.state(),
        }

    def _sample_saved(self) -> None:
        """Has an epoch speak, its sample and what it is judged by, once its checkpoint is whole.
        Raises what writing it raised."""
        if not self.unsampled or not self.writer.idle:
            return
        self.unlogged.flush()  # a sample is no part of an interval's steps
        epoch = self.unsampled.pop()
        with self.heartbeat.allow(LONGEST_SAMPLE_SECONDS, "speaking a sample"):
            if saved := self.writer.finish():
                if self._sample_due(epoch):
                    self.sampler.sample(epoch, saved.path, saved.sha256)
                if self.evaluator and (whole := self.checkpoints.run.verified(epoch)):
                    self.evaluator.judge(whole, self.epoch_seconds.get(epoch, 0.0))
            self.world.barrier()

    def _judging_seconds(self) -> float:
        budget = self.evaluator.budget if self.evaluator else None
        return budget.spent_seconds if budget else 0.0

    def _sample_missing(self) -> None:
        """Speaks the newest epoch where the run ended between its checkpoint and its sample."""
        run = self.checkpoints.run
        newest, skipped = run.newest_verified(), self.sampler.plan.mode == "skipped"
        if newest is None or skipped or not self._sample_due(newest.epoch):
            return
        if sample_is_missing(run, newest.epoch, newest.sha256):
            log.info("Epoch %d has no sample yet; speaking it now.", newest.epoch)
            with self.heartbeat.allow(LONGEST_SAMPLE_SECONDS, "speaking a sample"):
                self.sampler.sample(newest.epoch, newest.checkpoint, newest.sha256)

    def _finish(self) -> int:
        """Waits for what is still being written and spoken; judges blends, keeps the best and says
        which it is. The exit code."""
        self._finish_writing()
        with self.heartbeat.allow(LONGEST_SAMPLE_SECONDS, "speaking a sample"):
            self.sampler.finish()
        if self.evaluator and not self.stop.requested:
            with self.heartbeat.allow(LONGEST_SAMPLE_SECONDS, "evaluating"):
                conclude(self.evaluator, self.settings, self.base)
        # All is saved; what was not judged yet is left for the next start.
        return self.stop.exit_code if self.stop.requested else 0

    def _finish_writing(self) -> None:
        with self.heartbeat.allow(LONGEST_SAVE_SECONDS, "writing a checkpoint"):
            self.writer.finish()
        self._sample_saved()


def nothing_left(epochs: int, batches: int, num_epochs: int) -> str:
    """The sentence for a run that has all the epochs that are asked for, or more: so many, and so
    many batches of the next."""
    ways = f"Set NUM_EPOCHS to {epochs + 1} or more to go on, or RESUME=never to start over."
    if epochs == num_epochs and not batches:
        all_of_them = f"All {epochs} epochs are" if epochs > 1 else "The one epoch is"
        return f"{all_of_them} done already. {ways}"
    inside = f" and {batches} batches of epoch {epochs + 1}" if batches else ""
    return (
        f"The run has {epochs} epoch{'s' if epochs > 1 else ''}{inside} already, more than "
        f"NUM_EPOCHS={num_epochs}: there is nothing to train, and nothing is removed. {ways}"
    )
