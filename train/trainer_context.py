"""What the loop works with, and the small decisions that need several of the parts."""

import itertools
import logging
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from machine.devices import cuda_errors
from machine.memory import trim_heap
from train.checkpointing.async_writer import CheckpointWriter
from train.checkpointing.checkpoints import Checkpoints, SavedCheckpoint
from train.dataset.batch_budget import OomBackoff, at_epoch, halve_budget, to_state
from train.dataset.batches import Batch, Batches
from train.dataset.device_prefetch import copier_for, prefetch
from train.distributed import ALONE, World
from train.early_stopping import EarlyStopping
from train.learner import Learner
from train.metrics.deferred import DeferredMetrics, PendingStep
from train.metrics.flops import step_flops
from train.metrics.logs import Logs
from train.optim.optimizer_step import DeferredStepResult
from train.optim.step_outcome import StepResult, Validation
from train.resilience.heartbeat import Heartbeat
from train.resilience.stopping import StopRequest
from train.sampling.sample_files import sample_is_missing
from train.sampling.sampler import LONGEST_SAMPLE_SECONDS, Sampler
from train.settings import TrainSettings

log = logging.getLogger("train")

# 5.3 GB of a full-size model with its optimizer, at 3 MB/s: a slow disk over a slow network.
LONGEST_SAVE_SECONDS = 1800.0


@dataclass(frozen=True)
class StartPosition:
    """Where a run begins or goes on: the epoch, and how many of its batches are done."""

    epoch: int = 1
    batch: int = 0


@dataclass(frozen=True)
class Parts:
    """One run, put together by `train.setup`."""

    settings: TrainSettings
    num_epochs: int
    start: StartPosition
    learner: Learner
    batches: Batches
    validation: Batches | None
    logs: Logs
    sampler: Sampler
    checkpoints: Checkpoints
    heartbeat: Heartbeat
    telling: DeferredMetrics
    provenance: dict[str, Any]
    writer: CheckpointWriter
    patience: EarlyStopping
    world: World = ALONE
    # Epochs whose samples wait for their checkpoints.
    unspoken: list[int] = field(default_factory=list)

    def learned(self, epoch: int, done: int) -> Iterator[tuple[int, Batch]]:
        """The batches of the epoch behind the first `done`, under the watchdog's eyes; each with
        how many of the plan are done with it. Planned anew where the budget is halved."""
        copier = copier_for(self.learner.device, self.settings.overlap)
        halvings = -1
        while halvings != len(self.batches.halvings):
            halvings, planned = len(self.batches.halvings), len(self.batches.plan(epoch))
            ahead = prefetch(self.batches.epoch(epoch, done), copier)
            for batch in self.heartbeat.watch(ahead, "learning"):
                number = min(done + self.world.size, planned)
                yield number, batch
                if halvings != len(self.batches.halvings):
                    break
                done = number

    def learn(self, epoch: int, done: int, batch: Batch) -> StepResult | DeferredStepResult | None:
        """One step; where the numbers are on a GPU, without waiting for them. None where memory
        was too short, also at the second try: from here on the budget is half of what it was.

        Raises what the step raised where that would not help: for a single clip, and with several
        processes, whose others wait inside the same step.
        """
        learner = self.learner
        try:
            return learner.train_step_async(batch) if learner.ahead else learner.learn(batch)
        except Exception as error:
            found = cuda_errors.classify(error)
            smaller = self._smaller(epoch, batch)
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

    def _smaller(self, epoch: int, batch: Batch) -> float | None:
        seconds = [clip.seconds for clip in self.batches.clips]
        now = at_epoch(self.batches.batch_seconds, self.batches.halvings, epoch + 1)
        return halve_budget(batch.clips, seconds, now)

    def stops(self, stop: StopRequest) -> bool:
        """Whether a signal came, to this process or to any other of the run."""
        if self.world.is_single_process:
            return stop.requested
        if self.world.all_reduce(float(stop.requested))[0] and not stop.requested:
            stop.signal_number = signal.SIGTERM
        return stop.requested

    def ends_early(self) -> bool:
        """EARLY_STOPPING, told with its reason."""
        if self.patience.over:
            log.info(self.patience.reason)
        return self.patience.over

    def tell_step(
        self, epoch: int, number: int, batch: Batch, result: StepResult | DeferredStepResult,
        waited: float, took: float,
    ) -> None:  # fmt: skip
        """Logs one step: batch `number` of the epoch, seconds waited for data, seconds in all."""
        names = [self.batches.clips[clip].name for clip in batch.clips]
        step = self.learner.step
        arithmetic = step_flops(batch.rows, self.learner.gpt.shape)
        self.telling.add(
            PendingStep(epoch, number, step, batch, result, waited, took, names, arithmetic)
        )

    def evaluates(self, epoch: int) -> bool:
        """VALIDATION_EVERY, and always the last epoch."""
        due = epoch % self.settings.validation_every == 0 or epoch == self.num_epochs
        return due and self.validation is not None

    def saves(self, epoch: int) -> bool:
        """SAVE_EVERY, and always the last epoch."""
        return self.checkpoints.due(epoch, self.num_epochs) or self.patience.over

    def samples(self, epoch: int) -> bool:
        """SAMPLE_EVERY, and always the last epoch; only what is saved can be spoken."""
        due = epoch % self.settings.sample_every == 0 or epoch == self.num_epochs
        return (due or self.patience.over) and self.saves(epoch)

    def sample_missing(self) -> None:
        """Speaks the newest epoch where the run ended between its checkpoint and its sample."""
        newest = self.checkpoints.run.newest_verified()
        if newest is None or self.sampler.plan.mode == "skipped" or not self.samples(newest.epoch):
            return
        if sample_is_missing(self.checkpoints.run, newest.epoch, newest.sha256):
            log.info("Epoch %d has no sample yet; speaking it now.", newest.epoch)
            with self.heartbeat.leave(LONGEST_SAMPLE_SECONDS, "speaking a sample"):
                self.sampler.sample(newest.epoch, newest.checkpoint, newest.sha256)

    def speak(self, epoch: int) -> None:
        """Speaks the sample of an epoch as soon as its checkpoint is whole."""
        self.unspoken.append(epoch)
        self.speak_what_is_saved()

    def speak_what_is_saved(self) -> None:
        """Speaks what waits for a checkpoint that is written meanwhile. Raises what writing it
        raised."""
        if not self.unspoken or not self.writer.idle:
            return
        self.telling.look()  # a sample is no part of an interval's steps
        epoch = self.unspoken.pop()
        with self.heartbeat.leave(LONGEST_SAMPLE_SECONDS, "speaking a sample"):
            if saved := self.writer.finish():
                self.sampler.sample(epoch, saved.path, saved.sha256)
            self.world.barrier()

    def finish(self) -> None:
        """Waits for what is still being written and spoken."""
        self._finish_writing()
        with self.heartbeat.leave(LONGEST_SAMPLE_SECONDS, "speaking a sample"):
            self.sampler.finish()

    def _finish_writing(self) -> None:
        with self.heartbeat.leave(LONGEST_SAVE_SECONDS, "writing a checkpoint"):
            self.writer.finish()
        self.speak_what_is_saved()

    def evaluate(self, epoch: int, stop: StopRequest) -> Validation | None:
        """The losses on the validation clips, where they are due; of no worth after a stop."""
        self.telling.look()
        if self.validation is None or not self.evaluates(epoch):
            return None
        batches = self.heartbeat.watch(self.validation.epoch(epoch), "validating")
        found = self.learner.evaluate(itertools.takewhile(lambda _: not stop.requested, batches))
        if not stop.requested:
            self.patience.hear(epoch, found.audio_loss)
        return found

    def save(self, epoch: int, validation: Validation | None) -> float:
        """Writes the epoch's checkpoint with the state to go on from; how many seconds writing
        takes, as far as that is known. Rank 0 writes, the others wait."""
        self._finish_writing()
        losses = {
            "validation_text_loss": validation.text_loss if validation else None,
            "validation_audio_loss": validation.audio_loss if validation else None,
        }
        with self.heartbeat.leave(LONGEST_SAVE_SECONDS, "writing a checkpoint"):
            if self.world.is_main:
                step = self.learner.step
                state = {"model": self.learner.model_state(), "trainer": self._trainer_state()}
                self.writer.write(
                    state,
                    lambda kept: self.checkpoints.save_epoch(
                        epoch, step, kept["model"], kept["trainer"], losses, self.provenance
                    ),
                )
            self.world.barrier()
        # Gradients and the copies just written are gone; whoever speaks the sample needs the room.
        trim_heap()
        return self.writer.seconds

    def save_interrupted(self, epoch: int, batch: int) -> None:
        """Writes the state inside an epoch, `batch` of whose batches are done."""
        with self.heartbeat.leave(LONGEST_SAVE_SECONDS, "writing a checkpoint"):
            self.telling.look()
            self.writer.finish()
            saved: SavedCheckpoint | None = None
            if self.world.is_main:
                saved = self.checkpoints.save_interrupted(
                    epoch,
                    self.learner.step,
                    batch,
                    self.learner.model_state(),
                    self._trainer_state(),
                    self.provenance,
                )
            self.world.barrier()
        if saved:
            log.info("Stopped inside epoch %d; saved %s.", epoch, saved.path.name)

    def _trainer_state(self) -> dict[str, Any]:
        state = self.learner.trainer_state()
        state["batch_seconds"] = self.batches.batch_seconds
        state["halvings"] = to_state(self.batches.halvings)
        state["patience"] = self.patience.state()
        return state
