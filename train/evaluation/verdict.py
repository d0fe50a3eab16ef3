"""Decides which candidate is best by a rule over the judges' figures, and gives the reason.

All functions are pure. The rule has these steps (docs/develop/evaluation.md says why):

    1. finished   rules out too many failed sentences, and too few figures to be judged
                  (`_failures`, `_unjudged`)
    2. rate       rules out a rate that is clearly further from the person's than the base's
                  (`_drift`)
    3. words      rules out those that say their words worse than the base (`_loses_words`); in a
                  run that learns an added language, also those that say a language of the base
                  worse (`_forgets`), and the base, which does not know the added one
    4. natural    rules out those that are measurably less natural than the base (`_less_natural`)
    5. the base   stays the best unless it is ruled out, a remaining candidate is measurably better,
                  or a blend ties with it (`_may_follow`)
    6. words      of the rest, those with the fewest word errors, if a recogniser heard them
    7. voice      of these, the most similar voice; in a tie, the smallest share (`_nearest`)

The base takes no part in steps 6 and 7: its GPT judges `words`, so it would win each tie. If voices
can be judged, validation loss decides nothing, because it can fall while speech gets worse.
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
    less_natural,
    means,
)
from xtts.voices.evaluation_file import Candidate, MeanInterval
from xtts.voices.verdict import Verdict

# One more failed sentence is chance; two are not, nor a tenth of a large set.
FEWEST_FAILED, FAILED_SHARE = 2, 0.1
# A candidate and the base are compared by at least this number of sentences that both finished.
FEWEST_FINISHED = 8
# The judges in a reason, with the form of their figures.
_NAMES = {
    WORD_ERRORS: ("word error rate", "{:.0%}"),
    WORDS: ("words", "{:.0%}"),
    VOICE: ("voice", "{:.2f}"),
    NATURALNESS: ("naturalness", "{:.2f}"),
    RATE_DRIFT: ("rate", "{:+.1f} %"),
    PITCH_DRIFT: ("pitch", "{:+.1f} %"),
}
# The judges that decide. Naturalness is optional, and pitch is only reported.
_CHOOSING = (WORD_ERRORS, WORDS, VOICE, RATE_DRIFT)
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
    judged = [remarked(one, base, candidates) for one in candidates]
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


# Remarks on one candidate


def remarked(one: Candidate, base: Candidate, candidates: Sequence[Candidate]) -> Candidate:
    """The candidate with the findings of steps 1 to 4, of which the first rules it out."""
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


def _unjudged(one: Candidate, base: Candidate, candidates: Sequence[Candidate]) -> str | None:
    """Why there are too few figures to compare a candidate with the base; None if there are enough.

    The only rule for missing figures: a candidate without them is never as good as the base. If the
    base is ruled out, only the candidate's figures count.
    """
    if one.kind == base.kind == "base":
        return None
    alone = _cannot_serve(base, candidates)
    finished = one.finished if alone else one.finished & base.finished
    if len(finished) < FEWEST_FINISHED:
        who = "it" if alone else "it and the base both"
        return (
            f"Too few sentences: {who} finished {len(finished)} of {len(one.sentences)}. A verdict "
            f"needs {FEWEST_FINISHED}."
        )
    missing = [
        _NAMES[judge][0]
        for judge in _CHOOSING
        if any(judge in other.judges for other in candidates)
        and (judge != WORDS or base.knows_language)
        and (judge not in one.judges or (not alone and against(one, base, judge) is None))
    ]
    if not missing:
        return None
    judges = ", ".join(missing)
    return f"Too few of its sentences have a figure for {judges} to compare it with the base."


def _cannot_serve(base: Candidate, candidates: Sequence[Candidate]) -> bool:
    """Whether the base is ruled out, so that only a candidate's figures count."""
    return not base.knows_language or _failures(base, candidates) is not None


def _less_natural(one: Candidate, base: Candidate) -> str | None:
    gap = against(one, base, NATURALNESS)
    if gap is None or not less_natural(gap):
        return None
    return (
        f"It sounds less natural: its predicted opinion score is {-gap.mean:.2f} below the base's."
    )


def _drift(one: Candidate, base: Candidate) -> str | None:
    own, usual = one.judges.get(RATE_DRIFT), base.judges.get(RATE_DRIFT)
    if own is None:
        return None
    # A drift that the base shares, in the same direction, is not a loss.
    same_way = usual is not None and own.mean * usual.mean > 0
    beyond = abs(own.mean) - (abs(usual.mean) if usual and same_way else 0.0)
    if abs(own.mean) <= MOST_DRIFT or beyond <= DRIFT_BEYOND_BASE:
        return None
    how = "faster" if own.mean > 0 else "slower"
    beside = f" (the base: {abs(usual.mean):.0f} %)" if usual and same_way else ""
    return f"It speaks {abs(own.mean):.0f} % {how} than the person{beside}."


def _loses_words(one: Candidate, base: Candidate) -> str | None:
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
    errors, words = (against(one, base, judge, old=True) for judge in (WORD_ERRORS, WORDS))
    known = any(against(base, base, judge, old=True) for judge in (WORD_ERRORS, WORDS))
    if known and errors is None and words is None:
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


def _remarks(one: Candidate, base: Candidate) -> list[str]:
    remarks = []
    pitch = one.judges.get(PITCH_DRIFT)
    if pitch and abs(pitch.mean) > REPORTED_PITCH:
        how = "higher" if pitch.mean > 0 else "lower"
        remarks.append(f"Its pitch is {abs(pitch.mean):.0f} % {how} than the person's.")
    voice = against(one, base, VOICE)
    if voice and voice.high < 0:
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
    if _chosen_by_loss(left, base):
        return _lowest_loss_of(left)
    recognised = any(WORD_ERRORS in one.judges for one in left)
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


def _chosen_by_loss(left: Sequence[Candidate], base: Candidate) -> bool:
    recognised = any(WORD_ERRORS in one.judges for one in left)
    voiced = any(VOICE in one.judges for one in left)
    return not voiced or not (base.knows_language or recognised)


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
    """The reason in sentences. Only a measurably better candidate is "the best"; a blend that ties
    is "chosen"."""
    better, worse = (", ".join(some) for some in _changes(best, base))
    if base.ruled_out is not None:
        first = "is the best, and the base is ruled out"
    elif _measurably_better(best, base):
        first = "is the best"
    else:
        first = "is chosen: a blend that speaks as well as the base"
    sentences = [f"{best.name.capitalize()} {first}."]
    if _chosen_by_loss([best], base):
        sentences.append("Its validation loss is the lowest.")
    if better:
        sentences.append(f"Measurably better than the base: {better}.")
    for judge in (WORD_ERRORS, WORDS):
        own, usual = (means(one.old_sentences).get(judge) for one in (best, base))
        if own and usual:
            sentences.append(f"In the old language: {_figures(judge, own.mean, usual.mean)}.")
            break
    if worse:
        sentences.append(f"Measurably worse than the base: {worse}.")
    return " ".join(sentences)


def _figures(judge: str, own: float, usual: float) -> str:
    name, form = _NAMES[judge]
    return f"{name} ({form.format(own)}, the base {form.format(usual)})"


def _changes(best: Candidate, base: Candidate) -> tuple[list[str], list[str]]:
    """The judges that find it measurably better than the base, and those that find it worse, with
    both figures."""
    better, worse = list[str](), list[str]()
    for judge in _NAMES:
        gap = against(best, base, judge)
        if gap is None or (judge == WORDS and not base.knows_language):
            continue
        low, high = (-gap.high, -gap.low) if judge == WORD_ERRORS else (gap.low, gap.high)
        if judge in (RATE_DRIFT, PITCH_DRIFT):  # by how much it is nearer to 0 than the base
            usual = best.mean(judge) - gap.mean
            ends = usual + gap.low, usual + gap.high
            nearest = min(map(abs, ends)) if ends[0] * ends[1] > 0 else 0.0
            low, high = abs(usual) - max(map(abs, ends)), abs(usual) - nearest
        if low > 0 or high < 0:
            told = _figures(judge, best.mean(judge), base.mean(judge))
            (better if low > 0 else worse).append(told)
    return better, worse


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
        if worse := ", ".join(_changes(nearest, base)[1]):
            return f"{nearest.name} is measurably worse: {worse}."
        return f"{nearest.name} speaks as well, but not measurably better."
    nearest = min(others, key=lambda one: (one.num_failed, one.mean(WORD_ERRORS), -one.mean(WORDS)))
    why = nearest.ruled_out or ""
    return f"{nearest.name} comes closest, but {why[:1].lower()}{why[1:]}"
