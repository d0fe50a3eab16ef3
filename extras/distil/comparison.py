"""Compares a student with its teacher on the sentences of an evaluation.

Both use other seeds than the evaluation. The teacher was selected by its speech with those seeds,
so its figures there are biased upwards.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from train.evaluation import judges
from train.evaluation.evaluator import FRESH_SEEDS
from train.evaluation.floors import with_floors
from train.evaluation.plan import MAX_KEPT_WAVS, EvaluationPlan, Person, describe_person, listen_request
from xtts.voices.evaluation_file import Candidate
from xtts.workers.requests import EvaluateRequest, SentenceTask, SpokenFacts, TunedVoice
from xtts.workers.tasks import evaluate, listen
from xtts.workers.tuned_model import TunedModel

# A student may have five more word errors in a hundred than its teacher.
MAX_MORE_ERRORS = 0.05


@dataclass(frozen=True)
class ComparedModel:
    """One side of the comparison.

    Attributes:
        tuned_model: The model that speaks.
        voice: The speaker and the weights.
        sounds_folder: A folder for the first sentences, for listening; None writes nothing.
    """

    tuned_model: TunedModel
    voice: TunedVoice
    sounds_folder: Path | None = None


@dataclass(frozen=True)
class Comparison:
    """Teacher and student as candidates of one evaluation."""

    teacher: Candidate
    student: Candidate


class _SpokenSentences(NamedTuple):
    facts: Sequence[SpokenFacts]
    wall_seconds: float


def compare(teacher: ComparedModel, student: ComparedModel, plan: EvaluationPlan) -> Comparison:
    """Both speak the sentences of the plan from its recording.

    The teacher's base measures the words of both; in a language that it does not know, the teacher
    does.
    """
    person = describe_person(plan, listen(teacher.tuned_model, replace(listen_request(plan), natural=0)))
    listener_share = 1.0 if plan.learns_added_language else 0.0
    listener = (teacher.tuned_model, replace(teacher.voice, share=listener_share, decoder=None))
    teacher_sentences = _speak(teacher, listener, plan, person)
    student_sentences = _speak(student, listener, plan, person)
    nats_per_token = judges.measures_of_base(teacher_sentences.facts)["base_nats_per_token"]
    return Comparison(
        _candidate(plan, teacher_sentences, person, nats_per_token),
        _candidate(plan, student_sentences, person, nats_per_token),
    )


def _candidate(
    plan: EvaluationPlan, sentences: _SpokenSentences, person: Person, nats_per_token: float
) -> Candidate:
    return judges.judged_candidate(
        "epoch",
        0,
        1.0,
        plan.sentences,
        sentences.facts,
        person,
        nats_per_token,
        seconds=sentences.wall_seconds,
    )


def _speak(
    model: ComparedModel, listener: tuple[TunedModel, TunedVoice], plan: EvaluationPlan, person: Person
) -> _SpokenSentences:
    tasks = tuple(
        SentenceTask(
            replace(sentence.request, seed=sentence.request.seed + FRESH_SEEDS),
            sounded=index % plan.sounded_every == 0,
            natural=plan.why_no_naturalness is None,
            out=model.sounds_folder / f"{index + 1:02}.wav"
            if model.sounds_folder and index < MAX_KEPT_WAVS
            else None,
        )
        for index, sentence in enumerate(plan.sentences)
    )
    request = EvaluateRequest(
        tasks, model.voice, person.rate, plan.recogniser, plan.why_no_speaker_judge is None
    )
    started = time.perf_counter()
    facts = evaluate(model.tuned_model, request, words_by=listener).sentences
    return _SpokenSentences(facts, time.perf_counter() - started)


def rejection_reason(comparison: Comparison) -> str | None:
    """Why the student must not replace its teacher, or None if it may.

    It must pass the floors of the verdict, with the teacher in the base's place, and its words must
    be judged.
    """
    pair = (comparison.student, comparison.teacher)
    errors, words = (judges.difference(*pair, judge) for judge in (judges.WORD_ERRORS, judges.WORDS))
    if (reason := with_floors(*pair, pair).ruled_out) is not None:
        return reason.replace("the base", "the large model")
    if errors is None and words is None:
        return "Nothing judged whether it says all words. Name more sentences in EVALUATE_TEXTS."
    if errors is not None and errors.mean > MAX_MORE_ERRORS:
        excess = f"{100 * errors.mean:.0f} percentage points above the large model's"
        return f"It is harder to understand: its word error rate is {excess}."
    return None
