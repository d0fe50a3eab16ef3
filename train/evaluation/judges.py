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

from train.evaluation.plan import KEPT_SOUNDS, SOUNDED_EVERY, EvaluationSentence, Person, cosine
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

# Shares of a sentence's expected length at the candidate's own rate, as in `benchmarks.voice`.
SHORTEST, LONGEST = 0.7, 1.4
# In a shorter text, the pauses at both ends outweigh the words.
MIN_TOKENS = 12
# The limits of a candidate's overall rate; beyond them, its sentences count as failed.
SLOWEST, FASTEST = 1.3, 0.75
# A word whose evidence is below this share of the sentence's median was left out. Measured:
# docs/develop/log.md, "Words without a recogniser".
WEAK_WORD = 0.35
# If most words of a sentence were left out, its median is too low; the least is this share of the
# base's.
BASE_SHARE = 0.5

RESAMPLES = 2000
# The share of the resampled means inside the interval.
COVERAGE = 0.95
# Fewer values give no meaningful interval.
FEWEST = 4

# MOS: a smaller difference of naturalness does not count as a loss; nor does one below the second,
# if the voice comes at least VOICE_WORTH_IT nearer, a fifth of the way to the person.
NATURALNESS_MARGIN, NEARER_MARGIN = 0.1, 0.3
VOICE_WORTH_IT = 0.2

WORDS, WORD_ERRORS, VOICE, NATURALNESS = "words", "word_errors", "voice", "naturalness"
RATE_DRIFT, PITCH_DRIFT = "rate_drift_percent", "pitch_drift_percent"
PITCH_SPREAD = "pitch_spread_percent"
REFERENCE = "reference_voice"
# The judges of sound, which another decoder can change.
HEARD = (WORD_ERRORS, VOICE, NATURALNESS)


def descriptions(
    person: Person,
    recogniser: str,
    no_recogniser: str | None,
    no_naturalness: str | None,
    no_speaker_judge: str | None,
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
    who = recogniser or "a recogniser"
    if recogniser not in ("", POCKETSPHINX):
        who = f"Whisper ({Path(recogniser).name})"
    encoder, others = "Resemblyzer's speaker encoder", "ten strangers"
    if no_speaker_judge is not None:
        encoder, others = f"the base's own speaker encoder ({no_speaker_judge})", "other voices"
    no_pitch = None if person.pitch_hz else "no pitch was found in the person's clips"
    return {
        WORD_ERRORS: JudgeDescription(
            "share",
            "lower",
            f"Word error rate: the share of words that {who} hears wrong, misses or adds. It also "
            "makes errors on recordings of people.",
            absent=no_recogniser,
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
            f"average of {others}.",
            absent=person.voice_absent,
        ),
        NATURALNESS: JudgeDescription(
            "MOS",
            "higher",
            "How natural it sounds: the mean opinion score that DistillMOS predicts, from 1 to 5. "
            "It knows neither the text nor the person.",
            absent=no_naturalness,
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


def measures_of_base(facts: Sequence[SpokenFacts], old: Sequence[SpokenFacts] = ()) -> dict[str, float]:
    """The figures of the base by which candidates are measured, as in `Evaluation.person`.

    The median evidence of a word in nats per token; if there are sentences in an old language, also
    their evidence and their rate.
    """
    measures = {"base_nats_per_token": _median_evidence(facts)}
    if tokens := sum(sentence.text_tokens for sentence in old):
        measures["old_nats_per_token"] = _median_evidence(old)
        measures["old_codes_per_token"] = round(sum(sentence.codes for sentence in old) / tokens, 4)
    return measures


def _median_evidence(facts: Sequence[SpokenFacts]) -> float:
    evidence = [nats for sentence in facts for nats in sentence.words]
    return round(float(np.median(evidence)), 3) if evidence else 0.0


def candidate(
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
    spoken = sentences_of(sentences, facts, person, base_evidence, folder)
    outcomes = [sentence.outcome for sentence in spoken]
    return Candidate(
        kind=kind,
        epoch=epoch,
        share=share,
        checkpoint_sha256=sha256,
        unfinished=outcomes.count("unfinished"),
        cut=outcomes.count("cut"),
        babbling=outcomes.count("babbling"),
        judges={name: JudgeFigure(**asdict(mean)) for name, mean in means(spoken).items()},
        validation_audio_loss=loss,
        indistinguishable_from_base=False,
        ruled_out=None,
        remarks=[],
        seconds=round(seconds, 2),
        device=device,
        sentences=spoken,
        decoder=decoder,
    )


def sentences_of(
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
    rate = min(max(statistics.median(finished or [1.0]), FASTEST), SLOWEST)
    spoken = []
    for number, (sentence, measured, ratio) in enumerate(zip(sentences, facts, ratios, strict=False)):
        outcome = _outcome(measured, ratio / rate)
        spoken.append(
            SpokenSentence(
                sentence.request.text,
                sentence.source,
                sentence.request.seed,
                measured.seconds,
                round(measured.seconds / max(ratio / rate, 1e-6), 3),
                measured.codes,
                measured.text_tokens,
                outcome,
                _figures(measured, ratio, person, base_evidence) if outcome == "finished" else {},
                wav_of(folder, number) if folder else None,
                measured.heard,
            )
        )
    return spoken


def wav_of(folder: str, number: int) -> str | None:
    """The WAV file of a sentence, relative to OUTPUT_DIR; None if its audio is not kept."""
    if number % SOUNDED_EVERY or number // SOUNDED_EVERY >= KEPT_SOUNDS:
        return None
    return f"samples/evaluation/{folder}/{number + 1:02}.wav"


def against(candidate: Candidate, other: Candidate, judge: str, *, old: bool = False) -> MeanInterval | None:
    """The paired difference by a judge, over the sentences that both finished; with `old`, over
    those in an old language."""
    sentences, others = (each.old_sentences if old else each.sentences for each in (candidate, other))
    return differences(sentences, others, (judge,)).get(judge) if len(sentences) == len(others) else None


def compare(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates with each figure's difference from the base, which is the first."""
    base, *others = candidates
    return [base] + [
        replace(
            candidate,
            judges={
                name: replace(figure, against_base=against(candidate, base, name))
                for name, figure in candidate.judges.items()
            },
        )
        for candidate in others
    ]


def less_natural(gap: MeanInterval | None, voice: MeanInterval | None = None, allowed: float = 0.0) -> bool:
    """Whether a difference by `NATURALNESS` is a loss: measurable, and larger by `allowed` than
    what the difference by `VOICE` is worth. False for None, because this judge is optional."""
    nearer = voice is not None and voice.low > 0 and voice.mean >= VOICE_WORTH_IT
    margin = NEARER_MARGIN if nearer else NATURALNESS_MARGIN
    return gap is not None and gap.high < 0 and gap.mean <= -margin - allowed


def smallest_differences(candidates: Sequence[Candidate]) -> dict[str, float]:
    """As `xtts.voices.evaluation_file.Evaluation.smallest_difference`."""
    smallest: dict[str, float] = {}
    for candidate in candidates:
        for name, figure in candidate.judges.items():
            if (gap := figure.against_base) is not None:
                smallest[name] = round(max(smallest.get(name, 0.0), (gap.high - gap.low) / 2), 5)
    return smallest


def _outcome(facts: SpokenFacts, length: float) -> Outcome:
    """How a sentence ended. length: as a share of the expected length."""
    if not facts.finished:
        return "unfinished"
    if facts.text_tokens >= MIN_TOKENS and length < SHORTEST:
        return "cut"
    if facts.text_tokens >= MIN_TOKENS and length > LONGEST:
        return "babbling"
    return "finished"


def mean_of(spoken: Sequence[SpokenSentence], judge: str) -> float:
    """The mean of a judge's figures; NaN without one."""
    figures = [figure for sentence in spoken if (figure := sentence.judges.get(judge)) is not None]
    return statistics.fmean(figures) if figures else math.nan


def differences(
    spoken: Sequence[SpokenSentence], others: Sequence[SpokenSentence], names: Sequence[str] = HEARD
) -> dict[str, MeanInterval]:
    """The differences between two ways to speak the same sentences, by each judge."""
    gaps = {
        name: paired_difference(
            [sentence.judges.get(name) for sentence in spoken],
            [sentence.judges.get(name) for sentence in others],
        )
        for name in names
    }
    return {name: gap for name, gap in gaps.items() if gap is not None}


def means(spoken: Sequence[SpokenSentence]) -> dict[str, MeanInterval]:
    """The mean of each judge over the sentences for which it has a figure."""
    names = dict.fromkeys(name for sentence in spoken for name in sentence.judges)
    intervals = {
        name: mean_interval([x for sentence in spoken if (x := sentence.judges.get(name)) is not None])
        for name in names
    }
    return {name: mean for name, mean in intervals.items() if mean is not None}


def words_found(evidence: Sequence[float], base_evidence: float) -> float | None:
    """The share of words that the sound contains; None without evidence on any word."""
    if not evidence:
        return None
    measure = max(float(np.median(evidence)), BASE_SHARE * base_evidence)
    if measure <= 0:
        return None
    return sum(nats >= WEAK_WORD * measure for nats in evidence) / len(evidence)


def _figures(
    facts: SpokenFacts, ratio: float, person: Person, base_evidence: float
) -> dict[str, float | None]:
    figures = {
        WORD_ERRORS: facts.word_errors,
        WORDS: words_found(facts.words, base_evidence),
        VOICE: person.voice.similarity(facts.embedding) if person.voice else None,
        NATURALNESS: facts.naturalness,
        RATE_DRIFT: 100 * (1 / ratio - 1) if ratio > 0 else None,
        PITCH_DRIFT: _percent_off(facts.pitch_hz, person.pitch_hz),
        PITCH_SPREAD: _percent_off(facts.pitch_spread, person.pitch_spread),
    }
    if person.reference and facts.embedding:
        figures[REFERENCE] = cosine(np.asarray(facts.embedding), np.asarray(person.reference))
    return {name: value if value is None else round(value, 5) for name, value in figures.items()}


def _percent_off(value: float | None, usual: float | None) -> float | None:
    return 100 * (value / usual - 1) if value is not None and usual else None


def mean_interval(values: Sequence[float]) -> MeanInterval | None:
    """The mean with its 95 % percentile interval; None for fewer than four values."""
    if len(values) < FEWEST:
        return None
    figures = np.asarray(values, dtype=np.float64)
    draws = np.random.default_rng(0).integers(0, len(figures), (RESAMPLES, len(figures)))
    tail = (1 - COVERAGE) / 2 * 100
    low, high = np.percentile(figures[draws].mean(axis=1), [tail, 100 - tail])
    return MeanInterval(
        round(float(figures.mean()), 5), round(float(low), 5), round(float(high), 5), len(figures)
    )


def paired_difference(figures: Sequence[float | None], others: Sequence[float | None]) -> MeanInterval | None:
    """The mean of `own - others` over the sentences that both have; None below four pairs."""
    return mean_interval(
        [figure - other for figure, other in zip(figures, others, strict=True) if None not in (figure, other)]  # type: ignore[operator]
    )
