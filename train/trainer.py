"""The training loop: `Trainer.train` runs the epochs.

An epoch is its steps (`train.step`) with their log lines, then validation, a checkpoint and a
sample. `train.setup` builds a Trainer. The checkpoint is written before the sample is spoken, so a
fault while speaking costs a sample and never an epoch.
"""

import itertools
import logging
import shlex
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from machine import commands
from machine.devices import cuda_errors, recovery
from machine.memory import trim_heap
from machine.text import counted
from train.checkpointing.async_writer import CheckpointWriter
from train.checkpointing.checkpoints import Checkpoints
from train.dataset.batches import Batch, Batches, OomBackoff, agreed
from train.defaults import LOG_EVERY
from train.distributed import World
from train.epoch_end import mean_losses
from train.evaluation.conclusion import conclude
from train.evaluation.early_stopping import EarlyStopping
from train.evaluation.evaluator import Evaluator
from train.evaluation.floors import FEWEST_FINISHED
from train.metrics.logs import DeferredMetrics, Logs, Phase, TrainedStep
from train.resilience.heartbeat import Heartbeat
from train.resilience.stopping import StopRequest
from train.sampling.sample_files import of_best, of_epoch, sample_is_missing
from train.sampling.sampler import LONGEST_SAMPLE_SECONDS, Sampler
from train.settings import TrainSettings
from train.step import (
    LOSS_TERMS,
    DeferredStepResult,
    Learner,
    StepGraphs,
    StepResult,
    train_step,
)
from xtts.model.gpt import to_coqui
from xtts.voices.run_folder import RunFolder

log = logging.getLogger("train")

# On the validation clips. It decides which epoch is best if there is no evaluation.
DECIDING_LOSS = "audio_loss"

# 5.3 GB (a full-size model with its optimizer) at 3 MB/s: a slow disk over a slow network.
LONGEST_SAVE_SECONDS = 1800.0
# Several candidates are judged, each for at most the time of a sample, and decoders learn.
LONGEST_CONCLUSION_SECONDS = 8 * LONGEST_SAMPLE_SECONDS


@dataclass(frozen=True)
class Trainer:
    """The epochs of one run, from batch `first_batch` of epoch `first_epoch` on.

    `train.setup.open_trainer` builds it. Only rank 0 has logs and an evaluator.
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
    sampler: Sampler
    heartbeat: Heartbeat
    stop: StopRequest
    first_epoch: int = 1
    first_batch: int = 0
    started_at: float = 0.0  # time.perf_counter()
    evaluator: Evaluator | None = None
    base: Path = Path()  # the base model's folder
    graphs: StepGraphs | None = None
    # Epochs that speak when their checkpoints are written, and the training time of each.
    unsampled: list[int] = field(default_factory=list)
    epoch_seconds: dict[int, float] = field(default_factory=dict)

    @cached_property
    def unlogged(self) -> DeferredMetrics:
        """Steps whose numbers are not logged yet."""
        return DeferredMetrics(self.learner, self.logs, LOG_EVERY)

    @property
    def world(self) -> World:
        """The processes that take each step together."""
        return self.learner.world

    def run(self) -> int:
        """Speaks the sample that the last start missed, then trains the remaining epochs.

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
            if self.evaluator:  # the remaining time includes judging
                with self.heartbeat.allow(LONGEST_SAMPLE_SECONDS, "judging the base"):
                    self.evaluator.judge_base()
            log.info("Ready to train after %.1f s.", time.perf_counter() - self.started_at)
        return self.train()

    def train(self) -> int:
        """Trains from the first epoch to the last.

        A stop during validation is a stop inside the epoch: the next start validates and saves it.

        Returns:
            0 when all epochs are done; 143 or 130 when a signal came and the state was saved, also
            while the last epoch was judged.

        Raises:
            NonFiniteError: (65) earlier checkpoints stay.
            DiskFull: (74) earlier checkpoints stay.
        """
        self.stop.has_state = True
        for epoch in range(self.first_epoch, self.num_epochs + 1):
            if not self._learn(epoch):
                return self.stop.exit_code
            if self._stops_early(epoch):
                break
        return self._finish()

    def _learn(self, epoch: int) -> bool:
        """One epoch: steps, validation, logs, checkpoint, sample.

        False if a signal came; the state is saved then.
        """
        done = self.first_batch if epoch == self.first_epoch else 0
        began = clock = time.perf_counter()
        for number, batch in self._batches(epoch, done):
            waited = time.perf_counter() - clock
            result = self._step_or_backoff(epoch, done, batch)
            if result is None:  # out of memory: its clips follow in smaller batches
                continue
            self.stop.step_seconds = time.perf_counter() - clock
            self._log_step(epoch, number, batch, result, waited)
            done = number
            if self._stop_requested(batch):
                return self._save_interrupted(epoch, done)
            self._sample_saved()
            clock = time.perf_counter()
        ended = time.perf_counter()
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
            # After a stop, the next epoch's first step saves an epoch that has no checkpoint.
            if self._stop_requested():
                return False
        if self.logs:
            self.logs.remaining.ended(time.perf_counter() - ended)
        return True

    # Batches and steps

    def _batches(self, epoch: int, done: int) -> Iterator[tuple[int, Batch]]:
        """The batches of the epoch after the first `done`, watched by the watchdog.

        Each comes with the number of planned batches that are done after it. The epoch is planned
        again when the batch size is halved.
        """
        halvings = -1
        while halvings != len(self.batches.halvings):
            halvings, planned = len(self.batches.halvings), len(self.batches.plan(epoch))
            if self.logs:
                self.logs.planned(-(-planned // self.world.size))
            batches = self.batches.epoch(epoch, done)
            ahead = agreed(batches, self.world, lambda: self.stop.requested)
            for batch in self.heartbeat.watch(ahead, "training"):
                number = min(done + self.world.size, planned)
                yield number, batch
                if halvings != len(self.batches.halvings):
                    break
                done = number

    def _step_or_backoff(
        self, epoch: int, done: int, batch: Batch
    ) -> StepResult | DeferredStepResult | None:
        """`train_step`; None if memory ran out twice, which halves the following batches.

        Raises the step's error if halving cannot help: for a single clip, and with several
        processes, because the others wait inside the same step.
        """
        learner = self.learner
        try:
            return train_step(learner, batch, deferred=learner.can_defer, graphs=self.graphs)
        except Exception as error:
            fault = cuda_errors.classify(error)
            smaller = self.batches.halved(epoch, batch.clips)
            if (
                fault is None
                or not fault.transient
                or smaller is None
                or not self.world.is_single_process
            ):
                raise
        # After the `except` block: the error referenced the tensors that must be freed.
        learner.optimizer.zero_grad(set_to_none=True)
        recovery.free_after_fault(str(learner.device))
        self.batches.halvings.append(OomBackoff(epoch, done, smaller))
        log.warning(
            "Out of memory (%s). From here on a batch has %.1f s of audio, also after a resume.",
            fault.words, smaller,
        )  # fmt: skip
        return None

    def _log_step(
        self, epoch: int, number: int, batch: Batch, result: StepResult | DeferredStepResult,
        waited: float,
    ) -> None:  # fmt: skip
        names = [self.batches.clips[clip].name for clip in batch.clips]
        took = self.stop.step_seconds
        self.unlogged.add(
            TrainedStep(epoch, number, self.learner.step, batch, result, waited, took, names)
        )

    # Decisions

    def _stop_requested(self, batch: Batch | None = None) -> bool:
        """Whether a signal came, to this process or to any other of the run.

        Several processes agree on it with each batch, so the answer is at most two steps old.
        """
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
        """Whether EARLY_STOPPING ends the run after epoch `trained`; logs the reason.

        Several processes use the validation loss: only one of them knows the verdict.
        """
        if self.evaluator and self.settings.early_stopping and self.world.is_single_process:
            known = self.evaluator.known()
            if known and known.verdict:
                # Too few sentences judge nothing; then the validation loss decides.
                enough = len(known.candidates[0].sentences) >= FEWEST_FINISHED
                judged = {one.epoch for one in known.candidates if enough and one.kind == "epoch"}
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
        """SAMPLE_EVERY, and always the last epoch; only a saved epoch can speak."""
        due = epoch % self.settings.sample_every == 0 or epoch == self.num_epochs
        return (due or self.early_stopping.over) and self._save_due(epoch)

    # Validation, checkpoints, samples

    def _validate(self, epoch: int) -> dict[str, float] | None:
        """The losses on the validation clips, if there are any.

        The caller ignores them after a stop.
        """
        self.unlogged.flush()
        if self.validation is None:
            return None
        self._begin(epoch, "validating")
        batches = self.heartbeat.watch(self.validation.epoch(epoch), "validating")
        losses = mean_losses(
            self.learner, itertools.takewhile(lambda _: not self.stop.requested, batches)
        )
        if not self.stop.requested:
            self.early_stopping.record_loss(epoch, losses[DECIDING_LOSS])
        return losses

    def _save(self, epoch: int, validation: dict[str, float] | None) -> None:
        """Writes the epoch's checkpoint and the trainer state. Rank 0 writes, the others wait."""
        self._finish_writing()
        self._begin(epoch, "saving")
        losses = {
            f"validation_{term}": validation[term] if validation else None for term in LOSS_TERMS
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
                    "adapter": self.learner.weights.adapter(),
                }
                self.writer.write(
                    state,
                    lambda kept: self.checkpoints.save_epoch(
                        # Converted in the writer's thread: no step waits for it.
                        epoch, step, to_coqui(kept["model"]) if beside else kept["model"],
                        kept["trainer"], losses, kept["adapter"],
                    ),
                )  # fmt: skip
            self.world.barrier()
        # Gradients and the written copies are free; the sample needs their memory.
        trim_heap()
        self.stop.write_seconds = self.writer.seconds

    def _save_interrupted(self, epoch: int, batch: int) -> Literal[False]:
        """Writes the state inside an epoch after `batch` of its batches."""
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
            log.info("Stopped inside epoch %d. Saved %s.", epoch, saved.path.name)
        return False

    def _trainer_state(self) -> dict[str, Any]:
        return {
            **self.learner.trainer_state(),
            "batch_seconds": self.batches.batch_seconds,
            "halvings": [list(one) for one in self.batches.halvings],
            "patience": self.early_stopping.state(),
        }

    def _sample_saved(self) -> None:
        """Speaks an epoch's sample and judges it, once its checkpoint is written.

        Raises the writer's error.
        """
        if not self.unsampled or not self.writer.idle:
            return
        self.unlogged.flush()  # the interval of the steps excludes the time of a sample
        epoch = self.unsampled.pop()
        with self.heartbeat.allow(LONGEST_SAMPLE_SECONDS, "speaking a sample"):
            if saved := self.writer.finish():
                if self._sample_due(epoch):
                    self._begin(epoch, "sampling")
                    took = self.epoch_seconds.get(epoch, 0.0)
                    self.sampler.sample(epoch, saved.path, saved.sha256, epoch_seconds=took)
                if self.evaluator and (whole := self.checkpoints.run.verified(epoch)):
                    self._begin(epoch, "judging")
                    self.evaluator.judge(whole, self.epoch_seconds.get(epoch, 0.0))
            self.world.barrier()

    def _begin(self, epoch: int, phase: Phase) -> None:
        """Records the phase of the run until its next step."""
        if self.logs:
            self.logs.phase(epoch, self.learner.step, phase)

    def _sample_missing(self) -> None:
        """Speaks the newest epoch's sample if the last start ended before it."""
        run = self.checkpoints.run
        newest, skipped = run.newest_verified(), self.sampler.plan.mode == "skipped"
        if newest is None or skipped or not self._sample_due(newest.epoch):
            return
        if sample_is_missing(run, newest.epoch, newest.sha256):
            log.info("Epoch %d has no sample yet. Speaking it now.", newest.epoch)
            with self.heartbeat.allow(LONGEST_SAMPLE_SECONDS, "speaking a sample"):
                self.sampler.sample(newest.epoch, newest.checkpoint, newest.sha256)

    def _finish(self) -> int:
        """Finishes writing and speaking, judges blends and reports the best. The exit code."""
        self._finish_writing()
        with self.heartbeat.allow(LONGEST_SAMPLE_SECONDS, "speaking a sample"):
            self.sampler.finish()
        if self.evaluator and not self.stop.requested:
            if self.evaluator.working:
                self._begin(max(self.checkpoints.run.epochs(), default=0), "concluding")
            with self.heartbeat.allow(LONGEST_CONCLUSION_SECONDS, "evaluating"):
                conclude(self.evaluator, self.settings, self.base)
        if self.world.is_main and not self.stop.requested:
            log.info("%s", next_steps(self.checkpoints.run))
        # Everything is saved; the next start judges the remaining candidates.
        return self.stop.exit_code if self.stop.requested else 0

    def _finish_writing(self) -> None:
        with self.heartbeat.allow(LONGEST_SAVE_SECONDS, "writing a checkpoint"):
            self.writer.finish()
        self._sample_saved()


def next_steps(run: RunFolder) -> str:
    """The steps after a run (listen, serve, export), one a line, with their commands."""
    samples = [of_best(run).output, *(of_epoch(run, one).output for one in reversed(run.epochs()))]
    heard = next((path for path in samples if path.is_file()), None)
    to = Path("exported", run.folder.resolve().name)
    here = f"OUTPUT_DIR={shlex.quote(str(run.folder))} "
    if commands.in_image():  # the clone is read-only there, and OUTPUT_DIR is the mounted folder
        to, here = run.folder / "exported", ""
    elif run.folder == TrainSettings.output_dir:
        here = ""
    steps = [
        f"Serve it: {here}{commands.make('serve')}",
        f"Export it: {here}{commands.program(f'train export --to {shlex.quote(str(to))}')}",
    ]
    return "\n".join([f"Listen to it: {heard}", *steps] if heard else steps)


def nothing_left(epochs: int, batches: int, num_epochs: int) -> str:
    """The message for a run that already has NUM_EPOCHS epochs or more.

    epochs, batches: the finished epochs, and the finished batches of the next one.
    """
    inside = f" and {batches} batches of epoch {epochs + 1}" if batches else ""
    return (
        f"The run already has {counted(epochs, 'epoch')}{inside}, and NUM_EPOCHS={num_epochs}. "
        "Nothing is trained, and nothing is removed. Set NUM_EPOCHS to "
        f"{epochs + 1} or more to continue, or RESUME=never to start over."
    )
