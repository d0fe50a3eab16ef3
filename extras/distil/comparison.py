"""Compares a student with its teacher on the sentences of an evaluation.

Both use other seeds than the evaluation. The teacher was selected by its speech with those seeds,
so its figures there are biased upwards.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from train.evaluation import judges
from train.evaluation.evaluator import FRESH_SEEDS
from train.evaluation.floors import with_floors
from train.evaluation.plan import KEPT_SOUNDS, EvaluationPlan, Person, describe, heard_recordings
from xtts.voices.evaluation_file import Candidate
from xtts.workers.requests import EvaluateRequest, SentenceTask, SpokenFacts, TunedVoice
from xtts.workers.tasks import evaluate, listen
from xtts.workers.tuned_model import TunedModel

# A student may have five more word errors in a hundred than its teacher.
MOST_MORE_ERRORS = 0.05


@dataclass(frozen=True)
class Speaking:
    """The weights of one side of the comparison.

    Attributes:
        sounds: A folder for the first sentences, for listening; None writes nothing.
    """

    tuned: TunedModel
    voice: TunedVoice
    sounds: Path | None = None


def judge(teacher: Speaking, student: Speaking, plan: EvaluationPlan) -> tuple[Candidate, Candidate]:
    """Teacher and student as candidates of one evaluation, with its recording.

    The teacher's base measures the words of both; in a language that it does not know, the teacher
    does.
    """
    person = _person(teacher.tuned, plan)
    knows = not plan.learns_added_language
    weights = replace(teacher.voice, share=0.0 if knows else 1.0, decoder=None)
    listener = (teacher.tuned, weights)
    teachers = _facts(teacher, listener, plan, person)
    others = _facts(student, listener, plan, person)
    usual = judges.measures_of_base(teachers[0])["base_nats_per_token"]
    return _candidate(plan, teachers, person, usual), _candidate(plan, others, person, usual)


def _candidate(
    plan: EvaluationPlan, spoken: tuple[Sequence[SpokenFacts], float], person: Person, usual: float
) -> Candidate:
    facts, seconds = spoken
    return judges.candidate("epoch", 0, 1.0, plan.sentences, facts, person, usual, seconds=seconds)


def _person(tuned: TunedModel, plan: EvaluationPlan) -> Person:
    return describe(plan, listen(tuned, replace(heard_recordings(plan), natural=0)))


def _facts(
    speaking: Speaking, listener: tuple[TunedModel, TunedVoice], plan: EvaluationPlan, person: Person
) -> tuple[Sequence[SpokenFacts], float]:
    tasks = tuple(
        SentenceTask(
            replace(sentence.request, seed=sentence.request.seed + FRESH_SEEDS),
            sounded=number % plan.sounded_every == 0,
            natural=plan.no_naturalness is None,
            out=speaking.sounds / f"{number + 1:02}.wav"
            if speaking.sounds and number < KEPT_SOUNDS
            else None,
        )
        for number, sentence in enumerate(plan.sentences)
    )
    request = EvaluateRequest(
        tasks, speaking.voice, person.rate, plan.recogniser, plan.no_speaker_judge is None
    )
    started = time.perf_counter()
    facts = evaluate(speaking.tuned, request, words_by=listener).sentences
    return facts, time.perf_counter() - started


def may_replace(small: Candidate, large: Candidate) -> str | None:
    """Why a student must not replace its teacher, or None if it may.

    It must pass the floors of the verdict, with the teacher in the base's place, and its words must
    be judged.
    """
    pair = (small, large)
    errors, words = (judges.against(*pair, judge) for judge in (judges.WORD_ERRORS, judges.WORDS))
    if (reason := with_floors(small, large, pair).ruled_out) is not None:
        return reason.replace("the base", "the large model")
    if errors is None and words is None:
        return "Nothing judged whether it says all words. Name more sentences in EVALUATE_TEXTS."
    if errors is not None and errors.mean > MOST_MORE_ERRORS:
        more = f"{100 * errors.mean:.0f} percentage points above the large model's"
        return f"It is harder to understand: its word error rate is {more}."
    return None
