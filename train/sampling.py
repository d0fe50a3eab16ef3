"""Every epoch heard, by its own weights: where to speak (pure decision), and speaking.

    in_process       a GPU that passed the check, with the model that is training
    gpu_subprocess   a GPU that must not be shared with training
    cpu_subprocess   everywhere else; beside a training GPU it overlaps the next epoch
    skipped          SAMPLE_DEVICE=off, or three failures in a row

A sample never stops a run and changes no bit of it. What happened and why stands in
`epoch_N_output.json` beside the wav.
"""

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from train.dataset import Clip, Dataset
from train.settings import TrainSettings
from xtts import audio
from xtts.atomic import WriteError, write_json
from xtts.environment import Environment
from xtts.errors import SotaqueError
from xtts.runs import RunFolder
from xtts.worker import SpeakRequest, Spoken, Worker, WorkerFailed

log = logging.getLogger("train")

MOST_FAILURES_IN_A_ROW = 3
# The reference project's full-size sample took 43 s on a CPU; a loaded machine may be slower.
SPEAK_SECONDS = 900.0
NICE_BESIDE_TRAINING = 5


@dataclass(frozen=True)
class Plan:
    """Where samples are spoken, and why there."""

    mode: str
    device: str
    reason: str
    overlap: bool = False


@dataclass(frozen=True)
class Reference:
    """The recording whose voice a sample speaks with, and the text that it says."""

    path: Path
    text: str
    language: str


@dataclass(frozen=True)
class Sidecar:
    """`epoch_N_output.json`: what was spoken, by which weights, where and why there."""

    epoch: int
    checkpoint_sha256: str
    text: str
    device: str
    mode: str
    reason: str
    seconds: float | None
    audio_seconds: float | None
    sample_rate: int
    similarity: float | None


def plan(machine: Environment, wish: str, training_device: str) -> Plan:
    """Where to speak on this machine. wish: SAMPLE_DEVICE; training_device: cpu or cuda:N."""
    trains_on_gpu = training_device.startswith("cuda")
    sound = [gpu for gpu in machine.gpus if not gpu.verdict]
    if wish == "off":
        return Plan("skipped", "none", "SAMPLE_DEVICE=off")
    if wish == "cpu":
        return Plan("cpu_subprocess", "cpu", "SAMPLE_DEVICE=cpu", overlap=trains_on_gpu)
    if sound:
        device = training_device if trains_on_gpu else f"cuda:{sound[0].index}"
        passed = f"{sound[0].name} passed the check"
        if trains_on_gpu:
            return Plan("in_process", device, passed)
        return Plan("gpu_subprocess", device, f"{passed}; training runs on the CPU")
    if machine.gpus:
        why = f"{machine.gpus[0].name} is not to be trusted: {machine.gpus[0].verdict}"
    else:
        why = machine.gpu_hint or "no GPU on this machine"
    asked = "SAMPLE_DEVICE=gpu, but " if wish == "gpu" else ""
    return Plan("cpu_subprocess", "cpu", asked + why)


def reference_of(settings: TrainSettings, dataset: Dataset) -> Reference:
    """The first validation clip (fixed by content), else the first clip; SAMPLE_TEXT, else its own.

    A clip that no step learned from, saying what it says itself: so output and reference compare.
    """
    index = (dataset.validation or dataset.train)[0]
    clip: Clip = dataset.clips[index]
    return Reference(clip.path, settings.sample_text or clip.text, clip.language)


class Sampler:
    """Speaks samples by the plan. `in_process` speaks with the training model (a GPU's)."""

    def __init__(
        self,
        chosen: Plan,
        run: RunFolder,
        reference: Reference,
        worker: Worker,
        *,
        seed: int = 0,
        in_process: Callable[[SpeakRequest], Spoken] | None = None,
        heard: Callable[[int, Sidecar], None] | None = None,
    ) -> None:
        self.plan = chosen
        self.run = run
        self.reference = reference
        self.worker = worker
        self.seed = seed
        self.failures_in_a_row = 0
        self._in_process = in_process
        self._heard = heard or (lambda _epoch, _sidecar: None)
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="sampling")
        self._running: Future[None] | None = None

    def __enter__(self) -> "Sampler":
        """Starts the worker: it imports and loads while the first epoch is learned."""
        if self.plan.mode.endswith("subprocess"):
            self.worker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.worker.close()
        self._pool.shutdown(wait=True)

    def sample(self, epoch: int, checkpoint: Path, sha256: str) -> None:
        """Speaks the epoch's checkpoint; beside a training GPU, without waiting for it."""
        self.finish()
        if self.plan.overlap:
            self._running = self._pool.submit(self._sample, epoch, checkpoint, sha256)
        else:
            self._sample(epoch, checkpoint, sha256)

    def finish(self) -> None:
        """Waits for a sample that is still being spoken."""
        if self._running is not None:
            self._running.result()
            self._running = None

    def _sample(self, epoch: int, checkpoint: Path, sha256: str) -> None:
        out = self.run.samples / f"epoch_{epoch}_output.wav"
        request = SpeakRequest(
            self.reference.text, self.reference.language, self.reference.path, out, checkpoint,
            self.seed,
        )  # fmt: skip
        told = self._nothing(epoch, sha256, "skipped", self.plan.reason)
        if self.plan.mode != "skipped":
            told = self._spoken(request, told)
        try:
            self.run.samples.mkdir(parents=True, exist_ok=True)
            write_json(out.with_suffix(".json"), asdict(told))
        except (OSError, WriteError) as error:
            log.warning("The sample's %s cannot be written: %s", out.with_suffix(".json"), error)
        self._heard(epoch, told)

    def _spoken(self, request: SpeakRequest, nothing: Sidecar) -> Sidecar:
        try:
            self._write_reference(nothing.epoch)
            speak = self._in_process if self.plan.mode == "in_process" else None
            spoken = speak(request) if speak else self.worker.speak(request, SPEAK_SECONDS)
        except (SotaqueError, OSError) as error:
            return self._failed(nothing, error)
        self.failures_in_a_row = 0
        log.info(
            "Sample: %s, %.1f s of audio in %.1f s on %s (%s).", request.out, spoken.audio_seconds,
            spoken.seconds, spoken.device, self.plan.reason,
        )  # fmt: skip
        return replace(
            nothing, mode=self.plan.mode, reason=self.plan.reason, device=spoken.device,
            seconds=round(spoken.seconds, 3), audio_seconds=round(spoken.audio_seconds, 3),
            similarity=spoken.similarity,
        )  # fmt: skip

    def _failed(self, nothing: Sidecar, error: Exception) -> Sidecar:
        self.failures_in_a_row += 1
        code = error.reason_code if isinstance(error, WorkerFailed) else "error"
        log.warning("No sample of epoch %d (%s): %s", nothing.epoch, code, error)
        if self.failures_in_a_row >= MOST_FAILURES_IN_A_ROW:
            reason = f"{MOST_FAILURES_IN_A_ROW} samples in a row failed, the last one: {error}"
            log.warning("Sampling ends for this run: %s Training goes on.", reason)
            self.worker.close()
            self.plan = Plan("skipped", "none", reason)
        return replace(nothing, reason=f"{code}: {error}")

    def _write_reference(self, epoch: int) -> None:
        self.run.samples.mkdir(parents=True, exist_ok=True)
        path = self.run.samples / f"epoch_{epoch}_reference.wav"
        audio.write_wav(path, audio.read(self.reference.path, audio.VOCODER_RATE))

    def _nothing(self, epoch: int, sha256: str, mode: str, reason: str) -> Sidecar:
        return Sidecar(
            epoch, sha256, self.reference.text, self.plan.device, mode, reason, None, None,
            audio.VOCODER_RATE, None,
        )  # fmt: skip


def missing(run: RunFolder, epoch: int) -> bool:
    """Whether a saved epoch has no sidecar: the run ended between checkpoint and sample."""
    return not (run.samples / f"epoch_{epoch}_output.json").is_file()


def new_worker(chosen: Plan, base: Path, machine: Environment, **options: Any) -> Worker:
    """The worker that a plan asks for: all cores when training waits, all but one beside it."""
    threads = max(1, machine.cpu_count - 1) if chosen.overlap else machine.cpu_count
    niceness = NICE_BESIDE_TRAINING if chosen.overlap else 0
    device = chosen.device if chosen.device != "none" else "cpu"
    return Worker(base, device=device, threads=threads, niceness=niceness, **options)
