"""Logs each step and epoch to the console, TensorBoard and metrics.jsonl.

metrics.jsonl holds every value of the curves. TensorBoard also has the settings and samples, the
console a line every `log_every` steps. After a resume, no step appears twice.
"""

import logging
import math
import resource
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import torch

from machine import commands
from train.dataset.batches import Batch
from train.evaluation.report import candidate_line, evaluation_markdown
from train.metrics.curves import TensorBoardWriter
from train.metrics.metrics_file import MetricsFile
from train.metrics.tensorboard_server import TensorBoard
from train.progress import RemainingTime, clock
from train.sampling.samples import SampleSidecar, epoch_sample
from train.step import LOSS_TERMS, DeferredStepResult, Learner, StepResult
from xtts import audio
from xtts.model.training import PackedBatch
from xtts.voices.evaluation_file import Candidate, Evaluation
from xtts.voices.run_folder import RunFolder

log = logging.getLogger("train")

# The phases between two steps, in the order of an epoch's end. A step ends a phase.
Phase = Literal["validating", "saving", "sampling", "judging", "concluding"]


@dataclass(frozen=True)
class TrainedStep:
    """A step that was taken.

    Attributes:
        number: The number of the batch in the epoch.
        step: The number of the step in the run.
        names: The names of its clips, logged if the step was skipped.
    """

    epoch: int
    number: int
    step: int
    batch: Batch
    result: StepResult | DeferredStepResult
    waited_seconds: float
    step_seconds: float
    names: list[str]


class Logs:
    """The logs of a run.

    Args:
        num_epochs, steps_per_epoch: Give the remaining time.
        log_every: The number of steps between two lines on the console.
        usage: Reads the usage of GPU, CPU and RAM, logged with each console line.
        step_figures: Computes further values, such as FLOPs and MFU, from a step's rows and its
            seconds.
    """

    def __init__(
        self,
        run: RunFolder,
        curves_folder: Path,
        *,
        num_epochs: int,
        steps_per_epoch: int,
        first_step: int,
        log_every: int,
        tensorboard: TensorBoard | None = None,
        usage: Callable[[], dict[str, float]] | None = None,
        step_figures: Callable[[PackedBatch, float], dict[str, float]] | None = None,
    ) -> None:
        self.run = run
        self.num_epochs = num_epochs
        self.log_every = log_every
        self.tensorboard = tensorboard
        self.usage = usage
        self._reported: set[str] = set()
        self.remaining = RemainingTime(num_epochs, steps_per_epoch)
        self._first_step = first_step
        self._step_figures = step_figures
        self._metrics = MetricsFile(run.metrics, first_step)
        self._curves = TensorBoardWriter(curves_folder, first_step)

    def __enter__(self) -> "Logs":
        return self

    def __exit__(self, *_: object) -> None:
        with self._continuing_without("The curves"):
            self._curves.close()
        self._metrics.close()
        if self.tensorboard:
            self.tensorboard.close()
            log.info("`%s` shows the curves later.", commands.make("tensorboard"))

    def log_settings(self, values: Mapping[str, str]) -> None:
        """Writes all settings to TensorBoard."""
        rows = "\n".join(f"| {name} | {value} |" for name, value in values.items())
        with self._continuing_without("The curves"):
            self._curves.text("settings", f"| | |\n|---|---|\n{rows}", self._first_step)

    def plan_epoch(self, steps: int) -> None:
        """Notes the number of steps of the epoch that begins; each epoch has other batches."""
        self.remaining.steps_per_epoch = steps

    def log_step(self, trained: TrainedStep, result: StepResult, step_seconds: float) -> None:
        """Logs one optimizer step, whose duration includes the wait for its data."""
        step = trained.step
        self.remaining.step(step_seconds)
        seconds_left = round(self.remaining.seconds_left(trained.epoch, trained.number), 1)
        record = self._step_record(trained, result, step_seconds, seconds_left)
        if not result.finite:
            log.warning(
                "Step %d is skipped because its loss or gradient is not finite. Its clips: %s.",
                step,
                ", ".join(trained.names),
            )
            record["skipped_clips"] = trained.names
        is_last = trained.number == self.remaining.steps_per_epoch
        is_shown = step == self._first_step + 1 or step % self.log_every == 0 or is_last
        usage = self.usage() if is_shown and self.usage else {}
        if usage:
            record["machine"] = usage
        self._record("train", step, record, usage)
        if is_shown:
            log.info(
                "epoch %d/%d  step %d/%d  %s  learning rate %.1e  %.1f x real time  left %s",
                trained.epoch,
                self.num_epochs,
                trained.number,
                self.remaining.steps_per_epoch,
                _loss_text(result.losses),
                result.learning_rate,
                trained.batch.audio_seconds / step_seconds,
                clock(seconds_left),
            )

    def _step_record(
        self, trained: TrainedStep, result: StepResult, step_seconds: float, seconds_left: float
    ) -> dict[str, object]:
        batch = trained.batch
        record: dict[str, object] = {
            "epoch": trained.epoch,
            "step": trained.step,
            "loss": result.loss,
            **result.losses,
            "gradient_norm": result.gradient_norm,
            "learning_rate": result.learning_rate,
            "clips_per_second": len(batch.clips) / step_seconds,
            "audio_seconds_per_second": batch.audio_seconds / step_seconds,
            "data_wait_share": trained.waited_seconds / step_seconds,
            "memory_bytes": memory_bytes(),
            "progress": {
                "epochs": self.num_epochs,
                "epoch_step": trained.number,
                "epoch_steps": self.remaining.steps_per_epoch,
                "seconds_left": seconds_left,
            },
        }
        if self._step_figures:
            record |= self._step_figures(batch.rows, step_seconds)
        return record

    def log_phase(self, epoch: int, step: int, phase: Phase) -> None:
        """Writes the phase of the run to metrics.jsonl, so that the page can show it."""
        with self._continuing_without("metrics.jsonl"):
            self._metrics.write({"kind": "phase", "epoch": epoch, "step": step, "phase": phase})

    def log_epoch(self, epoch: int, step: int, validation: Mapping[str, float] | None) -> None:
        """Logs the end of an epoch."""
        if validation is None:
            return
        log.info("epoch %d/%d  validation: %s", epoch, self.num_epochs, _loss_text(validation))
        losses = {term: validation[term] for term in reversed(LOSS_TERMS)}
        self._record("validation", step, {"epoch": epoch, "step": step, **losses})

    def log_evaluation(self, evaluation: Evaluation, candidate: Candidate) -> None:
        """Logs a judged candidate: its line, its points on the curves over the epochs, and the
        table of all candidates. Blends are on no curve."""
        log.info("%s", candidate_line(evaluation, candidate))
        base = evaluation.candidates[0]
        with self._continuing_without("The curves"):
            if len(evaluation.candidates) == 2:  # the base and the first other candidate
                self._curves.numbers("evaluation", figures_of(base), 0)
            if candidate.kind == "epoch":
                self._curves.numbers("evaluation", figures_of(candidate), candidate.epoch)
            self._curves.text("evaluation/table", evaluation_markdown(evaluation), candidate.epoch)

    def log_sample(self, epoch: int, sidecar: SampleSidecar) -> None:
        """Logs a sample with its reference, as audio and as pictures, at the step `epoch`."""
        files = epoch_sample(self.run, epoch)
        for what, path in (("output", files.output), ("reference", files.reference)):
            if sidecar.mode == "skipped" or not path.is_file():
                continue
            waveform = audio.read(path, audio.VOCODER_RATE)
            with self._continuing_without("The curves"):
                self._curves.sound(f"sample/{what}", waveform, epoch)
        if sidecar.similarity is not None:
            with self._continuing_without("The curves"):
                self._curves.numbers("sample", {"similarity": sidecar.similarity}, epoch)

    def _record(
        self, kind: str, step: int, record: dict[str, object], machine: Mapping[str, float] | None = None
    ) -> None:
        plain = {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in record.items()
        }
        with self._continuing_without("metrics.jsonl"):
            self._metrics.write({"kind": kind, **plain})
        with self._continuing_without("The curves"):
            self._curves.numbers(kind, plain, step)
            self._curves.numbers("machine", machine or {}, step)

    @contextmanager
    def _continuing_without(self, what: str) -> Iterator[None]:
        """Logs a failed write and continues: a full disk costs only curves, until a checkpoint
        fails."""
        try:
            yield
            self._reported.discard(what)
        except OSError as error:
            if what not in self._reported:
                log.warning("%s cannot be written (%s). Training continues.", what, error)
            self._reported.add(what)


@dataclass
class DeferredMetrics:
    """Collects steps until their values are read: every `log_every` steps, and at `flush`.

    The host runs some steps ahead of a GPU, and reading a loss waits for it. So the values of
    several steps are read together, and their duration is the mean over the interval.

    Attributes:
        logs: None if another rank logs the steps.
    """

    learner: Learner
    logs: Logs | None
    log_every: int
    pending: list[TrainedStep] = field(default_factory=list)
    since: float = field(default_factory=time.perf_counter)

    def add(self, step: TrainedStep) -> None:
        """Adds a step. Raises NonFiniteError if it reads the values."""
        if not self.pending:
            # The time of validation and samples since the last flush belongs to no step.
            self.since = time.perf_counter() - step.step_seconds
        self.pending.append(step)
        if isinstance(step.result, StepResult) or step.step % self.log_every == 0:
            self.flush()

    def flush(self) -> None:
        """Logs every pending step. Raises NonFiniteError; such a step has changed no weight."""
        pending, self.pending = self.pending, []
        deferred = [step.result for step in pending if isinstance(step.result, DeferredStepResult)]
        results = iter(self.learner.read_deferred(deferred))
        mean_seconds = (time.perf_counter() - self.since) / max(1, len(pending))
        for step in pending:
            if isinstance(step.result, StepResult):
                result, seconds = step.result, step.step_seconds
            else:
                result, seconds = next(results), max(mean_seconds, step.waited_seconds)
            if self.logs:
                self.logs.log_step(step, result, seconds)


def figures_of(candidate: Candidate) -> dict[str, float]:
    """The figures of a candidate that are curves."""
    means = {name: figure.mean for name, figure in candidate.judges.items()}
    counts = {name: getattr(candidate, name) for name in ("unfinished", "cut", "babbling")}
    return {**means, **counts}


def _loss_text(losses: Mapping[str, float]) -> str:
    """The loss terms on the console, the last one first, which is the audio loss."""
    return "  ".join(f"{name.replace('_', ' ')} {losses[name]:.3f}" for name in reversed(LOSS_TERMS))


def memory_bytes() -> int:
    """The peak memory of the GPU if one is used, else this process's peak resident memory."""
    if torch.cuda.is_initialized():
        return int(torch.cuda.max_memory_allocated())
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
