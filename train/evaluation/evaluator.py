"""Judges the speech of the base, a run's epochs and their blends, and writes evaluation.json.

A candidate speaks the sentences and each sentence is measured (`_measured`: a row for each
sentence, a column for each judge); then the verdict is decided again over all candidates
(`_judge`).

Judging runs where samples are spoken, after them. Like a sample, it never stops a run and changes
no bit of it. Failures are logged, and the next epoch or the next start tries again.
"""

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from machine import commands
from machine.devices.recovery import GpuLost
from machine.storage.atomic import crash_point
from train.checkpointing.checkpoints import Checkpoints
from train.evaluation import judges
from train.evaluation.plan import (
    NATURAL_EVERY,
    OLD_RATE,
    EvaluationPlan,
    Person,
    describe,
    heard_recordings,
)
from train.evaluation.verdict import decide
from train.progress import Progress
from train.sampling.sampler import Sampler
from xtts.voices.evaluation_file import (
    Candidate,
    Evaluation,
    SpokenSentence,
    read_evaluation,
    write_evaluation,
)
from xtts.voices.run_folder import RunError, RunFolder, Verified
from xtts.voices.verdict import CandidateKind, Verdict, candidate_id
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
MOST_FAILURES = 3
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
        self._epoch_seconds = 0.0
        self._skipping = False
        self._base: Evaluation | None = None
        self._on_evaluation = on_evaluation

    @property
    def working(self) -> bool:
        """Whether candidates can be judged: samples are spoken, and there are sentences."""
        speaks = self.sampler.plan.mode != "skipped"
        return speaks and bool(self.plan.sentences) and self.failures < MOST_FAILURES

    @property
    def is_slow(self) -> bool:
        """Whether judging takes too long for a run to judge every epoch; False until the training
        time of an epoch is known."""
        most = max(SHORT_SECONDS, TIME_SHARE * self._epoch_seconds)
        return self.in_run and self._epoch_seconds > 0 and self.candidate_seconds > most

    def judge_base(self) -> None:
        """Judges the base if it was not judged yet.

        A run does so before its first epoch, and so knows how long judging takes.
        """
        self._submit(self._with_base)

    def judge(self, epoch: Verified, epoch_seconds: float = 0.0) -> None:
        """Judges a saved epoch, unless judging is slow.

        epoch_seconds: the training time of the epoch.
        """
        self._submit(self._judge_if_quick, epoch, epoch_seconds)

    def judge_rest(self, shares: Sequence[float]) -> None:
        """Judges the epochs that were not judged yet, then blends, of these shares, of the base and
        the epoch that sounds closest to the person.

        If judging is slow, only the newest epoch and the middle blend; evaluation.json names the
        others. Waits for the end.
        """
        self._submit(self._judge_rest, shares)
        self.sampler.finish()

    def missing(self) -> list[Verified]:
        """The verified epochs that were not judged, or whose weights changed since."""
        whole = filter(None, map(self.run.verified, self.run.epochs()))
        known = self.known()
        return [one for one in whole if _is_new(known, "epoch", one, 1.0)]

    # Speak, measure, decide

    def _submit(self, work: Callable[..., object], *arguments: Any) -> None:
        if self.working:
            self.sampler.submit(partial(self._forgiving, work, *arguments))

    def _forgiving(self, work: Callable[..., object], *arguments: Any) -> None:
        if not self.working:
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
            if self.failures >= MOST_FAILURES:
                log.warning(
                    "It failed %d times: this run is not evaluated further. Training continues.",
                    self.failures,
                )

    def _judge_if_quick(self, epoch: Verified, epoch_seconds: float) -> None:
        """Judges an epoch unless judging takes too long compared with training it."""
        self._with_base()
        self._epoch_seconds = epoch_seconds
        if not self.is_slow:
            self._judge("epoch", epoch, 1.0)
        elif not self._skipping:
            self._skipping = True
            log.info(
                "Judging took %.0f s, more than %.0f %% of the %.0f s that epoch %d took to train. "
                "When the run ends, it judges only its newest epoch. `%s` judges all epochs.",
                self.candidate_seconds, 100 * TIME_SHARE, epoch_seconds, epoch.epoch,
                commands.program("train evaluate"),
            )  # fmt: skip

    def _judge(self, kind: CandidateKind, epoch: Verified, share: float) -> None:
        """Judges an epoch or a blend, and writes evaluation.json with all candidates."""
        known = self._with_base()
        own, _ = self._measured(kind, epoch, share, known)
        others = [
            one
            for one in known.candidates
            if (one.kind, one.epoch, one.share) != (kind, epoch.epoch, share)
            and not (kind == "epoch" and one.kind == "blend" and one.epoch == epoch.epoch
                     and one.checkpoint_sha256 != epoch.sha256)
        ]  # fmt: skip
        decided = self._decided(replace(known, candidates=[*others, own]))
        crash_point("before evaluation")
        write_evaluation(self.run.evaluation_file, decided)
        crash_point("after evaluation")
        if decided.verdict and decided.verdict.kind != "blend":
            self.checkpoints.publish_best()
        self.failures = 0
        if self._on_evaluation:
            self._on_evaluation(decided, decided.candidates[-1])

    def _measured(
        self, kind: CandidateKind, epoch: Verified | None, share: float, known: Evaluation | None
    ) -> tuple[Candidate, Mapping[str, Any]]:
        """A candidate that speaks the sentences, and those in an old language; and
        `judges.measures_of_base`. The base itself is judged if there is no known evaluation."""
        own = epoch if known else None
        count, voice = self._count(known), self._voice(epoch.checkpoint if epoch else None, share)
        sounds = candidate_id(kind, own.epoch if own else 0, share)
        person, began = self.person, time.perf_counter()  # listening to the person takes no part
        facts, old = self._facts(voice, count, known, sounds=sounds), list[SpokenFacts]()
        if self.plan.old:
            sounded = bool(self.plan.old_recogniser)
            tasks = tuple(SentenceTask(one.request, sounded) for one in self.plan.old)
            request = EvaluateRequest(tasks, voice, OLD_RATE, self.plan.old_recogniser)
            old = self.sampler.ask(request).sentences
        self.candidate_seconds = time.perf_counter() - began
        if self.progress is not None:
            self.progress.add()
        measures = known.person if known else judges.measures_of_base(facts, old)
        losses = own.manifest.losses if own and kind == "epoch" else {}
        one = judges.candidate(
            kind, own.epoch if own else 0, share, self.plan.sentences, facts, person,
            measures["base_nats_per_token"], sha256=own.sha256 if own else "",
            loss=losses.get("validation_audio_loss"), seconds=self.candidate_seconds,
            device=self.sampler.plan.device,
        )  # fmt: skip
        if old:
            rate = SpeakingRate(measures["old_codes_per_token"], 0.0)
            spoken = judges.sentences_of(
                self.plan.old, old, replace(person, rate=rate), measures["old_nats_per_token"]
            )
            one = replace(one, old_sentences=spoken)
        knows = known is not None or not self.plan.learns_added_language
        return replace(one, knows_language=knows), measures

    def _count(self, known: Evaluation | None) -> int:
        """The number of sentences of a candidate, the same for all."""
        if known is not None:
            return len(known.candidates[0].sentences)
        return self.plan.sentences_in_run if self.in_run else len(self.plan.sentences)

    def _decided(self, known: Evaluation) -> Evaluation:
        """Adds the intervals against the base, and the verdict."""
        candidates = judges.compared(known.candidates)
        there, blend = set(self.run.epochs()), self.run.whole_blend()
        kept = blend.manifest.blend if blend else {}
        gone = {
            one.name for one in candidates
            if one.kind != "base" and one.epoch not in there
            and (one.kind, one.epoch, one.share) != ("blend", kept.get("epoch"), kept.get("share"))
        }  # fmt: skip
        judged, verdict = decide(candidates, gone, sum(clip.seconds for clip in self.plan.clips))
        return replace(
            known, made_at=_now(), candidates=judged, verdict=verdict,
            smallest_difference=judges.smallest_differences(judged),
        )  # fmt: skip

    # The base

    def known(self) -> Evaluation | None:
        """The content of evaluation.json if it has the same base and sentences, else what is known
        of the base alone; None if the base was not judged."""
        known = read_evaluation(self.run.evaluation_file)
        if known is None or not known.candidates or known.candidates[0].kind != "base":
            return self._base
        if (known.sentence_set, known.base) != (self.plan.sentence_set, self.plan.base):
            if self._base is None:
                log.info(
                    "The sentences, the recording, the base or the recogniser changed: every "
                    "candidate is judged again."
                )
            return self._base
        last = known.candidates[-1]
        if not self.candidate_seconds and last.device == self.sampler.plan.device:
            self.candidate_seconds = last.seconds
        return known

    def _with_base(self) -> Evaluation:
        """What is known, or a new evaluation of the base alone."""
        if (known := self.known()) is not None:
            return known
        # A checkpoint makes the base read the sentences as the run does: old runs use Coqui's
        # normaliser.
        base, measures = self._measured("base", self.run.newest_whole(), 0.0, None)
        log.info("Base: judged on %d sentences in %.0f s.", len(base.sentences), base.seconds)
        plan, person = self.plan, self.person
        natural = judges.mean_interval(person.naturalness)
        self._base = Evaluation(
            made_at=_now(),
            language=plan.reference.language,
            base=plan.base,
            sentence_set=plan.sentence_set,
            judges=judges.descriptions(
                person,
                plan.recogniser,
                plan.no_recogniser,
                plan.no_naturalness,
                plan.no_speaker_judge,
            ),
            person={
                "clips": person.clips,
                "reference": plan.reference.path.name,
                "codes_per_token": round(person.rate.per_token, 4),
                "codes_per_sentence": round(person.rate.per_text, 4),
                "pitch_hz": person.pitch_hz,
                "pitch_spread_semitones": person.pitch_spread,
                "naturalness": asdict(natural) if natural else None,
                **measures,
            },
            smallest_difference={},
            candidates=[base],
        )
        return self._base

    # The end of a run

    def _judge_rest(self, shares: Sequence[float]) -> None:
        epochs, newest = self.missing(), max(self.run.epochs(), default=0)
        if self.is_slow:
            epochs = [one for one in epochs if one.epoch == newest]
        known = self.known()
        judged = [one.share for one in known.candidates if one.kind == "blend"] if known else []
        tried = shares[len(shares) // 2 :][:1] if self.is_slow else shares
        count = (known is None) + len(epochs) + sum(share not in judged for share in tried)
        with Progress("Judging", count, "candidates") as self.progress:
            for epoch in epochs:
                self._forgiving(self._judge, "epoch", epoch, 1.0)
            self._forgiving(self._judge_blends, shares, tried)

    def _judge_blends(self, shares: Sequence[float], tried: Sequence[float]) -> None:
        known = self.known()
        chosen = self.source_of_blends(known) if known else None
        if chosen is None:
            return
        new = [share for share in shares if _is_new(known, "blend", chosen, share)]
        for share in new:
            if share in tried:
                self._judge("blend", chosen, share)
        left = [f"epoch {one.epoch}" for one in self.missing()]
        left += [f"epoch {chosen.epoch} at {one:.0%}" for one in new if one not in tried]
        known = self._with_base()
        if left != known.left_out:
            write_evaluation(self.run.evaluation_file, replace(known, left_out=left))

    def source_of_blends(self, known: Evaluation) -> Verified | None:
        """The epoch that sounds closest to the person: blending can repair its words."""
        epochs = [one for one in known.candidates if one.kind == "epoch"]
        # Epochs of which most sentences failed come last, before them those without a figure for
        # the voice.
        order = sorted(
            epochs,
            key=lambda one: (
                2 * one.num_failed > len(one.sentences),
                judges.VOICE not in one.judges,
                -one.mean(judges.VOICE),
            ),
        )
        for one in order:
            epoch = self.run.verified(one.epoch)
            if epoch and epoch.sha256 == one.checkpoint_sha256:
                return epoch
        return None

    # Speaking

    def _voice(self, weights: Path | None, share: float) -> TunedVoice:
        return TunedVoice(self.plan.reference.path, weights, share)

    def voice_of(self, verdict: Verdict) -> TunedVoice:
        """The voice with a verdict's weights: of the epoch's checkpoint, or all of best.pt if only
        that is left. Raises RunError if neither is intact."""
        # For the base, any checkpoint of the run will do: it only sets how sentences are read.
        of_base = verdict.kind == "base"
        epoch = self.run.newest_whole() if of_base else self.run.verified(verdict.epoch)
        if epoch is not None:
            return self._voice(epoch.checkpoint, verdict.share)
        blend = self.run.whole_blend()
        if blend is not None and blend.manifest.blend == verdict.weights:
            return self._voice(blend.checkpoint, 1.0)
        raise RunError("The checkpoint of the best weights is gone.")

    def spoken(self, voice: TunedVoice, count: int, *, fresh: bool = False) -> list[SpokenSentence]:
        """Speaks and measures the first `count` sentences; keeps no audio. Raises WorkerFailed,
        GpuLost.

        `VOICE` is the cosine to the speaker embedding of the reference, not a position on the
        person's scale: clips of another person would shift the centre of the scale, and a decoder
        that learned them would seem closer to the person.

        fresh: with other seeds than the candidates'.
        """
        known, offset = read_evaluation(self.run.evaluation_file), FRESH_SEEDS if fresh else 0
        facts = self._facts(voice, count, known, seed_offset=offset)
        beside_reference = self.person.beside(self.reference)
        return judges.sentences_of(self.plan.sentences, facts, beside_reference, 0.0)

    def _facts(
        self, voice: TunedVoice, count: int, known: Evaluation | None, *, sounds: str = "",
        seed_offset: int = 0,
    ) -> list[SpokenFacts]:  # fmt: skip
        """Speaks and measures the first `count` sentences. sounds: the folder that keeps some of
        the audio; "" keeps none."""
        every = NATURAL_EVERY if self.in_run and self.plan.recogniser else 1
        natural: Collection[int] = range(0, count, every)
        if known is not None:  # those with a figure of the base, for comparison
            judged = (one.judges.get(judges.NATURALNESS) for one in known.candidates[0].sentences)
            natural = [number for number, figure in enumerate(judged) if figure is not None]
        if self.plan.no_naturalness is not None:
            natural = ()
        tasks = tuple(
            SentenceTask(
                replace(one.request, seed=one.request.seed + seed_offset),
                sounded=number % self.plan.sounded_every == 0,
                natural=number in natural,
                out=self.run.folder / wav
                if sounds and (wav := judges.wav_of(sounds, number)) else None,
            )
            for number, one in enumerate(self.plan.sentences[:count])
        )  # fmt: skip
        request = EvaluateRequest(
            tasks, voice, self.person.rate, self.plan.recogniser, self.plan.no_speaker_judge is None
        )
        return self.sampler.ask(request).sentences

    @cached_property
    def person(self) -> Person:
        """The person, measured on their clips. Raises WorkerFailed, GpuLost."""
        return describe(self.plan, self.sampler.ask(heard_recordings(self.plan)))

    @cached_property
    def reference(self) -> Sequence[float]:
        """The speaker embedding of the reference. Raises WorkerFailed, GpuLost."""
        judged = self.plan.no_speaker_judge is None
        request = ListenRequest((self.plan.reference.path,), speaker_judge=judged)
        (heard,) = self.sampler.ask(request).recordings
        return heard.embedding


def _is_new(known: Evaluation | None, kind: CandidateKind, epoch: Verified, share: float) -> bool:
    """Whether an epoch, or a share of it, was not judged yet with these weights."""
    done = known.find(kind, epoch.epoch, share) if known else None
    return done is None or done.checkpoint_sha256 != epoch.sha256


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
