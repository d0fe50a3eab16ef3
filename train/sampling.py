"""Every epoch heard, by its own weights: where to speak (pure decision), and speaking.

    in_process       a GPU that passed the check, beside the model that is training there
    gpu_subprocess   a GPU that passed the check, while training runs on the CPU
    cpu_subprocess   everywhere else; beside a training GPU it overlaps the next epoch
    skipped          SAMPLE_DEVICE=off, or three failures in a row

A sample never stops a run and changes no bit of it: in every mode a model of its own speaks, with
the weights of the checkpoint just written. What happened and why stands in `epoch_N_output.json`
beside the wav.
"""

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from train.samples import Reference, Sidecar
from xtts import audio
from xtts.atomic import crash_point, write_json
from xtts.environment import Environment
from xtts.errors import SotaqueError
from xtts.runs import RunFolder
from xtts.speaking import Speaker, SpeakRequest, Spoken
from xtts.worker import START_SECONDS, Worker, WorkerFailed

log = logging.getLogger("train")

MOST_FAILURES_IN_A_ROW = 3
# The reference project's full-size sample took 43 s on a CPU; a loaded machine may be slower.
SPEAK_SECONDS = 900.0
NICE_BESIDE_TRAINING = 5
# A worker gets ready and speaks; after a fault, once more on the CPU.
LONGEST_SAMPLE_SECONDS = 2 * (START_SECONDS + SPEAK_SECONDS)


@dataclass(frozen=True)
class Plan:
    """Where samples are spoken, and why there."""

    mode: str
    device: str
    reason: str
    overlap: bool = False


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


def after_fault(plan: Plan, error: Exception) -> Plan | None:
    """Where to speak after a fault; None when another device would not help."""
    if plan.device == "cpu" or (isinstance(error, SotaqueError) and not _died(error)):
        return None
    first = (str(error).splitlines() or [type(error).__name__])[0]
    why = f"speaking on {plan.device} ({plan.mode}) failed: {first}"
    return Plan("cpu_subprocess", "cpu", why, overlap=plan.mode == "in_process")


class Sampler:
    """Speaks samples by the plan; `with` starts its worker and ends it.

    in_process: speaks in this process, where the plan says so. heard: is told of every sidecar.
    interrupted: whether the run is to stop; a sample is then given up at once.
    """

    def __init__(
        self,
        chosen: Plan,
        run: RunFolder,
        reference: Reference,
        new_worker: Callable[[Plan], Worker],
        *,
        seed: int = 0,
        in_process: Callable[[SpeakRequest], Spoken] | None = None,
        heard: Callable[[int, Sidecar], None] | None = None,
        interrupted: Callable[[], bool] = lambda: False,
    ) -> None:
        self.plan = chosen
        self.run = run
        self.reference = reference
        self.worker = new_worker(chosen)
        self.seed = seed
        self.failures_in_a_row = 0
        self._new_worker = new_worker
        self._in_process = in_process
        self._heard = heard
        self._interrupted = interrupted
        self._closing = False
        # One thread for the whole run: a worker dies with the thread that started it.
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="sampling")
        self._running: Future[None] | None = None

    def __enter__(self) -> "Sampler":
        """Starts the worker: it imports and loads while the first epoch is learned."""
        if self.plan.mode.endswith("subprocess"):
            self.worker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing = True
        self._pool.shutdown(wait=True)
        self.worker.close()

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
        told = self._nothing(epoch, sha256)
        if self.plan.mode != "skipped":
            told = self._spoken(request, told)
        if self._stopping():
            log.info("The sample of epoch %d is left for the next start.", epoch)
            return
        crash_point("mid-sample")
        try:
            if told.mode == "skipped":  # an older attempt's wav is not of these weights
                out.unlink(missing_ok=True)
            self.run.samples.mkdir(parents=True, exist_ok=True)
            write_json(out.with_suffix(".json"), asdict(told))
            if self._heard:
                self._heard(epoch, told)
        except Exception as error:
            log.warning("What is known of sample %d cannot be written: %s", epoch, error)

    def _spoken(self, request: SpeakRequest, nothing: Sidecar) -> Sidecar:
        try:
            self._write_reference(nothing.epoch)
            spoken = self._speak(request)
        except Exception as error:  # whatever it is, it costs a sample and not the run
            if self._stopping():
                return nothing
            if other := after_fault(self.plan, error):
                log.warning("Samples move to the CPU: %s.", other.reason)
                self._change(other)
                return self._spoken(request, nothing)
            return self._failed(nothing, error)
        self.failures_in_a_row = 0
        log.info(
            "Sample: %s, %.1f s of audio in %.1f s on %s (%s).", request.out, spoken.audio_seconds,
            spoken.seconds, spoken.device, self.plan.reason,
        )  # fmt: skip
        return replace(
            nothing, mode=self.plan.mode, reason=self.plan.reason, device=spoken.device,
            seconds=round(spoken.seconds, 3), audio_seconds=round(spoken.audio_seconds, 3),
            similarity=None if spoken.similarity is None else round(spoken.similarity, 4),
        )  # fmt: skip

    def _speak(self, request: SpeakRequest) -> Spoken:
        if self.plan.mode == "in_process" and self._in_process:
            return self._in_process(request)
        return self.worker.speak(request, SPEAK_SECONDS, self._stopping)

    def _stopping(self) -> bool:
        return self._closing or self._interrupted()

    def _change(self, other: Plan) -> None:
        self.worker.close()
        self._in_process = None  # and with it its copy of the model on the GPU
        self.plan = other
        self.worker = self._new_worker(other)

    def _failed(self, nothing: Sidecar, error: Exception) -> Sidecar:
        self.failures_in_a_row += 1
        code = error.reason_code if isinstance(error, WorkerFailed) else "error"
        log.warning("No sample of epoch %d (%s): %s", nothing.epoch, code, error)
        if self.failures_in_a_row >= MOST_FAILURES_IN_A_ROW:
            reason = f"{MOST_FAILURES_IN_A_ROW} samples in a row failed, the last one: {error}"
            log.warning("Sampling ends for this run: %s Training goes on.", reason)
            self._change(Plan("skipped", "none", reason))
        return replace(nothing, reason=f"{code}: {error}")

    def _write_reference(self, epoch: int) -> None:
        self.run.samples.mkdir(parents=True, exist_ok=True)
        path = self.run.samples / f"epoch_{epoch}_reference.wav"
        audio.write_wav(path, audio.read(self.reference.path, audio.VOCODER_RATE))

    def _nothing(self, epoch: int, sha256: str) -> Sidecar:
        return Sidecar(
            epoch, sha256, self.reference.text, self.plan.device, "skipped", self.plan.reason,
            None, None, audio.VOCODER_RATE, None,
        )  # fmt: skip


def new_worker(chosen: Plan, base: Path, machine: Environment) -> Worker:
    """The worker that a plan asks for: all cores when training waits, all but one beside it."""
    threads = max(1, machine.cpu_count - 1) if chosen.overlap else machine.cpu_count
    niceness = NICE_BESIDE_TRAINING if chosen.overlap else 0
    device = chosen.device if chosen.device != "none" else "cpu"
    # Every sample has other weights: kept ones would only take memory from training.
    return Worker(base, device=device, threads=threads, niceness=niceness, keep_weights=False)


def in_process(chosen: Plan, base: Path) -> Callable[[SpeakRequest], Spoken]:
    """Speaks in this process, loading at the first request; the random state stays as it is."""
    loaded: list[Speaker] = []

    def speak(request: SpeakRequest) -> Spoken:
        import torch

        device = torch.device(chosen.device)
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            if not loaded:
                loaded.append(Speaker(base, chosen.device))
            return loaded[0].speak(request)

    return speak


def _died(error: SotaqueError) -> bool:
    """The worker itself failed; what it refused (a text, a recording) no device would speak."""
    return isinstance(error, WorkerFailed) and error.reason_code not in ("refused", "interrupted")
