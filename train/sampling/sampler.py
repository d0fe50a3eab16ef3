"""Speaks each epoch's sample where `placement` says; falls back after a fault.

A sample never stops a run and changes no bit of it: in every mode a model of its own speaks, with
the weights of the checkpoint just written. What happened and why is in `epoch_N_output.json`
beside the wav. The one exception: an error in this process after which its GPU computes no more
ends the run (70), because training lives there too.
"""

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from machine.devices import cuda_errors
from machine.devices.probe.runner import report_surprise
from machine.devices.selection import Environment
from machine.errors import SotaqueError
from machine.storage.atomic import crash_point, write_json
from train.resilience import lost_gpu
from train.sampling.placement import (
    SamplingFailure,
    SamplingPlan,
    after_fault,
    failure_of,
    surprising,
)
from train.sampling.sample_files import (
    SampleFiles,
    SampleReference,
    SampleSidecar,
    named_words,
    of_best,
    of_epoch,
    sample_of,
)
from xtts import audio
from xtts.voices.learned_speaker import base_speaker, speaker_beside
from xtts.voices.run_folder import BestWeights, RunFolder
from xtts.workers.file_evaluation import (
    EvaluateRequest,
    HeardRecordings,
    ListenRequest,
    SpeakingSpeed,
    SpokenSet,
    TrialRequest,
)
from xtts.workers.file_synthesis import FileSpeaker, SpeakRequest, SpokenFile
from xtts.workers.file_worker import START_SECONDS, Worker
from xtts.workers.speaker_learning import LearnSpeakerRequest, SpeakerLearned

log = logging.getLogger("train")

MOST_FAILURES_IN_A_ROW = 3
# The reference project's full-size sample took 43 s on a CPU; a loaded machine may be slower.
SPEAK_SECONDS = 900.0
NICE_BESIDE_TRAINING = 5
# A worker gets ready and speaks; after a fault once more, and then on the CPU.
LONGEST_SAMPLE_SECONDS = 3 * (START_SECONDS + SPEAK_SECONDS)

MeasureRequest = EvaluateRequest | ListenRequest | LearnSpeakerRequest | TrialRequest
Request = SpeakRequest | MeasureRequest
Answer = SpokenFile | SpokenSet | HeardRecordings | SpeakerLearned | SpeakingSpeed
_VERBS: dict[type[Request], str] = {
    SpeakRequest: "speak", EvaluateRequest: "evaluate", ListenRequest: "listen",
    LearnSpeakerRequest: "learn_speaker", TrialRequest: "trial",
}  # fmt: skip
SpeaksHere = Callable[[SpeakRequest, SamplingPlan], SpokenFile]


class MeasuringFailed(SotaqueError):
    """Sentences or recordings that could not be measured. stopped: because the run is to stop."""

    def __init__(self, sentence: str, *, stopped: bool = False) -> None:
        super().__init__(sentence)
        self.stopped = stopped


class Sampler:
    """Speaks samples by the plan; `with` starts its worker and ends it.

    in_process: speaks in this process, where the plan says so. heard: called with every sidecar.
    interrupted: whether the run is to stop; a sample is then given up at once. report: is told of
    a GPU's fault that its check had not foretold. files: where the sample of an epoch goes.
    """

    def __init__(
        self,
        chosen: SamplingPlan,
        run: RunFolder,
        reference: SampleReference,
        new_worker: Callable[[SamplingPlan], Worker],
        *,
        seed: int = 0,
        in_process: SpeaksHere | None = None,
        heard: Callable[[int, SampleSidecar], None] | None = None,
        interrupted: Callable[[], bool] = lambda: False,
        report: Callable[[str, str], None] = report_surprise,
        files: Callable[[RunFolder, int], SampleFiles] = of_epoch,
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
        self._report = report
        self._files = files
        self._closing = False
        # One thread for the whole run: a worker dies with the thread that started it.
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="sampling")
        self._running: list[Future[None]] = []

    def __enter__(self) -> "Sampler":
        """Starts the worker: it imports and loads while the first epoch is learned."""
        if self.plan.subprocess:
            self.worker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing = True
        self._pool.shutdown(wait=True)
        self.worker.close()

    def sample(self, epoch: int, checkpoint: Path, sha256: str) -> None:
        """Speaks the epoch's checkpoint; beside a training GPU, without waiting for it."""
        self.finish()
        files = self._files(self.run, epoch)
        self.submit(lambda: self._sample(epoch, checkpoint, sha256, files, self._heard))

    def sample_best(self, best: BestWeights) -> None:
        """Speaks the best weights into files of their own, where those do not say so already."""
        speaker = speaker_beside(best.weights) if best.weights else base_speaker(self.run)
        told = {"kind": best.kind, "share": best.share, "learned_speaker": speaker is not None}
        files = of_best(self.run)
        if self.plan.mode == "skipped" or sample_of(files) == (best.epoch, best.sha256, told):
            return
        self.submit(
            lambda: self._sample(
                best.epoch, best.weights, best.sha256, files, None, told, speaker=speaker
            )
        )

    def submit(self, work: Callable[[], None]) -> None:
        """Does some work of speaking behind what is being spoken; beside a training GPU, without
        waiting for it."""
        if self.plan.overlap:
            self._running.append(self._pool.submit(work))
        else:
            work()

    def evaluate(self, request: EvaluateRequest) -> SpokenSet:
        """Speaks and measures sentences where samples are spoken, inside `submit`.

        Raises MeasuringFailed, and GpuLost as a sample.
        """
        found = self._measured(request)
        assert isinstance(found, SpokenSet)
        return found

    def listen(self, request: ListenRequest) -> HeardRecordings:
        """Measures recordings there. Raises as `evaluate`."""
        found = self._measured(request)
        assert isinstance(found, HeardRecordings)
        return found

    def learn_speaker(self, request: LearnSpeakerRequest) -> SpeakerLearned:
        """Learns a speaker embedding there. Raises as `evaluate`."""
        found = self._measured(request)
        assert isinstance(found, SpeakerLearned)
        return found

    def trial(self, request: TrialRequest) -> SpeakingSpeed:
        """Measures how fast is spoken there. Raises as `evaluate`."""
        found = self._measured(request)
        assert isinstance(found, SpeakingSpeed)
        return found

    def finish(self) -> None:
        """Waits for what is still being spoken."""
        while self._running:
            self._running.pop(0).result()

    def _sample(
        self,
        epoch: int,
        checkpoint: Path | None,
        sha256: str,
        files: SampleFiles,
        heard: Callable[[int, SampleSidecar], None] | None,
        more: Mapping[str, Any] = MappingProxyType({}),
        *,
        speaker: Path | None = None,
    ) -> None:
        out = files.output
        request = SpeakRequest(
            self.reference.text, self.reference.language, self.reference.path, out, checkpoint,
            self.seed, speaker,
        )  # fmt: skip
        told, failure = self._nothing(epoch, sha256), None
        if self.plan.mode != "skipped":
            told, failure = self._spoken(request, told, files.reference)
        else:
            self._keep_reference(files.reference)
        if self._stopping():
            log.info("The sample of epoch %d is left for the next start.", epoch)
            return
        crash_point("mid-sample")
        try:
            if told.mode == "skipped":  # an older attempt's wav is not of these weights
                out.unlink(missing_ok=True)
            files.sidecar.parent.mkdir(parents=True, exist_ok=True)
            write_json(files.sidecar, {**asdict(told), **more})
            if heard:
                heard(epoch, told)
        except Exception as error:
            log.warning("What is known of sample %d cannot be written: %s", epoch, error)
        if failure and self._lost(failure):
            raise lost_gpu.gone(self.plan.device, failure.first_line)

    def _spoken(
        self, request: SpeakRequest, nothing: SampleSidecar, reference: Path
    ) -> tuple[SampleSidecar, SamplingFailure | None]:
        """Speaks, by one plan after another; the failure is the one that ended it."""
        tried_again = False
        while not isinstance(found := self._attempt(request, reference), SpokenFile):
            if self._stopping():
                return nothing, None
            if found.transient and not tried_again:
                tried_again = True
                log.warning("Sample %d once more, after: %s", nothing.epoch, found.sentence)
                cuda_errors.free_after_fault(self.plan.device)
                continue
            if surprising(self.plan, found):
                self._report(self.plan.device, found.first_line)
            other = None if self._lost(found) else after_fault(self.plan, found)
            if other is None:
                return self._failed(nothing, found), found
            log.warning("Samples move to %s (%s): %s.", other.device, other.mode, other.reason)
            self._change(other)
            tried_again = False
        self.failures_in_a_row = 0
        log.info(
            "Sample: %s, %.1f s of audio in %.1f s on %s (%s).", request.out, found.audio_seconds,
            found.seconds, found.device, self.plan.reason,
        )  # fmt: skip
        if found.ending not in (None, "good"):
            log.warning(
                "The sample did not end as it should (%s, after %d attempts): %s.", found.ending,
                found.attempts, found.ending_reason,
            )  # fmt: skip
        return replace(
            nothing, mode=self.plan.mode, reason=self.plan.reason, device=found.device,
            seconds=round(found.seconds, 3), audio_seconds=round(found.audio_seconds, 3),
            similarity=None if found.similarity is None else round(found.similarity, 4),
            ending=found.ending, ending_reason=found.ending_reason, attempts=found.attempts,
            words=named_words(found.words),
        ), None  # fmt: skip

    def _measured(self, request: MeasureRequest) -> Answer:
        tried_again = False
        while isinstance(found := self._try(request), SamplingFailure):
            if self._stopping():
                raise MeasuringFailed("The run is to stop.", stopped=True)
            if found.transient and not tried_again:
                tried_again = True
                cuda_errors.free_after_fault(self.plan.device)
                continue
            if self._lost(found):
                raise lost_gpu.gone(self.plan.device, found.first_line)
            other = after_fault(self.plan, found)
            if other is None:
                raise MeasuringFailed(found.sentence)
            log.warning("Samples move to %s (%s): %s.", other.device, other.mode, other.reason)
            self._change(other)
            tried_again = False
        return found

    def _attempt(self, request: SpeakRequest, reference: Path) -> SpokenFile | SamplingFailure:
        """One try, with the reference beside it."""
        try:
            self._write_reference(reference)
        except Exception as error:
            return failure_of(error)
        found = self._try(request)
        assert isinstance(found, SpokenFile | SamplingFailure)
        return found

    def _try(self, request: Request) -> Answer | SamplingFailure:
        """One try. The error ends here, and with it the frames that hold tensors on the GPU."""
        try:
            if self.plan.mode == "in_process" and self._in_process:
                return self._in_process(request, self.plan)  # type: ignore[arg-type]
            verb = getattr(self.worker, verb_of(request))
            answer: Answer = verb(request, SPEAK_SECONDS, self._stopping)
            return answer
        except Exception as error:  # whatever it is, it costs a sample and not the run
            here = self.plan.mode == "in_process"
            return failure_of(error, cuda_errors.poisoned(self.plan.device) if here else "")

    def _lost(self, failure: SamplingFailure) -> bool:
        """Whether this process, and training with it, has lost its GPU."""
        sticky = failure.fault is not None and failure.fault.sticky
        return sticky and self.plan.mode == "in_process"

    def _stopping(self) -> bool:
        return self._closing or self._interrupted()

    def _change(self, other: SamplingPlan) -> None:
        self.worker.close()
        if other.mode != "in_process":
            self._in_process = None  # and with it its copy of the model on the GPU
        self.plan = other
        self.worker = self._new_worker(other)

    def _failed(self, nothing: SampleSidecar, failure: SamplingFailure) -> SampleSidecar:
        self.failures_in_a_row += 1
        reason = f"{failure.code}: {failure.sentence}"
        if self.plan.reason.startswith("speaking on"):  # why it was not spoken where it should be
            reason += f" Before that, {self.plan.reason}."
        log.warning("No sample of epoch %d (%s): %s", nothing.epoch, failure.code, failure.sentence)
        if self.failures_in_a_row >= MOST_FAILURES_IN_A_ROW and not self._lost(failure):
            last = f"the last one: {failure.sentence}"
            ends = f"{MOST_FAILURES_IN_A_ROW} samples in a row failed, {last}"
            log.warning("Sampling ends for this run: %s Training goes on.", ends)
            self._change(SamplingPlan("skipped", "none", ends))
        return replace(nothing, reason=reason)

    def _keep_reference(self, path: Path) -> None:
        """Also of a run that speaks no samples: whoever speaks with an epoch needs its person."""
        try:
            self._write_reference(path)
        except Exception as error:
            log.warning("The recording %s cannot be kept: %s", self.reference.path, error)

    def _write_reference(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        audio.write_wav(path, audio.read(self.reference.path, audio.VOCODER_RATE))

    def _nothing(self, epoch: int, sha256: str) -> SampleSidecar:
        return SampleSidecar(
            epoch, sha256, self.reference.text, self.plan.device, "skipped", self.plan.reason,
            None, None, audio.VOCODER_RATE, None,
        )  # fmt: skip


def workers(
    base: Path, machine: Environment, precision: str, *, guard: bool = True
) -> Callable[[SamplingPlan], Worker]:
    """What makes the worker of each plan; precision: SPEAK_PRECISION; guard: GUARD."""
    return lambda chosen: new_worker(chosen, base, machine, precision, guard=guard)


def new_worker(
    chosen: SamplingPlan,
    base: Path,
    machine: Environment,
    precision: str = "auto",
    *,
    guard: bool = True,
) -> Worker:
    """The worker that a plan asks for: all cores when training waits, all but one beside it."""
    return Worker(
        base,
        device=chosen.device if chosen.device != "none" else "cpu",
        mel_device=chosen.mel_device,
        precision=precision,
        guard=guard,
        cudnn=chosen.cudnn,
        clean_libraries=chosen.clean_libraries,
        threads=max(1, machine.cpu_count - 1) if chosen.overlap else machine.cpu_count,
        niceness=NICE_BESIDE_TRAINING if chosen.overlap else 0,
        # Every sample has other weights: kept ones would only take memory from training.
        keep_weights=False,
    )


def in_process(base: Path, *, precision: str = "auto", guard: bool = True) -> SpeaksHere:
    """Speaks in this process, loading at the first request; the random state stays as it is.
    precision: SPEAK_PRECISION; guard: GUARD."""
    loaded: dict[tuple[str, str], FileSpeaker] = {}

    def speak(request: SpeakRequest, chosen: SamplingPlan) -> SpokenFile:
        import torch

        device = torch.device(chosen.device)
        where = (chosen.device, chosen.mel_device)
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            if where not in loaded:
                loaded.clear()
                # Training wants the room between samples, and other weights come anyway.
                loaded[where] = FileSpeaker(
                    base, chosen.device, mel_device=chosen.mel_device, precision=precision,
                    guard=guard, keep_weights=False,
                )  # fmt: skip
            found: SpokenFile = getattr(loaded[where], verb_of(request))(request)
            return found

    return speak


def verb_of(request: Request) -> str:
    """The method of a worker, and of a speaker in this process, that takes such a request."""
    return _VERBS[type(request)]
