"""Judges the speech of the base, a run's epochs and their blends, and writes evaluation.json.

A candidate is weights and a decoder, as it would be served: an epoch or a blend of it speaks with
the epoch's decoder if there is one, and the base is judged without a learned decoder and with one.

A candidate speaks the sentences and each sentence is measured (`_measure`: a row for each
sentence, a column for each judge); then the verdict is decided again over all candidates
(`judge_candidate`).

Candidates are judged where samples are spoken, after them. Like a sample, judging never stops a run
and changes no bit of it. Failures are logged, and the next epoch or the next start tries again.
"""

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path

from machine import commands
from machine.devices.recovery import GpuLost
from machine.storage.files import crash_point
from train.checkpointing.checkpoints import Checkpoints
from train.evaluation import judges
from train.evaluation.floors import PersonFigures
from train.evaluation.further_judges import FurtherJudges
from train.evaluation.plan import (
    GENEROUS_RATE,
    NATURAL_EVERY,
    EvaluationPlan,
    Person,
    describe_person,
    listen_request,
)
from train.evaluation.verdict import decide
from train.progress import Progress
from train.sampling.sampler import Sampler
from xtts.voices import learned_decoder
from xtts.voices.evaluation_file import (
    BASE_WEIGHTS,
    Candidate,
    CandidateKind,
    Evaluation,
    SpokenSentence,
    Verdict,
    candidate_id,
    read_evaluation,
    weights_of_epoch,
    write_evaluation,
)
from xtts.voices.learned_decoder import LearnedDecoder
from xtts.voices.run_folder import RunError, RunFolder, VerifiedCheckpoint
from xtts.workers.failures import WorkerFailed
from xtts.workers.requests import (
    EvaluateRequest,
    ListenRequest,
    SentenceTask,
    SpeakingRate,
    SpokenFacts,
    TunedVoice,
)

log = logging.getLogger("train")

# A run skips epochs if judging one takes longer than this share of its training time and longer
# than these seconds. The embedded base takes 12 s on two cores, half of its epoch.
TIME_SHARE, SHORT_SECONDS = 0.15, 60.0
MAX_FAILURES = 3
# Added to the seeds of the sentences (100 apart) for speech that no choice was based on.
FRESH_SEEDS = 50


class Evaluator:
    """Judges candidates by the plan, as jobs of the sampler.

    Args:
        on_evaluation: called with every evaluation and its new candidate.
        in_run: whether a training run waits, so that judging must be short.

    Attributes:
        candidate_seconds: the time to judge the last candidate; 0 if unknown.
    """

    def __init__(
        self,
        plan: EvaluationPlan,
        sampler: Sampler,
        checkpoints: Checkpoints,
        on_evaluation: Callable[[Evaluation, Candidate], None] | None = None,
        *,
        in_run: bool = False,
    ) -> None:
        self.plan = plan
        self.sampler = sampler
        self.checkpoints = checkpoints
        self.run: RunFolder = checkpoints.run
        self.in_run = in_run
        self.failures = 0
        self.candidate_seconds = 0.0
        self.progress: Progress | None = None
        self._further_judges = FurtherJudges(plan)
        self._epoch_seconds = 0.0
        self._skips_epochs = False
        self._evaluation: Evaluation | None = None
        self._has_read_file = False
        self._on_evaluation = on_evaluation

    @property
    def can_judge(self) -> bool:
        """Whether candidates can be judged: samples are spoken, and there are sentences."""
        speaks = self.sampler.plan.mode != "skipped"
        return speaks and bool(self.plan.sentences) and self.failures < MAX_FAILURES

    @property
    def is_slow(self) -> bool:
        """Whether judging takes too long for a run to judge every epoch; False until the training
        time of an epoch is known."""
        max_seconds = max(SHORT_SECONDS, TIME_SHARE * self._epoch_seconds)
        return self.in_run and self._epoch_seconds > 0 and self.candidate_seconds > max_seconds

    def judge_base(self) -> None:
        """Judges the base if it was not judged yet.

        A run does so before its first epoch, and so knows how long judging takes.
        """
        self.submit(self.evaluation_with_base)

    def judge_epoch(self, epoch: VerifiedCheckpoint, epoch_seconds: float = 0.0) -> None:
        """Judges a saved epoch, unless judging is slow.

        epoch_seconds: the training time of the epoch.
        """
        self.submit(self._judge_if_quick, epoch, epoch_seconds)

    def unjudged_epochs(self) -> list[VerifiedCheckpoint]:
        """The verified epochs that were not judged, or whose weights or decoder changed since."""
        verified = filter(None, map(self.run.verified, self.run.epochs()))
        return [epoch for epoch in verified if self.is_new("epoch", epoch, 1.0)]

    # Speak, measure, decide

    def submit(self, work: Callable[..., object], *arguments: object) -> None:
        """Does the work where samples are spoken, as a job. Errors: as in `attempt`."""
        if self.can_judge:
            self.sampler.submit(partial(self.attempt, work, *arguments))

    def attempt(self, work: Callable[..., object], *arguments: object) -> None:
        """Does the work, in a job that runs already. An error costs one evaluation; after
        `MAX_FAILURES` of them, the run is not evaluated further. Raises only GpuLost."""
        if not self.can_judge:
            return
        try:
            work(*arguments)
        except GpuLost:
            raise
        except Exception as error:  # a failed evaluation must not stop the run
            if isinstance(error, WorkerFailed) and error.reason_code == "interrupted":
                log.info("The evaluation was interrupted. The next start continues it.")
                return
            self.failures += 1
            log.warning("The evaluation failed: %s", error)
            if self.failures >= MAX_FAILURES:
                log.warning(
                    "It failed %d times: this run is not evaluated further. Training continues.",
                    self.failures,
                )

    def _judge_if_quick(self, epoch: VerifiedCheckpoint, epoch_seconds: float) -> None:
        """Judges an epoch unless judging takes too long compared with training it."""
        self.evaluation_with_base()
        self._epoch_seconds = epoch_seconds
        if not self.is_slow:
            self.judge_candidate("epoch", epoch, 1.0)
        elif not self._skips_epochs:
            self._skips_epochs = True
            log.info(
                "Judging took %.0f s, more than %.0f %% of the %.0f s that epoch %d took to train. "
                "When the run ends, it judges only its newest epoch. `%s` judges all epochs.",
                self.candidate_seconds,
                100 * TIME_SHARE,
                epoch_seconds,
                epoch.epoch,
                commands.program("train evaluate"),
            )

    def judge_candidate(self, kind: CandidateKind, epoch: VerifiedCheckpoint | None, share: float) -> None:
        """Judges an epoch, a blend or the base with a decoder, and writes evaluation.json with all
        candidates."""
        evaluation = self.evaluation_with_base()
        candidate, _ = self._measure(kind, epoch, share, evaluation, self.decoder_of(epoch))
        others = [other for other in evaluation.candidates if not _is_replaced(other, by=candidate)]
        decided = self._decide(replace(evaluation, candidates=[*others, candidate]))
        crash_point("before evaluation")
        self.write(decided)
        crash_point("after evaluation")
        if decided.verdict and decided.verdict.kind != "blend":
            self.checkpoints.publish_best(decided)
        self.failures = 0
        if self._on_evaluation:
            self._on_evaluation(decided, decided.candidates[-1])

    def _measure(
        self,
        kind: CandidateKind,
        epoch: VerifiedCheckpoint | None,
        share: float,
        evaluation: Evaluation | None,
        decoder: LearnedDecoder | None = None,
    ) -> tuple[Candidate, Mapping[str, float]]:
        """A candidate that speaks the sentences, and those in an old language; and
        `judges.measures_of_base`. The base itself is judged if there is no evaluation yet."""
        digest, number = decoder.digest if decoder else "", epoch.epoch if epoch else 0
        # A checkpoint makes the base read the sentences as the run does: old runs use Coqui's
        # normaliser.
        checkpoint = epoch or self.run.newest_weights()
        voice = self.voice_with(checkpoint.checkpoint if checkpoint else None, share)
        if decoder:
            voice = replace(voice, decoder=self.run.decoder_path(decoder.epoch))
        folder = candidate_id(kind, number, share, digest)
        person, began = self._compared_person, time.perf_counter()  # measuring the person is not timed
        count = self._num_sentences(evaluation)
        facts = self._speak_and_measure(voice, count, evaluation, wav_folder=folder)
        old_language = self._speak_old_language(voice)
        self.candidate_seconds = time.perf_counter() - began
        if self.progress is not None:
            self.progress.add()
        measures = evaluation.person if evaluation else judges.measures_of_base(facts, old_language)
        losses = epoch.manifest.losses if epoch and kind == "epoch" else {}
        candidate = judges.judged_candidate(
            kind,
            number,
            share,
            self.plan.sentences,
            facts,
            person,
            measures["base_nats_per_token"],
            sha256=epoch.sha256 if epoch else "",
            decoder=digest,
            loss=losses.get("validation_audio_loss"),
            seconds=self.candidate_seconds,
            device=self.sampler.plan.device,
        )
        if old_language:
            person = replace(person, rate=SpeakingRate(measures["old_codes_per_token"], 0.0))
            evidence = measures["old_nats_per_token"]
            spoken = judges.judge_sentences(self.plan.old_language_sentences, old_language, person, evidence)
            candidate = replace(candidate, old_sentences=spoken)
        knows = kind != "base" or not self.plan.learns_added_language
        return replace(candidate, knows_language=knows), measures

    def _speak_old_language(self, voice: TunedVoice) -> list[SpokenFacts]:
        """Speaks and measures the sentences in an old language; empty if the plan has none."""
        if not self.plan.old_language_sentences:
            return []
        sounded = bool(self.plan.old_language_recogniser)
        requests = (sentence.request for sentence in self.plan.old_language_sentences)
        tasks = tuple(SentenceTask(request, sounded) for request in requests)
        recogniser = self.plan.old_language_recogniser
        return self.sampler.ask(EvaluateRequest(tasks, voice, GENEROUS_RATE, recogniser)).sentences

    def judge_further(self) -> None:
        """Adds the figures of further judges to the best candidate, and writes evaluation.json.

        Only to the best, because it and the base say more sentences, which takes about 1.5 times as
        long as judging a candidate. Raises RunError, WorkerFailed, GpuLost.
        """
        evaluation = self.evaluation()
        if self.is_slow or evaluation is None or evaluation.verdict is None:
            return
        best, descriptions = evaluation.best, evaluation.judges | self._further_judges.descriptions()
        if best is None or best.further or (best.is_base and descriptions == evaluation.judges):
            return
        if not best.is_base and self._further_judges.can_judge:
            voice = self.voice_of(evaluation.verdict)
            base = replace(voice, share=0.0)
            if best.decoder:
                voice = replace(voice, decoder=self.run.decoder_path(best.epoch))
            figures = self._further_judges.figures(partial(self._speak, base), partial(self._speak, voice))
            best = replace(best, further=figures)
        candidates = [best if candidate.id == best.id else candidate for candidate in evaluation.candidates]
        self.write(replace(evaluation, judges=descriptions, candidates=candidates))

    def _speak(self, voice: TunedVoice, tasks: Sequence[SentenceTask]) -> list[SpokenFacts]:
        return self.sampler.ask(EvaluateRequest(tuple(tasks), voice, self.person.rate)).sentences

    def _num_sentences(self, evaluation: Evaluation | None) -> int:
        """The number of sentences of a candidate, the same for all."""
        if evaluation is not None:
            return len(evaluation.candidates[0].sentences)
        return self.plan.sentences_in_run if self.in_run else len(self.plan.sentences)

    def _decide(self, evaluation: Evaluation) -> Evaluation:
        """Adds the intervals against the base, and the verdict."""
        candidates = judges.with_differences_from_base(evaluation.candidates)
        pruned = {
            candidate.name
            for candidate in candidates
            if not (self._has_weights(candidate) and self._has_decoder(candidate))
        }
        speech_seconds = sum(clip.seconds for clip in self.plan.clips)
        judged, verdict = decide(candidates, pruned, speech_seconds, PersonFigures.of(evaluation))
        return replace(
            evaluation,
            made_at=_now(),
            candidates=judged,
            verdict=verdict,
            smallest_difference=judges.smallest_differences(judged),
        )

    # The base

    def evaluation(self) -> Evaluation | None:
        """What was judged so far, by this process or in an evaluation.json with the same base and
        sentences; None if the base was not judged."""
        if not self._has_read_file:
            self._has_read_file, self._evaluation = True, self._read_earlier()
        return self._evaluation

    def write(self, evaluation: Evaluation) -> None:
        """Writes evaluation.json, and keeps its content. Raises DiskFull or WriteError."""
        self._has_read_file, self._evaluation = True, evaluation
        write_evaluation(self.run.evaluation_file, evaluation)
        self.checkpoints.evaluation = evaluation

    def _read_earlier(self) -> Evaluation | None:
        evaluation = read_evaluation(self.run.evaluation_file)
        if evaluation is None or not evaluation.candidates or not evaluation.candidates[0].is_base:
            return None
        if (evaluation.sentence_set, evaluation.base) != (self.plan.sentence_set, self.plan.base):
            log.info(
                "The sentences, the recording, the base or the recogniser changed: every candidate "
                "is judged again."
            )
            return None
        last = evaluation.candidates[-1]
        if not self.candidate_seconds and last.device == self.sampler.plan.device:
            self.candidate_seconds = last.seconds
        return evaluation

    def evaluation_with_base(self) -> Evaluation:
        """The evaluation so far, or a new one of the base alone."""
        if (evaluation := self.evaluation()) is not None:
            return evaluation
        base, measures = self._measure("base", None, 0.0, None)
        log.info("Base: judged on %d sentences in %.0f s.", len(base.sentences), base.seconds)
        plan, person = self.plan, self.person
        naturalness = judges.mean_interval(person.naturalness)
        self._evaluation = Evaluation(
            made_at=_now(),
            language=plan.reference.language,
            base=plan.base,
            sentence_set=plan.sentence_set,
            judges=judges.describe_judges(
                person,
                plan.recogniser,
                plan.why_no_recogniser,
                plan.why_no_naturalness,
                plan.why_no_speaker_judge,
                learns_decoder=plan.learns_decoder,
            ),
            person={
                "clips": person.num_clips,
                "held_out": plan.compares_held_out_clips,
                "reference": plan.reference.path.name,
                "codes_per_token": round(person.rate.per_token, 4),
                "codes_per_sentence": round(person.rate.per_text, 4),
                "pitch_hz": person.pitch_hz,
                "pitch_spread_semitones": person.pitch_spread,
                "naturalness": asdict(naturalness) if naturalness else None,
                "word_errors": person.word_errors,
                **measures,
            },
            smallest_difference={},
            candidates=[base],
        )
        return self._evaluation

    # Decoders

    def decoder_of(self, epoch: VerifiedCheckpoint | None) -> LearnedDecoder | None:
        """The decoder with which an epoch and its blends speak, or the base (None) as a separate
        candidate; None for the base's decoder."""
        weights = weights_of_epoch(epoch.epoch, epoch.sha256) if epoch else BASE_WEIGHTS
        path = self.run.decoder_path(epoch.epoch if epoch else 0)
        return learned_decoder.read_used(path, weights)

    def _has_weights(self, candidate: Candidate) -> bool:
        """Whether a candidate's weights are on disk, in a checkpoint or, for a blend, in best.pt."""
        if candidate.kind == "base" or candidate.epoch in self.run.epochs():
            return True
        blend = self.run.verified_blend()
        return bool(
            candidate.kind == "blend"
            and blend
            and (candidate.epoch, candidate.share)
            == (blend.manifest.blend.get("epoch"), blend.manifest.blend.get("share"))
        )

    def _has_decoder(self, candidate: Candidate) -> bool:
        """Whether a candidate's decoder is on disk."""
        if not candidate.decoder:
            return True
        paths = (self.run.decoder_path(candidate.epoch), self.run.best_decoder)
        records = map(learned_decoder.unverified_record, paths)
        return any(record and record.digest == candidate.decoder for record in records)

    def is_new(self, kind: CandidateKind, epoch: VerifiedCheckpoint, share: float) -> bool:
        """Whether an epoch, or a blend of it, was not judged yet with these weights and this
        decoder."""
        evaluation, decoder = self.evaluation(), self.decoder_of(epoch)
        candidate = evaluation.find(kind, epoch.epoch, share) if evaluation else None
        judged = candidate and (candidate.checkpoint_sha256, candidate.decoder)
        return judged != (epoch.sha256, decoder.digest if decoder else "")

    # Speaking

    def voice_with(self, weights: Path | None, share: float) -> TunedVoice:
        return TunedVoice(self.plan.reference.path, weights, share)

    def voice_of(self, verdict: Verdict) -> TunedVoice:
        """The voice with a verdict's weights: of the epoch's checkpoint, or all of best.pt if only
        that is left. Raises RunError if neither is intact."""
        # For the base, any checkpoint of the run will do: it only sets how sentences are read.
        epoch = self.run.newest_weights() if verdict.kind == "base" else self.run.verified(verdict.epoch)
        if epoch is not None:
            return self.voice_with(epoch.checkpoint, verdict.share)
        blend = self.run.verified_blend()
        if blend is not None and blend.manifest.blend == verdict.weights:
            return self.voice_with(blend.checkpoint, 1.0)
        raise RunError("The checkpoint of the best weights is gone.")

    def speak_and_judge(
        self, voice: TunedVoice, count: int, evaluation: Evaluation | None, *, fresh: bool = False
    ) -> list[SpokenSentence]:
        """Speaks and judges the first `count` sentences, and keeps no audio. Naturalness is judged of the
        sentences for which `evaluation` has it. Raises WorkerFailed, GpuLost.

        `VOICE` is the cosine to the speaker embedding of the reference, not a position on the
        person's scale: clips of another person would shift the centre of the scale, and a decoder
        that learned them would seem closer to the person.

        fresh: whether the seeds differ from the candidates'.
        """
        facts = self._speak_and_measure(voice, count, evaluation, seed_offset=FRESH_SEEDS if fresh else 0)
        person = self.person.compared_with(self.reference_embedding)
        return judges.judge_sentences(self.plan.sentences, facts, person, 0.0)

    def _speak_and_measure(
        self,
        voice: TunedVoice,
        count: int,
        evaluation: Evaluation | None,
        *,
        wav_folder: str = "",
        seed_offset: int = 0,
    ) -> list[SpokenFacts]:
        """Speaks and measures the first `count` sentences. wav_folder: the folder that keeps some of
        the audio; "" keeps none."""
        step = NATURAL_EVERY if self.in_run and self.plan.recogniser else 1
        natural: Collection[int] = range(0, count, step)
        if evaluation is not None:  # those with a figure of the base, for comparison
            base_figures = (
                sentence.judges.get(judges.NATURALNESS) for sentence in evaluation.candidates[0].sentences
            )
            natural = [number for number, figure in enumerate(base_figures) if figure is not None]
        if self.plan.why_no_naturalness is not None:
            natural = ()
        tasks = tuple(
            SentenceTask(
                replace(sentence.request, seed=sentence.request.seed + seed_offset),
                sounded=number % self.plan.sounded_every == 0,
                natural=number in natural,
                out=self.run.folder / wav
                if wav_folder and (wav := judges.wav_of(wav_folder, number))
                else None,
            )
            for number, sentence in enumerate(self.plan.sentences[:count])
        )
        request = EvaluateRequest(
            tasks, voice, self.person.rate, self.plan.recogniser, self.plan.why_no_speaker_judge is None
        )
        return self.sampler.ask(request).sentences

    @cached_property
    def person(self) -> Person:
        """The person, measured on their clips. Raises WorkerFailed, GpuLost."""
        return describe_person(self.plan, self.sampler.ask(listen_request(self.plan)))

    @property
    def _compared_person(self) -> Person:
        """The person; where decoders learn, with the embedding of the reference. Clips of somebody
        else would shift the scale of the voice, and a decoder that learned them would seem closer.
        """
        if not self.plan.learns_decoder:
            return self.person
        return replace(self.person, reference_embedding=tuple(self.reference_embedding))

    @cached_property
    def reference_embedding(self) -> Sequence[float]:
        """The speaker embedding of the reference. Raises WorkerFailed, GpuLost."""
        has_judge = self.plan.why_no_speaker_judge is None
        request = ListenRequest((self.plan.reference.path,), speaker_judge=has_judge)
        (reference,) = self.sampler.ask(request).recordings
        return reference.embedding


def _is_replaced(candidate: Candidate, *, by: Candidate) -> bool:
    """Whether a new candidate replaces an earlier one: itself, or a blend of the epoch's old weights."""
    return candidate.id == by.id or (
        (by.kind, candidate.kind) == ("epoch", "blend")
        and candidate.epoch == by.epoch
        and candidate.checkpoint_sha256 != by.checkpoint_sha256
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
