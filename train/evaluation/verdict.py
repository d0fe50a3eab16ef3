"""Decides which candidate is best, and says why: a rule over the judges' figures. Pure.

In this order; docs/evaluation.md tells it to users:

    1. finished   one with clearly more sentences astray than the one with the fewest is out
    2. rate       one that speaks clearly further from the person's rate than the base is out
    3. words      one that says its words worse than the base is out: by word errors where a
                  recogniser listened, else by the words that were left out
    4. the base   stays the best unless one that is left is measurably better than it, or a blend
                  ties with it
    5. words      of those, one that a recogniser understands measurably worse than the best is
                  out
    6. voice      of those, the nearest to the person; of several that cannot be told apart the one
                  with more words where no recogniser listened, and then the smallest share

The base takes no part in 5 and 6: `words` is by its own ear, so that it would win each tie. Of a
smaller share a recogniser understands more than of the base and of the epoch (measured on the
choosing set: docs/benchmarks.md), and so few sentences seldom tell that difference surely.
Validation loss decides nothing where there is a voice to judge: it falls while speech gets worse.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

from train.evaluation.judges import PITCH_DRIFT, RATE_DRIFT, VOICE, WORD_ERRORS, WORDS, against
from xtts.voices.evaluation_file import Candidate, MeanInterval, Verdict

# One more sentence astray is chance; two are not, nor a tenth of a large set.
FEWEST_ASTRAY, ASTRAY_SHARE = 2, 0.1
# Percent: what is further off than this, and so much further than the base, is out.
MOST_DRIFT, DRIFT_BEYOND_BASE = 10.0, 5.0
# Percent: so much nearer to the person's rate is a gain over the base.
NEARER_RATE = 2.0
# A voice may move towards the person's pitch; so far off, it is named.
PITCH_WORTH_TELLING = 20.0
# Three words in a hundred; fewer lost are "no worse" unless the interval says otherwise.
WORDS_MARGIN = 0.03
# A recogniser errs by itself, now here, now there: ten of a hundred words.
ERRORS_MARGIN = 0.1
# More than this is a loss rather than a tie, though sixteen sentences do not tell it surely: about
# one standard error of the difference.
TIE_MARGIN = 0.05
# Of less speech an accent is seldom learned (docs/getting-started.md).
LEAST_SPEECH_SECONDS = 180.0


def decide(
    candidates: Sequence[Candidate], pruned: Collection[str] = (),
    speech_seconds: float | None = None,
) -> tuple[list[Candidate], Verdict | None]:  # fmt: skip
    """The candidates with what is wrong with each, and the best of them.

    pruned: names of those whose checkpoints are gone, which are listed and cannot be chosen;
    speech_seconds: of the person's clips, for the advice. No verdict without the base, or without
    anything beside it.
    """
    base = next((one for one in candidates if one.kind == "base"), None)
    if base is None or len(candidates) < 2:
        return list(candidates), None
    judged = [_with_remarks(one, base, candidates) for one in candidates]
    left = [one for one in judged if one.ruled_out is None and one.name not in pruned]
    own = next(one for one in judged if one.kind == "base")
    if not left:
        because = "no candidate, nor the base itself, can be relied on"
        return judged, _base_is_best(own, judged, speech_seconds, because)
    learned = [one for one in left if one.kind != "base" and _may_follow(one, own, judged)]
    if not learned:
        return judged, _base_is_best(own, judged, speech_seconds)
    best = _nearest(learned)
    return judged, Verdict(
        best.kind, best.epoch, best.share, _why(best, own), "", False, best.checkpoint_sha256
    )


# What is wrong with one


def _with_remarks(one: Candidate, base: Candidate, candidates: Sequence[Candidate]) -> Candidate:
    reasons = [
        reason
        for reason in (_astray(one, candidates), _drift(one, base), _loses_words(one, base))
        if reason
    ]
    same = one.kind != "base" and _indistinguishable(one, base)
    remarks = [*reasons, *_remarks(one, base)]
    if same:
        remarks.append("It cannot be told from the base.")
    elif reasons and _lowest_loss(one, candidates):
        remarks.append("By validation loss alone it would have been the best.")
    return replace(
        one, ruled_out=reasons[0] if reasons else None, remarks=remarks,
        indistinguishable_from_base=same,
    )  # fmt: skip


def _astray(one: Candidate, candidates: Sequence[Candidate]) -> str | None:
    fewest = min(other.astray for other in candidates)
    allowed = max(FEWEST_ASTRAY, ASTRAY_SHARE * len(one.sentences))
    if one.astray - fewest < allowed:
        return None
    counts = ((one.unfinished, "do not end"), (one.cut, "are cut"), (one.babbling, "babble"))
    astray = ", ".join(f"{count} {what}" for count, what in counts if count)
    return f"Of {len(one.sentences)} sentences {astray}; of the best only {fewest} go astray."


def _drift(one: Candidate, base: Candidate) -> str | None:
    own, usual = one.judges.get(RATE_DRIFT), base.judges.get(RATE_DRIFT)
    if own is None or one.kind == "base":
        return None
    # What the base does too is no loss, but only in its own direction.
    same_way = usual is not None and own.mean * usual.mean > 0
    beyond = abs(own.mean) - (abs(usual.mean) if usual and same_way else 0.0)
    if abs(own.mean) <= MOST_DRIFT or beyond <= DRIFT_BEYOND_BASE:
        return None
    how = "faster" if own.mean > 0 else "slower"
    than = f", the base {abs(usual.mean):.0f} %" if usual and same_way else ""
    return f"It speaks {abs(own.mean):.0f} % {how} than the person{than}."


def _loses_words(one: Candidate, base: Candidate) -> str | None:
    if one.kind == "base":
        return None
    errors = against(one, base, WORD_ERRORS)
    if errors is not None:
        if errors.mean <= ERRORS_MARGIN and errors.low <= 0:
            return None
        more = f"{100 * errors.mean:.0f} word errors in 100 more than the base"
        return f"It is harder to understand: {more}."
    difference = against(one, base, WORDS)
    if difference is None or (difference.mean >= -WORDS_MARGIN and difference.high >= 0):
        return None
    return f"It leaves out words: {100 * -difference.mean:.0f} in 100 more than the base."


def _remarks(one: Candidate, base: Candidate) -> list[str]:
    found = []
    pitch = one.judges.get(PITCH_DRIFT)
    if pitch and abs(pitch.mean) > PITCH_WORTH_TELLING:
        how = "higher" if pitch.mean > 0 else "lower"
        found.append(f"Its pitch is {abs(pitch.mean):.0f} % {how} than the person's.")
    voice = against(one, base, VOICE)
    if one.kind != "base" and voice and voice.high < 0:
        found.append("It is further from the person's voice than the base.")
    return found


def _indistinguishable(one: Candidate, base: Candidate) -> bool:
    names = (WORD_ERRORS, WORDS, VOICE, RATE_DRIFT, PITCH_DRIFT)
    judged = [against(one, base, judge) for judge in names]
    known = [difference for difference in judged if difference is not None]
    alike = abs(one.astray - base.astray) < FEWEST_ASTRAY
    return bool(known) and alike and all(difference.holds_zero for difference in known)


def _lowest_loss(one: Candidate, candidates: Sequence[Candidate]) -> bool:
    losses = [other.validation_audio_loss for other in candidates]
    known = [loss for loss in losses if loss is not None]
    return len(known) > 1 and one.validation_audio_loss == min(known)


# The best one


def _nearest(left: Sequence[Candidate]) -> Candidate:
    """By voice, where there is one; else by validation loss, which blends and the base lack."""
    heard = [one for one in left if VOICE in one.judges]
    if not heard:
        known = [one for one in left if one.validation_audio_loss is not None]
        return min(known, key=lambda one: one.validation_audio_loss or 0.0, default=left[0])
    recognised = [one for one in heard if WORD_ERRORS in one.judges]
    if recognised:
        heard = _alike(
            recognised, min(recognised, key=lambda one: one.mean(WORD_ERRORS)), WORD_ERRORS
        )
    close = _alike(heard, max(heard, key=lambda one: one.mean(VOICE)), VOICE)
    if not recognised:
        most = max(close, key=lambda one: (one.mean(WORDS), one.mean(VOICE)))
        close = _alike(close, most, WORDS)
    return min(
        close,
        key=lambda one: (one.share, one.mean(WORD_ERRORS), -one.mean(WORDS),
                         -one.mean(VOICE)),
    )  # fmt: skip


def _alike(some: Sequence[Candidate], one: Candidate, judge: str) -> list[Candidate]:
    """One of some, and those that a judge cannot tell from it, sentence by sentence."""
    return [
        other
        for other in some
        if other is one or ((gap := against(other, one, judge)) is not None and gap.holds_zero)
    ]


def _may_follow(one: Candidate, base: Candidate, judged: Sequence[Candidate]) -> bool:
    """Whether it may take the base's place."""
    if base.ruled_out is not None or _measurably_better(one, base):
        return True
    return one.kind == "blend" and _ties(one, base) and _learned(one, judged)


def _measurably_better(one: Candidate, base: Candidate) -> bool:
    """By an interval of the difference that does not hold 0."""
    voice, errors = against(one, base, VOICE), against(one, base, WORD_ERRORS)
    if voice is None:  # nothing to hear a gain by: validation decided, and the words are no worse
        return not one.indistinguishable_from_base
    if voice.low > 0:
        return True
    words = against(one, base, WORDS)
    better = errors.high < 0 if errors is not None else words is not None and words.low > 0
    return voice.high >= 0 and (better or _nearer_rate(one, base))


def _ties(one: Candidate, base: Candidate) -> bool:
    """Whether neither its voice nor its words are seen to be worse than the base's.

    `words` are not asked: the base's are whole by nature, and rule 3 has seen to them.
    """
    voice, errors = against(one, base, VOICE), against(one, base, WORD_ERRORS)
    return voice is not None and voice.high >= 0 and (errors is None or errors.mean <= TIE_MARGIN)


def _learned(blend: Candidate, judged: Sequence[Candidate]) -> bool:
    """Whether the epoch that is in a blend can be told from the base; what was not judged can."""
    return not any(
        one.indistinguishable_from_base
        for one in judged
        if one.kind == "epoch" and one.epoch == blend.epoch
    )


def _nearer_rate(best: Candidate, base: Candidate) -> bool:
    """Whether the rate is another than the base's, and clearly nearer to the person's."""
    own, usual, gap = (
        best.judges.get(RATE_DRIFT), base.judges.get(RATE_DRIFT), against(best, base, RATE_DRIFT)
    )  # fmt: skip
    if own is None or usual is None or gap is None or gap.holds_zero:
        return False
    return abs(usual.mean) - abs(own.mean) >= NEARER_RATE


def _why(best: Candidate, base: Candidate) -> str:
    # What no judge tells from the base is no better than it.
    verb = "is taken" if best.indistinguishable_from_base else "is the best"
    parts = [f"{best.name} {verb}", _why_the_voice(best, base)]
    if WORD_ERRORS in best.judges and WORD_ERRORS in base.judges:
        own, usual = best.mean(WORD_ERRORS), base.mean(WORD_ERRORS)
        parts.append(f"with word errors of {own:.0%} (the base {usual:.0%})")
    elif WORDS in best.judges and WORDS in base.judges:
        own, usual = best.mean(WORDS), base.mean(WORDS)
        parts.append(f"with {own:.0%} of the words (the base {usual:.0%})")
    reason = f"{parts[0].capitalize()}: {', '.join(parts[1:])}."
    worse = ", ".join(_got_worse(best, base))
    return f"{reason} Measurably worse than the base: {worse}." if worse else reason


def _got_worse(best: Candidate, base: Candidate) -> list[str]:
    """What is measurably worse than the base, with both figures."""
    judges = (
        (WORD_ERRORS, "word errors", "{:.0%}"), (WORDS, "words", "{:.0%}"),
        (VOICE, "voice", "{:.2f}"), (RATE_DRIFT, "rate", "{:+.1f} %"),
        (PITCH_DRIFT, "pitch", "{:+.1f} %"),
    )  # fmt: skip
    return [
        f"{name} ({form.format(best.mean(judge))}, the base {form.format(base.mean(judge))})"
        for judge, name, form in judges
        if (gap := against(best, base, judge)) is not None
        and _is_worse(judge, best.mean(judge) - gap.mean, gap)
    ]


def _is_worse(judge: str, usual: float, gap: MeanInterval) -> bool:
    """Whether the whole interval of a difference is worse. usual: what it is added to; of a drift
    that is nearer to 0 than any of it."""
    if judge in (RATE_DRIFT, PITCH_DRIFT):
        low, high = usual + gap.low, usual + gap.high
        return low * high > 0 and min(abs(low), abs(high)) > abs(usual)
    return gap.low > 0 if judge == WORD_ERRORS else gap.high < 0


def _why_the_voice(best: Candidate, base: Candidate) -> str:
    voice = against(best, base, VOICE)
    if voice is None:
        return "with the lowest validation loss of those that speak as well as the base"
    voices = f"voice {best.mean(VOICE):.2f}, the base {base.mean(VOICE):.2f}"
    if voice.low > 0:
        return f"nearest to the person ({voices})"
    if _nearer_rate(best, base):
        own, usual = best.mean(RATE_DRIFT), base.mean(RATE_DRIFT)
        return (
            f"not measurably further from the person than the base ({voices}), and nearer to "
            f"their rate ({own:+.0f} %, the base {usual:+.0f} %)"
        )
    if base.ruled_out is None and not _measurably_better(best, base):
        return f"a blend that speaks as well as the base ({voices})"
    return f"not measurably further from the person than the base ({voices})"


def _base_is_best(
    base: Candidate, judged: Sequence[Candidate], speech_seconds: float | None, because: str = ""
) -> Verdict:
    others = [one for one in judged if one.kind != "base"]
    same = bool(others) and all(one.indistinguishable_from_base for one in others)
    if because:
        reason = f"The base is kept: {because}."
    elif same:
        reason = "The base is the best: nothing that was learned can be told from it."
    else:
        reason = f"The base is the best: {_why_not(others, base)}"
    return Verdict("base", 0, 0.0, reason, advice(others, speech_seconds), same, "")


def advice(others: Sequence[Candidate], speech_seconds: float | None) -> str:
    """What to try where the base is best, by what was judged beside it."""
    learned = [one for one in others if not one.indistinguishable_from_base]
    epochs = {one.epoch for one in others}
    ways = []
    if speech_seconds is not None and speech_seconds < LEAST_SPEECH_SECONDS:
        ways.append(
            f"Add clips: {speech_seconds / 60:.1f} minutes of speech are little, half an hour is "
            "good."
        )
    if not learned:
        ways.append("Try more epochs or a higher LEARNING_RATE.")
    else:
        fewer = " or fewer epochs" if len(epochs) > 1 else ""
        ways.append(f"Try a lower LEARNING_RATE{fewer}.")
        if not any(one.kind == "blend" for one in others):
            ways.append("BLEND=auto also judges blends with the base.")
    ways.append("`python -m train check` finds clips whose text is not what is said.")
    return " ".join(ways)


def _why_not(others: Sequence[Candidate], base: Candidate) -> str:
    """About the one that comes nearest to being chosen."""
    passing = [one for one in others if one.ruled_out is None]
    if passing:
        return f"{_nearest(passing).name} speaks as well, but is not measurably better."
    nearest = max(others, key=lambda one: (-one.astray, one.mean(WORDS)))
    return f"{nearest.name} comes nearest. {nearest.ruled_out}"
