"""Judges the base and every saved epoch by what they speak, and keeps evaluation.json.

It works where samples are spoken, after them, and like a sample it never stops a run and changes
no bit of it: what cannot be measured is left for the next epoch or the next start, with a line.
"""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from machine.devices.cuda_errors import GpuLost
from machine.storage.atomic import crash_point
from train.checkpointing.checkpoints import Checkpoints
from train.evaluation import judges
from train.evaluation.budget import TIME_SHARE, JudgingBudget
from train.evaluation.person import Person, describe
from train.evaluation.plan import SENTENCES_FOLDER, EvaluationPlan
from train.evaluation.verdict import decide
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
    TrialRequest,
)

log = logging.getLogger("train")

# Of a short epoch the base speaks what fits into so many seconds (or its share), or the fewest.
SHORT_SECONDS = 6.0
# So many, where the budget allows: of eight, three would be heard, too few for a mean of voices.
FEWEST_SENTENCES = 2 * SLOTS
# Where all are heard and the epoch is a long one, whose share of time is to be kept.
FEWEST_HEARD = SLOTS
OTHER_VOICES = SENTENCES_FOLDER / "voices"
MOST_FAILURES = 3


class Evaluator:
    """Judges by the plan, inside the sampler's turn.

    on_evaluation: called with every evaluation and the candidate that is new in it. budget: what it
    may cost; None is unlimited, and speaks all sentences.
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
        """Whether anything can be judged: there is a voice to speak with, and something to say."""
        speaks = self.sampler.plan.mode != "skipped"
        return speaks and bool(self.plan.sentences) and self.failures < MOST_FAILURES

    def foresee(self, first_epoch: int) -> None:
        """Finds out how fast this machine speaks, and says what judging the run from an epoch on
        will cost."""
        if self.budget:
            self._submit(self._foresee, first_epoch)

    def judge(self, epoch: Verified, epoch_seconds: float = 0.0) -> None:
        """Judges a saved epoch, and the base first where it was not judged yet.

        epoch_seconds: how long it was learned, which decides how much time there is.
        """
        self._submit(self._judge_if_due, epoch, epoch_seconds)

    def judge_missing(self) -> None:
        """Judges what a kill or a fault left out, the newest epochs where not all fit."""
        missing = self.missing()
        if missing and (budget := self.budget):
            budget.know(self._known())
            self._plan_rest(budget, len(missing), 0.0)
            if budget.plan:
                missing = missing[len(missing) - budget.plan.epochs :]
        for epoch in missing:
            self._submit(self._judge, epoch, 0.0)

    def blends(self, shares: Sequence[float]) -> None:
        """Judges blends of the base and the epoch that comes nearest to the person."""
        self._submit(self._blends, shares)

    def missing(self) -> list[Verified]:
        """Whole epochs that were not judged, or are other weights than those that were."""
        known = self._known()
        whole = filter(None, map(self.run.verified, self.run.epochs()))
        return [one for one in whole if not known or _is_new(known, "epoch", one, 1.0)]

    def word_errors_with(self, verdict: Verdict, decoder: Path) -> MeanInterval | None:
        """How many more of the words are misheard when the verdict's weights speak with another
        decoder; None where no recogniser listened to both. Raises WorkerFailed."""
        known = self._known()
        own = known.find(verdict.kind, verdict.epoch, verdict.share) if known else None
        found = self.weights_of(verdict)
        if own is None or found is None or not self.plan.recogniser:
            return None
        before = [one.judges.get(judges.WORD_ERRORS) for one in own.sentences]
        asked = self._request(*found, len(before))
        tasks = tuple(replace(one, out=None) for one in asked.sentences)
        said = self.sampler.ask(replace(asked, sentences=tasks, decoder=decoder))
        return judges.paired_difference([one.word_errors for one in said.sentences], before)

    def weights_of(self, verdict: Verdict) -> tuple[Path, float] | None:
        """The checkpoint that a verdict's weights are read from, and which share of it: of the
        epoch, or all of best.pt where only that is left. None where neither is whole."""
        # The base reads the sentences as the run does: with any of its checkpoints.
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
        except Exception as error:  # whatever it is, it costs an evaluation and not the run
            if isinstance(error, WorkerFailed) and error.reason_code == "interrupted":
                log.info("The evaluation is left for the next start.")
                return
            self.failures += 1
            log.warning("No evaluation: %s", error)
            if self.failures >= MOST_FAILURES:
                log.warning("Evaluating ends for this run. Training goes on.")

    def _judge(self, epoch: Verified, epoch_seconds: float) -> None:
        known = self._known() or self._judge_base(epoch, epoch_seconds)
        loss = epoch.manifest.losses.get("validation_audio_loss")
        self._add(known, "epoch", epoch, 1.0, loss)

    def _judge_if_due(self, epoch: Verified, epoch_seconds: float) -> None:
        """By what it would cost, now that learning is measured."""
        if budget := self.budget:
            budget.know(self._known())
            budget.epoch_seconds = max(budget.epoch_seconds, epoch_seconds)
            self._plan_rest(budget, max(1, budget.coming(epoch.epoch)), epoch_seconds)
            if not budget.judges_epoch(epoch.epoch):
                log.info(
                    "Epoch %d is not judged, to save time; `python -m train evaluate` judges it.",
                    epoch.epoch,
                )
                return
        self._judge(epoch, epoch_seconds)

    def _foresee(self, first_epoch: int) -> None:
        assert self.budget is not None
        known = self._known()
        self.budget.know(known)
        if known is None:
            first, reference = self.plan.sentences[0].request, self.plan.reference.path
            # The worker starts meanwhile, which its first sample would wait for as well.
            self.budget.speed = self.sampler.ask(
                TrialRequest(first, reference, self.plan.recogniser)
            )
        self._plan_rest(self.budget, self.budget.coming(first_epoch), 0.0)

    def _plan_rest(self, budget: JudgingBudget, epochs: int, epoch_seconds: float) -> None:
        """Plans what is still to be judged; says so at first, and when something else fits."""
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
        """How many candidates are still to be judged, blends of these shares among them."""
        known, missing = self._known(), self.missing()
        chosen = self.source_of_blends(known) if known and not missing else None
        new = [
            one for one in shares if not (known and chosen) or _is_new(known, "blend", chosen, one)
        ]
        return len(missing) + len(new) + (known is None)

    def _left_blend(self, known: Evaluation | None) -> None:
        """Judges best.pt where it was not judged yet and no epoch is left beside it."""
        left = self.run.whole_blend()
        if left is None or self.run.newest_verified() is not None:
            return
        known = known or self._judge_base(left, 0.0)
        share = float(left.manifest.blend["share"])
        if known.find("blend", left.epoch, share) is None:
            self._add(known, "blend", left, share)

    def source_of_blends(self, known: Evaluation) -> Verified | None:
        """The whole epoch that comes nearest to the person: what is wrong with its words is what a
        blend may mend."""
        epochs = [one for one in known.candidates if one.kind == "epoch"]
        order = sorted(epochs, key=lambda one: -one.mean(judges.VOICE))
        for one in sorted(order, key=lambda one: 2 * one.astray > len(one.sentences)):
            found = self.run.verified(one.epoch)
            if found and found.sha256 == one.checkpoint_sha256:
                return found
        return None

    def _judge_base(self, epoch: Verified, epoch_seconds: float) -> Evaluation:
        """The base reads the sentences as the run does: an old run may have kept Coqui's
        normaliser."""
        judged = self._judged_before()
        budget = None if judged is not None else self._base_budget(epoch_seconds)
        count, plan = judged or len(self.plan.sentences), self.budget.plan if self.budget else None
        if judged is None and plan and self.budget and "sentences" in self.budget.limits:
            count = plan.sentences  # exactly what the rest of the plan was made with
        request = self._request(epoch.checkpoint, 0.0, count, budget)
        base, usual = self._candidate("base", 0, 0.0, request)
        log.info("Evaluation: %d sentences in %.0f s.", len(base.sentences), base.seconds)
        person = self.person
        found = Evaluation(
            made_at=_now(),
            language=self.plan.reference.language,
            base=self.plan.base,
            sentence_set=self.plan.sentence_set,
            judges=judges.descriptions(person, self.plan.recogniser, self.plan.no_recogniser),
            person={
                "clips": person.clips,
                "reference": self.plan.reference.path.name,
                "codes_per_token": round(person.rate.per_token, 4),
                "codes_per_sentence": round(person.rate.per_text, 4),
                "pitch_hz": person.pitch_hz,
                "base_nats_per_token": round(usual, 3),
            },
            smallest_difference={},
            candidates=[base],
        )
        if self.budget:
            self.budget.judged(found)
        return found

    def _add(
        self, known: Evaluation, kind: CandidateKind, epoch: Verified, share: float,
        loss: float | None = None,
    ) -> Evaluation:  # fmt: skip
        blended = epoch.manifest.blend  # of best.pt; an epoch's own file is never blended
        sha256 = str(blended["checkpoint_sha256"]) if blended else epoch.sha256
        request = self._request(
            epoch.checkpoint, 1.0 if blended else share, len(known.candidates[0].sentences),
            sounds=judges.folder_of(kind, epoch.epoch, share),
        )  # fmt: skip
        usual = float(known.person["base_nats_per_token"])
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
        found = self._decided(known)
        crash_point("before evaluation")
        write_evaluation(self.run.evaluation_file, found)
        crash_point("after evaluation")
        if found.verdict and found.verdict.kind != "blend":
            self.checkpoints.publish_best()
        if self._on_evaluation:
            self._on_evaluation(found, found.candidates[-1])
        return found

    def _decided(self, known: Evaluation) -> Evaluation:
        """With intervals against the base, and the verdict."""
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
        """What is in evaluation.json, if it is about the same base and sentences."""
        known = self.run.evaluation()
        if known is None or not known.candidates or known.candidates[0].kind != "base":
            return None
        if (known.sentence_set, known.base) != (self.plan.sentence_set, self.plan.base):
            log.info(
                "The sentences, the recording, the base or the recogniser changed: all is judged "
                "again."
            )
            return None
        return known

    def _judged_before(self) -> int | None:
        """How many sentences the run was judged by, where evaluation.json is lost: best.json says
        it too, and with others the verdict would be another one."""
        best = self.run.read_best()
        try:
            return None if self.run.evaluation() else int(best["figures"]["sentences"])
        except (KeyError, TypeError, ValueError):
            return None

    # Speaking and measuring

    def _request(
        self, weights: Path, share: float, count: int, budget: float | None = None,
        sounds: str = "base",
    ) -> EvaluateRequest:  # fmt: skip
        """The first so many sentences by a share of some weights. sounds: the folder that keeps
        some of them."""
        tasks = tuple(
            SentenceTask(
                one.request,
                sounded=number % self.plan.sounded_every == 0,
                out=self.run.folder / wav if (wav := judges.wav_of(sounds, number)) else None,
            )
            for number, one in enumerate(self.plan.sentences[:count])
        )
        plan = self.budget.plan if self.budget else None
        fewest = plan.sentences if plan else self._fewest(budget)
        return EvaluateRequest(
            tasks, self.plan.reference.path, weights, share, self.person.rate, budget,
            at_least=min(count, fewest), recogniser=self.plan.recogniser,
        )  # fmt: skip

    def _candidate(
        self, kind: CandidateKind, epoch: int, share: float, request: EvaluateRequest,
        usual: float | None = None, **more: Any,
    ) -> tuple[Candidate, float]:  # fmt: skip
        """A candidate that speaks and is judged, and the evidence that it was judged by; None is
        its own (`judges.base_evidence`)."""
        started = time.perf_counter()
        facts = self.sampler.ask(request).sentences
        if self.progress is not None:
            self.progress.add()
        usual = judges.base_evidence(facts) if usual is None else usual
        return judges.candidate(
            kind, epoch, share, self.plan.sentences, facts, self.person, usual,
            seconds=time.perf_counter() - started, device=self.sampler.plan.device, **more,
        ), usual  # fmt: skip

    def _base_budget(self, epoch_seconds: float) -> float | None:
        """How long the base may go on beyond the fewest sentences; None without a limit."""
        if self.budget is None:
            return None
        return min(max(SHORT_SECONDS, TIME_SHARE * epoch_seconds), self.budget.candidate_share)

    def _fewest(self, budget: float | None) -> int:
        """So many are wanted: of a long epoch less, whose share of time is to be kept."""
        long = budget is not None and budget > SHORT_SECONDS
        return FEWEST_HEARD if long and self.plan.recogniser else FEWEST_SENTENCES

    @cached_property
    def person(self) -> Person:
        """What the person's clips say. Raises WorkerFailed, GpuLost."""
        own = [clip.path for clip in self.plan.recordings]
        heard = self.sampler.ask(ListenRequest((*own, *sorted(OTHER_VOICES.glob("*.flac")))))
        return describe(self.plan.clips, heard, len(own))


def _is_new(known: Evaluation, kind: CandidateKind, epoch: Verified, share: float) -> bool:
    """Whether an epoch, or a share of it, was not judged yet, or with other weights."""
    done = known.find(kind, epoch.epoch, share)
    return done is None or done.checkpoint_sha256 != epoch.sha256


def shares_of(blend: float | str) -> tuple[float, ...]:
    """The shares (interpolation weights) that BLEND asks to be judged, from the largest; a whole
    one is the epoch."""
    if blend == "off":
        return ()
    shares = (0.7, 0.5, 0.3) if blend == "auto" else (float(blend),)
    return tuple(share for share in shares if share < 1)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
