"""What rules a candidate out, whatever it has won: the floors of the verdict.

All functions are pure. A candidate may not be worse than the base in what a listener cannot
overlook:

    finished     more sentences fail, or it babbles where the base never does (`_failures`,
                 `_runs_on`); too few figures to be judged (`_missing_figures`)
    words        it is harder to understand (`_loses_words`), or forgets the language that the base
                 knew before a language was added (`_forgets`)
    person       it sounds less like the person (`_less_alike`) or, with a learned decoder, less
                 like the reference (`_less_like_reference`), speaks at another rate or pitch
                 (`_off`), or is monotone (`_monotone`)
    natural      it sounds less natural by more than its voice is nearer (`_less_natural`)

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
    against,
    less_natural,
)
from xtts.voices.evaluation_file import Candidate, Evaluation, MeanInterval

# One more failed sentence is chance; two are not, nor a tenth of a large set.
MIN_FAILED, FAILED_SHARE = 2, 0.1
# Where the base always ends in time, one sentence in fifty may not.
RUNAWAY_SHARE = 0.02
# A candidate and the base are compared by at least this number of sentences that both finished.
MIN_FINISHED = 8
# A candidate has a figure of these judges if another one has. The others are optional.
REQUIRED = {WORD_ERRORS: "word error rate", WORDS: "words", VOICE: "voice", RATE_DRIFT: "rate"}
# Three words in a hundred; a smaller loss counts only if its interval excludes 0.
WORDS_MARGIN = 0.03
# Seven in a hundred, one and a half standard errors of sixteen sentences; a smaller difference
# counts only if its interval excludes 0. Recognisers also mishear people.
ERRORS_MARGIN = 0.07
# A recogniser mishears an accent that it does not know, so a voice that comes nearer to the accent
# gets more errors. Up to this many do not count while the person's own clips have as many.
MAX_ERRORS_OF_ACCENT = 2 * ERRORS_MARGIN
# Percent: further from the person's than this, and than the base by BEYOND_BASE, is ruled out.
# 20 % of F0 are three semitones.
MAX_DRIFT = {RATE_DRIFT: 10.0, PITCH_DRIFT: 20.0}
BEYOND_BASE = 5.0
# Percent of the person's spread of F0: speech below the first, and below the base by the second, is
# monotone.
MIN_SPREAD, SPREAD_BEYOND_BASE = -20.0, 15.0
UNLEARNED = "The base never learned the added language."


@dataclass(frozen=True)
class PersonFigures:
    """What the judges say of the person's own clips; None without the judge.

    A judge that finds fault with them finds the same fault with a voice that comes nearer.
    """

    word_errors: float | None = None
    naturalness: float | None = None

    @classmethod
    def of(cls, evaluation: Evaluation) -> "PersonFigures":
        """The figures that an evaluation records."""
        natural = evaluation.person.get("naturalness")
        return cls(evaluation.person.get("word_errors"), natural["mean"] if natural else None)

    def excuses(self, errors: float, more: MeanInterval) -> bool:
        """Whether the person's accent alone may explain a voice's word error rate. more: its
        difference from the base's."""
        if self.word_errors is None:
            return False
        return errors <= self.word_errors and more.mean <= MAX_ERRORS_OF_ACCENT

    def naturalness_below(self, base: float) -> float:
        """How far the person's own naturalness is below the base's; 0 if it is not, or unknown."""
        return 0.0 if self.naturalness is None else max(0.0, base - self.naturalness)


UNMEASURED = PersonFigures()


def with_floors(
    candidate: Candidate, base: Candidate, candidates: Sequence[Candidate], person: PersonFigures = UNMEASURED
) -> Candidate:
    """The candidate with the floors that it breaks, of which the first rules it out."""
    failed, unjudged = _failures(candidate, candidates), _missing_figures(candidate, base, candidates)
    faults = [failed, unjudged]
    # A few sentences are evidence neither for a candidate nor against it.
    if not unjudged:
        comparable = not cannot_serve(base, candidates)
        faults += [_runs_on(candidate, base)] if comparable else []
        faults += [_off(candidate, base, RATE_DRIFT), _loses_words(candidate, base, person)]
        faults += _losses_to_base(candidate, base, person) if comparable else []
    faults += [_forgets(candidate, base), None if candidate.knows_language else UNLEARNED]
    remarks = [reason for reason in faults if reason]
    ruled_out = remarks[0] if remarks else None
    same = not candidate.is_base and unjudged is None and _indistinguishable(candidate, base)
    if same:
        remarks.append("No judge can distinguish it from the base.")
    elif ruled_out and _lowest_loss(candidate, candidates):
        remarks.append("By validation loss alone it would be the best.")
    return replace(candidate, ruled_out=ruled_out, remarks=remarks, indistinguishable_from_base=same)


def fault_of_decoder(learned: Candidate, base: Candidate, person: PersonFigures = UNMEASURED) -> str | None:
    """The first floor that a learned decoder breaks on the base's weights; None if it breaks none,
    or if there are too few figures, or the base itself cannot be served."""
    both = (base, learned)
    if _missing_figures(learned, base, both) or cannot_serve(base, both):
        return None
    faults = [_loses_words(learned, base, person), *_losses_to_base(learned, base, person)]
    return next(filter(None, faults), None)


def _losses_to_base(candidate: Candidate, base: Candidate, person: PersonFigures) -> list[str | None]:
    """The floors of person and naturalness, which need a base that could be served."""
    return [
        _less_alike(candidate, base),
        _less_like_reference(candidate, base),
        _off(candidate, base, PITCH_DRIFT),
        _monotone(candidate, base),
        _less_natural(candidate, base, person),
    ]


def cannot_serve(base: Candidate, candidates: Sequence[Candidate]) -> bool:
    """Whether the base is ruled out, so that only a candidate's figures count."""
    return not base.knows_language or _failures(base, candidates) is not None


def _failures(candidate: Candidate, candidates: Sequence[Candidate]) -> str | None:
    fewest = min(other.num_failed for other in candidates)
    allowed = max(MIN_FAILED, FAILED_SHARE * len(candidate.sentences))
    if candidate.num_failed - fewest < allowed:
        return None
    counts = ((candidate.unfinished, "unfinished"), (candidate.cut, "cut"), (candidate.babbling, "babbling"))
    kinds = ", ".join(f"{count} {kind}" for count, kind in counts if count)
    return (
        f"{candidate.num_failed} of {len(candidate.sentences)} sentences failed ({kinds}); the lowest count "
        f"of any candidate is {fewest}."
    )


def _runs_on(candidate: Candidate, base: Candidate) -> str | None:
    runaway, usual = (each.unfinished + each.babbling for each in (candidate, base))
    if usual or runaway <= RUNAWAY_SHARE * len(candidate.sentences):
        return None
    count = len(candidate.sentences)
    return f"It babbles, or does not end, in {runaway} of {count} sentences; the base never does."


def _missing_figures(candidate: Candidate, base: Candidate, candidates: Sequence[Candidate]) -> str | None:
    """Why there are too few figures to compare a candidate with the base; None if there are enough.

    The only rule for missing figures: a candidate without them is never as good as the base. If the
    base is ruled out, only the candidate's figures count.
    """
    if candidate.is_base:
        return None
    alone = cannot_serve(base, candidates)
    finished = candidate.finished if alone else candidate.finished & base.finished
    if len(finished) < MIN_FINISHED:
        who = "it" if alone else "it and the base both"
        return (
            f"Too few sentences: {who} finished {len(finished)} of {len(candidate.sentences)}. A verdict "
            f"needs {MIN_FINISHED}."
        )
    missing = [
        name
        for judge, name in REQUIRED.items()
        if any(judge in other.judges for other in candidates)
        and (judge != WORDS or base.knows_language)
        and (judge not in candidate.judges or (not alone and against(candidate, base, judge) is None))
    ]
    if not missing:
        return None
    judges = ", ".join(missing)
    return f"Too few of its sentences have a figure for {judges} to compare it with the base."


def _less_alike(candidate: Candidate, base: Candidate) -> str | None:
    gap = against(candidate, base, VOICE)
    if gap is None or gap.high >= 0:
        return None
    return f"It sounds less like the person than the base: voice {gap.mean:+.2f}."


def _less_like_reference(candidate: Candidate, base: Candidate) -> str | None:
    """A sentence about a decoder that learned somebody else: clips of another person among the
    person's shift the scale of the voice, and not the reference."""
    gap = against(candidate, base, REFERENCE) if candidate.decoder else None
    if gap is None or gap.high >= 0:
        return None
    return f"It sounds less like the recording that it speaks from: cosine {gap.mean:+.2f}."


def _less_natural(candidate: Candidate, base: Candidate, person: PersonFigures) -> str | None:
    gap = against(candidate, base, NATURALNESS)
    allowed = person.naturalness_below(base.mean(NATURALNESS))
    if gap is None or not less_natural(gap, against(candidate, base, VOICE), allowed):
        return None
    return f"It sounds less natural: its predicted opinion score is {-gap.mean:.2f} below the base's."


def _off(candidate: Candidate, base: Candidate, judge: str) -> str | None:
    """A sentence about a rate or a pitch that is far from the person's, if the base's is not."""
    figure, usual = candidate.judges.get(judge), base.judges.get(judge)
    if figure is None:
        return None
    # A drift that the base shares, in the same direction, is not a loss.
    same_way = usual is not None and figure.mean * usual.mean > 0
    beyond = abs(figure.mean) - (abs(usual.mean) if usual and same_way else 0.0)
    if abs(figure.mean) <= MAX_DRIFT[judge] or beyond <= BEYOND_BASE:
        return None
    of_base = f" (the base: {abs(usual.mean):.0f} %)" if usual and same_way else ""
    if judge == RATE_DRIFT:
        how = "faster" if figure.mean > 0 else "slower"
        return f"It speaks {abs(figure.mean):.0f} % {how} than the person{of_base}."
    how = "higher" if figure.mean > 0 else "lower"
    return f"Its pitch is {abs(figure.mean):.0f} % {how} than the person's{of_base}."


def _monotone(candidate: Candidate, base: Candidate) -> str | None:
    spread, gap = candidate.judges.get(PITCH_SPREAD), against(candidate, base, PITCH_SPREAD)
    if spread is None or gap is None or spread.mean > MIN_SPREAD:
        return None
    if gap.high >= 0 or gap.mean > -SPREAD_BEYOND_BASE:
        return None
    usual = spread.mean - gap.mean
    return (
        f"It is monotone: its pitch moves {-spread.mean:.0f} % less than the person's (the base: "
        f"{usual:+.0f} %)."
    )


def _loses_words(candidate: Candidate, base: Candidate, person: PersonFigures) -> str | None:
    more_errors = against(candidate, base, WORD_ERRORS)
    if more_errors is not None and person.excuses(candidate.judges[WORD_ERRORS].mean, more_errors):
        return None
    # In a language that the base does not know, its likelihood of words means nothing.
    return _understood_worse(
        more_errors,
        against(candidate, base, WORDS) if base.knows_language else None,
        "It is harder to understand: its word error rate is {:.0f} percentage points above the base's.",
        "It leaves out words: {:.0f} more in 100 than the base.",
    )


def _forgets(candidate: Candidate, base: Candidate) -> str | None:
    """A sentence about a candidate's loss in the old language, if it is too much."""
    more = candidate.num_failed_old - base.num_failed_old
    if more >= MIN_FAILED:
        return f"It forgets the old language: {more} more sentences in it failed than the base's."
    errors, words = (against(candidate, base, judge, old=True) for judge in (WORD_ERRORS, WORDS))
    judged = any(against(base, base, judge, old=True) for judge in (WORD_ERRORS, WORDS))
    if judged and errors is None and words is None:
        return "It may have forgotten the old language: too few of its sentences in it have a figure."
    return _understood_worse(
        errors,
        words,
        "It forgets the old language: its word error rate there is {:.0f} percentage points above "
        "the base's.",
        "It forgets the old language: it leaves out {:.0f} more words in 100 there than the base.",
    )


def _understood_worse(
    errors: MeanInterval | None, words: MeanInterval | None, more_errors: str, fewer_words: str
) -> str | None:
    """The sentence with the loss per hundred words, if it is too much: by the recogniser's errors,
    else by the words left out."""
    if errors is not None:
        worse = errors.mean > ERRORS_MARGIN or errors.low > 0
        return more_errors.format(100 * errors.mean) if worse else None
    if words is None or (words.mean >= -WORDS_MARGIN and words.high >= 0):
        return None
    return fewer_words.format(-100 * words.mean)


def _indistinguishable(candidate: Candidate, base: Candidate) -> bool:
    """Whether no judge finds a difference."""
    judged = [against(candidate, base, judge) for judge in base.judges]
    gaps = [difference for difference in judged if difference is not None]
    alike = abs(candidate.num_failed - base.num_failed) < MIN_FAILED
    return bool(gaps) and alike and all(difference.contains_zero for difference in gaps)


def _lowest_loss(candidate: Candidate, candidates: Sequence[Candidate]) -> bool:
    losses = [other.validation_audio_loss for other in candidates]
    finite = [loss for loss in losses if loss is not None]
    return len(finite) > 1 and candidate.validation_audio_loss == min(finite)
