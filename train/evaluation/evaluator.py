"""Judges the speech of the base, a run's epochs and their blends, and writes evaluation.json.

`_judged` judges one candidate: the candidate speaks the sentences (`_spoken`), each sentence is
measured (`judges.candidate`: a row for each sentence, a column for each judge), and the verdict is
decided again over all candidates (`_decided`).

Judging runs where samples are spoken, after them. Like a sample, it never stops a run and changes
no bit of it. Failures are logged, and the next epoch or the next start tries again.
"""

import logging
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from machine import commands
from machine.devices.cuda_errors import GpuLost
from machine.storage.atomic import crash_point
from train.checkpointing.checkpoints import Checkpoints
from train.evaluation import judges
from train.evaluation.person import Person, describe
from train.evaluation.plan import OLD_RATE, SENTENCES_FOLDER, EvaluationPlan
from train.evaluation.verdict import decide
from train.progress import Progress
from train.sampling.sampler import Sampler
from xtts.voices.evaluation_file import (
    Candidate,
    CandidateKind,
    Evaluation,
    MeanInterval,
    SpokenSentence,
    Verdict,
    write_evaluation,
)
from xtts.voices.run_folder import RunFolder, Verified
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
# A run judges the naturalness of every second sound: judging it costs a sixth of everything else.
NATURAL_EVERY = 2
OTHER_VOICES = SENTENCES_FOLDER / "voices"
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
        spent_seconds: the time to judge all candidates since the start.
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
        self.spent_seconds = 0.0
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

    def judge_missing(self) -> None:
        """Judges the epochs that were not judged yet; if judging is slow, only the newest."""
        for epoch in self._epochs_due():
            self._submit(lambda one=epoch: self._judged(self._with_base(), "epoch", one, 1.0))

    def blends(self, shares: Sequence[float]) -> None:
        """Judges blends of the base and the epoch that sounds closest to the person; if judging is
        slow, only the middle one."""
        self._submit(self._blends, shares)

    def missing(self) -> list[Verified]:
        """The verified epochs that were not judged, or whose weights changed since."""
        known = self._known()
        whole = filter(None, map(self.run.verified, self.run.epochs()))
        return [one for one in whole if not known or _is_new(known, "epoch", one, 1.0)]

    def num_left(self, shares: Sequence[float]) -> int:
        """The number of candidates to judge, including blends of these shares."""
        known = self._known()
        judged = {one.share for one in known.candidates if one.kind == "blend"} if known else set()
        new = [one for one in self._shares_due(shares) if one not in judged]
        return len(self._epochs_due()) + len(new) + (known is None and self._base is None)

    def _epochs_due(self) -> list[Verified]:
        missing = self.missing()
        newest = max(self.run.epochs(), default=0)
        return [one for one in missing if not self.is_slow or one.epoch == newest]

    def _shares_due(self, shares: Sequence[float]) -> Sequence[float]:
        return shares[len(shares) // 2 :][:1] if self.is_slow else shares

    # Speak, measure, decide

    def _submit(self, work: Callable[..., object], *arguments: Any) -> None:
        if self.working:
            self.sampler.submit(partial(self._forgiving, partial(work, *arguments)))

    def _forgiving(self, work: Callable[[], object]) -> None:
        try:
            work()
            self.failures = 0
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
        known = self._with_base()
        self._epoch_seconds = epoch_seconds
        if not self.is_slow:
            self._judged(known, "epoch", epoch, 1.0)
        elif not self._skipping:
            self._skipping = True
            log.info(
                "Judging took %.0f s, more than %.0f %% of the %.0f s that epoch %d took to train. "
                "When the run ends, it judges only its newest epoch. `%s` judges all epochs.",
                self.candidate_seconds, 100 * TIME_SHARE, epoch_seconds, epoch.epoch,
                commands.program("train evaluate"),
            )  # fmt: skip

    def _judged(
        self, known: Evaluation, kind: CandidateKind, epoch: Verified, share: float
    ) -> Evaluation:
        """Judges an epoch or a blend, and writes evaluation.json with all candidates."""
        base = known.candidates[0]
        facts, old, seconds = self._spoken(
            epoch.checkpoint, share, len(base.sentences),
            natural=_with_naturalness(base), sounds=judges.folder_of(kind, epoch.epoch, share),
        )  # fmt: skip
        own = judges.candidate(
            kind, epoch.epoch, share, self.plan.sentences, facts, self.person,
            known.person["base_nats_per_token"], sha256=epoch.sha256, seconds=seconds,
            loss=epoch.manifest.losses.get("validation_audio_loss") if kind == "epoch" else None,
            device=self.sampler.plan.device,
        )  # fmt: skip
        own = replace(own, old_sentences=self._old_sentences(old, known.person))
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
        if self._on_evaluation:
            self._on_evaluation(decided, decided.candidates[-1])
        return decided

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

    def _with_base(self) -> Evaluation:
        """The known evaluation, or a new one of the base alone."""
        if (known := self._known() or self._base) is not None:
            return known
        # A checkpoint makes the base read the sentences as the run does: old runs use Coqui's
        # normaliser.
        any_of_run = self.run.newest_whole()
        weights = any_of_run.checkpoint if any_of_run else None
        # All candidates speak the same number of sentences.
        count = self.plan.sentences_in_run if self.in_run else len(self.plan.sentences)
        every = NATURAL_EVERY if self.in_run and self.plan.recogniser else 1
        facts, old, seconds = self._spoken(weights, 0.0, count, natural=range(0, count, every))
        measures = judges.measures_of_base(facts, old)
        base = judges.candidate(
            "base", 0, 0.0, self.plan.sentences, facts, self.person,
            measures["base_nats_per_token"], seconds=seconds, device=self.sampler.plan.device,
        )  # fmt: skip
        base = replace(
            base, old_sentences=self._old_sentences(old, measures),
            knows_language=not self.plan.learns_added_language,
        )  # fmt: skip
        log.info("Base: judged on %d sentences in %.0f s.", len(base.sentences), base.seconds)
        person = self.person
        natural = judges.mean_interval(person.naturalness)
        self._base = Evaluation(
            made_at=_now(),
            language=self.plan.reference.language,
            base=self.plan.base,
            sentence_set=self.plan.sentence_set,
            judges=judges.descriptions(
                person, self.plan.recogniser, self.plan.no_recogniser, self.plan.no_naturalness
            ),
            person={
                "clips": person.clips,
                "reference": self.plan.reference.path.name,
                "codes_per_token": round(person.rate.per_token, 4),
                "codes_per_sentence": round(person.rate.per_text, 4),
                "pitch_hz": person.pitch_hz,
                "naturalness": asdict(natural) if natural else None,
                **measures,
            },
            smallest_difference={},
            candidates=[base],
        )
        return self._base

    def _known(self) -> Evaluation | None:
        """The content of evaluation.json, if it has the same base and sentences."""
        known = self.run.evaluation()
        if known is None or not known.candidates or known.candidates[0].kind != "base":
            return None
        if (known.sentence_set, known.base) != (self.plan.sentence_set, self.plan.base):
            log.info(
                "The sentences, the recording, the base or the recogniser changed: every candidate "
                "is judged again."
            )
            return None
        last = known.candidates[-1]
        if not self.candidate_seconds and last.device == self.sampler.plan.device:
            self.candidate_seconds = last.seconds
        return known

    # Blends

    def _blends(self, shares: Sequence[float]) -> None:
        known = self._known()
        chosen = self.source_of_blends(known) if known else None
        if known is None or chosen is None:
            return
        new = [share for share in shares if _is_new(known, "blend", chosen, share)]
        tried = [share for share in new if share in self._shares_due(shares)]
        for share in tried:
            known = self._judged(known, "blend", chosen, share)
        left = [f"epoch {one.epoch}" for one in self.missing()]
        left += [f"epoch {chosen.epoch} at {one:.0%}" for one in new if one not in tried]
        if left != known.left_out:
            write_evaluation(self.run.evaluation_file, replace(known, left_out=left))

    def source_of_blends(self, known: Evaluation) -> Verified | None:
        """The epoch that sounds closest to the person: blending can repair its words."""
        epochs = [one for one in known.candidates if one.kind == "epoch"]
        # Epochs without a figure for the voice come last.
        order = sorted(
            epochs, key=lambda one: (judges.VOICE not in one.judges, -one.mean(judges.VOICE))
        )
        for one in sorted(order, key=lambda one: 2 * one.num_failed > len(one.sentences)):
            epoch = self.run.verified(one.epoch)
            if epoch and epoch.sha256 == one.checkpoint_sha256:
                return epoch
        return None

    # Speaking

    def _spoken(
        self, weights: Path | None, share: float, count: int, *, natural: Collection[int],
        sounds: str = "base",
    ) -> tuple[list[SpokenFacts], list[SpokenFacts], float]:  # fmt: skip
        """Speaks the first `count` sentences, and those in an old language, with a share of some
        weights. Returns the facts of both, and the seconds taken."""
        request = self._request(weights, share, count, natural, sounds)
        began = time.perf_counter()
        facts, old = self.sampler.ask(request).sentences, list[SpokenFacts]()
        if self.plan.old:
            listened = bool(self.plan.old_recogniser)
            tasks = tuple(SentenceTask(one.request, sounded=listened) for one in self.plan.old)
            said = replace(
                request, sentences=tasks, rate=OLD_RATE, recogniser=self.plan.old_recogniser
            )
            old = self.sampler.ask(said).sentences
        self.candidate_seconds = time.perf_counter() - began
        self.spent_seconds += self.candidate_seconds
        if self.progress is not None:
            self.progress.add()
        return facts, old, self.candidate_seconds

    def _request(
        self, weights: Path | None, share: float, count: int, natural: Collection[int],
        sounds: str | None = None, decoder: Path | None = None,
    ) -> EvaluateRequest:  # fmt: skip
        """natural: the indices of the sentences whose naturalness is judged, unless the plan leaves
        it out; sounds: the folder that keeps some of the audio; None keeps none."""
        natural = natural if self.plan.no_naturalness is None else ()
        tasks = tuple(
            SentenceTask(
                one.request,
                sounded=number % self.plan.sounded_every == 0,
                natural=number in natural,
                out=self.run.folder / wav
                if sounds and (wav := judges.wav_of(sounds, number)) else None,
            )
            for number, one in enumerate(self.plan.sentences[:count])
        )  # fmt: skip
        voice = TunedVoice(self.plan.reference.path, weights, share, decoder)
        return EvaluateRequest(tasks, voice, self.person.rate, self.plan.recogniser)

    def _old_sentences(
        self, old: Sequence[SpokenFacts], measures: dict[str, Any]
    ) -> list[SpokenSentence]:
        """The judged sentences in a language of the base. measures: `judges.measures_of_base`."""
        if not old:
            return []
        rate = SpeakingRate(measures["old_codes_per_token"], 0.0)
        speaker = replace(self.person, rate=rate)
        return judges.sentences_of(self.plan.old, old, speaker, measures["old_nats_per_token"])

    def spoken(
        self, weights: Path, share: float, count: int, decoder: Path | None = None,
        *, seed_offset: int = 0,
    ) -> list[SpokenSentence]:  # fmt: skip
        """Speaks and measures the first `count` sentences with a share of some weights; keeps no
        audio. Raises WorkerFailed, GpuLost.

        `VOICE` is the cosine to the speaker embedding of the reference, not a position on the
        person's scale: clips of another person would shift the centre of the scale, and a decoder
        that learned them would seem closer to the person.

        seed_offset: added to the seed of each sentence.
        """
        known = self.run.evaluation()
        natural = _with_naturalness(known.candidates[0]) if known and known.candidates else ()
        request = self._request(weights, share, count, natural, decoder=decoder)
        tasks = tuple(
            replace(one, request=replace(one.request, seed=one.request.seed + seed_offset))
            for one in request.sentences
        )
        facts = self.sampler.ask(replace(request, sentences=tasks)).sentences
        beside_reference = self.person.beside(self.reference)
        return judges.sentences_of(self.plan.sentences, facts, beside_reference, 0.0)

    def differences_with(self, verdict: Verdict, decoder: Path) -> dict[str, MeanInterval]:
        """How another decoder changes the speech of the verdict's weights, as `judges.differences`.

        Measured on the judged sentences, or on all of them if no run waits, with other seeds: the
        judged speech is better than usual, because the weights were chosen by it, so a comparison
        with it would be unfair to the decoder. Empty if the verdict or its weights are missing.
        Raises WorkerFailed.
        """
        known = self._known()
        own = known.find(verdict.kind, verdict.epoch, verdict.share) if known else None
        weights = self.weights_of(verdict)
        if own is None or weights is None:
            return {}
        count = len(own.sentences) if self.in_run else len(self.plan.sentences)
        before = self.spoken(*weights, count, seed_offset=FRESH_SEEDS)
        return judges.differences(
            self.spoken(*weights, count, decoder, seed_offset=FRESH_SEEDS), before
        )

    def weights_of(self, verdict: Verdict) -> tuple[Path, float] | None:
        """The checkpoint of a verdict's weights, and the share to take of it.

        It is the epoch's checkpoint, or all of best.pt if only that is left. None if neither is
        intact.
        """
        # For the base, any checkpoint of the run will do: it only sets how sentences are read.
        of_base = verdict.kind == "base"
        epoch = self.run.newest_whole() if of_base else self.run.verified(verdict.epoch)
        if epoch is not None:
            return epoch.checkpoint, verdict.share
        blend = self.run.whole_blend()
        same = blend is not None and blend.manifest.blend == verdict.weights
        return (blend.checkpoint, 1.0) if blend and same else None

    @cached_property
    def person(self) -> Person:
        """The person, measured on their clips. Raises WorkerFailed, GpuLost."""
        own = [clip.path for clip in self.plan.recordings]
        others = sorted(OTHER_VOICES.glob("*.flac"))
        natural = len(own) if self.plan.no_naturalness is None else 0
        recordings = self.sampler.ask(ListenRequest((*own, *others), natural))
        return describe(self.plan.clips, recordings, len(own))

    @cached_property
    def reference(self) -> Sequence[float]:
        """The speaker embedding of the reference. Raises WorkerFailed, GpuLost."""
        (heard,) = self.sampler.ask(ListenRequest((self.plan.reference.path,))).recordings
        return heard.embedding


def _with_naturalness(base: Candidate) -> set[int]:
    """The indices of the sentences with a naturalness figure of the base, for comparison."""
    return {
        number
        for number, one in enumerate(base.sentences)
        if one.judges.get(judges.NATURALNESS) is not None
    }


def _is_new(known: Evaluation, kind: CandidateKind, epoch: Verified, share: float) -> bool:
    """Whether an epoch, or a share of it, was not judged yet with these weights."""
    done = known.find(kind, epoch.epoch, share)
    return done is None or done.checkpoint_sha256 != epoch.sha256


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
