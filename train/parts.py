"""What the loop works with, and the small decisions that need several of the parts."""

import itertools
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from train.batches import Batch, Batches
from train.checkpoints import Checkpoints, Saved
from train.heartbeat import Heartbeat
from train.learner import Learner
from train.logs import Logs
from train.outcome import StepResult, Validation
from train.overlap import copier_for, overlapped
from train.samples import missing
from train.sampling import LONGEST_SAMPLE_SECONDS, Sampler
from train.settings import TrainSettings
from train.stepping import Unseen
from train.stopping import Stop
from train.telling import Taken, Telling
from xtts.memory import give_back_freed

log = logging.getLogger("train")

# 5.3 GB of a full-size model with its optimizer, at 3 MB/s: a slow disk over a slow network.
LONGEST_SAVE_SECONDS = 1800.0


@dataclass(frozen=True)
class Start:
    """Where a run begins or goes on: the epoch, and how many of its batches are done."""

    epoch: int = 1
    batch: int = 0


@dataclass(frozen=True)
class Parts:
    """One run, put together by `train.run`."""

    settings: TrainSettings
    num_epochs: int
    start: Start
    learner: Learner
    batches: Batches
    validation: Batches | None
    logs: Logs
    sampler: Sampler
    checkpoints: Checkpoints
    heartbeat: Heartbeat
    telling: Telling
    provenance: dict[str, Any]

    def learned(self, epoch: int, done: int) -> Iterator[Batch]:
        """The batches of the epoch behind the first `done`, under the watchdog's eyes."""
        copier = copier_for(self.learner.device, self.settings.overlap)
        ahead = overlapped(self.batches.epoch(epoch, done), copier)
        return self.heartbeat.watch(ahead, "learning")

    def learn(self, batch: Batch) -> StepResult | Unseen:
        """One step; where the numbers are on a GPU, without waiting for them."""
        return self.learner.learn_ahead(batch) if self.learner.ahead else self.learner.learn(batch)

    def tell_step(
        self, epoch: int, number: int, batch: Batch, result: StepResult | Unseen,
        waited: float, took: float,
    ) -> None:  # fmt: skip
        """Logs one step: batch `number` of the epoch, seconds waited for data, seconds in all."""
        names = [self.batches.clips[clip].name for clip in batch.clips]
        step = self.learner.step
        self.telling.add(Taken(epoch, number, step, batch, result, waited, took, names))

    def evaluates(self, epoch: int) -> bool:
        """VALIDATION_EVERY, and always the last epoch."""
        due = epoch % self.settings.validation_every == 0 or epoch == self.num_epochs
        return due and self.validation is not None

    def saves(self, epoch: int) -> bool:
        """SAVE_EVERY, and always the last epoch."""
        return self.checkpoints.due(epoch, self.num_epochs)

    def samples(self, epoch: int) -> bool:
        """SAMPLE_EVERY, and always the last epoch; only what is saved can be spoken."""
        due = epoch % self.settings.sample_every == 0 or epoch == self.num_epochs
        return due and self.saves(epoch)

    def sample_missing(self) -> None:
        """Speaks the newest epoch where the run ended between its checkpoint and its sample."""
        newest = self.checkpoints.run.newest_verified()
        if newest is None or self.sampler.plan.mode == "skipped" or not self.samples(newest.epoch):
            return
        if missing(self.checkpoints.run, newest.epoch, newest.sha256):
            log.info("Epoch %d has no sample yet; speaking it now.", newest.epoch)
            self.speak(newest.epoch, newest.checkpoint, newest.sha256)

    def speak(self, epoch: int, checkpoint: Path, sha256: str) -> None:
        """Speaks the sample of a saved epoch; every way there has an end of its own."""
        with self.heartbeat.leave(LONGEST_SAMPLE_SECONDS, "speaking a sample"):
            self.sampler.sample(epoch, checkpoint, sha256)

    def finish_speaking(self) -> None:
        """Waits for a sample that is still being spoken."""
        with self.heartbeat.leave(LONGEST_SAMPLE_SECONDS, "speaking a sample"):
            self.sampler.finish()

    def evaluate(self, epoch: int, stop: Stop) -> Validation | None:
        """The losses on the validation clips, where they are due; of no worth after a stop."""
        if self.validation is None or not self.evaluates(epoch):
            return None
        batches = self.heartbeat.watch(self.validation.epoch(epoch), "validating")
        return self.learner.evaluate(itertools.takewhile(lambda _: not stop.requested, batches))

    def save(self, epoch: int, validation: Validation | None) -> Saved:
        """Writes the epoch's checkpoint with the state to go on from."""
        losses = {
            "validation_text_loss": validation.text_loss if validation else None,
            "validation_audio_loss": validation.audio_loss if validation else None,
        }
        with self.heartbeat.leave(LONGEST_SAVE_SECONDS, "writing a checkpoint"):
            saved = self.checkpoints.save_epoch(
                epoch,
                self.learner.step,
                self.learner.model_state(),
                self._trainer_state(),
                losses,
                self.provenance,
            )
        # Gradients and the copies just written are gone; whoever speaks the sample needs the room.
        give_back_freed()
        return saved

    def save_interrupted(self, epoch: int, batch: int) -> Saved:
        """Writes the state inside an epoch, `batch` of whose batches are done."""
        with self.heartbeat.leave(LONGEST_SAVE_SECONDS, "writing a checkpoint"):
            saved = self.checkpoints.save_interrupted(
                epoch,
                self.learner.step,
                batch,
                self.learner.model_state(),
                self._trainer_state(),
                self.provenance,
            )
        log.info("Stopped inside epoch %d; saved %s.", epoch, saved.path.name)
        return saved

    def _trainer_state(self) -> dict[str, Any]:
        return self.learner.trainer_state() | {"batch_seconds": self.batches.batch_seconds}
