"""Speaks the samples of a run, each with a JSON sidecar: of an epoch, on demand, of the best.

The weights of the checkpoint just written speak, with the decoder that learns for them.
`epoch_N_output.json`, next to the WAV, records the result and the reason. `train.sampling.sampler`
runs the requests, `train.metrics.logs` shows the sample.
"""

import hashlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from machine.storage.checksums import sha256_of
from machine.storage.files import crash_point, read_json, write_json
from train.dataset.dataset import Clip
from train.sampling.decoders import learn_for_epoch
from train.sampling.reference import SampleReference
from train.sampling.sampler import Sampler, failure_of
from xtts import audio, encoding
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.model.config import DecoderSteps
from xtts.model.shapes import VOCODER_RATE
from xtts.voices import speakers
from xtts.voices.evaluation_file import Verdict
from xtts.voices.learned_decoder import decoder_for
from xtts.voices.run_folder import RunFolder
from xtts.workers.failures import WorkerFailed
from xtts.workers.requests import SpeakRequest, SpokenFile, TunedVoice

log = logging.getLogger("train")

MAX_FAILURES_IN_A_ROW = 3
# Samples of further speakers start within these seconds, or this share of the epoch's time.
SPEAKERS_SECONDS, SPEAKERS_SHARE = 20.0, 0.1


@dataclass(frozen=True)
class SampleFiles:
    """The paths of a sample."""

    output: Path
    reference: Path

    @property
    def sidecar(self) -> Path:
        return self.output.with_suffix(".json")


@dataclass(frozen=True)
class SampleSidecar:
    """`epoch_N_output.json`: a sample's text, weights and device, with the reason for the device.
    words: each with its times, in Kokoro-FastAPI's fields; None if unknown."""

    epoch: int
    checkpoint_sha256: str
    text: str
    device: str
    mode: str
    reason: str
    seconds: float | None = None
    audio_seconds: float | None = None
    sample_rate: int = VOCODER_RATE
    similarity: float | None = None
    ending: str | None = None
    ending_reason: str = ""
    attempts: int = 1
    words: list[dict[str, str | float]] | None = None


def epoch_sample(run: RunFolder, epoch: int) -> SampleFiles:
    """The epoch's sample, which the run speaks."""
    return SampleFiles(
        run.samples / f"epoch_{epoch}_output.wav", run.samples / f"epoch_{epoch}_reference.wav"
    )


def speaker_sample(run: RunFolder, epoch: int, recording: Path) -> Path:
    """The epoch's sample as a named speaker of the run, named by the number of their recording."""
    return run.samples / f"epoch_{epoch}_speaker_{recording.stem}.wav"


def best_sample(run: RunFolder) -> SampleFiles:
    """The sample of the run's best weights: an epoch's, a blend or the base's."""
    return SampleFiles(run.samples / "best_output.wav", run.samples / "best_reference.wav")


def sample_on_demand(run: RunFolder, epoch: int, identity: Sequence[object]) -> SampleFiles:
    """The files of a sample on demand, one set for each distinct request.

    They overwrite neither the epoch's sample nor another sample on demand.
    """
    digest = hashlib.sha256(repr(tuple(identity)).encode()).hexdigest()[:8]
    folder = run.samples_on_demand
    return SampleFiles(
        folder / f"epoch_{epoch}_{digest}.wav", folder / f"epoch_{epoch}_{digest}_reference.wav"
    )


def is_sample_missing(run: RunFolder, epoch: int, sha256: str) -> bool:
    """Whether this checkpoint has no sidecar: the run ended between checkpoint and sample."""
    sidecar = read_json(epoch_sample(run, epoch).sidecar)
    return bool(sidecar.get("checkpoint_sha256") != sha256)


class Samples:
    """Speaks the samples of a run with a sampler.

    Args:
        reference: the voice and the text of every sample.
        on_sample: called with the sidecar of every epoch's sample.
        clips: the person's training clips, from which decoders learn.
        decoder_steps: a decoder's steps by the minutes of clips; None if no decoder learns.

    Attributes:
        decoder_step_seconds: the time of a step of the last epoch's decoder; 0 if unknown.
    """

    def __init__(
        self,
        sampler: Sampler,
        run: RunFolder,
        reference: SampleReference,
        *,
        seed: int = 0,
        on_sample: Callable[[int, SampleSidecar], None] | None = None,
        clips: Sequence[Clip] = (),
        decoder_steps: DecoderSteps | None = None,
    ) -> None:
        self.sampler = sampler
        self.run = run
        self.reference = reference
        self.seed = seed
        self.failures_in_a_row = 0
        self.decoder_step_seconds = 0.0
        self._on_sample = on_sample
        self._clips = clips
        self._decoder_steps = decoder_steps

    def speak(self, epoch: int, checkpoint: Path, sha256: str, *, epoch_seconds: float = 0.0) -> None:
        """Trains the epoch's decoder and speaks the epoch's samples with its checkpoint; with
        `SamplingPlan.overlaps_training`, in the background. epoch_seconds: its training time."""

        def work() -> None:
            if self._decoder_steps is not None and self.sampler.plan.mode != "skipped":
                seconds = learn_for_epoch(
                    self.run,
                    self.sampler.ask,
                    self._clips,
                    self.reference.path,
                    epoch,
                    checkpoint,
                    sha256,
                    self._decoder_steps,
                )
                self.decoder_step_seconds = seconds or self.decoder_step_seconds
            files = epoch_sample(self.run, epoch)
            self._speak_into(files, epoch, checkpoint, sha256, self._decoder_field(checkpoint))
            self._speak_as_speakers(epoch, checkpoint, epoch_seconds)

        self.sampler.finish()
        self.sampler.submit(work)

    def speak_on_demand(self, epoch: int, checkpoint: Path, sha256: str, files: SampleFiles) -> None:
        """Speaks a sample of an epoch into other files, without training a decoder. Waits for
        it."""
        decoder_field = self._decoder_field(checkpoint)
        self.sampler.submit(lambda: self._speak_into(files, epoch, checkpoint, sha256, decoder_field))
        self.sampler.finish()

    def speak_best(self, verdict: Verdict | None = None) -> None:
        """Speaks `best_output.wav` with the best weights, unless it is up to date. Waits for it.
        verdict: as in `RunFolder.best_weights`."""
        best, files = self.run.best_weights(verdict), best_sample(self.run)
        if best is None or self.sampler.plan.mode == "skipped":
            return
        details = {
            "kind": best.kind,
            "share": best.share,
            "learned_decoder": "",
            **self._decoder_field(best.weights),
            "reference": sha256_of(self.reference.path),
        }
        current = {"epoch": best.epoch, "checkpoint_sha256": best.sha256, **details}
        earlier = {"mode": "skipped", **read_json(files.sidecar)}
        if earlier["mode"] == "skipped" or not current.items() <= earlier.items():
            self.sampler.submit(
                lambda: self._speak_into(files, best.epoch, best.weights, best.sha256, details)
            )
        self.sampler.finish()

    def _decoder_field(self, checkpoint: Path | None) -> dict[str, str]:
        """The sidecar's field for the learned decoder of a checkpoint; empty if there is none."""
        decoder = decoder_for(self.run, checkpoint)
        return {"learned_decoder": sha256_of(decoder)} if decoder else {}

    def _speak_into(
        self,
        files: SampleFiles,
        epoch: int,
        checkpoint: Path | None,
        sha256: str,
        more_fields: Mapping[str, object],
    ) -> None:
        """Speaks and writes the WAV, its reference and its sidecar."""
        person, plan = self.reference, self.sampler.plan
        decoder = decoder_for(self.run, checkpoint)
        text = SynthesisRequest(person.text, person.language, self.seed)
        request = SpeakRequest(text, TunedVoice(person.path, checkpoint, decoder=decoder), files.output)
        sidecar = SampleSidecar(epoch, sha256, person.text, plan.device, "skipped", plan.reason)
        # Also in a run without samples: an epoch needs the person's recording to speak.
        failure = self._write_reference(files.reference)
        if plan.mode != "skipped":
            answer = self.sampler.answer(request) if failure is None else failure
            if not isinstance(answer, WorkerFailed):
                sidecar = self._spoken_sidecar(sidecar, answer, files.output)
            elif not self.sampler.is_stopping:
                failure, sidecar = answer, self._failed_sidecar(sidecar, answer)
        elif failure:
            log.warning("The recording %s cannot be copied: %s", person.path, failure)
        if self.sampler.is_stopping:
            log.info("The sample of epoch %d was interrupted. It is spoken when the run starts again.", epoch)
            return
        crash_point("mid-sample")
        self._write_sidecar(files, sidecar, more_fields)
        if failure:
            self.sampler.raise_if_lost(failure)

    def _write_sidecar(
        self, files: SampleFiles, sidecar: SampleSidecar, more_fields: Mapping[str, object]
    ) -> None:
        """Writes the sidecar. A failure is only logged."""
        try:
            if sidecar.mode == "skipped":  # the WAV of an older attempt is of other weights
                files.output.unlink(missing_ok=True)
            files.sidecar.parent.mkdir(parents=True, exist_ok=True)
            write_json(files.sidecar, {**asdict(sidecar), **more_fields})
            if self._on_sample and files == epoch_sample(self.run, sidecar.epoch):
                self._on_sample(sidecar.epoch, sidecar)
        except Exception as error:
            log.warning("The record of sample %d cannot be written: %s", sidecar.epoch, error)

    def _speak_as_speakers(self, epoch: int, checkpoint: Path, epoch_seconds: float) -> None:
        """Speaks the epoch's sample as each further speaker of the run, while there is time. A
        failure costs only that sample."""
        further_speakers = list(speakers.read(self.run.folder).items())[1:]
        if self.sampler.plan.mode == "skipped":
            return
        deadline = time.monotonic() + max(SPEAKERS_SECONDS, SPEAKERS_SHARE * epoch_seconds)
        person, spoken = self.reference, dict[str, str]()
        text = SynthesisRequest(person.text, person.language, self.seed)
        for number, (name, recording) in enumerate(further_speakers):
            if self.sampler.is_stopping:
                return
            if time.monotonic() > deadline:
                skipped = ", ".join(speaker for speaker, _ in further_speakers[number:])
                log.info("To save time, epoch %d has no sample as %s.", epoch, skipped)
                break
            out = speaker_sample(self.run, epoch, recording)
            answer = self.sampler.answer(SpeakRequest(text, TunedVoice(recording, checkpoint), out))
            if not isinstance(answer, WorkerFailed):
                spoken[name] = out.name
                continue
            self.sampler.raise_if_lost(answer)
            if not self.sampler.is_stopping:
                log.warning("No sample of epoch %d as %s: %s", epoch, name, answer)
        if spoken:
            log.info("Samples as %s: %s", ", ".join(spoken), ", ".join(spoken.values()))

    def _spoken_sidecar(self, sidecar: SampleSidecar, answer: SpokenFile, out: Path) -> SampleSidecar:
        """The sidecar of a sample that was spoken."""
        self.failures_in_a_row, plan = 0, self.sampler.plan
        log.info(
            "Sample: %s, %.1f s of audio in %.1f s on %s (%s).",
            out,
            answer.audio_seconds,
            answer.seconds,
            answer.device,
            plan.reason,
        )
        if answer.ending not in (None, "good"):
            log.warning(
                "The sample did not end correctly (%s, after %d attempts): %s.",
                answer.ending,
                answer.attempts,
                answer.ending_reason,
            )
        return replace(
            sidecar,
            mode=plan.mode,
            reason=plan.reason,
            device=answer.device,
            seconds=round(answer.seconds, 3),
            audio_seconds=round(answer.audio_seconds, 3),
            similarity=None if answer.similarity is None else round(answer.similarity, 4),
            ending=answer.ending,
            ending_reason=answer.ending_reason,
            attempts=answer.attempts,
            words=None
            if answer.words is None
            else [{"word": word, "start_time": start, "end_time": end} for word, start, end in answer.words],
        )

    def _failed_sidecar(self, sidecar: SampleSidecar, failure: WorkerFailed) -> SampleSidecar:
        self.failures_in_a_row += 1
        code = failure.reason_code
        reason = f"{code}: {failure}"
        if self.sampler.plan.reason.startswith("speaking on"):  # why samples had moved
            reason += f" Before that, {self.sampler.plan.reason}."
        log.warning("No sample of epoch %d (%s): %s", sidecar.epoch, code, failure)
        if self.failures_in_a_row >= MAX_FAILURES_IN_A_ROW and not self.sampler.has_lost_gpu(failure):
            why = f"{MAX_FAILURES_IN_A_ROW} samples in a row failed, the last one: {failure}"
            log.warning("This run speaks no more samples: %s Training continues.", why)
            self.sampler.give_up(why)
        return replace(sidecar, reason=reason)

    def _write_reference(self, path: Path) -> WorkerFailed | None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            encoding.write_wav(path, audio.read(self.reference.path, audio.VOCODER_RATE))
        except Exception as error:
            return failure_of(error)
        return None
