"""What rules a candidate out, whatever it has won: the floors of the verdict.

All functions are pure. A candidate may not be worse than the base in what a listener cannot
overlook:

    finished     more sentences fail, or it babbles where the base never does (`_failures_fault`,
                 `_runaway_fault`); too few figures to be judged (`_missing_figures`)
    words        it is harder to understand (`_lost_words_fault`), or forgets the language that the base
                 knew before a language was added (`_forgetting_fault`)
    person       it sounds less like the person (`_likeness_fault`) or, with a learned decoder, less
                 like the reference (`_reference_fault`), speaks at another rate or pitch
                 (`_drift_fault`), or is monotone (`_monotony_fault`)
    natural      it sounds less natural by more than its voice is nearer (`_naturalness_fault`)

If the base itself cannot be served, only the floors count that need no comparison with it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from train.evaluation.judges import (
    NATURALNESS,
    PITCH_DRIFT,
    PITCH_SPREAD,
    RATE_DRIFT,
    REFERENCE,
    VOICE,
    WORD_ERRORS,
    WORDS,
    difference,
    is_less_natural,
)
from xtts.voices.evaluation_file import Candidate, Evaluation, MeanInterval

# One more failed sentence is chance; two are not, nor a tenth of a large set.
MIN_MORE_FAILED, MIN_MORE_FAILED_SHARE = 2, 0.1
# Where the base always ends in time, one sentence in fifty may not.
MAX_RUNAWAY_SHARE = 0.02
# A candidate and the base are compared by at least this number of sentences that both finished.
MIN_FINISHED = 8
# If a candidate has a figure of these judges, every candidate needs one. Other judges are optional.
REQUIRED_JUDGES = {WORD_ERRORS: "word error rate", WORDS: "words", VOICE: "voice", RATE_DRIFT: "rate"}
# Three words in a hundred; a smaller loss counts only if its interval excludes 0.
WORDS_MARGIN = 0.03
# Seven in a hundred, one and a half standard errors of sixteen sentences; a smaller difference
# counts only if its interval excludes 0. Recognisers also mishear people.
ERRORS_MARGIN = 0.07
# A recogniser mishears an accent that it does not know, so a voice that comes nearer to the accent
# gets more errors. Up to this many do not count while the person's own clips have as many, give or
# take a standard error.
MAX_ERRORS_OF_ACCENT = 2 * ERRORS_MARGIN
# A standard error of the word error rate of the person's own clips, which are about sixteen sentences.
_PERSON_ERRORS_DEVIATION = ERRORS_MARGIN / 1.5
# A candidate is ruled out if it drifts further from the person than this, and by MAX_DRIFT_BEYOND_BASE
# further than the base.
# 20 % of F0 are three semitones.
MAX_DRIFT_PERCENT = {RATE_DRIFT: 10.0, PITCH_DRIFT: 20.0}
MAX_DRIFT_BEYOND_BASE = 5.0
# Speech is monotone if its spread of F0, in percent from the person's, is below the first, and below
# the base's by the second.
MIN_SPREAD_PERCENT, MAX_SPREAD_BELOW_BASE = -20.0, 15.0
LANGUAGE_NOT_LEARNED = "The base never learned the added language."


@dataclass(frozen=True)
class PersonFigures:
    """What the judges say of the person's own clips; None without the judge.

    A judge that finds fault with them finds the same fault with a voice that comes nearer. held_out:
    whether training left out any of the clips that the voice is compared with.
    """

    word_errors: float | None = None
    naturalness: float | None = None
    held_out: bool = True

    @classmethod
    def of(cls, evaluation: Evaluation) -> "PersonFigures":
        """The figures that an evaluation records."""
        person = evaluation.person
        naturalness = person.get("naturalness")
        mean = naturalness["mean"] if naturalness else None
        return cls(person.get("word_errors"), mean, person.get("held_out", True))

    def can_explain_errors(self, word_errors: float, gap: MeanInterval) -> bool:
        """Whether the person's accent alone may explain a voice's word error rate. gap: to the base's."""
        if self.word_errors is None:
            return False
        max_errors = self.word_errors + _PERSON_ERRORS_DEVIATION
        return word_errors <= max_errors and gap.mean <= MAX_ERRORS_OF_ACCENT

    def naturalness_below(self, base: float) -> float:
        """How far the person's own naturalness is below the base's; 0 if it is not, or unknown."""
        return 0.0 if self.naturalness is None else max(0.0, base - self.naturalness)


UNMEASURED_PERSON = PersonFigures()


def with_floors(
    candidate: Candidate,
    base: Candidate,
    candidates: Sequence[Candidate],
    person: PersonFigures = UNMEASURED_PERSON,
) -> Candidate:
    """The candidate with the floors that it breaks, of which the first rules it out."""
    missing = _missing_figures(candidate, base, candidates)
    faults = [_failures_fault(candidate, candidates), missing]
    # A few sentences are evidence neither for a candidate nor against it.
    if not missing:
        comparable = not cannot_serve(base, candidates)
        faults += [_runaway_fault(candidate, base)] if comparable else []
        faults += [_drift_fault(candidate, base, RATE_DRIFT), _lost_words_fault(candidate, base, person)]
        faults += _faults_against_base(candidate, base, person) if comparable else []
    faults += [_forgetting_fault(candidate, base), None if candidate.knows_language else LANGUAGE_NOT_LEARNED]
    remarks = [reason for reason in faults if reason]
    ruled_out = remarks[0] if remarks else None
    is_same = not candidate.is_base and missing is None and _is_indistinguishable(candidate, base)
    if is_same:
        remarks.append("No judge can distinguish it from the base.")
    elif ruled_out and _has_lowest_loss(candidate, candidates):
        remarks.append("By validation loss alone it would be the best.")
    return replace(candidate, ruled_out=ruled_out, remarks=remarks, indistinguishable_from_base=is_same)


def fault_of_decoder(
    learned: Candidate, base: Candidate, person: PersonFigures = UNMEASURED_PERSON
) -> str | None:
    """The first floor that a learned decoder breaks on the base's weights; None if it breaks none,
    or if there are too few figures, or the base itself cannot be served."""
    both = (base, learned)
    if _missing_figures(learned, base, both) or cannot_serve(base, both):
        return None
    faults = [_lost_words_fault(learned, base, person), *_faults_against_base(learned, base, person)]
    return next(filter(None, faults), None)


def _faults_against_base(candidate: Candidate, base: Candidate, person: PersonFigures) -> list[str | None]:
    """The floors of person and naturalness, which need a base that could be served."""
    return [
        _likeness_fault(candidate, base),
        _reference_fault(candidate, base),
        _drift_fault(candidate, base, PITCH_DRIFT),
        _monotony_fault(candidate, base),
        _naturalness_fault(candidate, base, person),
    ]


def cannot_serve(base: Candidate, candidates: Sequence[Candidate]) -> bool:
    """Whether the base is ruled out, so that only a candidate's figures count."""
    return not base.knows_language or _failures_fault(base, candidates) is not None


def _failures_fault(candidate: Candidate, candidates: Sequence[Candidate]) -> str | None:
    lowest = min(other.num_failed for other in candidates)
    allowed = max(MIN_MORE_FAILED, MIN_MORE_FAILED_SHARE * len(candidate.sentences))
    if candidate.num_failed - lowest < allowed:
        return None
    counts = ((candidate.unfinished, "unfinished"), (candidate.cut, "cut"), (candidate.babbling, "babbling"))
    kinds = ", ".join(f"{count} {kind}" for count, kind in counts if count)
    return (
        f"{candidate.num_failed} of {len(candidate.sentences)} sentences failed ({kinds}); the lowest count "
        f"of any candidate is {lowest}."
    )


def _runaway_fault(candidate: Candidate, base: Candidate) -> str | None:
    runaways, base_runaways = (each.unfinished + each.babbling for each in (candidate, base))
    if base_runaways or runaways <= MAX_RUNAWAY_SHARE * len(candidate.sentences):
        return None
    count = len(candidate.sentences)
    return f"It babbles, or does not end, in {runaways} of {count} sentences; the base never does."


def _missing_figures(candidate: Candidate, base: Candidate, candidates: Sequence[Candidate]) -> str | None:
    """Why there are too few figures to compare a candidate with the base; None if there are enough.

    The only rule for missing figures: a candidate without them is never as good as the base. If the
    base is ruled out, only the candidate's figures count.
    """
    if candidate.is_base:
        return None
    without_base = cannot_serve(base, candidates)
    finished = candidate.finished if without_base else candidate.finished & base.finished
    if len(finished) < MIN_FINISHED:
        subject = "it" if without_base else "it and the base both"
        return (
            f"Too few sentences: {subject} finished {len(finished)} of {len(candidate.sentences)}. A verdict "
            f"needs {MIN_FINISHED}."
        )
    missing = [
        name
        for judge, name in REQUIRED_JUDGES.items()
        if any(judge in other.judges for other in candidates)
        and (judge != WORDS or base.knows_language)
        and (
            judge not in candidate.judges or (not without_base and difference(candidate, base, judge) is None)
        )
    ]
    if not missing:
        return None
    judges = ", ".join(missing)
    return f"Too few of its sentences have a figure for {judges} to compare it with the base."


def _likeness_fault(candidate: Candidate, base: Candidate) -> str | None:
    gap = difference(candidate, base, VOICE)
    if gap is None or gap.high >= 0:
        return None
    return f"It sounds less like the person than the base: voice {gap.mean:+.2f}."


def _reference_fault(candidate: Candidate, base: Candidate) -> str | None:
    """The fault of a decoder that learned another person: such clips among the person's shift the
    scale of the voice, but not the reference."""
    gap = difference(candidate, base, REFERENCE) if candidate.decoder else None
    if gap is None or gap.high >= 0:
        return None
    return f"It sounds less like the recording that it speaks from: cosine {gap.mean:+.2f}."


def _naturalness_fault(candidate: Candidate, base: Candidate, person: PersonFigures) -> str | None:
    gap = difference(candidate, base, NATURALNESS)
    allowed_loss = person.naturalness_below(base.mean(NATURALNESS))
    if gap is None or not is_less_natural(gap, difference(candidate, base, VOICE), allowed_loss):
        return None
    return f"It sounds less natural: its predicted opinion score is {-gap.mean:.2f} below the base's."


def _drift_fault(candidate: Candidate, base: Candidate, judge: str) -> str | None:
    """The fault of a rate or a pitch that is far from the person's, if the base's is not."""
    figure, base_figure = candidate.judges.get(judge), base.judges.get(judge)
    if figure is None:
        return None
    # A drift that the base shares, in the same direction, is not a loss.
    shared = abs(base_figure.mean) if base_figure and figure.mean * base_figure.mean > 0 else 0.0
    if abs(figure.mean) <= MAX_DRIFT_PERCENT[judge] or abs(figure.mean) - shared <= MAX_DRIFT_BEYOND_BASE:
        return None
    of_base = f" (the base: {shared:.0f} %)" if shared else ""
    if judge == RATE_DRIFT:
        direction = "faster" if figure.mean > 0 else "slower"
        return f"It speaks {abs(figure.mean):.0f} % {direction} than the person{of_base}."
    direction = "higher" if figure.mean > 0 else "lower"
    return f"Its pitch is {abs(figure.mean):.0f} % {direction} than the person's{of_base}."


def _monotony_fault(candidate: Candidate, base: Candidate) -> str | None:
    spread, gap = candidate.judges.get(PITCH_SPREAD), difference(candidate, base, PITCH_SPREAD)
    if spread is None or gap is None or spread.mean > MIN_SPREAD_PERCENT:
        return None
    if gap.high >= 0 or gap.mean > -MAX_SPREAD_BELOW_BASE:
        return None
    base_spread = spread.mean - gap.mean
    return (
        f"It is monotone: its pitch moves {-spread.mean:.0f} % less than the person's (the base: "
        f"{base_spread:+.0f} %)."
    )


def _lost_words_fault(candidate: Candidate, base: Candidate, person: PersonFigures) -> str | None:
    more_errors = difference(candidate, base, WORD_ERRORS)
    if more_errors is not None and person.can_explain_errors(candidate.judges[WORD_ERRORS].mean, more_errors):
        return None
    # In a language that the base does not know, its likelihood of words means nothing.
    return _intelligibility_fault(
        more_errors,
        difference(candidate, base, WORDS) if base.knows_language else None,
        "It is harder to understand: its word error rate is {:.0f} percentage points above the base's.",
        "It leaves out words: {:.0f} more in 100 than the base.",
    )


def _forgetting_fault(candidate: Candidate, base: Candidate) -> str | None:
    more_failed = candidate.num_failed_old - base.num_failed_old
    if more_failed >= MIN_MORE_FAILED:
        return f"It forgets the old language: {more_failed} more sentences in it failed than the base's."
    judges = (WORD_ERRORS, WORDS)
    errors, words = (difference(candidate, base, judge, in_old_language=True) for judge in judges)
    is_judged = any(difference(base, base, judge, in_old_language=True) for judge in judges)
    if is_judged and errors is None and words is None:
        return "It may have forgotten the old language: too few of its sentences in it have a figure."
    return _intelligibility_fault(
        errors,
        words,
        "It forgets the old language: its word error rate there is {:.0f} percentage points above "
        "the base's.",
        "It forgets the old language: it leaves out {:.0f} more words in 100 there than the base.",
    )


def _intelligibility_fault(
    errors: MeanInterval | None, words: MeanInterval | None, errors_message: str, words_message: str
) -> str | None:
    """The message with the loss in 100 words, if it is too much: by the recogniser's errors or,
    without a recogniser, by the words left out."""
    if errors is not None:
        is_worse = errors.mean > ERRORS_MARGIN or errors.low > 0
        return errors_message.format(100 * errors.mean) if is_worse else None
    if words is None or (words.mean >= -WORDS_MARGIN and words.high >= 0):
        return None
    return words_message.format(-100 * words.mean)


def _is_indistinguishable(candidate: Candidate, base: Candidate) -> bool:
    """Whether no judge finds a difference."""
    judged = [difference(candidate, base, judge) for judge in base.judges]
    gaps = [gap for gap in judged if gap is not None]
    fails_alike = abs(candidate.num_failed - base.num_failed) < MIN_MORE_FAILED
    return bool(gaps) and fails_alike and all(gap.contains_zero for gap in gaps)


def _has_lowest_loss(candidate: Candidate, candidates: Sequence[Candidate]) -> bool:
    losses = [other.validation_audio_loss for other in candidates]
    finite = [loss for loss in losses if loss is not None]
    return len(finite) > 1 and candidate.validation_audio_loss == min(finite)
