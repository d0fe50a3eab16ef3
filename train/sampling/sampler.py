"""Runs requests to a model that speaks: in process, or in a GPU or CPU subprocess; falls back.

in_process       on the training GPU, if it passed the check
gpu_subprocess   on a GPU that can speak, if it is not reliable while it trains or if training
                 runs elsewhere
cpu_subprocess   in all other cases; overlaps the next epoch if a GPU trains
skipped          SAMPLE_DEVICE=off, or three failures in a row

A request never stops a run and changes no bit of it: in every mode a separate model computes. The
one exception: if this process loses its GPU, the run ends (70), because training needs it too.
"""

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from machine.devices import cuda_errors, recovery
from machine.devices.cuda_errors import DeviceFault, NotFinite
from machine.devices.health import Outcome
from machine.devices.probe import report_surprise
from machine.devices.recovery import step_down
from machine.devices.selection import Environment, Place, choose_place
from machine.errors import SotaqueError
from train.resilience import lost_gpu
from train.resilience.stopping import StopRequest
from train.run_context import RunContext
from train.settings import TrainSettings
from xtts.inference.compute_config import ComputeConfig
from xtts.workers.failures import WorkerFailed
from xtts.workers.file_worker import START_SECONDS, Worker
from xtts.workers.requests import Answer, ReportProgress, Request, SpeakRequest, no_progress
from xtts.workers.tasks import FileSpeaker

log = logging.getLogger("train")

# The reference project's full-size sample took 43 s on a CPU; a loaded machine may be slower.
SPEAK_TIMEOUT_SECONDS = 900.0
NICE_BESIDE_TRAINING = 5
# A worker starts and speaks; after a fault it does so again, and then on the CPU.
MAX_SAMPLE_SECONDS = 3 * (START_SECONDS + SPEAK_TIMEOUT_SECONDS)


@dataclass(frozen=True)
class SamplingPlan:
    """Where and how samples are spoken, and the reason.

    overlaps_training: whether the next epoch trains meanwhile.
    """

    mode: str
    compute: ComputeConfig
    reason: str
    overlaps_training: bool = False
    trains_on_gpu: bool = False

    @property
    def device(self) -> str:
        """The device that speaks, for the sidecar."""
        return "none" if self.mode == "skipped" else self.compute.device

    @property
    def device_words(self) -> str:
        """The device that speaks, for the log."""
        if self.mode == "skipped":
            return "none"
        where = "the CPU" if self.device == "cpu" else self.device
        return f"on {where}" + (", in a separate process" if self.uses_subprocess else "")

    @property
    def uses_subprocess(self) -> bool:
        """Whether a worker speaks."""
        return self.mode.endswith("subprocess")


class Sampler:
    """Runs requests by the plan; `with` starts and ends its worker.

    Args:
        new_speaker: creates the speaker of a plan.
        interrupted: whether the run must stop, which ends a request at once.
        report: called with a GPU fault that the GPU check did not predict.
    """

    def __init__(
        self,
        plan: SamplingPlan,
        new_speaker: "Callable[[SamplingPlan], Worker | InProcessSpeaker]",
        *,
        interrupted: Callable[[], bool] = lambda: False,
        report: Callable[[str, str], None] = report_surprise,
    ) -> None:
        self.plan = plan
        self.worker = new_speaker(plan)
        self._new_speaker = new_speaker
        self._interrupted = interrupted
        self._report = report
        self._closing = False
        # One thread for the whole run: a worker dies with the thread that started it.
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="sampling")
        self._running: list[Future[None]] = []

    def __enter__(self) -> "Sampler":
        """Starts the worker, which imports and loads during the first epoch."""
        if self.plan.uses_subprocess and isinstance(self.worker, Worker):
            self.worker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing = True
        self._pool.shutdown(wait=True)
        self.worker.close()

    def submit(self, work: Callable[[], None]) -> None:
        """Runs a job after those in progress; with `plan.overlaps_training`, in the background."""
        if self.plan.overlaps_training:
            self._running.append(self._pool.submit(work))
        else:
            work()

    def ask(self, request: Request[Answer], progress: ReportProgress = no_progress) -> Answer:
        """Runs a request where samples are spoken. Call it in a job of `submit`.

        Raises WorkerFailed (code `interrupted` if the run must stop) and GpuLost.
        """
        answer = None if self.is_stopping else self.answer(request, progress)
        if answer is None or (isinstance(answer, WorkerFailed) and self.is_stopping):
            raise WorkerFailed("interrupted", "The run is to stop.")
        if not isinstance(answer, WorkerFailed):
            return answer
        self.raise_if_lost(answer)
        raise answer

    def finish(self) -> None:
        """Waits for the jobs in progress."""
        while self._running:
            self._running.pop(0).result()

    def answer(
        self, request: Request[Answer], progress: ReportProgress = no_progress
    ) -> Answer | WorkerFailed:
        """Tries one plan after another; returns the answer or the last failure."""
        is_repeated = False
        while isinstance(answer := self._try(request, progress), WorkerFailed) and not self.is_stopping:
            if answer.transient and not is_repeated:
                is_repeated = True
                if isinstance(request, SpeakRequest):
                    log.warning("%s is repeated after: %s", request.out.name, answer)
                recovery.free_after_fault(self.plan.device)
                continue
            if isinstance(request, SpeakRequest) and is_surprising(self.plan, answer):
                self._report(self.plan.device, answer.first_line)
            next_plan = None if self.has_lost_gpu(answer) else plan_after_fault(self.plan, answer)
            if next_plan is None:
                break
            log.warning("Samples move to %s (%s): %s.", next_plan.device, next_plan.mode, next_plan.reason)
            self._switch_to(next_plan)
            is_repeated = False
        return answer

    def _try(self, request: Request[Answer], progress: ReportProgress) -> Answer | WorkerFailed:
        """Tries once. Returns an error without its frames, which would keep tensors on the GPU."""
        try:
            return self.worker.ask(request, SPEAK_TIMEOUT_SECONDS, lambda: self.is_stopping, progress)
        except Exception as error:  # any error costs a sample, not the run
            in_process = self.plan.mode == "in_process"
            return failure_of(error, recovery.remaining_fault(self.plan.device) if in_process else "")

    def has_lost_gpu(self, failure: WorkerFailed) -> bool:
        """Whether this process, and training with it, has lost its GPU."""
        sticky = failure.fault is not None and failure.fault.sticky
        return sticky and self.plan.mode == "in_process"

    def raise_if_lost(self, failure: WorkerFailed) -> None:
        """Raises GpuLost if the failure took this process's GPU."""
        if self.has_lost_gpu(failure):
            raise lost_gpu.lost_error(self.plan.device, failure.first_line)

    @property
    def is_stopping(self) -> bool:
        """Whether the run must stop."""
        return self._closing or self._interrupted()

    def give_up(self, reason: str) -> None:
        """Runs no further request. reason: a sentence."""
        self._switch_to(SamplingPlan("skipped", self.plan.compute.at(Place("cpu", reason)), reason))

    def _switch_to(self, plan: SamplingPlan) -> None:
        self.worker.close()
        self.plan = plan
        self.worker = self._new_speaker(plan)


class InProcessSpeaker:
    """Speaks in this process. Loads the model at the first request; keeps the random state."""

    def __init__(self, base: Path, compute: ComputeConfig) -> None:
        self._base = base
        self._compute = compute
        self._speaker: FileSpeaker | None = None

    def ask(
        self,
        request: Request[Answer],
        _timeout_seconds: float,
        interrupted: Callable[[], bool],
        progress: ReportProgress = no_progress,
    ) -> Answer:
        """As `Worker.ask`, but interrupted only when it reports progress. Raises the errors of
        `FileSpeaker.ask`."""
        import torch

        def report(done: float) -> None:
            if interrupted():
                raise WorkerFailed("interrupted", f"Stopped while {request.doing}.")
            progress(done)

        device = torch.device(self._compute.device)
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            if self._speaker is None:
                # Training needs the memory between samples, and the next one has other weights.
                self._speaker = FileSpeaker(self._base, self._compute, keep_weights=False)
            return self._speaker.ask(request, report)

    def close(self) -> None:
        """Frees its copy of the model."""
        self._speaker = None


def new_speaker(plan: SamplingPlan, base: Path, machine: Environment) -> Worker | InProcessSpeaker:
    """The speaker of a plan: this process, or a worker. It has all cores if training waits, and all
    but one otherwise."""
    if plan.mode == "in_process":
        return InProcessSpeaker(base, plan.compute)
    threads = max(1, machine.cpu_count - 1) if plan.overlaps_training else machine.cpu_count
    return Worker(
        base,
        replace(plan.compute, threads=threads),
        niceness=NICE_BESIDE_TRAINING if plan.overlaps_training else 0,
        # Every sample has other weights: kept ones would only take memory from training.
        keep_weights=False,
    )


def sampler_of(settings: TrainSettings, context: RunContext, stop: StopRequest | None = None) -> Sampler:
    """The sampler for the settings. stop: ends a request at once."""
    compute = ComputeConfig(
        precision=settings.speak_precision, guard=settings.guard, watermark=settings.watermark
    )
    plan = sampling_plan(context.machine, settings.sample_device, context.device.value, compute)
    speaker = partial(new_speaker, base=context.base, machine=context.machine)
    return Sampler(plan, speaker, interrupted=lambda: stop is not None and stop.requested)


# Where to speak: pure functions


def sampling_plan(
    machine: Environment, sample_device: str, training_device: str, compute: ComputeConfig
) -> SamplingPlan:
    """Where to speak on this machine.

    Args:
        sample_device: SAMPLE_DEVICE.
        training_device: cpu or cuda:N.
        compute: The configuration apart from the device.
    """
    trains_on_gpu = training_device.startswith("cuda")
    if sample_device == "off":
        return SamplingPlan("skipped", compute, "SAMPLE_DEVICE=off")
    place = choose_place(machine, sample_device, "SAMPLE_DEVICE", preferred=training_device)
    gpu = machine.gpu(place.value)
    if gpu is None:
        return _cpu_plan(compute, place, trains_on_gpu)
    compute, reason = compute.at(place), place.reason
    if gpu.device != training_device:
        reason += f"; training runs on {training_device if trains_on_gpu else 'the CPU'}"
        return SamplingPlan("gpu_subprocess", compute, reason, trains_on_gpu, trains_on_gpu)
    if gpu.surprise:
        reason = f"{gpu.name} is not reliable while it trains: {gpu.surprise}"
        return SamplingPlan("gpu_subprocess", compute, reason, trains_on_gpu=True)
    return SamplingPlan("in_process", compute, reason, trains_on_gpu=True)


def plan_after_fault(plan: SamplingPlan, failure: WorkerFailed) -> SamplingPlan | None:
    """Where to speak after a fault; None if no other place can help.

    Each fault of a GPU leads one step down: first without cuFFT or cuDNN if that failed, then in
    another process (not for lack of memory), then on the CPU.
    """
    if plan.device == "cpu" or not failure.elsewhere:
        return None
    reason = f"speaking on {plan.device} ({plan.mode}) failed: {failure.first_line}"
    compute, mode = plan.compute, plan.mode
    place = Place(compute.device, reason, compute.mel_device, compute.cudnn)
    next_place = step_down(place, reason, failure.fault)
    moves_only_mel = next_place.value == place.value and next_place.cudnn == place.cudnn
    if mode == "in_process" and not moves_only_mel and not failure.transient:
        # cuDNN can be turned off only in another process, without changing training.
        mode, next_place = "gpu_subprocess", place if next_place.value == "cpu" else next_place
    if next_place.value == "cpu":
        return _cpu_plan(compute, next_place, plan.trains_on_gpu)
    return replace(plan, mode=mode, compute=compute.at(next_place), reason=next_place.reason)


def failure_of(error: Exception, poison: str = "") -> WorkerFailed:
    """Converts an error in speaking to a WorkerFailed without its stack frames.

    poison: the error of the device when it was checked again; "" if it works.
    """
    if isinstance(error, WorkerFailed) and not poison:
        return error.with_traceback(None)
    sentence, fault = str(error) or type(error).__name__, cuda_errors.classify(error)
    if poison:
        code = fault.code if fault and fault.sticky else None
        dead = DeviceFault(Outcome.STICKY, "context", code, poison)
        return WorkerFailed("gpu_fault", sentence, dead)
    if isinstance(error, NotFinite):
        return WorkerFailed("not_finite", sentence)
    if isinstance(error, SotaqueError):
        return WorkerFailed("error", sentence, elsewhere=False)
    return WorkerFailed("error", sentence, fault)


def is_surprising(plan: SamplingPlan, failure: WorkerFailed) -> bool:
    """Whether the GPU check should have predicted this failure.

    Out-of-memory does not count, nor does a failure on the CPU.
    """
    if not plan.device.startswith("cuda") or not failure.elsewhere:
        return False
    return failure.fault is None or failure.fault.outcome not in (Outcome.TRANSIENT, Outcome.DATA)


def _cpu_plan(compute: ComputeConfig, place: Place, trains_on_gpu: bool) -> SamplingPlan:
    return SamplingPlan("cpu_subprocess", compute.at(place), place.reason, trains_on_gpu, trains_on_gpu)
