"""The training loop: `Trainer.train` runs the epochs.

An epoch is its steps (`train.step`) with their log lines, then `train.epoch_end`. `train.setup`
builds a Trainer.
"""

import logging
import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from machine import commands
from machine.devices import cuda_errors, recovery
from machine.text import quantity
from train.dataset.batches import Batch, Batches, OomBackoff, with_agreement
from train.epoch_end import EpochEnd
from train.metrics.logs import TrainedStep
from train.resilience.stopping import StopRequest
from train.sampling.samples import best_sample, epoch_sample
from train.settings import TrainSettings
from train.step import DeferredStepResult, Learner, StepGraphs, StepResult, train_step
from xtts.voices.run_folder import RunFolder

log = logging.getLogger("train")


@dataclass(frozen=True)
class Trainer:
    """The epochs of one run, from batch `first_batch` of epoch `first_epoch` on.

    `train.setup.open_trainer` builds it.
    """

    learner: Learner
    batches: Batches
    end: EpochEnd
    stop: StopRequest
    num_epochs: int
    first_epoch: int = 1
    first_batch: int = 0
    started_at: float = 0.0  # time.perf_counter()
    graphs: StepGraphs | None = None

    def run(self) -> int:
        """Speaks the sample that the last start missed, then trains the remaining epochs.

        Returns:
            The exit code, see `train`.
        """
        if self.learner.world.is_main:
            self.end.sample_missing()
        self.learner.world.barrier()
        if self.first_epoch > 1 and self.end.stops_early(self.first_epoch - 1):
            return self._finish()
        if self.first_epoch > self.num_epochs:
            log.info(nothing_left(self.first_epoch - 1, self.first_batch, self.num_epochs))
        else:
            self.end.judge_base()
            log.info("Ready to train after %.1f s.", time.perf_counter() - self.started_at)
        return self.train()

    def train(self) -> int:
        """Trains from the first epoch to the last.

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
            if self.end.stops_early(epoch):
                break
        return self._finish()

    def _learn(self, epoch: int) -> bool:
        """One epoch: its steps and its end. False if a signal came; the state is saved then."""
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
            if self.stop.agreed(self.learner.world, batch.agreement):
                self.end.save_inside(epoch, done)
                return False
            self.end.speak_saved()
            clock = time.perf_counter()
        return self.end.run(epoch, done, began)

    def _finish(self) -> int:
        """Judges the remaining candidates, and reports the best. The exit code."""
        self.end.conclude()
        if self.learner.world.is_main and not self.stop.requested:
            log.info("%s", next_steps(self.end.checkpoints.run))
        # Everything is saved; the next start judges the remaining candidates.
        return self.stop.exit_code if self.stop.requested else 0

    # Batches and steps

    def _batches(self, epoch: int, done: int) -> Iterator[tuple[int, Batch]]:
        """The batches of the epoch after the first `done`, watched by the watchdog.

        Each comes with the number of planned batches that are done after it. The epoch is planned
        again when the batch size is halved.
        """
        halvings, world = -1, self.learner.world
        while halvings != len(self.batches.halvings):
            halvings, planned = len(self.batches.halvings), len(self.batches.plan(epoch))
            if self.end.logs:
                self.end.logs.plan_epoch(-(-planned // world.size))
            batches = self.batches.epoch(epoch, done)
            ahead = with_agreement(batches, world, lambda: self.stop.requested)
            for batch in self.end.heartbeat.watch(ahead, "training"):
                number = min(done + world.size, planned)
                yield number, batch
                if halvings != len(self.batches.halvings):
                    break
                done = number

    def _step_or_backoff(self, epoch: int, done: int, batch: Batch) -> StepResult | DeferredStepResult | None:
        """`train_step`; None if memory ran out twice, which halves the following batches.

        Raises the step's error if halving cannot help: for a single clip, and with several
        processes, because the others wait inside the same step.
        """
        learner = self.learner
        try:
            return train_step(learner, batch, deferred=learner.can_defer, graphs=self.graphs)
        except Exception as error:
            fault = cuda_errors.classify(error)
            smaller = self.batches.halve(epoch, batch.clips)
            if fault is None or not fault.transient or smaller is None or not learner.world.is_single_process:
                raise
        # After the `except` block: the error referenced the tensors that must be freed.
        learner.optimizer.zero_grad(set_to_none=True)
        recovery.free_after_fault(str(learner.device))
        self.batches.halvings.append(OomBackoff(epoch, done, smaller))
        log.warning(
            "Out of memory (%s). From here on a batch has %.1f s of audio, also after a resume.",
            fault.words,
            smaller,
        )
        return None

    def _log_step(
        self, epoch: int, number: int, batch: Batch, result: StepResult | DeferredStepResult, waited: float
    ) -> None:
        names = [self.batches.clips[clip].name for clip in batch.clips]
        took = self.stop.step_seconds
        if self.end.logs:
            self.end.logs.remaining.conclusion_seconds = self.end.conclusion_seconds
        number_of_step = -(-number // self.learner.world.size)
        self.end.metrics.add(
            TrainedStep(epoch, number_of_step, self.learner.step, batch, result, waited, took, names)
        )


def next_steps(run: RunFolder) -> str:
    """The steps after a run (listen, serve, export), one a line, with their commands."""
    samples = [
        best_sample(run).output,
        *(epoch_sample(run, epoch).output for epoch in reversed(run.epochs())),
    ]
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
        f"The run already has {quantity(epochs, 'epoch')}{inside}, and NUM_EPOCHS={num_epochs}. "
        "Nothing is trained, and nothing is removed. Set NUM_EPOCHS to "
        f"{epochs + 1} or more to continue, or RESUME=never to start over."
    )
