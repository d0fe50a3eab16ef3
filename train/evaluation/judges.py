"""The judges: each turns the measurements of a candidate's sentences into a figure.

All functions are pure.

Every judge gives one figure for each sentence, or None if there is nothing to judge. Failed
sentences are counted but not judged, because their figures would be noise.

Means have bootstrap intervals (Efron 1979) that resample sentences. Two candidates speak the same
sentences with the same seeds. Their difference is therefore paired, sentence by sentence, which
removes the effect of the sentence on both.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from train.evaluation.plan import MAX_KEPT_WAVS, SOUNDED_EVERY, EvaluationSentence, Person, cosine
from xtts.evaluation.recogniser import POCKETSPHINX
from xtts.voices.evaluation_file import (
    Candidate,
    CandidateKind,
    JudgeDescription,
    JudgeFigure,
    MeanInterval,
    Outcome,
    SpokenSentence,
    candidate_id,
)
from xtts.workers.requests import SpokenFacts

# A sentence that finished has a length between these shares of its expected length at the candidate's
# own rate, as in `benchmarks.voice`.
MIN_LENGTH_SHARE, MAX_LENGTH_SHARE = 0.7, 1.4
# In a shorter text, the pauses at both ends outweigh the words.
MIN_TOKENS = 12
# The limits of a candidate's overall rate, as lengths over the person's. Beyond them, its sentences fail.
MIN_LENGTH_RATIO, MAX_LENGTH_RATIO = 0.75, 1.3
# A word was left out if its evidence is below this share of the sentence's median. Measured:
# docs/develop/log.md, "Words without a recogniser".
MIN_EVIDENCE_SHARE = 0.35
# If most words of a sentence were left out, its median is too low. It counts as at least this share
# of the base's.
MIN_MEDIAN_SHARE = 0.5

NUM_RESAMPLES = 2000
# The share of the resampled means inside the interval.
COVERAGE = 0.95
# Fewer values give no meaningful interval.
MIN_VALUES = 4

# A smaller difference of naturalness (MOS) is not a loss. The second margin applies if the voice comes at
# least a fifth of the way nearer to the person.
NATURALNESS_MARGIN, NATURALNESS_MARGIN_IF_NEARER = 0.1, 0.3
MIN_NEARER_VOICE = 0.2

WORDS, WORD_ERRORS, VOICE, NATURALNESS = "words", "word_errors", "voice", "naturalness"
RATE_DRIFT, PITCH_DRIFT = "rate_drift_percent", "pitch_drift_percent"
PITCH_SPREAD = "pitch_spread_percent"
REFERENCE = "reference_voice"
# The judges of sound, which another decoder can change.
SOUND_JUDGES = (WORD_ERRORS, VOICE, NATURALNESS)


def describe_judges(
    person: Person,
    recogniser: str,
    why_no_recogniser: str | None,
    why_no_naturalness: str | None,
    why_no_speaker_judge: str | None,
    *,
    learns_decoder: bool = False,
) -> dict[str, JudgeDescription]:
    """Describes each judge. The arguments after the person are those of `EvaluationPlan`."""
    reference = {
        REFERENCE: JudgeDescription(
            "cosine",
            "higher",
            "Cosine of the speaker embeddings of a sentence and of the recording that it is spoken "
            "from. It only rules out a decoder that learned another person's clips.",
        )
    }
    listener = recogniser or "a recogniser"
    if recogniser not in ("", POCKETSPHINX):
        listener = f"Whisper ({Path(recogniser).name})"
    encoder, strangers = "Resemblyzer's speaker encoder", "ten strangers"
    if why_no_speaker_judge is not None:
        encoder, strangers = f"the base's own speaker encoder ({why_no_speaker_judge})", "other voices"
    no_pitch = None if person.pitch_hz else "no pitch was found in the person's clips"
    return {
        WORD_ERRORS: JudgeDescription(
            "share",
            "lower",
            f"Word error rate: the share of words that {listener} hears wrong, misses or adds. It also "
            "makes errors on recordings of people.",
            absent=why_no_recogniser,
        ),
        WORDS: JudgeDescription(
            "share",
            "higher",
            "The share of words that the sound contains, by the base model's likelihood of the "
            "sound with and without each word. It detects words that were left out, but seldom "
            "words that are only mumbled.",
        ),
        VOICE: JudgeDescription(
            "share",
            "higher",
            f"Voice similarity by {encoder}: 1 is another recording of the same person, 0 is the "
            f"average of {strangers}.",
            absent=person.why_no_voice_scale,
        ),
        NATURALNESS: JudgeDescription(
            "MOS",
            "higher",
            "How natural it sounds: the mean opinion score that DistillMOS predicts, from 1 to 5. "
            "It knows neither the text nor the person.",
            absent=why_no_naturalness,
        ),
        RATE_DRIFT: JudgeDescription(
            "percent",
            "zero",
            "How much faster (+) or slower (-) it speaks than the person's own clips, for texts "
            "of the same length.",
        ),
        PITCH_DRIFT: JudgeDescription(
            "percent",
            "zero",
            "How much higher (+) or lower (-) its pitch is than in the person's own clips.",
            absent=no_pitch,
        ),
        PITCH_SPREAD: JudgeDescription(
            "percent",
            "zero",
            "How much more (+) or less (-) its pitch moves than in the person's own clips: the "
            "standard deviation of log F0. Monotone speech is far below 0.",
            absent=no_pitch,
        ),
        **(reference if learns_decoder else {}),
    }


def measures_of_base(
    facts: Sequence[SpokenFacts], old_language: Sequence[SpokenFacts] = ()
) -> dict[str, float]:
    """The figures of the base by which candidates are measured, as in `Evaluation.person`.

    The median evidence of a word in nats per token. With sentences in an old language, also the
    evidence and the rate in these.
    """
    measures = {"base_nats_per_token": _median_evidence(facts)}
    if tokens := sum(sentence.text_tokens for sentence in old_language):
        measures["old_nats_per_token"] = _median_evidence(old_language)
        measures["old_codes_per_token"] = round(sum(sentence.codes for sentence in old_language) / tokens, 4)
    return measures


def _median_evidence(facts: Sequence[SpokenFacts]) -> float:
    evidence = [nats for sentence in facts for nats in sentence.words]
    return round(float(np.median(evidence)), 3) if evidence else 0.0


def judged_candidate(
    kind: CandidateKind,
    epoch: int,
    share: float,
    sentences: Sequence[EvaluationSentence],
    facts: Sequence[SpokenFacts],
    person: Person,
    base_evidence: float,
    *,
    sha256: str = "",
    decoder: str = "",
    loss: float | None = None,
    seconds: float = 0.0,
    device: str = "cpu",
) -> Candidate:
    """The entry of one candidate, from the facts of its first `len(facts)` sentences.

    base_evidence: the base's evidence of a word, from `measures_of_base`.
    """
    folder = candidate_id(kind, epoch, share, decoder)
    spoken = judge_sentences(sentences, facts, person, base_evidence, folder)
    outcomes = [sentence.outcome for sentence in spoken]
    return Candidate(
        kind=kind,
        epoch=epoch,
        share=share,
        checkpoint_sha256=sha256,
        unfinished=outcomes.count("unfinished"),
        cut=outcomes.count("cut"),
        babbling=outcomes.count("babbling"),
        judges={name: JudgeFigure(**asdict(mean)) for name, mean in judge_means(spoken).items()},
        validation_audio_loss=loss,
        indistinguishable_from_base=False,
        ruled_out=None,
        remarks=[],
        seconds=round(seconds, 2),
        device=device,
        sentences=spoken,
        decoder=decoder,
    )


def judge_sentences(
    sentences: Sequence[EvaluationSentence],
    facts: Sequence[SpokenFacts],
    person: Person,
    base_evidence: float,
    folder: str | None = None,
) -> list[SpokenSentence]:
    """Judges the first `len(facts)` sentences as spoken. folder: the folder that keeps some of the
    audio, or None."""
    # Spoken codes, as a share of the codes that the person would need.
    ratios = [sentence.codes / max(1.0, person.rate.codes(sentence.text_tokens)) for sentence in facts]
    finished = [ratio for ratio, sentence in zip(ratios, facts, strict=True) if sentence.finished]
    usual_ratio = min(max(statistics.median(finished or [1.0]), MIN_LENGTH_RATIO), MAX_LENGTH_RATIO)
    spoken = []
    for number, (sentence, measured, ratio) in enumerate(zip(sentences, facts, ratios, strict=False)):
        length = ratio / usual_ratio
        outcome = _outcome(measured, length)
        spoken.append(
            SpokenSentence(
                text=sentence.request.text,
                source=sentence.source,
                seed=sentence.request.seed,
                seconds=measured.seconds,
                expected_seconds=round(measured.seconds / max(length, 1e-6), 3),
                codes=measured.codes,
                text_tokens=measured.text_tokens,
                outcome=outcome,
                judges=_figures(measured, ratio, person, base_evidence) if outcome == "finished" else {},
                wav=wav_of(folder, number) if folder else None,
                heard=measured.heard,
            )
        )
    return spoken


def wav_of(folder: str, number: int) -> str | None:
    """The WAV file of a sentence, relative to OUTPUT_DIR; None if its audio is not kept."""
    if number % SOUNDED_EVERY or number // SOUNDED_EVERY >= MAX_KEPT_WAVS:
        return None
    return f"samples/evaluation/{folder}/{number + 1:02}.wav"


def difference(
    candidate: Candidate, other: Candidate, judge: str, *, in_old_language: bool = False
) -> MeanInterval | None:
    """The paired difference `candidate - other` by a judge, over the sentences that both finished."""
    pair = (candidate, other)
    sentences, others = (each.old_sentences if in_old_language else each.sentences for each in pair)
    return differences(sentences, others, (judge,)).get(judge) if len(sentences) == len(others) else None


def with_differences_from_base(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates with each figure's difference from the base, which is the first."""
    base, *others = candidates
    return [base] + [
        replace(
            candidate,
            judges={
                name: replace(figure, against_base=difference(candidate, base, name))
                for name, figure in candidate.judges.items()
            },
        )
        for candidate in others
    ]


def is_less_natural(
    gap: MeanInterval | None, voice: MeanInterval | None = None, allowed_loss: float = 0.0
) -> bool:
    """Whether a difference by `NATURALNESS` is a measurable loss that exceeds its margin by more than
    `allowed_loss`; the difference by `VOICE` decides the margin. False for None: the judge is optional."""
    is_nearer = voice is not None and voice.low > 0 and voice.mean >= MIN_NEARER_VOICE
    margin = NATURALNESS_MARGIN_IF_NEARER if is_nearer else NATURALNESS_MARGIN
    return gap is not None and gap.high < 0 and gap.mean <= -margin - allowed_loss


def smallest_differences(candidates: Sequence[Candidate]) -> dict[str, float]:
    """As `xtts.voices.evaluation_file.Evaluation.smallest_difference`."""
    smallest: dict[str, float] = {}
    for candidate in candidates:
        for name, figure in candidate.judges.items():
            if (gap := figure.against_base) is not None:
                smallest[name] = round(max(smallest.get(name, 0.0), (gap.high - gap.low) / 2), 5)
    return smallest


def _outcome(facts: SpokenFacts, length: float) -> Outcome:
    """How a sentence ended. length: a share of its expected length."""
    if not facts.finished:
        return "unfinished"
    if facts.text_tokens >= MIN_TOKENS and length < MIN_LENGTH_SHARE:
        return "cut"
    if facts.text_tokens >= MIN_TOKENS and length > MAX_LENGTH_SHARE:
        return "babbling"
    return "finished"


def judge_mean(spoken: Sequence[SpokenSentence], judge: str) -> float:
    """The mean of a judge's figures; NaN without one."""
    figures = [figure for sentence in spoken if (figure := sentence.judges.get(judge)) is not None]
    return statistics.fmean(figures) if figures else math.nan


def differences(
    spoken: Sequence[SpokenSentence], others: Sequence[SpokenSentence], judges: Sequence[str] = SOUND_JUDGES
) -> dict[str, MeanInterval]:
    """The differences between two ways to speak the same sentences, by each judge."""
    gaps = {
        judge: paired_difference(
            [sentence.judges.get(judge) for sentence in spoken],
            [sentence.judges.get(judge) for sentence in others],
        )
        for judge in judges
    }
    return {name: gap for name, gap in gaps.items() if gap is not None}


def judge_means(spoken: Sequence[SpokenSentence]) -> dict[str, MeanInterval]:
    """The mean of each judge over the sentences for which it has a figure."""
    names = dict.fromkeys(name for sentence in spoken for name in sentence.judges)
    intervals = {
        name: mean_interval([x for sentence in spoken if (x := sentence.judges.get(name)) is not None])
        for name in names
    }
    return {name: mean for name, mean in intervals.items() if mean is not None}


def share_of_words_found(evidence: Sequence[float], base_evidence: float) -> float | None:
    """The share of words that the sound contains; None without evidence on any word."""
    if not evidence:
        return None
    median = max(float(np.median(evidence)), MIN_MEDIAN_SHARE * base_evidence)
    if median <= 0:
        return None
    return sum(nats >= MIN_EVIDENCE_SHARE * median for nats in evidence) / len(evidence)


def _figures(
    facts: SpokenFacts, ratio: float, person: Person, base_evidence: float
) -> dict[str, float | None]:
    figures = {
        WORD_ERRORS: facts.word_errors,
        WORDS: share_of_words_found(facts.words, base_evidence),
        VOICE: person.voice_scale.similarity(facts.embedding) if person.voice_scale else None,
        NATURALNESS: facts.naturalness,
        RATE_DRIFT: 100 * (1 / ratio - 1) if ratio > 0 else None,
        PITCH_DRIFT: _percent_above(facts.pitch_hz, person.pitch_hz),
        PITCH_SPREAD: _percent_above(facts.pitch_spread, person.pitch_spread),
    }
    if person.reference_embedding and facts.embedding:
        figures[REFERENCE] = cosine(np.asarray(facts.embedding), np.asarray(person.reference_embedding))
    return {name: value if value is None else round(value, 5) for name, value in figures.items()}


def _percent_above(value: float | None, reference: float | None) -> float | None:
    return 100 * (value / reference - 1) if value is not None and reference else None


def mean_interval(values: Sequence[float]) -> MeanInterval | None:
    """The mean with its 95 % percentile interval; None for fewer than `MIN_VALUES`."""
    if len(values) < MIN_VALUES:
        return None
    figures = np.asarray(values, dtype=np.float64)
    draws = np.random.default_rng(0).integers(0, len(figures), (NUM_RESAMPLES, len(figures)))
    tail = (1 - COVERAGE) / 2 * 100
    low, high = np.percentile(figures[draws].mean(axis=1), [tail, 100 - tail])
    return MeanInterval(
        round(float(figures.mean()), 5), round(float(low), 5), round(float(high), 5), len(figures)
    )


def paired_difference(figures: Sequence[float | None], others: Sequence[float | None]) -> MeanInterval | None:
    """The mean of `figures - others` over the sentences that have both; None below `MIN_VALUES` pairs."""
    return mean_interval(
        [figure - other for figure, other in zip(figures, others, strict=True) if None not in (figure, other)]  # type: ignore[operator]
    )
