"""Speaks each epoch's sample where `placement` decides, and falls back after a fault.

A sample never stops a run and changes no bit of it: in every mode a separate model speaks, with the
weights of the checkpoint just written. `epoch_N_output.json`, next to the WAV, records the result
and the reason. The one exception: if this process loses its GPU, the run ends (70), because
training needs it too.
"""

import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from machine.devices import recovery
from machine.devices.probe import report_surprise
from machine.devices.selection import Environment, Place
from machine.storage.atomic import crash_point, write_json
from machine.storage.hashes import sha256_of
from machine.storage.reading import read_json
from train import defaults
from train.resilience import lost_gpu
from train.run_context import RunContext
from train.sampling import placement
from train.sampling.decoders import EpochDecoders
from train.sampling.placement import SamplingPlan, after_fault, failure_of, surprising
from train.sampling.reference import kept_reference
from train.sampling.sample_files import (
    SampleFiles,
    SampleReference,
    SampleSidecar,
    of_best,
    of_epoch,
    of_speaker,
)
from train.settings import TrainSettings
from xtts import audio, wav
from xtts.inference.compute_config import ComputeConfig
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.voices import speakers
from xtts.voices.learned_decoder import learned_for
from xtts.voices.run_folder import RunFolder
from xtts.voices.verdict import Verdict
from xtts.workers.failures import WorkerFailed
from xtts.workers.file_worker import START_SECONDS, Worker
from xtts.workers.requests import (
    Answer,
    ReportProgress,
    Request,
    SpeakRequest,
    SpokenFile,
    TunedVoice,
    no_progress,
)
from xtts.workers.tasks import FileSpeaker

log = logging.getLogger("train")

MOST_FAILURES_IN_A_ROW = 3
# The reference project's full-size sample took 43 s on a CPU; a loaded machine may be slower.
SPEAK_SECONDS = 900.0
NICE_BESIDE_TRAINING = 5
# Samples of further speakers start within these seconds, or this share of the epoch's time.
SPEAKERS_SECONDS, SPEAKERS_SHARE = 20.0, 0.1
# A worker starts and speaks; after a fault it does so again, and then on the CPU.
LONGEST_SAMPLE_SECONDS = 3 * (START_SECONDS + SPEAK_SECONDS)


class Sampler:
    """Speaks samples by the plan; `with` starts and ends its worker.

    Args:
        new_speaker: creates the speaker of a plan.
        on_sample: called with every sidecar.
        interrupted: whether the run must stop, which ends a sample at once.
        report: called with a GPU fault that the GPU check did not predict.
    """

    def __init__(
        self,
        chosen: SamplingPlan,
        run: RunFolder,
        reference: SampleReference,
        new_speaker: "Callable[[SamplingPlan], Worker | InProcessSpeaker]",
        *,
        seed: int = 0,
        decoders: EpochDecoders | None = None,
        on_sample: Callable[[int, SampleSidecar], None] | None = None,
        interrupted: Callable[[], bool] = lambda: False,
        report: Callable[[str, str], None] = report_surprise,
    ) -> None:
        self.plan = chosen
        self.run = run
        self.reference = reference
        self.worker = new_speaker(chosen)
        self.seed = seed
        self._decoders = decoders
        self.failures_in_a_row = 0
        self._new_speaker = new_speaker
        self._on_sample = on_sample
        self._interrupted = interrupted
        self._report = report
        self._closing = False
        # One thread for the whole run: a worker dies with the thread that started it.
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="sampling")
        self._running: list[Future[None]] = []

    def __enter__(self) -> "Sampler":
        """Starts the worker, which imports and loads during the first epoch."""
        if self.plan.subprocess and isinstance(self.worker, Worker):
            self.worker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing = True
        self._pool.shutdown(wait=True)
        self.worker.close()

    def sample(
        self,
        epoch: int,
        checkpoint: Path,
        sha256: str,
        files: SampleFiles | None = None,
        *,
        epoch_seconds: float = 0.0,
    ) -> None:
        """Trains the epoch's decoder and speaks a sample with its checkpoint; with `plan.overlap`,
        in the background. files: instead of the epoch's, and without training a decoder;
        epoch_seconds: its training time."""

        def work() -> None:
            if self._decoders and files is None and self.plan.mode != "skipped":
                self._decoders.learn(self.ask, epoch, checkpoint, sha256)
            decoder = learned_for(self.run, checkpoint)
            learned = {"learned_decoder": sha256_of(decoder)} if decoder else {}
            to = files or of_epoch(self.run, epoch)
            self._sample(epoch, checkpoint, sha256, to, learned, decoder)
            if files is None:
                self._sample_speakers(epoch, checkpoint, epoch_seconds)

        self.finish()
        self.submit(work)

    def sample_best(self, verdict: Verdict | None = None) -> None:
        """Speaks `best_output.wav` with the best weights, unless it is up to date. Waits for it.
        verdict: as in `RunFolder.best_weights`."""
        best, files = self.run.best_weights(verdict), of_best(self.run)
        if best is None or self.plan.mode == "skipped":
            return
        decoder = learned_for(self.run, best.weights)
        details = {
            "kind": best.kind,
            "share": best.share,
            "learned_decoder": sha256_of(decoder) if decoder else "",
            "reference": sha256_of(self.reference.path),
        }
        wanted = {"epoch": best.epoch, "checkpoint_sha256": best.sha256, **details}
        before = {"mode": "skipped", **read_json(files.sidecar)}
        if before["mode"] == "skipped" or not wanted.items() <= before.items():
            weights = best.weights
            self.submit(
                lambda: self._sample(best.epoch, weights, best.sha256, files, details, decoder)
            )
        self.finish()

    @property
    def decoder_step_seconds(self) -> float:
        """The seconds of a training step of the last epoch's decoder; 0 if unknown."""
        return self._decoders.step_seconds if self._decoders else 0.0

    def submit(self, work: Callable[[], None]) -> None:
        """Runs a job after those in progress; with `plan.overlap`, in the background."""
        if self.plan.overlap:
            self._running.append(self._pool.submit(work))
        else:
            work()

    def ask(self, request: Request[Answer], progress: ReportProgress = no_progress) -> Answer:
        """Runs a request where samples are spoken. Call it in a job of `submit`.

        Raises WorkerFailed (code `interrupted` if the run must stop) and GpuLost.
        """
        answer = None if self._stopping() else self._asked(request, progress)
        if answer is None or (isinstance(answer, WorkerFailed) and self._stopping()):
            raise WorkerFailed("interrupted", "The run is to stop.")
        if not isinstance(answer, WorkerFailed):
            return answer
        self._raise_if_lost(answer)
        raise answer

    def finish(self) -> None:
        """Waits for the jobs in progress."""
        while self._running:
            self._running.pop(0).result()

    def _sample(
        self,
        epoch: int,
        checkpoint: Path | None,
        sha256: str,
        files: SampleFiles,
        more: Mapping[str, Any],
        decoder: Path | None,
    ) -> None:
        """Speaks and writes the WAV, its reference and its sidecar, with `more` fields."""
        person, plan = self.reference, self.plan
        text = SynthesisRequest(person.text, person.language, self.seed)
        request = SpeakRequest(
            text, TunedVoice(person.path, checkpoint, decoder=decoder), files.output
        )
        sidecar = SampleSidecar(epoch, sha256, person.text, plan.device, "skipped", plan.reason)
        # Also in a run without samples: an epoch needs the person's recording to speak.
        failure = self._write_reference(files.reference)
        if plan.mode != "skipped":
            answer = self._asked(request) if failure is None else failure
            if not isinstance(answer, WorkerFailed):
                sidecar = self._spoken(sidecar, answer, files.output)
            elif not self._stopping():
                failure, sidecar = answer, self._failed(sidecar, answer)
        elif failure:
            log.warning("The recording %s cannot be copied: %s", person.path, failure)
        if self._stopping():
            log.info(
                "The sample of epoch %d was interrupted. It is spoken when the run starts again.",
                epoch,
            )
            return
        crash_point("mid-sample")
        try:
            if sidecar.mode == "skipped":  # the WAV of an older attempt is of other weights
                files.output.unlink(missing_ok=True)
            files.sidecar.parent.mkdir(parents=True, exist_ok=True)
            write_json(files.sidecar, {**asdict(sidecar), **more})
            if self._on_sample and files == of_epoch(self.run, epoch):
                self._on_sample(epoch, sidecar)
        except Exception as error:
            log.warning("The record of sample %d cannot be written: %s", epoch, error)
        if failure:
            self._raise_if_lost(failure)

    def _sample_speakers(self, epoch: int, checkpoint: Path, epoch_seconds: float) -> None:
        """Speaks the epoch's sample as each further speaker of the run, while there is time. A
        failure costs only that sample."""
        others = list(speakers.read(self.run.folder).items())[1:]
        if self.plan.mode == "skipped":
            return
        until = time.monotonic() + max(SPEAKERS_SECONDS, SPEAKERS_SHARE * epoch_seconds)
        person, spoken = self.reference, dict[str, str]()
        text = SynthesisRequest(person.text, person.language, self.seed)
        for number, (name, recording) in enumerate(others):
            if self._stopping():
                return
            if time.monotonic() > until:
                late = ", ".join(late for late, _ in others[number:])
                log.info("To save time, epoch %d has no sample as %s.", epoch, late)
                break
            out = of_speaker(self.run, epoch, recording)
            answer = self._asked(SpeakRequest(text, TunedVoice(recording, checkpoint), out))
            if not isinstance(answer, WorkerFailed):
                spoken[name] = out.name
                continue
            self._raise_if_lost(answer)
            if not self._stopping():
                log.warning("No sample of epoch %d as %s: %s", epoch, name, answer)
        if spoken:
            log.info("Samples as %s: %s", ", ".join(spoken), ", ".join(spoken.values()))

    def _spoken(self, sidecar: SampleSidecar, answer: SpokenFile, out: Path) -> SampleSidecar:
        """The sidecar of a sample that was spoken."""
        self.failures_in_a_row = 0
        log.info(
            "Sample: %s, %.1f s of audio in %.1f s on %s (%s).", out, answer.audio_seconds,
            answer.seconds, answer.device, self.plan.reason,
        )  # fmt: skip
        if answer.ending not in (None, "good"):
            log.warning(
                "The sample did not end correctly (%s, after %d attempts): %s.", answer.ending,
                answer.attempts, answer.ending_reason,
            )  # fmt: skip
        return replace(
            sidecar, mode=self.plan.mode, reason=self.plan.reason, device=answer.device,
            seconds=round(answer.seconds, 3), audio_seconds=round(answer.audio_seconds, 3),
            similarity=None if answer.similarity is None else round(answer.similarity, 4),
            ending=answer.ending, ending_reason=answer.ending_reason, attempts=answer.attempts,
            words=None if answer.words is None else [
                {"word": word, "start_time": start, "end_time": end}
                for word, start, end in answer.words
            ],
        )  # fmt: skip

    def _asked(
        self, request: Request[Answer], progress: ReportProgress = no_progress
    ) -> Answer | WorkerFailed:
        """Tries one plan after another; returns the answer or the last failure."""
        tried_again = False
        while (
            isinstance(answer := self._try(request, progress), WorkerFailed)
            and not self._stopping()
        ):
            if answer.transient and not tried_again:
                tried_again = True
                if isinstance(request, SpeakRequest):
                    log.warning("%s is repeated after: %s", request.out.name, answer)
                recovery.free_after_fault(self.plan.device)
                continue
            if isinstance(request, SpeakRequest) and surprising(self.plan, answer):
                self._report(self.plan.device, answer.first_line)
            other = None if self._lost(answer) else after_fault(self.plan, answer)
            if other is None:
                break
            log.warning("Samples move to %s (%s): %s.", other.device, other.mode, other.reason)
            self._change(other)
            tried_again = False
        return answer

    def _try(self, request: Request[Answer], progress: ReportProgress) -> Answer | WorkerFailed:
        """Tries once. Returns an error without its frames, which would keep tensors on the GPU."""
        try:
            return self.worker.ask(request, SPEAK_SECONDS, self._stopping, progress)
        except Exception as error:  # any error costs a sample, not the run
            here = self.plan.mode == "in_process"
            return failure_of(error, recovery.poisoned(self.plan.device) if here else "")

    def _lost(self, failure: WorkerFailed) -> bool:
        """Whether this process, and training with it, has lost its GPU."""
        sticky = failure.fault is not None and failure.fault.sticky
        return sticky and self.plan.mode == "in_process"

    def _raise_if_lost(self, failure: WorkerFailed) -> None:
        if self._lost(failure):
            raise lost_gpu.gone(self.plan.device, failure.first_line)

    def _stopping(self) -> bool:
        return self._closing or self._interrupted()

    def _change(self, other: SamplingPlan) -> None:
        self.worker.close()
        self.plan = other
        self.worker = self._new_speaker(other)

    def _failed(self, nothing: SampleSidecar, failure: WorkerFailed) -> SampleSidecar:
        self.failures_in_a_row += 1
        code = failure.reason_code
        reason = f"{code}: {failure}"
        if self.plan.reason.startswith("speaking on"):  # why samples had moved
            reason += f" Before that, {self.plan.reason}."
        log.warning("No sample of epoch %d (%s): %s", nothing.epoch, code, failure)
        if self.failures_in_a_row >= MOST_FAILURES_IN_A_ROW and not self._lost(failure):
            ends = f"{MOST_FAILURES_IN_A_ROW} samples in a row failed, the last one: {failure}"
            log.warning("This run speaks no more samples: %s Training continues.", ends)
            self._change(SamplingPlan("skipped", self.plan.compute.at(Place("cpu", ends)), ends))
        return replace(nothing, reason=reason)

    def _write_reference(self, path: Path) -> WorkerFailed | None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            wav.write(path, audio.read(self.reference.path, audio.VOCODER_RATE))
        except Exception as error:
            return failure_of(error)
        return None


class InProcessSpeaker:
    """Speaks in this process. Loads the model at the first request; keeps the random state."""

    def __init__(self, base: Path, compute: ComputeConfig) -> None:
        self._base = base
        self._compute = compute
        self._speaker: FileSpeaker | None = None

    def ask(
        self, request: Request[Answer], _timeout_seconds: float, interrupted: Callable[[], bool],
        progress: ReportProgress = no_progress,
    ) -> Answer:  # fmt: skip
        """As `Worker.ask`, but interrupted only when it reports progress. Raises the errors of
        `FileSpeaker.ask`."""
        import torch

        def told(done: float) -> None:
            if interrupted():
                raise WorkerFailed("interrupted", f"Stopped while {request.doing}.")
            progress(done)

        device = torch.device(self._compute.device)
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            if self._speaker is None:
                # Training needs the memory between samples, and the next one has other weights.
                self._speaker = FileSpeaker(self._base, self._compute, keep_weights=False)
            return self._speaker.ask(request, told)

    def close(self) -> None:
        """Frees its copy of the model."""
        self._speaker = None


def new_speaker(
    chosen: SamplingPlan, base: Path, machine: Environment
) -> Worker | InProcessSpeaker:
    """The speaker of a plan: this process, or a worker. It has all cores if training waits, and all
    but one otherwise."""
    if chosen.mode == "in_process":
        return InProcessSpeaker(base, chosen.compute)
    threads = max(1, machine.cpu_count - 1) if chosen.overlap else machine.cpu_count
    return Worker(
        base,
        replace(chosen.compute, threads=threads),
        niceness=NICE_BESIDE_TRAINING if chosen.overlap else 0,
        # Every sample has other weights: kept ones would only take memory from training.
        keep_weights=False,
    )


def sampler_of(
    settings: TrainSettings, context: RunContext, run: RunFolder, **options: Any
) -> Sampler:
    """The sampler for the settings. options: of `Sampler`."""
    compute = ComputeConfig(precision=settings.speak_precision, guard=settings.guard)
    chosen = placement.plan(context.machine, settings.sample_device, context.device.value, compute)
    speaker = partial(new_speaker, base=context.base, machine=context.machine)
    reference, decoders = kept_reference(settings, context, run), None
    if defaults.advised(settings, context.config.training).learn_decoder != "off":
        clips = [clip for clip in context.data.clips if clip.speaker == reference.speaker]
        minute_steps = defaults.decoder_steps(context.config.training)
        decoders = EpochDecoders(run, clips, reference.path, minute_steps)
    return Sampler(
        chosen, run, reference, speaker, seed=settings.seed, decoders=decoders, **options
    )
