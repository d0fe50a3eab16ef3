"""Makes a candidate's entry in evaluation.json from the measurements of its sentences. Pure.

Judges share one form: a figure a sentence, or None where there is nothing to judge. Sentences that
went astray are counted and not judged: a mean over them would be chance.

Means have bootstrap intervals: sentences are what is drawn again (Efron 1979), as the next text is
another sentence. Two candidates spoke the same sentences with the same seeds, so their difference
is taken sentence by sentence, which leaves out what a sentence does to both.
"""

import statistics
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from train.evaluation.person import Person
from train.evaluation.plan import KEPT_SOUNDS, SOUNDED_EVERY, EvaluationSentence
from xtts.evaluation.recogniser import POCKETSPHINX
from xtts.voices.evaluation_file import (
    Candidate,
    CandidateKind,
    JudgeDescription,
    JudgeFigure,
    MeanInterval,
    Outcome,
    SpokenSentence,
)
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

RESAMPLES = 2000
# Of the resampled means, so much lies between the two ends.
COVERAGE = 0.95
# From fewer, an interval would pretend to know.
FEWEST = 4

WORDS, WORD_ERRORS, VOICE = "words", "word_errors", "voice"
RATE_DRIFT, PITCH_DRIFT = "rate_drift_percent", "pitch_drift_percent"


def descriptions(
    person: Person, recogniser: str, no_recogniser: str | None
) -> dict[str, JudgeDescription]:
    """What each judge's figure is. recogniser, no_recogniser: as of `EvaluationPlan`."""
    who = recogniser or "a recogniser"
    if recogniser not in ("", POCKETSPHINX):
        who = f"Whisper ({Path(recogniser).name})"
    return {
        WORD_ERRORS: JudgeDescription(
            "share", "lower",
            f"Words that {who} hears wrong, leaves out or adds, of "
            "those that were to be said. It mishears some of what people say as well.",
            absent=no_recogniser,
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


def candidate(
    kind: CandidateKind, epoch: int, share: float, sentences: Sequence[EvaluationSentence],
    facts: Sequence[SpokenFacts], person: Person, usual: float, *,
    sha256: str = "", loss: float | None = None, seconds: float = 0.0, device: str = "cpu",
) -> Candidate:  # fmt: skip
    """What was measured of the first so many sentences, judged. usual: `base_evidence`."""
    # Spoken codes as a share of what the person would take.
    ratios = [one.codes / max(1.0, person.rate.codes(one.text_tokens)) for one in facts]
    own = own_rate([ratio for ratio, one in zip(ratios, facts, strict=True) if one.finished])
    outcomes = [outcome_of(one, ratio / own) for one, ratio in zip(facts, ratios, strict=True)]
    folder = folder_of(kind, epoch, share)
    spoken = [
        SpokenSentence(
            asked.request.text, asked.source, asked.request.seed, one.seconds,
            round(one.seconds / max(ratio / own, 1e-6), 3), one.codes, one.text_tokens, outcome,
            _figures(one, ratio, person, usual) if outcome == "finished" else {},
            wav_of(folder, number), one.heard,
        )
        for number, (asked, one, ratio, outcome) in enumerate(
            zip(sentences, facts, ratios, outcomes, strict=False)
        )
    ]  # fmt: skip
    return Candidate(
        kind=kind, epoch=epoch, share=share, checkpoint_sha256=sha256,
        unfinished=outcomes.count("unfinished"), cut=outcomes.count("cut"),
        babbling=outcomes.count("babbling"), judges=_means(spoken), validation_audio_loss=loss,
        indistinguishable_from_base=False, ruled_out=None, remarks=[], seconds=round(seconds, 2),
        device=device, sentences=spoken,
    )  # fmt: skip


def folder_of(kind: CandidateKind, epoch: int, share: float) -> str:
    """The name of the folder that keeps some of what a candidate says."""
    if kind == "base":
        return "base"
    return f"epoch_{epoch}" + (f"_share_{share:g}" if kind == "blend" else "")


def wav_of(folder: str, number: int) -> str | None:
    """Where a sentence's sound is kept, relative to OUTPUT_DIR; None where it is not."""
    if number % SOUNDED_EVERY or number // SOUNDED_EVERY >= KEPT_SOUNDS:
        return None
    return f"samples/evaluation/{folder}/{number + 1:02}.wav"


def against(one: Candidate, other: Candidate, judge: str) -> MeanInterval | None:
    """The difference by a judge, sentence by sentence, over what both finished."""
    return paired_difference(
        [sentence.judges.get(judge) for sentence in one.sentences],
        [sentence.judges.get(judge) for sentence in other.sentences],
    )


def compared(candidates: Sequence[Candidate]) -> list[Candidate]:
    """With each figure's difference to the base, which is the first."""
    base, *others = candidates
    return [base] + [
        replace(one, judges={
            name: replace(figure, against_base=against(one, base, name))
            for name, figure in one.judges.items()
        })
        for one in others
    ]  # fmt: skip


def smallest_differences(candidates: Sequence[Candidate]) -> dict[str, float]:
    """As `xtts.voices.evaluation_file.Evaluation.smallest_difference`."""
    found: dict[str, float] = {}
    for one in candidates:
        for name, figure in one.judges.items():
            if (gap := figure.against_base) is not None:
                found[name] = round(max(found.get(name, 0.0), (gap.high - gap.low) / 2), 5)
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


def _means(spoken: Sequence[SpokenSentence]) -> dict[str, JudgeFigure]:
    """Of each judge, over the sentences of which it has a figure."""
    names = dict.fromkeys(name for one in spoken for name in one.judges)
    means = {
        name: mean_interval([x for one in spoken if (x := one.judges.get(name)) is not None])
        for name in names
    }
    return {name: JudgeFigure(**asdict(mean)) for name, mean in means.items() if mean is not None}


def mean_interval(values: Sequence[float]) -> MeanInterval | None:
    """The mean with its 95 % percentile interval; None for fewer than four values."""
    if len(values) < FEWEST:
        return None
    known = np.asarray(values, dtype=np.float64)
    draws = np.random.default_rng(0).integers(0, len(known), (RESAMPLES, len(known)))
    tail = (1 - COVERAGE) / 2 * 100
    low, high = np.percentile(known[draws].mean(axis=1), [tail, 100 - tail])
    return MeanInterval(
        round(float(known.mean()), 5), round(float(low), 5), round(float(high), 5), len(known)
    )


def paired_difference(
    own: Sequence[float | None], others: Sequence[float | None]
) -> MeanInterval | None:
    """The mean of `own - others` over what both have; None for fewer than four pairs."""
    return mean_interval(
        [one - other for one, other in zip(own, others, strict=True) if None not in (one, other)]  # type: ignore[operator]
    )
