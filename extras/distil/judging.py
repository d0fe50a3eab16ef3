"""Compares a student with its teacher on the sentences of an evaluation.

Both use other seeds than the evaluation. The teacher was selected by its speech with those seeds,
so its figures there are biased upwards.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from train.evaluation import judges
from train.evaluation.evaluator import FRESH_SEEDS, OTHER_VOICES
from train.evaluation.plan import KEPT_SOUNDS, EvaluationPlan, Person, describe
from train.evaluation.verdict import TIE_MARGIN, remarked
from xtts.voices.evaluation_file import Candidate
from xtts.workers.requests import (
    EvaluateRequest,
    ListenRequest,
    SentenceTask,
    SpokenFacts,
    TunedVoice,
)
from xtts.workers.tasks import evaluate, listen
from xtts.workers.tuned_model import TunedModel


@dataclass(frozen=True)
class Speaking:
    """The weights of one side of the comparison.

    Attributes:
        sounds: A folder for the first sentences, for listening; None writes nothing.
    """

    tuned: TunedModel
    voice: TunedVoice
    sounds: Path | None = None


def judged(
    teacher: Speaking, student: Speaking, plan: EvaluationPlan
) -> tuple[Candidate, Candidate]:
    """Teacher and student as candidates of one evaluation, with its recording.

    The teacher's base measures the words of both; in a language that it does not know, the teacher
    does.
    """
    person = _person(teacher.tuned, plan)
    knows = not plan.learns_added_language
    weights = replace(teacher.voice, share=0.0 if knows else 1.0, decoder=None)
    listener = (teacher.tuned, weights)
    own = _facts(teacher, listener, plan, person)
    others = _facts(student, listener, plan, person)
    usual = judges.measures_of_base(own[0])["base_nats_per_token"]
    return _candidate(plan, own, person, usual), _candidate(plan, others, person, usual)


def _candidate(
    plan: EvaluationPlan, spoken: tuple[Sequence[SpokenFacts], float], person: Person, usual: float
) -> Candidate:
    facts, seconds = spoken
    return judges.candidate("epoch", 0, 1.0, plan.sentences, facts, person, usual, seconds=seconds)


def _person(tuned: TunedModel, plan: EvaluationPlan) -> Person:
    own = [clip.path for clip in plan.recordings]
    recordings = ListenRequest((*own, *sorted(OTHER_VOICES.glob("*.flac"))))
    return describe(plan.clips, listen(tuned, recordings), len(own))


def _facts(
    one: Speaking, listener: tuple[TunedModel, TunedVoice], plan: EvaluationPlan, person: Person
) -> tuple[Sequence[SpokenFacts], float]:
    tasks = tuple(
        SentenceTask(
            replace(sentence.request, seed=sentence.request.seed + FRESH_SEEDS),
            sounded=number % plan.sounded_every == 0,
            natural=plan.no_naturalness is None,
            out=one.sounds / f"{number + 1:02}.wav"
            if one.sounds and number < KEPT_SOUNDS else None,
        )
        for number, sentence in enumerate(plan.sentences)
    )  # fmt: skip
    request = EvaluateRequest(tasks, one.voice, person.rate, plan.recogniser)
    started = time.perf_counter()
    facts = evaluate(one.tuned, request, words_by=listener).sentences
    return facts, time.perf_counter() - started


def may_replace(small: Candidate, large: Candidate) -> str | None:
    """Why a student must not replace its teacher, or None if it may.

    As a blend that ties with the base, it must pass steps 1 to 4 of the verdict, with the teacher
    in the base's place, its voice must not be measurably less like the person's, and its word
    errors must not be a loss. Its words must also be judged.
    """
    pair = (small, large)
    voice, errors, words = (
        judges.against(*pair, judge) for judge in (judges.VOICE, judges.WORD_ERRORS, judges.WORDS)
    )
    if (reason := remarked(small, large, pair).ruled_out) is not None:
        return reason.replace("the base", "the large model")
    if errors is None and words is None:
        return "Nothing judged whether it says all words. Name more sentences in EVALUATE_TEXTS."
    if errors is not None and errors.mean > TIE_MARGIN:
        more = f"{100 * errors.mean:.0f} percentage points above the large model's"
        return f"It is harder to understand: its word error rate is {more}."
    if voice is not None and voice.high < 0:
        return "It sounds less like the person than the large model."
    return None
