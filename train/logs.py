"""One record per step -> the console, TensorBoard and `metrics.jsonl`.

The three tell the same: whatever a curve shows can be read from the file again, and after a resume
no step stands there twice.
"""

import json
import logging
import math
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import torch

from train.batches import Batch
from train.learner import StepResult, Validation
from train.machine import MachineFigures
from train.pictures import spectrogram
from train.samples import Sidecar
from train.tensorboard import TensorBoard
from xtts import audio
from xtts.atomic import replace_file
from xtts.runs import RunFolder

log = logging.getLogger("train")


class Logs:
    """What a run says. steps_per_epoch and num_epochs make the time that is left; machine: what is
    told of GPU, CPU and RAM with each console line."""

    def __init__(
        self,
        run: RunFolder,
        runs_dir: Path,
        *,
        num_epochs: int,
        steps_per_epoch: int,
        first_step: int,
        log_every: int,
        tensorboard: TensorBoard | None = None,
        machine: MachineFigures | None = None,
    ) -> None:
        # 0.4 s, and without TensorFlow where that is installed too: a run logs, `check` need not.
        from torch.utils.tensorboard import SummaryWriter

        self.run = run
        self.num_epochs = num_epochs
        self.steps_per_epoch = steps_per_epoch
        self.log_every = log_every
        self.tensorboard = tensorboard
        self.machine = machine
        self._told_fault = False
        self._first_step = first_step
        self._started = time.monotonic()
        cut_back(run.metrics, first_step)
        run.folder.mkdir(parents=True, exist_ok=True)
        self._file: IO[str] = run.metrics.open("a", encoding="utf-8")
        self._writer: Any = SummaryWriter(str(runs_dir), purge_step=first_step + 1, flush_secs=5)

    def __enter__(self) -> "Logs":
        return self

    def __exit__(self, *_: object) -> None:
        with self._forgiving():
            self._writer.close()
        with self._forgiving():
            self._file.close()
        if self.tensorboard:
            self.tensorboard.close()
            log.info("`make tensorboard` shows the curves again.")

    def step(
        self, epoch: int, number: int, step: int, batch: Batch, result: StepResult,
        waited_seconds: float, step_seconds: float, names: list[str],
    ) -> None:  # fmt: skip
        """One optimizer step. `names`: the clips of the batch, told when the step was skipped."""
        record: dict[str, Any] = {
            "epoch": epoch,
            "step": step,
            "loss": result.loss,
            "text_loss": result.text_loss,
            "audio_loss": result.audio_loss,
            "gradient_norm": result.gradient_norm,
            "learning_rate": result.learning_rate,
            "clips_per_second": len(batch.clips) / step_seconds,
            "audio_seconds_per_second": batch.audio_seconds / step_seconds,
            "data_wait_share": waited_seconds / step_seconds,
            "padding_share": 1 - batch.rows.used / (batch.rows.rows * batch.rows.length),
            "memory_bytes": memory_bytes(),
        }
        if not result.finite:
            log.warning(
                "Step %d is skipped: its loss or gradient is no number. Its clips: %s.", step,
                ", ".join(names),
            )  # fmt: skip
            record["skipped_clips"] = names
        last = number == self.steps_per_epoch
        telling = step == self._first_step + 1 or step % self.log_every == 0 or last
        if telling and self.machine and (figures := self.machine.take()):
            record["machine"] = figures
        self._record("train", record)
        if telling:
            log.info(
                "epoch %d/%d  step %d/%d  audio loss %.3f  text loss %.3f  rate %.1e  "
                "%.1f audio-s/s  left %s", epoch, self.num_epochs, number, self.steps_per_epoch,
                result.audio_loss, result.text_loss, result.learning_rate,
                record["audio_seconds_per_second"], self._left(epoch, number, step),
            )  # fmt: skip

    def epoch(self, epoch: int, step: int, validation: Validation | None) -> None:
        """The end of an epoch."""
        if validation is None:
            return
        log.info(
            "epoch %d/%d  validation: audio loss %.3f  text loss %.3f", epoch, self.num_epochs,
            validation.audio_loss, validation.text_loss,
        )  # fmt: skip
        losses = {"audio_loss": validation.audio_loss, "text_loss": validation.text_loss}
        self._record("validation", {"epoch": epoch, "step": step, **losses})

    def sample(self, epoch: int, told: Sidecar) -> None:
        """A sample with its reference, as audio and as pictures; `epoch` is their step."""
        for what in ("output", "reference"):
            path = self.run.samples / f"epoch_{epoch}_{what}.wav"
            if told.mode == "skipped" or not path.is_file():
                continue
            waveform = audio.read(path, audio.VOCODER_RATE)
            self._writer.add_audio(f"sample/{what}", waveform, epoch, audio.VOCODER_RATE)
            self._writer.add_image(f"sample/{what}", spectrogram(waveform), epoch)
        if told.similarity is not None:
            self._writer.add_scalar("sample/similarity", told.similarity, epoch)
        self._writer.flush()

    def _record(self, kind: str, record: dict[str, Any]) -> None:
        plain = {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in record.items()
        }
        with self._forgiving():
            self._file.write(json.dumps({"kind": kind, **plain}) + "\n")
            self._file.flush()
            for name, value in plain.items():
                if isinstance(value, int | float) and name not in ("step", "epoch"):
                    self._writer.add_scalar(f"{kind}/{name}", value, record["step"])
            for name, value in record.get("machine", {}).items():
                self._writer.add_scalar(f"machine/{name}", value, record["step"])

    @contextmanager
    def _forgiving(self) -> Iterator[None]:
        """A full disk costs curves; the next checkpoint decides whether training goes on."""
        try:
            yield
        except OSError as error:
            if not self._told_fault:
                log.warning("The logs cannot be written (%s). Training goes on.", error)
            self._told_fault = True

    def _left(self, epoch: int, number: int, step: int) -> str:
        done = step - self._first_step
        left = (self.num_epochs - epoch + 1) * self.steps_per_epoch - number
        seconds = (time.monotonic() - self._started) / done * left
        return f"{int(seconds // 3600)}:{int(seconds // 60 % 60):02}:{int(seconds % 60):02}"


def memory_bytes() -> int:
    """The GPU's peak where one is used, else this process's peak resident memory."""
    if torch.cuda.is_initialized():
        return int(torch.cuda.max_memory_allocated())
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def cut_back(path: Path, step: int) -> None:
    """Removes what a killed run wrote behind its last checkpoint, and a half-written line."""
    if not path.is_file():
        return
    lines = path.read_bytes().split(b"\n")
    rest, steps = lines.pop(), [_step_of(line) for line in lines]
    kept = [line for line, at in zip(lines, steps, strict=True) if at is not None and at <= step]
    if (damaged := steps.count(None) + bool(rest)) > 0:
        log.warning(
            "%s: %d lines are cut off or damaged and are removed; the run was killed while it "
            "wrote, or the disk was full.", path, damaged,
        )  # fmt: skip
    if len(kept) != len(lines) or rest:
        replace_file(path, lambda file: file.write(b"".join(line + b"\n" for line in kept)))
    last = max((at for at in steps if at is not None and at <= step), default=0)
    if kept and last < step:
        log.warning("%s: steps %d to %d are missing; they were learned.", path, last + 1, step)


def _step_of(line: bytes) -> int | None:
    """None for a line that is no record, or no text."""
    try:
        return int(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return None
