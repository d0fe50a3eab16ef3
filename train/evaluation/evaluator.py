"""Has the base and every saved epoch speak the sentences, judges them, and keeps evaluation.json.

It works where samples are spoken, behind them, and like a sample it never stops a run and changes
no bit of it: what cannot be measured is left for the next epoch or the next start, with a line.
"""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from machine.devices.cuda_errors import GpuLost
from machine.storage.atomic import crash_point
from machine.storage.hashes import sha256_of
from train.checkpointing.checkpoints import Checkpoints
from train.dataset.clips import Clip
from train.dataset.dataset import Dataset
from train.evaluation import judges, sentences
from train.evaluation.budget import TIME_SHARE, JudgingBudget
from train.evaluation.judges import JudgedSentence
from train.evaluation.person import Person, describe, recordings_of
from train.evaluation.recognition import Recognition, recognition_of
from train.evaluation.sentences import KEPT_SOUNDS, EvaluationSentence
from train.evaluation.statistics import mean_interval, paired_difference
from train.evaluation.verdict import against, decide
from train.progress import Progress
from train.sampling.sample_files import SampleReference
from train.sampling.sampler import MeasuringFailed, Sampler
from train.settings import TrainSettings
from xtts.voices.evaluation_file import (
    Candidate,
    CandidateKind,
    Evaluation,
    JudgeFigure,
    MeanInterval,
    SpokenSentence,
    Verdict,
    write_evaluation,
)
from xtts.voices.run_folder import RunFolder, Verified
from xtts.workers.file_evaluation import (
    SLOTS,
    EvaluateRequest,
    ListenRequest,
    SentenceTask,
    SpokenFacts,
    TrialRequest,
)

log = logging.getLogger("train")

# Of a short epoch the base speaks what fits into so many seconds (or its share), or the fewest.
SHORT_SECONDS = 6.0
# Without a recogniser one sentence in so many is also heard: at full size the vocoder costs more
# than all else together.
SOUNDED_EVERY = 3
# So many, where the budget allows: of eight, three would be heard, too few for a mean of voices.
FEWEST_SENTENCES = 2 * SLOTS
# Where all are heard and the epoch is a long one, whose share of time is to be kept.
FEWEST_HEARD = SLOTS
OTHER_VOICES = sentences.FOLDER / "voices"
MOST_FAILURES = 3
FEWEST_VALIDATION_CLIPS = 5


@dataclass(frozen=True)
class EvaluationPlan:
    """What is spoken by everybody, and by whom it is compared.

    Attributes:
        sentences: In their order.
        clips: All of the person's clips, for the rate.
        recordings: Those that are listened to.
        base: {name, sha256} as in a manifest.
        recognition: What listens to the sentences.
    """

    sentences: Sequence[EvaluationSentence]
    reference: SampleReference
    clips: Sequence[Clip]
    recordings: Sequence[Clip]
    base: dict[str, str]
    recognition: Recognition

    @property
    def sentence_set(self) -> str:
        """What makes two evaluations comparable."""
        return sentences.set_sha256(
            self.sentences, sha256_of(self.reference.path), self.recognition.name
        )

    @property
    def sounded_every(self) -> int:
        """One sentence in so many goes through the vocoder; all where a recogniser listens."""
        return 1 if self.recognition.name else SOUNDED_EVERY


def plan_of(
    settings: TrainSettings, data: Dataset, reference: SampleReference, base: dict[str, str]
) -> EvaluationPlan:
    """What this run is evaluated by. Raises EvaluationError for EVALUATE_TEXTS and
    EVALUATE_RECOGNISER."""
    spoken_from = next(clip for clip in data.clips if clip.path == reference.path)
    clips = [clip for clip in data.clips if clip.speaker == spoken_from.speaker]
    recordings = recordings_of(data, spoken_from.speaker, spoken_from)
    own = Path(settings.evaluate_texts) if settings.evaluate_texts else None
    texts = sentences.planned(own, reference.language, recordings, settings.seed)
    recognition = recognition_of(settings.evaluate_recogniser, reference.language)
    return EvaluationPlan(texts, reference, clips, recordings, base, recognition)


def warn_of_few_clips(data: Dataset) -> None:
    """A loss of one or two clips is a lottery; what helps is told."""
    if len(data.validation) < FEWEST_VALIDATION_CLIPS:
        log.warning(
            "Validation has %d clips, fewer than %d: its loss says little about an epoch. Add "
            "clips (a twentieth of them validate, of 100 clips five), or name validation clips in "
            "a metadata_val.csv (docs/datasets.md).", len(data.validation), FEWEST_VALIDATION_CLIPS,
        )  # fmt: skip


class Evaluator:
    """Judges by the plan, inside the sampler's turn.

    told: hears of every evaluation and the candidate that is new in it. budget: what it may cost;
    None is unlimited, and speaks all sentences.
    """

    def __init__(
        self,
        plan: EvaluationPlan,
        sampler: Sampler,
        checkpoints: Checkpoints,
        told: Callable[[Evaluation, Candidate], None] | None = None,
        *,
        budget: JudgingBudget | None = None,
    ) -> None:
        self.plan = plan
        self.sampler = sampler
        self.checkpoints = checkpoints
        self.run: RunFolder = checkpoints.run
        self.failures = 0
        self._told = told
        self.budget = budget
        self.progress: Progress | None = None
        self._person: Person | None = None

    @property
    def working(self) -> bool:
        """Whether anything can be judged: there is a voice to speak with, and something to say."""
        speaks = self.sampler.plan.mode != "skipped"
        return speaks and bool(self.plan.sentences) and self.failures < MOST_FAILURES

    def foresee(self, first_epoch: int) -> None:
        """Finds out how fast this machine speaks, and says what judging the run from an epoch on
        will cost."""
        if self.working and self.budget:
            self.sampler.submit(lambda: self._forgiving(lambda: self._foresee(first_epoch)))

    def judge(self, epoch: Verified, epoch_seconds: float = 0.0) -> None:
        """Judges a saved epoch, and the base first where it was not judged yet.

        epoch_seconds: how long it was learned, which decides how much time there is.
        """
        if self.working:
            self.sampler.submit(
                lambda: self._forgiving(lambda: self._judge_if_due(epoch, epoch_seconds))
            )

    def judge_missing(self) -> None:
        """Judges what a kill or a fault left out, the newest epochs where not all fit."""
        missing = self.missing()
        if missing and (budget := self.budget):
            budget.know(self._known())
            self._plan_rest(budget, len(missing), 0.0)
            if budget.plan:
                missing = missing[len(missing) - budget.plan.epochs :]
        for epoch in missing:
            self.sampler.submit(partial(self._forgiving, partial(self._judge, epoch, 0.0)))

    def blends(self, shares: Sequence[float]) -> None:
        """Judges blends of the base and the epoch that comes nearest to the person."""
        if self.working:
            self.sampler.submit(lambda: self._forgiving(lambda: self._blends(shares)))

    def missing(self) -> list[Verified]:
        """Whole epochs that were not judged, or are other weights than those that were."""
        known = self._known()
        found = []
        for number in self.run.epochs():
            epoch = self.run.verified(number)
            own = known.find("epoch", number) if known else None
            if epoch and (own is None or own.checkpoint_sha256 != epoch.sha256):
                found.append(epoch)
        return found

    def word_errors_with(self, verdict: Verdict, speaker: Sequence[float]) -> MeanInterval | None:
        """How many more of the words are misheard when the verdict's weights speak with another
        speaker embedding; None where no recogniser listened to both. Raises MeasuringFailed."""
        known = self._known()
        own = known.find(verdict.kind, verdict.epoch, verdict.share) if known else None
        found = self.weights_of(verdict)
        if own is None or found is None or not self.plan.recognition.name:
            return None
        before = [one.judges.get(judges.WORD_ERRORS) for one in own.sentences]
        facts, _ = self._speak(None, *found, len(before), None, tuple(speaker))
        return paired_difference([one.word_errors for one in facts], before)

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

    def _forgiving(self, work: Callable[[], None]) -> None:
        try:
            work()
            self.failures = 0
        except GpuLost:
            raise
        except MeasuringFailed as error:
            if error.stopped:
                log.info("The evaluation is left for the next start.")
                return
            self._failed(error)
        except Exception as error:  # whatever it is, it costs an evaluation and not the run
            self._failed(error)

    def _failed(self, error: Exception) -> None:
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
                told = "Epoch %d is not judged, to save time; `python -m train evaluate` judges it."
                log.info(told, epoch.epoch)
                return
        self._judge(epoch, epoch_seconds)

    def _foresee(self, first_epoch: int) -> None:
        assert self.budget is not None
        known = self._known()
        self.budget.know(known)
        if known is None and self.plan.sentences:
            one, reference = self.plan.sentences[0], self.plan.reference.path
            ear = self.plan.recognition.name
            # The worker starts meanwhile, which its first sample would wait for as well.
            self.budget.speed = self.sampler.trial(
                TrialRequest(one.text, one.language, reference, ear)
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
        shares = [share for share in shares if share < 1 and _is_new(known, chosen, share)]
        if budget := self.budget:
            budget.know(known)
            budget.shares = tuple(shares)
            self._plan_rest(budget, 0, 0.0)
            shares = budget.plan.shares if budget.plan else shares
            known = replace(known, left_out=list(budget.limits.values()))
            write_evaluation(self.run.evaluation_file, known)
        for share in shares:
            known = self._add(known, "blend", chosen, share, None)
        if not budget and known.left_out and not self.missing():
            write_evaluation(self.run.evaluation_file, replace(known, left_out=[]))

    def num_left(self, shares: Sequence[float]) -> int:
        """How many candidates are still to be judged, blends of these shares among them."""
        known, missing = self._known(), self.missing()
        chosen = self.source_of_blends(known) if known and not missing else None
        new = [one for one in shares if not (known and chosen) or _is_new(known, chosen, one)]
        return len(missing) + len(new) + (known is None)

    def _count_one(self) -> None:
        if self.progress is not None:
            self.progress.add()

    def _left_blend(self, known: Evaluation | None) -> None:
        """Judges best.pt where it was not judged yet and no epoch is left beside it."""
        left = self.run.whole_blend()
        if left is None or self.run.newest_verified() is not None:
            return
        known = known or self._judge_base(left, 0.0)
        share = float(left.manifest.blend["share"])
        if known.find("blend", left.epoch, share) is None:
            self._add(known, "blend", left, share, None)

    def source_of_blends(self, known: Evaluation) -> Verified | None:
        """The whole epoch that comes nearest to the person: what is wrong with its words is what a
        blend may mend."""
        epochs = [one for one in known.candidates if one.kind == "epoch"]
        order = sorted(epochs, key=lambda one: -_mean(one, judges.VOICE))
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
        facts, seconds = self._speak("base", epoch.checkpoint, 0.0, count, budget)
        self._count_one()
        person, usual = self._known_person(), judges.base_evidence(facts)
        base = self._candidate("base", 0, 0.0, "", facts, usual, None, seconds)
        log.info("Evaluation: %d sentences in %.0f s.", len(facts), seconds)
        found = Evaluation(
            made_at=_now(),
            language=self.plan.reference.language,
            base=self.plan.base,
            sentence_set=self.plan.sentence_set,
            judges=judges.descriptions(person, self.plan.recognition),
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
            self.budget.judged(found, seconds)
        return found

    def _add(
        self, known: Evaluation, kind: CandidateKind, epoch: Verified, share: float,
        loss: float | None,
    ) -> Evaluation:  # fmt: skip
        name = f"epoch_{epoch.epoch}" + (f"_share_{share:g}" if kind == "blend" else "")
        count = len(known.candidates[0].sentences)
        blended = epoch.manifest.blend  # of best.pt; an epoch's own file is never blended
        sha256 = str(blended["checkpoint_sha256"]) if blended else epoch.sha256
        facts, seconds = self._speak(name, epoch.checkpoint, 1.0 if blended else share, count, None)
        self._count_one()
        usual = float(known.person["base_nats_per_token"])
        own = self._candidate(kind, epoch.epoch, share, sha256, facts, usual, loss, seconds)
        others = [
            one
            for one in known.candidates
            if (one.kind, one.epoch, one.share) != (kind, epoch.epoch, share)
            and not (kind == "epoch" and one.kind == "blend" and one.epoch == epoch.epoch
                     and one.checkpoint_sha256 != sha256)
        ]  # fmt: skip
        known = replace(known, candidates=[*others, own])
        if self.budget:
            self.budget.judged(known, seconds)
            known = replace(known, left_out=list(self.budget.limits.values()))
        found = self.decided(known)
        crash_point("before evaluation")
        write_evaluation(self.run.evaluation_file, found)
        crash_point("after evaluation")
        if found.verdict and found.verdict.kind != "blend":
            self.checkpoints.publish_best()
        told = found.find(kind, epoch.epoch, share)
        if self._told and told:
            self._told(found, told)
        return found

    def decided(self, known: Evaluation) -> Evaluation:
        """With intervals against the base, and the verdict."""
        base = known.candidates[0]
        compared = [base, *(_compared(one, base) for one in known.candidates[1:])]
        there, blend = set(self.run.epochs()), self.run.whole_blend()
        kept = blend.manifest.blend if blend else {}
        gone = {
            one.name for one in compared
            if one.kind != "base" and one.epoch not in there
            and (one.kind, one.epoch, one.share) != ("blend", kept.get("epoch"), kept.get("share"))
        }  # fmt: skip
        told, verdict = decide(compared, gone, sum(clip.seconds for clip in self.plan.clips))
        return replace(
            known, made_at=_now(), candidates=told, verdict=verdict,
            smallest_difference=_smallest_differences(told),
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
        best = self.run.read_best() or {}
        try:
            return None if self.run.evaluation() else int(best["figures"]["sentences"])
        except (KeyError, TypeError, ValueError):
            return None

    # Speaking and measuring

    def _speak(
        self, name: str | None, weights: Path, share: float, count: int, budget: float | None,
        speaker: tuple[float, ...] | None = None,
    ) -> tuple[list[SpokenFacts], float]:  # fmt: skip
        """name: of the folder that keeps some of the sounds; None keeps none."""
        person = self._known_person()
        folder = self.run.samples / "evaluation" / (name or "")
        tasks = tuple(
            SentenceTask(
                one.text, one.language, one.seed,
                sounded=number % self.plan.sounded_every == 0,
                out=folder / _name(number) if name and _is_kept(number) else None,
            )
            for number, one in enumerate(self.plan.sentences[:count])
        )  # fmt: skip
        started = time.perf_counter()
        found = self.sampler.evaluate(
            EvaluateRequest(
                tasks,
                self.plan.reference.path,
                weights,
                share,
                person.rate,
                budget,
                at_least=min(count, self._at_least(budget)),
                recogniser=self.plan.recognition.name,
                speaker=speaker,
            )
        )
        return found.sentences, time.perf_counter() - started

    def _base_budget(self, epoch_seconds: float) -> float | None:
        """How long the base may go on beyond the fewest sentences; None without a limit."""
        if self.budget is None:
            return None
        return min(max(SHORT_SECONDS, TIME_SHARE * epoch_seconds), self.budget.candidate_share)

    def _at_least(self, budget: float | None) -> int:
        plan = self.budget.plan if self.budget else None
        return plan.sentences if plan else self._fewest(budget)

    def _fewest(self, budget: float | None) -> int:
        """So many are wanted: of a long epoch less, whose share of time is to be kept."""
        long = budget is not None and budget > SHORT_SECONDS
        return FEWEST_HEARD if long and self.plan.recognition.name else FEWEST_SENTENCES

    def _known_person(self) -> Person:
        if self._person is None:
            own = [clip.path for clip in self.plan.recordings]
            others = sorted(OTHER_VOICES.glob("*.flac"))
            heard = self.sampler.listen(ListenRequest((*own, *others)))
            count = len(own)
            self._person = describe(
                self.plan.clips,
                replace(heard, recordings=heard.recordings[:count]),
                replace(heard, recordings=heard.recordings[count:]),
            )
        return self._person

    def _candidate(
        self, kind: CandidateKind, epoch: int, share: float, sha256: str,
        facts: Sequence[SpokenFacts], usual: float, loss: float | None, seconds: float,
    ) -> Candidate:  # fmt: skip
        found = judges.judged(facts, self._known_person(), usual)
        outcomes = [one.outcome for one in found]
        folder = f"epoch_{epoch}" + (f"_share_{share:g}" if kind == "blend" else "")
        folder = "base" if kind == "base" else folder
        return Candidate(
            kind=kind,
            epoch=epoch,
            share=share,
            checkpoint_sha256=sha256,
            unfinished=outcomes.count("unfinished"),
            cut=outcomes.count("cut"),
            babbling=outcomes.count("babbling"),
            judges=_figures(found),
            validation_audio_loss=loss,
            indistinguishable_from_base=False,
            ruled_out=None,
            remarks=[],
            seconds=round(seconds, 2),
            device=self.sampler.plan.device,
            sentences=[
                SpokenSentence(
                    asked.text, asked.source, asked.seed, one.seconds, judged.expected_seconds,
                    one.codes, one.text_tokens, judged.outcome, judged.figures,
                    f"samples/evaluation/{folder}/{_name(number)}" if _is_kept(number) else None,
                    one.heard,
                )
                for number, (asked, one, judged) in enumerate(
                    zip(self.plan.sentences, facts, found, strict=False)
                )
            ],
        )  # fmt: skip


def _is_new(known: Evaluation, chosen: Verified, share: float) -> bool:
    """Whether this blend was not judged yet."""
    done = known.find("blend", chosen.epoch, share)
    return done is None or done.checkpoint_sha256 != chosen.sha256


def shares_of(blend: float | str) -> tuple[float, ...]:
    """The shares that BLEND asks to be judged, from the largest."""
    if blend == "off":
        return ()
    return (0.7, 0.5, 0.3) if blend == "auto" else (float(blend),)


def _is_kept(number: int) -> bool:
    return number % SOUNDED_EVERY == 0 and number // SOUNDED_EVERY < KEPT_SOUNDS


def _name(number: int) -> str:
    return f"{number + 1:02}.wav"


def _figures(found: Sequence[JudgedSentence]) -> dict[str, JudgeFigure]:
    names = dict.fromkeys(name for one in found for name in one.figures)
    intervals = {
        name: mean_interval(
            [value for one in found if (value := one.figures.get(name)) is not None]
        )
        for name in names
    }
    return {
        name: JudgeFigure(known.mean, known.low, known.high, known.count)
        for name, known in intervals.items()
        if known is not None
    }


def _compared(one: Candidate, base: Candidate) -> Candidate:
    figures = {
        name: replace(figure, against_base=against(one, base, name))
        for name, figure in one.judges.items()
    }
    return replace(one, judges=figures)


def _smallest_differences(candidates: Sequence[Candidate]) -> dict[str, float]:
    found: dict[str, float] = {}
    for one in candidates:
        for name, figure in one.judges.items():
            if figure.against_base is not None:
                half = (figure.against_base.high - figure.against_base.low) / 2
                found[name] = round(max(found.get(name, 0.0), half), 5)
    return found


def _mean(one: Candidate, judge: str) -> float:
    return one.judges[judge].mean if judge in one.judges else 0.0


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
