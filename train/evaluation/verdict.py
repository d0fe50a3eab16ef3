"""Decides which candidate is best by a rule over the judges' figures, and gives the reason.

All functions are pure.

The steps, in this order (docs/develop/evaluation.md describes them):

    1. finished   Rules out candidates with clearly more failed sentences than the one with the
                  fewest, and those that cannot be judged: fewer than eight sentences that both they
                  and the base finished, or a missing figure of a judge that works in this
                  evaluation. A judge without any figures takes no part.
    2. rate       Rules out candidates whose rate is clearly further from the person's than the
                  base's.
    3. words      Rules out candidates that say their words worse than the base: by word error rate
                  if there is a recogniser, else by the words left out. In a run that learns an
                  added language, also rules out those that say a language of the base worse, and
                  the base, which does not know the added one. There, the base's likelihood cannot
                  judge words: without a recogniser, the validation loss replaces steps 6 and 7.
    4. natural    Rules out candidates that are measurably less natural than the base. This judge is
                  optional: a missing figure rules out no candidate, and a higher one does not make
                  a candidate the best.
    5. the base   The base stays the best unless a remaining candidate is measurably better, or a
                  blend ties with it.
    6. words      Rules out remaining candidates with a measurably higher word error rate than the
                  lowest.
    7. voice      The remaining candidate with the most similar voice wins. Among several that
                  cannot be distinguished: the one with more words if there is no recogniser, then
                  the smallest share.

The base takes no part in steps 6 and 7: its GPT judges `words`, so it would win each tie. A smaller
share has a lower word error rate than both the base and the epoch (measured on the choosing set:
benchmarks/record.md), but these few sentences seldom show that difference with certainty. If voices
can be judged, validation loss decides nothing, because it can fall while speech gets worse.
Otherwise it chooses among the candidates that are measurably better than the base.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

from machine import commands
from train.evaluation.judges import (
    NATURALNESS,
    PITCH_DRIFT,
    RATE_DRIFT,
    VOICE,
    WORD_ERRORS,
    WORDS,
    against,
    against_in_old_language,
    less_natural,
)
from xtts.voices.evaluation_file import Candidate, MeanInterval, Verdict

# One more failed sentence is chance; two are not, nor a tenth of a large set.
FEWEST_FAILED, FAILED_SHARE = 2, 0.1
# A candidate and the base are compared by at least this number of sentences that both finished.
FEWEST_FINISHED = 8
# The judges that decide. Pitch is only reported.
_CHOOSING = {WORD_ERRORS: "word error rate", WORDS: "words", VOICE: "voice", RATE_DRIFT: "rate"}
# Percent: a drift above the first, and above the base's by more than the second, is ruled out.
MOST_DRIFT, DRIFT_BEYOND_BASE = 10.0, 5.0
# Percent: a rate that is closer to the person's by this much is a gain over the base.
NEARER_RATE = 2.0
# Percent: a pitch further from the person's than this is reported.
REPORTED_PITCH = 20.0
# Three words in a hundred; a smaller loss counts only if its interval excludes 0.
WORDS_MARGIN = 0.03
# Ten words in a hundred: recognisers also make errors on correct speech.
ERRORS_MARGIN = 0.1
# A larger difference is a loss and not a tie, even if sixteen sentences do not prove it: about one
# standard error of the difference.
TIE_MARGIN = 0.05
# With less speech, a run seldom learns an accent (docs/your-voice.md).
LEAST_SPEECH_SECONDS = 180.0
UNLEARNED = "The base never learned the added language."
NO_DIFFERENCE = "difference %+.2f, too small to be sure of"


def decide(
    candidates: Sequence[Candidate], pruned: Collection[str] = (),
    speech_seconds: float | None = None,
) -> tuple[list[Candidate], Verdict | None]:  # fmt: skip
    """Returns the candidates with remarks on each, and the verdict.

    The verdict is None without the base, or with the base alone.

    Args:
        pruned: names of candidates whose checkpoints are gone; they stay in the list and cannot
            be chosen.
        speech_seconds: length of the person's clips, for the advice.
    """
    base = next((one for one in candidates if one.kind == "base"), None)
    if base is None or len(candidates) < 2:
        return list(candidates), None
    judged = [_with_remarks(one, base, candidates) for one in candidates]
    left = [one for one in judged if one.ruled_out is None and one.name not in pruned]
    own = next(one for one in judged if one.kind == "base")
    if not left:
        because = "no candidate is reliable, and neither is the base"
        return judged, _base_is_best(own, judged, speech_seconds, because)
    learned = [one for one in left if one.kind != "base" and _may_follow(one, own, judged)]
    if not learned:
        return judged, _base_is_best(own, judged, speech_seconds)
    best = _nearest(learned, own)
    return judged, Verdict(
        best.kind, best.epoch, best.share, _why(best, own), "", False, best.checkpoint_sha256
    )


def may_replace(small: Candidate, large: Candidate) -> str | None:
    """Why a distilled candidate must not replace the one that it learned from, or None if it may.

    As a blend that ties with the base, it must pass steps 1 to 4, its voice must not be measurably
    less like the person's, and its word errors must not be a loss. Its words must also be judged.
    """
    voice, errors, words = (against(small, large, one) for one in (VOICE, WORD_ERRORS, WORDS))
    less_alike = voice is not None and voice.high < 0
    reasons = (
        _failures(small, (small, large)),
        _unjudged(small, large, (small, large), "the large model"),
        "Nothing judged whether it says all words. Name more sentences in EVALUATE_TEXTS."
        if errors is None and words is None
        else None,
        _drift(small, large, "the large model"),
        _understood_worse(
            errors,
            words,
            "It is harder to understand: its word error rate is {:.0f} percentage points above the "
            "large model's.",
            "It leaves out words: {:.0f} more in 100 than the large model.",
            TIE_MARGIN,
        ),
        _less_natural(small, large, "the large model's"),
        "It sounds less like the person than the large model." if less_alike else None,
    )
    return next(filter(None, reasons), None)


# Remarks on one candidate


def _with_remarks(one: Candidate, base: Candidate, candidates: Sequence[Candidate]) -> Candidate:
    failed, unjudged = _failures(one, candidates), _unjudged(one, base, candidates)
    # A few sentences are evidence neither for a candidate nor against it.
    compared = () if unjudged else (_drift(one, base), _loses_words(one, base))
    # The naturalness of a base that cannot be served does not matter.
    if not unjudged and not _cannot_serve(base, candidates):
        compared = (*compared, _less_natural(one, base))
    known = None if one.knows_language else UNLEARNED
    found = (failed, unjudged, *compared, _forgets(one, base), known)
    reasons = [reason for reason in found if reason]
    same = one.kind != "base" and unjudged is None and _indistinguishable(one, base, NATURALNESS)
    remarks = [*reasons, *_remarks(one, base)]
    if same:
        remarks.append("No judge can distinguish it from the base.")
    elif reasons and _lowest_loss(one, candidates):
        remarks.append("By validation loss alone it would be the best.")
    return replace(
        one, ruled_out=reasons[0] if reasons else None, remarks=remarks,
        indistinguishable_from_base=same,
    )  # fmt: skip


def _failures(one: Candidate, candidates: Sequence[Candidate]) -> str | None:
    fewest = min(other.num_failed for other in candidates)
    allowed = max(FEWEST_FAILED, FAILED_SHARE * len(one.sentences))
    if one.num_failed - fewest < allowed:
        return None
    counts = ((one.unfinished, "unfinished"), (one.cut, "cut"), (one.babbling, "babbling"))
    kinds = ", ".join(f"{count} {kind}" for count, kind in counts if count)
    return (
        f"{one.num_failed} of {len(one.sentences)} sentences failed ({kinds}); the lowest count "
        f"of any candidate is {fewest}."
    )


def _unjudged(
    one: Candidate, base: Candidate, candidates: Sequence[Candidate], name: str = "the base"
) -> str | None:
    """Why there are too few figures to compare a candidate with the base; None if there are enough.

    The only rule for missing figures: a candidate without them is never as good as the base. If the
    base is ruled out, only the candidate's figures count.
    """
    if one.kind == base.kind == "base":
        return None
    alone = _cannot_serve(base, candidates)
    finished = one.finished if alone else one.finished & base.finished
    if len(finished) < FEWEST_FINISHED:
        who = "it" if alone else f"it and {name} both"
        return (
            f"Too few sentences: {who} finished {len(finished)} of {len(one.sentences)}. A verdict "
            f"needs {FEWEST_FINISHED}."
        )
    missing = [
        words
        for judge, words in _CHOOSING.items()
        if any(judge in other.judges for other in candidates)
        and (judge != WORDS or base.knows_language)
        and (judge not in one.judges or (not alone and against(one, base, judge) is None))
    ]
    if not missing:
        return None
    judges = ", ".join(missing)
    return f"Too few of its sentences have a figure for {judges} to compare it with {name}."


def _cannot_serve(base: Candidate, candidates: Sequence[Candidate]) -> bool:
    """Whether the base is ruled out, so that only a candidate's figures count."""
    return not base.knows_language or _failures(base, candidates) is not None


def _less_natural(one: Candidate, base: Candidate, name: str = "the base's") -> str | None:
    gap = None if one.kind == "base" else against(one, base, NATURALNESS)
    if gap is None or not less_natural(gap):
        return None
    return f"It sounds less natural: its predicted opinion score is {-gap.mean:.2f} below {name}."


def _drift(one: Candidate, base: Candidate, name: str = "base") -> str | None:
    own, usual = one.judges.get(RATE_DRIFT), base.judges.get(RATE_DRIFT)
    if own is None or one.kind == "base":
        return None
    # A drift that the base shares, in the same direction, is not a loss.
    same_way = usual is not None and own.mean * usual.mean > 0
    beyond = abs(own.mean) - (abs(usual.mean) if usual and same_way else 0.0)
    if abs(own.mean) <= MOST_DRIFT or beyond <= DRIFT_BEYOND_BASE:
        return None
    how = "faster" if own.mean > 0 else "slower"
    beside = f" ({name}: {abs(usual.mean):.0f} %)" if usual and same_way else ""
    return f"It speaks {abs(own.mean):.0f} % {how} than the person{beside}."


def _loses_words(one: Candidate, base: Candidate) -> str | None:
    if one.kind == "base":
        return None
    # In a language that the base does not know, its likelihood of words means nothing.
    return _understood_worse(
        against(one, base, WORD_ERRORS),
        against(one, base, WORDS) if base.knows_language else None,
        "It is harder to understand: its word error rate is {:.0f} percentage points above the "
        "base's.",
        "It leaves out words: {:.0f} more in 100 than the base.",
    )


def _forgets(one: Candidate, base: Candidate) -> str | None:
    """A sentence about a candidate's loss in the old language, if it is too much."""
    more = one.old_language_failed - base.old_language_failed
    if more >= FEWEST_FAILED:
        return f"It forgets the old language: {more} more sentences in it failed than the base's."
    errors = against_in_old_language(one, base, WORD_ERRORS)
    words = against_in_old_language(one, base, WORDS)
    known = against_in_old_language(base, base, WORDS) or against_in_old_language(
        base, base, WORD_ERRORS
    )
    if one.kind != "base" and known and errors is None and words is None:
        return (
            "It may have forgotten the old language: too few of its sentences in it have a figure."
        )
    return _understood_worse(
        errors,
        words,
        "It forgets the old language: its word error rate there is {:.0f} percentage points above "
        "the base's.",
        "It forgets the old language: it leaves out {:.0f} more words in 100 there than the base.",
    )


def _understood_worse(
    errors: MeanInterval | None, words: MeanInterval | None, more_errors: str, fewer_words: str,
    errors_margin: float = ERRORS_MARGIN,
) -> str | None:  # fmt: skip
    """The sentence with the loss per hundred words, if it is too much: by the recogniser's errors,
    else by the words left out."""
    if errors is not None:
        if errors.mean <= errors_margin and errors.low <= 0:
            return None
        return more_errors.format(100 * errors.mean)
    if words is None or (words.mean >= -WORDS_MARGIN and words.high >= 0):
        return None
    return fewer_words.format(-100 * words.mean)


def _remarks(one: Candidate, base: Candidate) -> list[str]:
    remarks = []
    pitch = one.judges.get(PITCH_DRIFT)
    if pitch and abs(pitch.mean) > REPORTED_PITCH:
        how = "higher" if pitch.mean > 0 else "lower"
        remarks.append(f"Its pitch is {abs(pitch.mean):.0f} % {how} than the person's.")
    voice = against(one, base, VOICE)
    if one.kind != "base" and voice and voice.high < 0:
        remarks.append("It sounds less like the person than the base does.")
    return remarks


def _indistinguishable(one: Candidate, base: Candidate, *more: str) -> bool:
    """Whether no judge of the person or the words, and none of `more`, finds a difference."""
    names = (WORD_ERRORS, WORDS, VOICE, RATE_DRIFT, PITCH_DRIFT, *more)
    judged = [against(one, base, judge) for judge in names]
    known = [difference for difference in judged if difference is not None]
    alike = abs(one.num_failed - base.num_failed) < FEWEST_FAILED
    return bool(known) and alike and all(difference.holds_zero for difference in known)


def _lowest_loss(one: Candidate, candidates: Sequence[Candidate]) -> bool:
    losses = [other.validation_audio_loss for other in candidates]
    known = [loss for loss in losses if loss is not None]
    return len(known) > 1 and one.validation_audio_loss == min(known)


# The best one


def _nearest(left: Sequence[Candidate], base: Candidate) -> Candidate:
    """The best by steps 6 and 7; by validation loss if no voice was judged, or if neither the base
    nor a recogniser knows the language. Only epochs have a validation loss."""
    recognised = any(WORD_ERRORS in one.judges for one in left)
    if not any(VOICE in one.judges for one in left) or not (base.knows_language or recognised):
        return _lowest_loss_of(left)
    # `_unjudged` has ruled out candidates that lack a figure which others have.
    with_voice = list(left)
    if recognised:
        fewest = min(left, key=lambda one: one.mean(WORD_ERRORS))
        with_voice = _alike(left, fewest, WORD_ERRORS)
    close = _alike(with_voice, max(with_voice, key=lambda one: one.mean(VOICE)), VOICE)
    if not recognised:
        most = max(close, key=lambda one: (one.mean(WORDS), one.mean(VOICE)))
        close = _alike(close, most, WORDS)
    return min(
        close,
        key=lambda one: (one.share, one.mean(WORD_ERRORS), -one.mean(WORDS),
                         -one.mean(VOICE)),
    )  # fmt: skip


def _lowest_loss_of(left: Sequence[Candidate]) -> Candidate:
    known = [one for one in left if one.validation_audio_loss is not None]
    return min(known, key=lambda one: one.validation_audio_loss or 0.0, default=left[0])


def _alike(some: Sequence[Candidate], one: Candidate, judge: str) -> list[Candidate]:
    """`one` and those of `some` that a judge cannot distinguish from it, sentence by sentence."""
    return [
        other
        for other in some
        if other is one or ((gap := against(other, one, judge)) is not None and gap.holds_zero)
    ]


def _may_follow(one: Candidate, base: Candidate, judged: Sequence[Candidate]) -> bool:
    """Whether it may replace the base as the best."""
    if base.ruled_out is not None or _measurably_better(one, base):
        return True
    return one.kind == "blend" and _ties(one, base) and _learned(one, base, judged)


def _measurably_better(one: Candidate, base: Candidate) -> bool:
    """Whether the interval of a difference excludes 0, in the better direction."""
    voice, errors = against(one, base, VOICE), against(one, base, WORD_ERRORS)
    if voice is not None and voice.low > 0:
        return True
    words = against(one, base, WORDS)
    better = errors.high < 0 if errors is not None else words is not None and words.low > 0
    less_alike = voice is not None and voice.high < 0
    return not less_alike and (better or _nearer_rate(one, base))


def _ties(one: Candidate, base: Candidate) -> bool:
    """Whether neither its voice nor its word error rate is measurably worse than the base's.

    `words` does not count here: the base judges itself by it, and step 3 has applied it.
    """
    voice, errors = against(one, base, VOICE), against(one, base, WORD_ERRORS)
    return voice is not None and voice.high >= 0 and (errors is None or errors.mean <= TIE_MARGIN)


def _learned(blend: Candidate, base: Candidate, judged: Sequence[Candidate]) -> bool:
    """Whether a blend's epoch differs from the base in words, voice or rate; True if the epoch was
    not judged."""
    return not any(
        _unjudged(one, base, judged) is None and _indistinguishable(one, base)
        for one in judged
        if one.kind == "epoch" and one.epoch == blend.epoch
    )


def _nearer_rate(best: Candidate, base: Candidate) -> bool:
    """Whether the rate differs from the base's and is clearly closer to the person's."""
    own, usual, gap = (
        best.judges.get(RATE_DRIFT), base.judges.get(RATE_DRIFT), against(best, base, RATE_DRIFT)
    )  # fmt: skip
    if own is None or usual is None or gap is None or gap.holds_zero:
        return False
    return abs(usual.mean) - abs(own.mean) >= NEARER_RATE


def _why(best: Candidate, base: Candidate) -> str:
    # Only a measurably better candidate is "the best"; a blend that ties is "chosen".
    better = base.ruled_out is not None or _measurably_better(best, base)
    verb = "is the best" if better else "is chosen"
    clauses = []
    errors, words = against(best, base, WORD_ERRORS), against(best, base, WORDS)
    if errors is not None:
        own, usual = best.mean(WORD_ERRORS), base.mean(WORD_ERRORS)
        differs = f"its word error rate is {own:.0%}, the base's is {usual:.0%}"
        alike = (
            f"its word error rate is not measurably different ({own:.0%}, the base's {usual:.0%})"
        )
        clauses.append(alike if errors.holds_zero else differs)
    elif not base.knows_language:
        clauses.append("its validation loss is the lowest, and no judge knows this language")
    elif words is not None:
        own, usual = best.mean(WORDS), base.mean(WORDS)
        differs = f"it says {own:.0%} of the words, the base says {usual:.0%}"
        alike = f"its words are not measurably fewer or more ({own:.0%}, the base's {usual:.0%})"
        clauses.append(alike if words.holds_zero else differs)
    clauses.append(_why_the_voice(best, base))
    if lost := _old_language(best, base):
        clauses.append(lost)
    reason = f"{best.name.capitalize()} {verb}: {'; '.join(clauses)}."
    worse = ", ".join(_got_worse(best, base))
    return f"{reason} Measurably worse than the base: {worse}." if worse else reason


def _old_language(best: Candidate, base: Candidate) -> str:
    """The figure for the old language, with the base's; "" if it was not judged."""
    for judge, what in ((WORD_ERRORS, "its word error rate is"), (WORDS, "its share of words is")):
        pairs = [
            (one.judges[judge], other.judges[judge])
            for one, other in zip(best.old_sentences, base.old_sentences, strict=False)
            if None not in (one.judges.get(judge), other.judges.get(judge))
        ]
        if pairs:
            own, usual = (sum(map(float, side)) / len(pairs) for side in zip(*pairs, strict=True))
            return f"in the old language {what} {own:.0%}, the base's {usual:.0%}"
    return ""


def _got_worse(best: Candidate, base: Candidate) -> list[str]:
    """The judges that find it measurably worse than the base, with both figures."""
    judges = (
        (WORD_ERRORS, "word error rate", "{:.0%}"), (WORDS, "words", "{:.0%}"),
        (VOICE, "voice", "{:.2f}"), (NATURALNESS, "naturalness", "{:.2f}"),
        (RATE_DRIFT, "rate", "{:+.1f} %"), (PITCH_DRIFT, "pitch", "{:+.1f} %"),
    )  # fmt: skip
    return [
        f"{name} ({form.format(best.mean(judge))}, the base {form.format(base.mean(judge))})"
        for judge, name, form in judges
        if (gap := against(best, base, judge)) is not None
        and (judge != WORDS or base.knows_language)
        and _is_worse(judge, best.mean(judge) - gap.mean, gap)
    ]


def _is_worse(judge: str, usual: float, gap: MeanInterval) -> bool:
    """Whether the whole interval of a difference is worse.

    usual: the base's figure. A drift is worse if the whole interval is further from 0 than it.
    """
    if judge in (RATE_DRIFT, PITCH_DRIFT):
        low, high = usual + gap.low, usual + gap.high
        return low * high > 0 and min(abs(low), abs(high)) > abs(usual)
    return gap.low > 0 if judge == WORD_ERRORS else gap.high < 0


def _why_the_voice(best: Candidate, base: Candidate) -> str:
    voice = against(best, base, VOICE)
    if voice is None:
        # No voice was judged, or the base is ruled out for too few sentences.
        if VOICE in best.judges:
            return "its voice cannot be compared with the base's, which is ruled out"
        return "no voice was judged, and its validation loss is the lowest of the rest"
    gap = f"({voice.mean:+.2f})"
    if voice.low > 0:
        return f"it sounds closer to the person {gap}"
    if voice.high < 0:  # it replaces a base that is ruled out
        return f"it sounds less like the person than the base {gap}, which is ruled out"
    no_worse = f"it sounds as close to the person as the base ({NO_DIFFERENCE % voice.mean})"
    if _nearer_rate(best, base):
        own, usual = best.mean(RATE_DRIFT), base.mean(RATE_DRIFT)
        rates = f"{own:+.0f} %, the base's {usual:+.0f} %"
        return f"{no_worse}; its rate is closer to the person's ({rates})"
    if base.ruled_out is None and not _measurably_better(best, base):
        as_well = NO_DIFFERENCE % voice.mean
        return f"it is a blend that speaks as well as the base (voice: {as_well})"
    return no_worse


def _base_is_best(
    base: Candidate, judged: Sequence[Candidate], speech_seconds: float | None, because: str = ""
) -> Verdict:
    others = [one for one in judged if one.kind != "base"]
    same = bool(others) and all(one.indistinguishable_from_base for one in others)
    most = max((len(one.finished) for one in others), default=0)
    if others and most < FEWEST_FINISHED:
        count = max(len(one.sentences) for one in others)
        reason = (
            "The base is kept: the run was too short to be judged. No candidate finished more "
            f"than {most} of {count} sentences, and a verdict needs {FEWEST_FINISHED}."
        )
        more = (
            f"`{commands.program('train evaluate')}` judges by all sentences, without a time "
            "limit. EVALUATE_TEXTS can name more."
        )
        return Verdict("base", 0, 0.0, reason, more, False, "")
    if because:
        reason = f"The base is kept: {because}."
    elif same:
        reason = "The base is the best: no judge can distinguish any candidate from it."
    else:
        reason = f"The base is the best: {_why_not(others, base)}"
    return Verdict("base", 0, 0.0, reason, advice(others, speech_seconds), same, "")


def advice(others: Sequence[Candidate], speech_seconds: float | None) -> str:
    """Advice on what to try next if the base is the best."""
    learned = [one for one in others if not one.indistinguishable_from_base]
    epochs = {one.epoch for one in others}
    ways = []
    if speech_seconds is not None and speech_seconds < LEAST_SPEECH_SECONDS:
        ways.append(
            f"Add clips: the dataset has {speech_seconds / 60:.1f} minutes of this person, with "
            "the validation clips. Half an hour is good."
        )
    if not learned:
        ways.append("Try more epochs or a higher LEARNING_RATE.")
    else:
        fewer = " or fewer epochs" if len(epochs) > 1 else ""
        ways.append(f"Try a lower LEARNING_RATE{fewer}.")
        if not any(one.kind == "blend" for one in others):
            ways.append("BLEND=auto also judges blends with the base.")
    ways.append(
        f"`{commands.program('train check')}` finds clips whose text does not match their sound."
    )
    return " ".join(ways)


def _why_not(others: Sequence[Candidate], base: Candidate) -> str:
    """Why the candidate that comes closest is not chosen."""
    passing = [one for one in others if one.ruled_out is None]
    if passing:
        nearest = _nearest(passing, base)
        if worse := ", ".join(_got_worse(nearest, base)):
            return f"{nearest.name} is measurably worse: {worse}."
        return f"{nearest.name} speaks as well, but not measurably better."
    nearest = max(others, key=lambda one: (-one.num_failed, one.mean(WORDS)))
    why = nearest.ruled_out or ""
    return f"{nearest.name} comes closest, but {why[:1].lower()}{why[1:]}"
