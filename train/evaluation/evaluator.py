"""Judges the base and every saved epoch by what they speak, and keeps evaluation.json.

It runs where samples are spoken, after them. Like a sample, it never stops a run and changes no bit
of it. What cannot be measured is logged, and left for the next epoch or the next start.
"""

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from machine import commands
from machine.devices.cuda_errors import GpuLost
from machine.storage.atomic import crash_point
from train.checkpointing.checkpoints import Checkpoints
from train.evaluation import judges
from train.evaluation.budget import TIME_SHARE, JudgingBudget
from train.evaluation.person import Person, describe
from train.evaluation.plan import OLD_RATE, SENTENCES_FOLDER, EvaluationPlan
from train.evaluation.verdict import FEWEST_SPOKEN, decide
from train.progress import Progress
from train.sampling.sampler import Sampler
from xtts.voices.evaluation_file import (
    Candidate,
    CandidateKind,
    Evaluation,
    MeanInterval,
    Verdict,
    write_evaluation,
)
from xtts.voices.run_folder import RunFolder, Verified
from xtts.workers.failures import WorkerFailed
from xtts.workers.requests import (
    SLOTS,
    EvaluateRequest,
    ListenRequest,
    SentenceTask,
    SpeakingRate,
    SpokenFacts,
    TrialRequest,
)

log = logging.getLogger("train")

# After a short epoch the base speaks what fits into this time (or its share), or the minimum.
SHORT_SECONDS = 6.0
# The minimum if the budget allows it. With eight sentences, three would have audio: too few for a
# mean of voices.
FEWEST_SENTENCES = 2 * SLOTS
# The minimum with a recogniser, where all have audio, after a long epoch: what a verdict needs.
FEWEST_RECOGNISED = FEWEST_SPOKEN
OTHER_VOICES = SENTENCES_FOLDER / "voices"
MOST_FAILURES = 3
# Added to the seeds of the sentences, which are 100 apart, for speech that nothing was chosen by.
FRESH_SEEDS = 50


@dataclass(frozen=True)
class BaseMeasures:
    """What candidates are measured with, by what the base said. nats, old_nats: as
    `judges.base_evidence`, of the sentences and of those in an old language."""

    nats: float
    old_nats: float = 0.0
    old_codes_per_token: float = 0.0

    @staticmethod
    def of(facts: Sequence[SpokenFacts], old: Sequence[SpokenFacts]) -> "BaseMeasures":
        """By what was spoken; `old` may be empty."""
        tokens = sum(one.text_tokens for one in old)
        rate = sum(one.codes for one in old) / tokens if tokens else 0.0
        return BaseMeasures(judges.base_evidence(facts), judges.base_evidence(old), rate)

    def as_dict(self) -> dict[str, float]:
        """For `Evaluation.person`."""
        known = {"base_nats_per_token": round(self.nats, 3)}
        if not self.old_codes_per_token:
            return known
        return known | {
            "old_nats_per_token": round(self.old_nats, 3),
            "old_codes_per_token": round(self.old_codes_per_token, 4),
        }

    @staticmethod
    def from_dict(person: Mapping[str, Any]) -> "BaseMeasures":
        """From `as_dict`."""
        old = (person.get("old_nats_per_token", 0.0), person.get("old_codes_per_token", 0.0))
        return BaseMeasures(float(person["base_nats_per_token"]), *map(float, old))


class Evaluator:
    """Judges by the plan, as jobs of the sampler.

    Args:
        on_evaluation: called with every evaluation and the new candidate in it.
        budget: the time limit; None has no limit and speaks all sentences.
    """

    def __init__(
        self,
        plan: EvaluationPlan,
        sampler: Sampler,
        checkpoints: Checkpoints,
        on_evaluation: Callable[[Evaluation, Candidate], None] | None = None,
        *,
        budget: JudgingBudget | None = None,
    ) -> None:
        self.plan = plan
        self.sampler = sampler
        self.checkpoints = checkpoints
        self.run: RunFolder = checkpoints.run
        self.failures = 0
        self.budget = budget
        self.progress: Progress | None = None
        self._on_evaluation = on_evaluation

    @property
    def working(self) -> bool:
        """Whether anything can be judged: samples are spoken, and there are sentences."""
        speaks = self.sampler.plan.mode != "skipped"
        return speaks and bool(self.plan.sentences) and self.failures < MOST_FAILURES

    def foresee(self, first_epoch: int) -> None:
        """Measures how fast this machine speaks, and logs the cost of judging from an epoch on."""
        if self.budget:
            self._submit(self._foresee, first_epoch)

    def judge(self, epoch: Verified, epoch_seconds: float = 0.0) -> None:
        """Judges a saved epoch, and the base first if it was not judged yet.

        epoch_seconds: the training time of the epoch, which sets the budget.
        """
        self._submit(self._judge_if_due, epoch, epoch_seconds)

    def judge_missing(self) -> None:
        """Judges epochs that a kill or a fault left out; the newest ones if not all fit."""
        missing = self.missing()
        if missing and (budget := self.budget):
            budget.know(self._known())
            self._plan_rest(budget, len(missing), 0.0)
            if budget.plan:
                missing = missing[len(missing) - budget.plan.epochs :]
        for epoch in missing:
            self._submit(self._judge, epoch, 0.0)

    def blends(self, shares: Sequence[float]) -> None:
        """Judges blends of the base and the epoch that sounds closest to the person."""
        self._submit(self._blends, shares)

    def missing(self) -> list[Verified]:
        """Whole epochs that were not judged, or whose weights changed since."""
        known = self._known()
        whole = filter(None, map(self.run.verified, self.run.epochs()))
        return [one for one in whole if not known or _is_new(known, "epoch", one, 1.0)]

    def differences_with(self, verdict: Verdict, decoder: Path) -> dict[str, MeanInterval]:
        """`judges.changed_by_decoder` for another decoder and the verdict's weights.

        Measured on the judged sentences, or on all of them if there is no budget, with other seeds:
        by the speech that was judged, these weights were chosen from several, so they usually speak
        worse than it, and a decoder would be compared with their luck. Empty if the verdict or its
        weights are not there. Raises WorkerFailed.
        """
        known = self._known()
        own = known.find(verdict.kind, verdict.epoch, verdict.share) if known else None
        weights = self.weights_of(verdict)
        if own is None or weights is None:
            return {}
        count = len(own.sentences) if self.budget else len(self.plan.sentences)
        before = self.spoken(*weights, count, seed_offset=FRESH_SEEDS)
        learned = self.spoken(*weights, count, decoder, seed_offset=FRESH_SEEDS)
        return judges.changed_by_decoder(learned, before, self.person, self.reference)

    def spoken(
        self, weights: Path, share: float, count: int, decoder: Path | None = None,
        *, seed_offset: int = 0,
    ) -> list[SpokenFacts]:  # fmt: skip
        """The first `count` sentences by a share of some weights; keeps none of the sound. Raises
        WorkerFailed, GpuLost.

        seed_offset: added to the seed of each sentence.
        """
        known = self.run.evaluation()
        natural = _with_naturalness(known.candidates[0]) if known and known.candidates else ()
        request = self._request(weights, share, count, natural)
        tasks = tuple(
            replace(
                one, out=None, request=replace(one.request, seed=one.request.seed + seed_offset)
            )
            for one in request.sentences
        )
        return self.sampler.ask(replace(request, sentences=tasks, decoder=decoder)).sentences

    def weights_of(self, verdict: Verdict) -> tuple[Path, float] | None:
        """The checkpoint of a verdict's weights, and the share to take of it.

        It is the epoch's checkpoint, or all of best.pt if only that is left. None if neither is
        whole.
        """
        # The base reads the sentences as the run does, so any checkpoint of the run will do.
        of_base = verdict.kind == "base"
        epoch = self.run.newest_whole() if of_base else self.run.verified(verdict.epoch)
        if epoch is not None:
            return epoch.checkpoint, verdict.share
        blend = self.run.whole_blend()
        same = blend is not None and blend.manifest.blend == verdict.weights
        return (blend.checkpoint, 1.0) if blend and same else None

    # One candidate

    def _submit(self, work: Callable[..., None], *arguments: Any) -> None:
        if self.working:
            self.sampler.submit(partial(self._forgiving, partial(work, *arguments)))

    def _forgiving(self, work: Callable[[], None]) -> None:
        try:
            work()
            self.failures = 0
        except GpuLost:
            raise
        except Exception as error:  # any error costs this evaluation and not the run
            if isinstance(error, WorkerFailed) and error.reason_code == "interrupted":
                log.info("The evaluation was interrupted. The next start continues it.")
                return
            self.failures += 1
            log.warning("The evaluation failed: %s", error)
            if self.failures >= MOST_FAILURES:
                log.warning(
                    "It failed %d times: this run is not evaluated further. Training goes on.",
                    self.failures,
                )

    def _judge(self, epoch: Verified, epoch_seconds: float) -> None:
        known = self._known() or self._judge_base(epoch, epoch_seconds)
        loss = epoch.manifest.losses.get("validation_audio_loss")
        self._add(known, "epoch", epoch, 1.0, loss)

    def _judge_if_due(self, epoch: Verified, epoch_seconds: float) -> None:
        """Judges an epoch if the budget has room for it, now that the training time is known."""
        if budget := self.budget:
            budget.know(self._known())
            budget.epoch_seconds = max(budget.epoch_seconds, epoch_seconds)
            self._plan_rest(budget, max(1, budget.coming(epoch.epoch)), epoch_seconds)
            if not budget.judges_epoch(epoch.epoch):
                log.info(
                    "Epoch %d is not judged, to save time. `%s` judges it.",
                    epoch.epoch,
                    commands.program("train evaluate"),
                )
                return
        self._judge(epoch, epoch_seconds)

    def _foresee(self, first_epoch: int) -> None:
        assert self.budget is not None
        known = self._known()
        self.budget.know(known)
        if known is None:
            first, reference = self.plan.sentences[0].request, self.plan.reference.path
            # This also starts the worker, which the first sample would wait for otherwise.
            codes = self.budget.codes(first.text)
            self.budget.speed = self.sampler.ask(
                TrialRequest(
                    first, reference, codes, self.plan.recogniser, self.plan.no_naturalness is None
                )
            )
        self._plan_rest(self.budget, self.budget.coming(first_epoch), 0.0)

    def _plan_rest(self, budget: JudgingBudget, epochs: int, epoch_seconds: float) -> None:
        """Plans the remaining judging; logs the first plan, and each change of the limits."""
        before = (budget.plan is None, budget.limits)
        wanted = min(self._fewest(self._base_budget(epoch_seconds)), len(self.plan.sentences))
        fixed = self._judged_before()
        if budget.make_plan(epochs, wanted, fixed) and before != (False, budget.limits):
            log.info("%s", budget.sentence())

    def _blends(self, shares: Sequence[float]) -> None:
        known = self._known()
        chosen = self.source_of_blends(known) if known else None
        if known is None or chosen is None:
            self._left_blend(known)
            return
        shares = [share for share in shares if _is_new(known, "blend", chosen, share)]
        if budget := self.budget:
            budget.know(known)
            budget.shares = tuple(shares)
            self._plan_rest(budget, 0, 0.0)
            shares = budget.plan.shares if budget.plan else shares
            known = replace(known, left_out=list(budget.limits.values()))
            write_evaluation(self.run.evaluation_file, known)
        for share in shares:
            known = self._add(known, "blend", chosen, share)
        if not budget and known.left_out and not self.missing():
            write_evaluation(self.run.evaluation_file, replace(known, left_out=[]))

    def num_left(self, shares: Sequence[float]) -> int:
        """How many candidates are not judged yet, including blends of these shares."""
        known, missing = self._known(), self.missing()
        chosen = self.source_of_blends(known) if known and not missing else None
        new = [
            one for one in shares if not (known and chosen) or _is_new(known, "blend", chosen, one)
        ]
        return len(missing) + len(new) + (known is None)

    def _left_blend(self, known: Evaluation | None) -> None:
        """Judges best.pt if it was not judged yet and no epoch is left beside it."""
        left = self.run.whole_blend()
        if left is None or self.run.newest_verified() is not None:
            return
        known = known or self._judge_base(left, 0.0)
        share = float(left.manifest.blend["share"])
        if known.find("blend", left.epoch, share) is None:
            self._add(known, "blend", left, share)

    def source_of_blends(self, known: Evaluation) -> Verified | None:
        """The whole epoch that sounds closest to the person: a blend can repair its words."""
        epochs = [one for one in known.candidates if one.kind == "epoch"]
        # Without a figure for its voice none is the closest.
        order = sorted(
            epochs, key=lambda one: (judges.VOICE not in one.judges, -one.mean(judges.VOICE))
        )
        for one in sorted(order, key=lambda one: 2 * one.num_failed > len(one.sentences)):
            epoch = self.run.verified(one.epoch)
            if epoch and epoch.sha256 == one.checkpoint_sha256:
                return epoch
        return None

    def _judge_base(self, epoch: Verified, epoch_seconds: float) -> Evaluation:
        """Judges the base, which reads the sentences as the run does.

        An old run may have kept Coqui's normaliser.
        """
        judged = self._judged_before()
        count = judged or len(self.plan.sentences)
        every = self.plan.sounded_every
        if self.budget:
            every *= self.budget.naturalness_every(count if judged else self.budget.aim or count)
        request = self._request(epoch.checkpoint, 0.0, count, range(0, count, every))
        if judged is None and self.budget:
            request = self._within(self.budget, request, epoch_seconds)
        base, usual = self._candidate("base", 0, 0.0, request)
        log.info("Evaluation: %d sentences in %.0f s.", len(base.sentences), base.seconds)
        person = self.person
        natural = judges.mean_interval(person.naturalness)
        evaluation = Evaluation(
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
                **usual.as_dict(),
            },
            smallest_difference={},
            candidates=[base],
        )
        if self.budget:
            self.budget.judged(evaluation)
            self._plan_rest(self.budget, self.budget.epochs, epoch_seconds)
        return evaluation

    def _within(
        self, budget: JudgingBudget, request: EvaluateRequest, epoch_seconds: float
    ) -> EvaluateRequest:
        """The request of the base, which ends where the time that its sentences take shows that the
        other candidates could not speak as many; and above what is aimed at, after the base's own
        share of the time."""
        seconds, plan = self._base_budget(epoch_seconds), budget.plan
        if plan is None:
            fewest = self._fewest(seconds)
            return replace(request, budget_seconds=seconds, at_least=fewest)
        most, sentences = budget.most_base_seconds(), request.sentences
        if plan.sentences < budget.aim:
            seconds, sentences = most, sentences[: budget.aim]
        return replace(
            request, sentences=sentences, budget_seconds=seconds, most_seconds=most,
            at_least=plan.sentences,
        )  # fmt: skip

    def _add(
        self, known: Evaluation, kind: CandidateKind, epoch: Verified, share: float,
        loss: float | None = None,
    ) -> Evaluation:  # fmt: skip
        blended = epoch.manifest.blend  # of best.pt; an epoch's own file is never blended
        sha256 = str(blended["checkpoint_sha256"]) if blended else epoch.sha256
        request = self._request(
            epoch.checkpoint, 1.0 if blended else share, len(known.candidates[0].sentences),
            _with_naturalness(known.candidates[0]),
            sounds=judges.folder_of(kind, epoch.epoch, share),
        )  # fmt: skip
        usual = BaseMeasures.from_dict(known.person)
        own, _ = self._candidate(kind, epoch.epoch, share, request, usual, sha256=sha256, loss=loss)
        others = [
            one
            for one in known.candidates
            if (one.kind, one.epoch, one.share) != (kind, epoch.epoch, share)
            and not (kind == "epoch" and one.kind == "blend" and one.epoch == epoch.epoch
                     and one.checkpoint_sha256 != sha256)
        ]  # fmt: skip
        known = replace(known, candidates=[*others, own])
        if self.budget:
            self.budget.judged(known)
            known = replace(known, left_out=list(self.budget.limits.values()))
        decided = self._decided(known)
        crash_point("before evaluation")
        write_evaluation(self.run.evaluation_file, decided)
        crash_point("after evaluation")
        if decided.verdict and decided.verdict.kind != "blend":
            self.checkpoints.publish_best()
        if self._on_evaluation:
            self._on_evaluation(decided, decided.candidates[-1])
        return decided

    def _decided(self, known: Evaluation) -> Evaluation:
        """The evaluation with intervals against the base, and with the verdict."""
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
        spoken = len(known.candidates[0].sentences)
        if self._too_few(spoken):
            log.info(
                "The run was judged by %d sentences, too few for a verdict: every candidate is "
                "judged again, by %d.", spoken, len(self.plan.sentences),
            )  # fmt: skip
            return None
        return known

    def _too_few(self, spoken: int) -> bool:
        """Whether a verdict needs more sentences than were spoken, and there is time for more."""
        return self.budget is None and spoken < min(FEWEST_SPOKEN, len(self.plan.sentences))

    def _judged_before(self) -> int | None:
        """The number of sentences that the run was judged by, if evaluation.json is lost.

        best.json keeps it too. With another number the verdict could differ.
        """
        best = self.run.read_best()
        try:
            spoken = None if self.run.evaluation() else int(best["figures"]["sentences"])
        except (KeyError, TypeError, ValueError):
            return None
        return None if spoken is None or self._too_few(spoken) else spoken

    # Speaking and measuring

    def _request(
        self, weights: Path, share: float, count: int, natural: Collection[int],
        sounds: str = "base",
    ) -> EvaluateRequest:  # fmt: skip
        """The request for the first `count` sentences, spoken by a share of some weights.

        natural: the numbers of the sentences whose naturalness is judged, unless the plan leaves it
            out; sounds: the folder that keeps some of the audio.
        """
        natural = natural if self.plan.no_naturalness is None else ()
        tasks = tuple(
            SentenceTask(
                one.request,
                sounded=number % self.plan.sounded_every == 0,
                natural=number in natural,
                out=self.run.folder / wav if (wav := judges.wav_of(sounds, number)) else None,
            )
            for number, one in enumerate(self.plan.sentences[:count])
        )
        return EvaluateRequest(
            tasks, self.plan.reference.path, weights, share, self.person.rate,
            recogniser=self.plan.recogniser,
        )  # fmt: skip

    def _candidate(
        self, kind: CandidateKind, epoch: int, share: float, request: EvaluateRequest,
        usual: BaseMeasures | None = None, **more: Any,
    ) -> tuple[Candidate, BaseMeasures]:  # fmt: skip
        """Has a candidate speak and judges it. Returns its entry, and what it is measured with.

        usual: what the base said it with; None takes the candidate's own.
        """
        started = time.perf_counter()
        facts = self.sampler.ask(request).sentences
        old = self._said_in_old_language(request)
        if self.progress is not None:
            self.progress.add()
        usual = usual or BaseMeasures.of(facts, old)
        entry = judges.candidate(
            kind, epoch, share, self.plan.sentences, facts, self.person, usual.nats,
            seconds=time.perf_counter() - started, device=self.sampler.plan.device, **more,
        )  # fmt: skip
        speaker = replace(self.person, rate=SpeakingRate(usual.old_codes_per_token, 0.0))
        heard = judges.sentences_of(self.plan.old, old, speaker, usual.old_nats)
        knows = kind != "base" or not self.plan.learns_added_language
        return replace(entry, old_sentences=heard, knows_language=knows), usual

    def _said_in_old_language(self, request: EvaluateRequest) -> list[SpokenFacts]:
        """What the weights of a request say in a language of the base; keeps none of the sound."""
        if not self.plan.old:
            return []
        tasks = tuple(
            SentenceTask(one.request, sounded=bool(self.plan.old_recogniser))
            for one in self.plan.old
        )
        return self.sampler.ask(
            replace(
                request,
                sentences=tasks,
                rate=OLD_RATE,
                budget_seconds=None,
                most_seconds=None,
                recogniser=self.plan.old_recogniser,
            )
        ).sentences

    def _base_budget(self, epoch_seconds: float) -> float | None:
        """The seconds in which the base may speak more than the minimum; None without a limit."""
        if self.budget is None:
            return None
        return min(max(SHORT_SECONDS, TIME_SHARE * epoch_seconds), self.budget.candidate_share)

    def _fewest(self, budget: float | None) -> int:
        """The minimum number of sentences: fewer after a long epoch, to keep to its share."""
        long = budget is not None and budget > SHORT_SECONDS
        return FEWEST_RECOGNISED if long and self.plan.recogniser else FEWEST_SENTENCES

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
    """The numbers of the sentences whose naturalness the base was judged by: other candidates are
    compared with it."""
    return {
        number
        for number, one in enumerate(base.sentences)
        if one.judges.get(judges.NATURALNESS) is not None
    }


def _is_new(known: Evaluation, kind: CandidateKind, epoch: Verified, share: float) -> bool:
    """Whether an epoch, or a share of it, was not judged yet with these weights."""
    done = known.find(kind, epoch.epoch, share)
    return done is None or done.checkpoint_sha256 != epoch.sha256


def shares_of(blend: float | str) -> tuple[float, ...]:
    """The shares (interpolation weights) of BLEND, the largest first; a share of 1 is the epoch."""
    if blend == "off":
        return ()
    shares = (0.7, 0.5, 0.3) if blend == "auto" else (float(blend),)
    return tuple(share for share in shares if share < 1)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
