"""Measurements of the spoken sentences of one candidate, from what the worker measured. Pure.

Judges share one form: a figure a sentence, or None where there is nothing to judge. Sentences that
went astray are counted and judged by nobody: a mean over them would be a lottery.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from train.evaluation.person import Person
from train.evaluation.plan import Recognition
from xtts.voices.evaluation_file import JudgeDescription, Outcome
from xtts.workers.requests import SpokenFacts

# Of a sentence's expected length, at the candidate's own rate; as in `benchmarks.voice`.
SHORTEST, LONGEST = 0.7, 1.4
# Pauses at both ends count for more than the words of a shorter text.
FEWEST_TOKENS = 12
# A candidate may be so much slower or faster as a whole before its sentences count as astray.
SLOWEST, FASTEST = 1.3, 0.75
# A word that explains less than this share of what the sentence's usual word does was left out.
# Measured: docs/benchmarks.md, "Words without a recogniser".
WEAK_WORD = 0.35
# Where most words of a sentence were left out, its own usual word is no measure: the base's is.
BASE_SHARE = 0.5

WORDS, WORD_ERRORS, VOICE = "words", "word_errors", "voice"
RATE_DRIFT, PITCH_DRIFT = "rate_drift_percent", "pitch_drift_percent"


@dataclass(frozen=True)
class JudgedSentence:
    """expected_seconds: at the candidate's own rate; figures: by judge."""

    outcome: Outcome
    expected_seconds: float
    figures: dict[str, float | None]


def descriptions(person: Person, recognition: Recognition) -> dict[str, JudgeDescription]:
    """What each judge's figure is."""
    return {
        WORD_ERRORS: JudgeDescription(
            "share", "lower",
            f"Words that {recognition.told or 'a recogniser'} hears wrong, leaves out or adds, of "
            "those that were to be said. It mishears some of what people say as well.",
            absent=recognition.absent,
        ),
        WORDS: JudgeDescription(
            "share", "higher",
            "Words of a text without which the base model would explain the sound less well: finds "
            "words that were left out, and mostly not those that are only mumbled.",
        ),
        VOICE: JudgeDescription(
            "share", "higher",
            "Likeness by the base's own speaker encoder: 1 is another recording of the same "
            "person, 0 what other voices are like on average.",
            absent=person.voice_absent,
        ),
        RATE_DRIFT: JudgeDescription(
            "percent", "zero",
            "How much faster (+) or slower (-) than the person's own clips, text for text.",
        ),
        PITCH_DRIFT: JudgeDescription(
            "percent", "zero",
            "How much higher (+) or lower (-) than the person's own clips.",
            absent=None if person.pitch_hz else "no pitch was found in the person's clips",
        ),
    }  # fmt: skip


def base_evidence(facts: Sequence[SpokenFacts]) -> float:
    """By how many nats a token the usual word explains what the base itself says."""
    found = [nats for one in facts for nats in one.words]
    return float(np.median(found)) if found else 0.0


def judged(
    facts: Sequence[SpokenFacts], person: Person, usual_evidence: float
) -> list[JudgedSentence]:
    """Every sentence of one candidate; usual_evidence: `base_evidence` of the base."""
    ratios = [_ratio(one, person) for one in facts]
    own = own_rate([r for r, one in zip(ratios, facts, strict=True) if one.finished])
    found = []
    for one, ratio in zip(facts, ratios, strict=True):
        outcome = outcome_of(one, ratio / own)
        found.append(
            JudgedSentence(
                outcome,
                round(one.seconds / max(ratio / own, 1e-6), 3),
                _figures(one, ratio, person, usual_evidence) if outcome == "finished" else {},
            )
        )
    return found


def own_rate(ratios: Sequence[float]) -> float:
    """A candidate's usual length as a share of the person's, within what may pass for a rate."""
    usual = statistics.median(ratios) if ratios else 1.0
    return min(max(usual, FASTEST), SLOWEST)


def outcome_of(facts: SpokenFacts, length: float) -> Outcome:
    """length: as a share of what was expected."""
    if not facts.finished:
        return "unfinished"
    if facts.text_tokens >= FEWEST_TOKENS and length < SHORTEST:
        return "cut"
    if facts.text_tokens >= FEWEST_TOKENS and length > LONGEST:
        return "babbling"
    return "finished"


def words_found(evidence: Sequence[float], usual: float) -> float | None:
    """The share of words that the sound needs; None where no word could be asked about."""
    if not evidence:
        return None
    measure = max(float(np.median(evidence)), BASE_SHARE * usual)
    if measure <= 0:
        return None
    return sum(nats >= WEAK_WORD * measure for nats in evidence) / len(evidence)


def _figures(
    facts: SpokenFacts, ratio: float, person: Person, usual: float
) -> dict[str, float | None]:
    pitch = None
    if facts.pitch_hz and person.pitch_hz:
        pitch = 100 * (facts.pitch_hz / person.pitch_hz - 1)
    figures = {
        WORD_ERRORS: facts.word_errors,
        WORDS: words_found(facts.words, usual),
        VOICE: person.voice.likeness(facts.embedding) if person.voice else None,
        RATE_DRIFT: 100 * (1 / ratio - 1) if ratio > 0 else None,
        PITCH_DRIFT: pitch,
    }
    return {name: value if value is None else round(value, 5) for name, value in figures.items()}


def _ratio(facts: SpokenFacts, person: Person) -> float:
    """Spoken codes as a share of what the person would take."""
    return facts.codes / max(1.0, person.rate.codes(facts.text_tokens))
