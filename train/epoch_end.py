"""What follows the steps of an epoch: validate, save, sample, judge; and whether the run ends.

`EpochEnd.run` calls them in this order, and each returns what the next one takes. The checkpoint is
written before the sample is spoken, so a fault while speaking costs a sample and never an epoch.
On a GPU, it is written while the next epoch's steps run; the sample and the judgement then wait for
it (`EpochEnd.speak_saved`).
"""

import itertools
import logging
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

import torch
from torch import Tensor

from machine.memory import trim_heap
from train.checkpointing.async_writer import CheckpointWriter
from train.checkpointing.checkpoints import Checkpoints
from train.dataset.batches import Batch, Batches
from train.evaluation.conclusion import conclude, seconds_left
from train.evaluation.evaluator import Evaluator
from train.evaluation.floors import MIN_FINISHED
from train.metrics.logs import DeferredMetrics, Logs, Phase
from train.optim.trainable import TrainerState
from train.resilience.heartbeat import Heartbeat
from train.resilience.stopping import StopRequest
from train.sampling.sampler import MAX_SAMPLE_SECONDS
from train.sampling.samples import Samples, is_sample_missing
from train.settings import TrainSettings
from train.step import LOSS_TERMS, Learner
from xtts.model import training
from xtts.model.gpt import to_coqui
from xtts.voices.evaluation_file import Evaluation
from xtts.voices.run_folder import VerifiedCheckpoint

log = logging.getLogger("train")

# 5.3 GB (a full-size model with its optimizer) at 3 MB/s: a slow disk over a slow network.
MAX_SAVE_SECONDS = 1800.0
# Several candidates are judged, each for at most the time of a sample, and decoders learn.
MAX_CONCLUSION_SECONDS = 8 * MAX_SAMPLE_SECONDS
# On the validation clips. It decides which epoch is best if there is no evaluation.
DECIDING_LOSS = "audio_loss"


@dataclass
class EarlyStopping:
    """EARLY_STOPPING: stops a run after N epochs without improvement.

    The evaluation's verdict decides; without one, or after judging ended, the validation loss.

    epochs: the number of epochs without a better verdict or audio loss that ends the run; None
    for no limit.
    """

    epochs: int | None = None
    best_loss: float = math.inf
    best_epoch: int = 0
    newest_epoch: int = 0
    # (epoch of the verdict, newer epochs that were judged, in order); kept in evaluation.json, not
    # in checkpoints.
    judged: tuple[int, list[int]] | None = None

    def record_loss(self, epoch: int, audio_loss: float) -> None:
        """Records the validation of epoch `epoch` (from 1). A non-finite loss never improves."""
        self.newest_epoch = epoch
        if audio_loss < self.best_loss or not self.best_epoch:
            self.best_loss, self.best_epoch = audio_loss, epoch

    def record_evaluation(self, evaluation: Evaluation | None, saved: Sequence[int]) -> None:
        """Records an evaluation's verdict, if there is one. saved: the epochs saved so far."""
        if evaluation is None or evaluation.verdict is None:
            return
        # Too few sentences judge nothing; then the validation loss decides.
        has_judged = len(evaluation.candidates[0].sentences) >= MIN_FINISHED
        epochs = [
            candidate.epoch for candidate in evaluation.candidates if has_judged and candidate.kind == "epoch"
        ]
        unjudged = sum(epoch > max(epochs, default=0) for epoch in saved)
        self.record_verdict(evaluation.verdict.epoch, epochs, unjudged)

    def record_verdict(self, best_epoch: int, judged: Iterable[int], unjudged: int) -> None:
        """Records the best epoch of the evaluation (0 for the base) and the judged epochs.

        unjudged: the number of newer saved epochs. One may still be judged. If there are more,
        judging is late or ended, and the validation loss decides.
        """
        newer = sorted(epoch for epoch in judged if epoch > best_epoch)
        self.judged = (best_epoch, newer) if unjudged <= 1 else None

    @property
    def over(self) -> bool:
        """Whether the run must end."""
        if self.judged is not None:
            return self.epochs is not None and len(self.judged[1]) >= self.epochs
        epochs_since_best = self.newest_epoch - self.best_epoch
        return self.epochs is not None and self.best_epoch > 0 and epochs_since_best >= self.epochs

    @property
    def reason(self) -> str:
        """The log line when the run ends early."""
        if self.judged is not None:
            best, newer = self.judged
            best_name = f"epoch {best}" if best else "the base"
            return (
                f"The evaluation found nothing better since {best_name}. The run ends after epoch "
                f"{newer[-1]} (EARLY_STOPPING={self.epochs}). Raise EARLY_STOPPING, or set it to "
                "off, to continue."
            )
        return (
            f"No epoch since {self.best_epoch} (audio loss {self.best_loss:.3f}) was better. "
            f"The run ends after epoch {self.newest_epoch} (EARLY_STOPPING={self.epochs}). The "
            "best one is kept. Raise EARLY_STOPPING, or set it to off, to continue."
        )

    def state(self) -> dict[str, float]:
        """The state that a checkpoint keeps."""
        return {"best_loss": self.best_loss, "best_epoch": self.best_epoch, "newest_epoch": self.newest_epoch}

    def resume(self, state: dict[str, float] | None) -> None:
        """Loads the state of a checkpoint; without one, counting starts now."""
        for name, value in (state or {}).items():
            setattr(self, name, value)


class _EpochState(TypedDict):
    """What a checkpoint holds of a finished epoch."""

    model: dict[str, Tensor]
    trainer: TrainerState
    adapter: tuple[dict[str, Tensor], int] | None


@dataclass
class EpochEnd:
    """The ends of the epochs of one run. Only rank 0 has logs and an evaluator.

    unspoken: the epoch that speaks when its checkpoint is written, with its training time.
    """

    settings: TrainSettings
    num_epochs: int
    learner: Learner
    batches: Batches
    validation: Batches | None
    early_stopping: EarlyStopping
    checkpoints: Checkpoints
    writer: CheckpointWriter
    logs: Logs | None
    metrics: DeferredMetrics
    samples: Samples
    evaluator: Evaluator | None
    heartbeat: Heartbeat
    stop: StopRequest
    base: Path  # the base model's folder
    unspoken: tuple[int, float] | None = None

    def run(self, epoch: int, batch: int, started: float) -> bool:
        """Ends an epoch after `batch`, its last one. started: when its steps began, by
        `time.perf_counter`.

        Returns False if a signal came; then the state is saved. A stop during validation is a stop inside
        the epoch: the next start validates and saves it.
        """
        last_step_ended = time.perf_counter()
        losses = self.validate(epoch)
        if self.stop.agreed(self.learner.world):
            self.save_inside(epoch, batch)
            return False
        seconds = time.perf_counter() - started
        if self.logs:
            self.logs.log_epoch(epoch, self.learner.step, losses)
        if self.save_due(epoch):
            self.save(epoch, losses)
            if not self.stop.agreed(self.learner.world):
                self.unspoken = (epoch, seconds)
                self.speak_saved()
            # After a stop, the next epoch's first step saves an epoch that has no checkpoint.
            if self.stop.agreed(self.learner.world):
                return False
        if self.logs:
            self.logs.remaining.end_epoch(time.perf_counter() - last_step_ended)
        return True

    def speak_saved(self) -> None:
        """Speaks the samples of the last saved epoch and judges it, once its checkpoint is written.

        Raises the writer's error.
        """
        if self.unspoken is None or not self.writer.idle:
            return
        self.metrics.flush()  # the interval of the steps excludes the time of a sample
        (epoch, seconds), self.unspoken = self.unspoken, None
        with self.heartbeat.allow(MAX_SAMPLE_SECONDS, "speaking a sample"):
            if saved := self.writer.finish():
                if self.sample_due(epoch):
                    self.sample(saved, seconds)
                self.judge(saved, seconds)
            self.learner.world.barrier()

    def finish_writing(self) -> None:
        """Waits for the checkpoint in progress, then speaks and judges its epoch."""
        with self.heartbeat.allow(MAX_SAVE_SECONDS, "writing a checkpoint"):
            self.writer.finish()
        self.speak_saved()

    # Validate, save, sample, judge

    def validate(self, epoch: int) -> dict[str, float] | None:
        """The losses on the validation clips, if there are any. After a stop they are partial."""
        self.metrics.flush()
        if self.validation is None:
            return None
        self._begin(epoch, "validating")
        batches = self.heartbeat.watch(self.validation.epoch(epoch), "validating")
        losses = mean_losses(self.learner, itertools.takewhile(lambda _: not self.stop.requested, batches))
        if not self.stop.requested:
            self.early_stopping.record_loss(epoch, losses[DECIDING_LOSS])
        return losses

    def save(self, epoch: int, losses: dict[str, float] | None) -> None:
        """Writes the epoch's checkpoint and the trainer state; `CheckpointWriter.finish` returns
        it. Rank 0 writes, the others wait."""
        self.finish_writing()
        if self.checkpoints.keep == 1:  # saving removes the last epoch, which may still be speaking
            with self.heartbeat.allow(MAX_SAMPLE_SECONDS, "speaking a sample"):
                self.samples.sampler.finish()
        self._begin(epoch, "saving")
        validation = {f"validation_{term}": losses[term] if losses else None for term in LOSS_TERMS}
        learner, in_background = self.learner, self.writer.background
        with self.heartbeat.allow(MAX_SAVE_SECONDS, "writing a checkpoint"):
            if learner.world.is_main:
                step = learner.step
                state: _EpochState = {
                    "model": learner.weights.unsaved_state() if in_background else learner.model_state(),
                    "trainer": self._trainer_state(),
                    "adapter": learner.weights.adapter(),
                }
                self.writer.write(
                    state,
                    lambda state: self.checkpoints.save_epoch(
                        # Converted in the writer's thread: no step waits for it.
                        epoch,
                        step,
                        to_coqui(state["model"]) if in_background else state["model"],
                        state["trainer"],
                        validation,
                        state["adapter"],
                    ),
                )
            learner.world.barrier()
        # Gradients and the written copies are free; the sample needs their memory.
        trim_heap()
        self.stop.write_seconds = self.writer.seconds

    def save_inside(self, epoch: int, batch: int) -> None:
        """Writes the state inside an epoch after `batch` of its batches."""
        saved = None
        with self.heartbeat.allow(MAX_SAVE_SECONDS, "writing a checkpoint"):
            self.metrics.flush()
            self.writer.finish()
            if self.learner.world.is_main:
                saved = self.checkpoints.save_interrupted(
                    epoch, self.learner.step, batch, self.learner.model_state(), self._trainer_state()
                )
            self.learner.world.barrier()
        if saved:
            log.info("Stopped inside epoch %d. Saved %s.", epoch, saved.checkpoint.name)

    def sample(self, saved: VerifiedCheckpoint, seconds: float) -> None:
        """Speaks the samples of a saved epoch. seconds: its training time."""
        self._begin(saved.epoch, "sampling")
        self.samples.speak(saved.epoch, saved.checkpoint, saved.sha256, epoch_seconds=seconds)

    def judge(self, saved: VerifiedCheckpoint, seconds: float) -> None:
        """Judges a saved epoch. seconds: its training time."""
        if self.evaluator:
            self._begin(saved.epoch, "judging")
            self.evaluator.judge_epoch(saved, seconds)

    # The start and the end of a run

    def sample_missing(self) -> None:
        """Speaks the newest epoch's sample if the last start ended before it."""
        run = self.checkpoints.run
        newest, skipped = run.newest_verified(), self.samples.sampler.plan.mode == "skipped"
        if newest is None or skipped or not self.sample_due(newest.epoch):
            return
        if is_sample_missing(run, newest.epoch, newest.sha256):
            log.info("Epoch %d has no sample yet. Speaking it now.", newest.epoch)
            with self.heartbeat.allow(MAX_SAMPLE_SECONDS, "speaking a sample"):
                self.samples.speak(newest.epoch, newest.checkpoint, newest.sha256)

    def judge_base(self) -> None:
        """Judges the base before the first epoch, so that the remaining time includes judging."""
        if self.evaluator:
            with self.heartbeat.allow(MAX_SAMPLE_SECONDS, "judging the base"):
                self.evaluator.judge_base()

    def conclude(self) -> None:
        """Finishes writing and speaking, and judges the remaining candidates."""
        self.finish_writing()
        with self.heartbeat.allow(MAX_SAMPLE_SECONDS, "speaking a sample"):
            self.samples.sampler.finish()
        if self.evaluator and not self.stop.requested:
            if self.evaluator.can_judge:
                self._begin(max(self.checkpoints.run.epochs(), default=0), "concluding")
            with self.heartbeat.allow(MAX_CONCLUSION_SECONDS, "evaluating"):
                conclude(self.evaluator, self.samples, self.settings, self.base)

    @property
    def conclusion_seconds(self) -> float:
        """The estimated time of `conclude`."""
        if self.evaluator is None:
            return 0.0
        return seconds_left(self.evaluator, self.settings, self.samples.decoder_step_seconds)

    # Decisions

    def stops_early(self, trained: int) -> bool:
        """Whether EARLY_STOPPING ends the run after epoch `trained`; logs the reason.

        Several processes use the validation loss: only one of them knows the verdict.
        """
        early = self.early_stopping
        if self.evaluator and early.epochs and self.learner.world.is_single_process:
            saved = [epoch for epoch in range(1, trained + 1) if self._due(epoch)]
            early.record_evaluation(self.evaluator.evaluation(), saved)
        if early.over:
            log.info(early.reason)
        return early.over

    def save_due(self, epoch: int) -> bool:
        """SAVE_EVERY, and always the last epoch."""
        return self._due(epoch) or self.early_stopping.over

    def sample_due(self, epoch: int) -> bool:
        """SAMPLE_EVERY, and always the last epoch; only a saved epoch can speak."""
        due = epoch % self.settings.sample_every == 0 or epoch == self.num_epochs
        return (due or self.early_stopping.over) and self.save_due(epoch)

    def _due(self, epoch: int) -> bool:
        return self.checkpoints.due(epoch, self.num_epochs)

    def _trainer_state(self) -> TrainerState:
        return {
            **self.learner.trainer_state(),
            "batch_seconds": self.batches.batch_seconds,
            "halvings": [list(halving) for halving in self.batches.halvings],
            "patience": self.early_stopping.state(),
        }

    def _begin(self, epoch: int, phase: Phase) -> None:
        """Records the phase of the run until its next step."""
        if self.logs:
            self.logs.log_phase(epoch, self.learner.step, phase)


@torch.no_grad()
def mean_losses(learner: Learner, batches: Iterable[Batch]) -> dict[str, float]:
    """The mean loss terms over all tokens of these batches, without dropout, with the weights that
    would be saved. Changes no state."""
    learner.gpt.eval()
    sums = torch.zeros(2 * len(LOSS_TERMS), dtype=torch.float64)
    with learner.weights.as_saved():
        for batch in batches:
            with learner.autocast():
                losses = training.losses(learner.gpt, batch.rows.to(learner.device))
            means, counts = [float(mean) for mean in losses], batch.rows.num_targets
            products = [mean * count for mean, count in zip(means, counts, strict=True)]
            sums += torch.tensor([*products, *counts]).double()
    all_sums = learner.world.all_reduce(*sums.tolist())
    totals, all_counts = all_sums[: len(LOSS_TERMS)], all_sums[len(LOSS_TERMS) :]
    # A stop during validation may leave no tokens; the result is not used then.
    return {
        term: total / max(1.0, count)
        for term, total, count in zip(LOSS_TERMS, totals, all_counts, strict=True)
    }
