"""Decides which candidate is best by a rule over the judges' figures, and gives the reason.

All functions are pure. A candidate is weights and a decoder; the base with a learned decoder is one
like any other. The rule has three steps (docs/develop/evaluation.md says why):

    1. floors    a candidate that breaks one is out (`train.evaluation.floors`)
    2. gains     of the rest, those that come measurably and audibly closer to the person than the
                 base does, or sound more natural (`gains`). Without one, the base is the best
    3. nearest   of these, the most similar voice. Among voices without a measurable
                 difference: the most gains, then the fewest word errors, then the smallest share of
                 tuned weights (`_nearest`)

A base that cannot be served loses to every candidate that passes the floors. If voices can be
judged, validation loss decides nothing, because it can fall while speech gets worse.
"""

from collections.abc import Collection, Sequence

from machine import commands
from train.evaluation.floors import FEWEST_FINISHED, remarked
from train.evaluation.judges import (
    NATURALNESS,
    NATURALNESS_MARGIN,
    PITCH_DRIFT,
    PITCH_SPREAD,
    RATE_DRIFT,
    VOICE,
    WORD_ERRORS,
    WORDS,
    against,
    means,
)
from xtts.voices.evaluation_file import Candidate, MeanInterval
from xtts.voices.verdict import Verdict

# The judges in a reason, with the form of their figures.
_NAMES = {
    VOICE: ("voice", "{:.2f}"),
    PITCH_DRIFT: ("pitch", "{:+.1f} %"),
    PITCH_SPREAD: ("spread of pitch", "{:+.0f} %"),
    RATE_DRIFT: ("rate", "{:+.1f} %"),
    NATURALNESS: ("naturalness", "{:.2f}"),
    WORD_ERRORS: ("word error rate", "{:.0%}"),
    WORDS: ("words", "{:.0%}"),
}
# Where a gain comes from: whether the decoder brings it alone, and whether the GPT adds to it.
_SOURCES = {
    (True, True): "both decoder and GPT",
    (True, False): "the decoder",
    (False, True): "the GPT",
    (False, False): "decoder and GPT together",
}
# A smaller gain, even a measurable one, is not heard. Five hundredths of the way to the person;
# 3 % of F0 and of the rate are about the least that people notice in speech.
LEAST_GAIN = {
    VOICE: 0.05,
    PITCH_DRIFT: 3.0,
    PITCH_SPREAD: 15.0,
    RATE_DRIFT: 3.0,
    NATURALNESS: NATURALNESS_MARGIN,
}
# With less speech, a run seldom learns an accent (docs/your-voice.md).
LEAST_SPEECH_SECONDS = 180.0


def decide(
    candidates: Sequence[Candidate],
    pruned: Collection[str] = (),
    speech_seconds: float | None = None,
    person_errors: float | None = None,
) -> tuple[list[Candidate], Verdict | None]:
    """Returns the candidates with remarks on each, and the verdict.

    The verdict is None without the base, or with the base alone.

    Args:
        pruned: names of candidates whose checkpoints are gone; they stay in the list and cannot
            be chosen.
        speech_seconds: length of the person's clips, for the advice.
        person_errors: word error rate of the person's clips; None without a recogniser.
    """
    base = next((one for one in candidates if one.is_base), None)
    if base is None or len(candidates) < 2:
        return list(candidates), None
    judged = [remarked(one, base, candidates, person_errors) for one in candidates]
    base = next(one for one in judged if one.is_base)
    left = [one for one in judged if not one.is_base and one.ruled_out is None and one.name not in pruned]
    if base.ruled_out is None:
        left = [one for one in left if gains(one, base)]
    if not left:
        return judged, _base_is_best(base, judged, speech_seconds)
    best = _nearest(left, base)
    # The base with a decoder, also if that is not the best: it divides what was won.
    decoder = next((one for one in judged if one.kind == "base" and one.decoder), None)
    return judged, Verdict(
        best.kind,
        best.epoch,
        best.share,
        _why(best, base, decoder),
        "",
        False,
        best.checkpoint_sha256,
        best.decoder,
    )


# What is won


def gains(one: Candidate, base: Candidate) -> list[str]:
    """The judges by which a candidate is measurably and audibly closer to the person than the base,
    or more natural."""
    return [
        judge
        for judge, least in LEAST_GAIN.items()
        if (better := improvement(one, base, judge)) and better.low > 0 and better.mean >= least
    ]


def improvement(one: Candidate, base: Candidate, judge: str) -> MeanInterval | None:
    """The paired difference to the base by a judge, positive where it is better; for a judge whose
    best figure is 0, by how much it is nearer to 0."""
    gap = against(one, base, judge)
    if gap is None or (judge == WORDS and not base.knows_language):
        return None
    if judge == WORD_ERRORS:
        return MeanInterval(-gap.mean, -gap.high, -gap.low, gap.count)
    if judge not in (RATE_DRIFT, PITCH_DRIFT, PITCH_SPREAD):
        return gap
    usual = one.mean(judge) - gap.mean
    ends = usual + gap.low, usual + gap.high
    nearest = min(map(abs, ends)) if ends[0] * ends[1] > 0 else 0.0
    furthest = max(map(abs, ends))
    mean = abs(usual) - abs(one.mean(judge))
    return MeanInterval(mean, abs(usual) - furthest, abs(usual) - nearest, gap.count)


def _nearest(left: Sequence[Candidate], base: Candidate) -> Candidate:
    """The best by step 3; by validation loss if no voice was judged, or if neither the base nor a
    recogniser knows the language. Only epochs have a validation loss."""
    if _chosen_by_loss(left, base):
        known = [one for one in left if one.validation_audio_loss is not None]
        return min(known, key=lambda one: one.validation_audio_loss or 0.0, default=left[0])
    # Candidates that fail no more often than the base come first.
    left = [one for one in left if one.num_failed <= base.num_failed] or left
    nearest = max(left, key=lambda one: one.mean(VOICE))
    close = [one for one in left if one is nearest or _same_voice(one, nearest)]
    return min(
        close,
        key=lambda one: (
            -len(gains(one, base)),
            one.mean(WORD_ERRORS),
            one.share,
            -one.mean(WORDS),
            -one.mean(VOICE),
        ),
    )


def _same_voice(one: Candidate, other: Candidate) -> bool:
    gap = against(one, other, VOICE)
    return gap is not None and gap.holds_zero


def _chosen_by_loss(left: Sequence[Candidate], base: Candidate) -> bool:
    recognised = any(WORD_ERRORS in one.judges for one in left)
    voiced = any(VOICE in one.judges for one in left)
    return not voiced or not (base.knows_language or recognised)


# The reason


def _why(best: Candidate, base: Candidate, decoder: Candidate | None) -> str:
    """What is nearer, how far it came, from what, and at what cost, in sentences. decoder: the base
    with a learned decoder."""
    won = gains(best, base)
    ruled_out = ", and the base is ruled out" if base.ruled_out is not None else ""
    name = best.name.capitalize()
    if best.kind == "base":
        name = "The untrained model with the decoder that learned the clips"
    sentences = [f"{name} is the best{ruled_out}."]
    if _chosen_by_loss([best], base):
        sentences.append("Its validation loss is the lowest.")
    if nearer := [_told(judge, best, base) for judge in won if judge != NATURALNESS]:
        sentences.append(f"Nearer to the person than the untrained model: {', '.join(nearer)}.")
    if better := [_told(judge, best, base) for judge in _NAMES if _also_better(judge, best, base)]:
        sentences.append(f"{'Also b' if nearer else 'B'}etter: {', '.join(better)}.")
    sentences += _sources(won, best, base, decoder)
    for judge in (WORD_ERRORS, WORDS):
        own, usual = (means(one.old_sentences).get(judge) for one in (best, base))
        if own and usual:
            sentences.append(f"In the old language: {_figures(judge, own.mean, usual.mean)}.")
            break
    cost = ", ".join(_worse(best, base)) or "none that a judge can measure"
    return " ".join([*sentences, f"The cost: {cost}."])


def _sources(won: Sequence[str], best: Candidate, base: Candidate, decoder: Candidate | None) -> list[str]:
    """Whether each gain comes from the decoder, the GPT, or both. decoder: as in `_why`."""
    if best is decoder:
        return ["All of it comes from the decoder: the GPT is the base's."]
    if not best.decoder:
        return ["All of it comes from the GPT: the decoder is the base's."] if decoder else []
    if decoder is None:
        return ["What the decoder brings without the GPT was not judged."]
    found, of_decoder = dict[str, list[str]](), gains(decoder, base)
    for judge in won:
        more, (name, form) = improvement(best, decoder, judge), _NAMES[judge]
        who = _SOURCES[judge in of_decoder, more is not None and more.low > 0]
        alone = f" (the decoder alone: {form.format(decoder.mean(judge))})"
        found.setdefault(who, []).append(name + alone)
    return [f"From {who}: {', '.join(parts)}." for who, parts in found.items()]


def _also_better(judge: str, best: Candidate, base: Candidate) -> bool:
    """Whether it is measurably better in what does not make it nearer."""
    found = improvement(best, base, judge)
    return judge in (NATURALNESS, WORD_ERRORS, WORDS) and found is not None and found.low > 0


def _worse(one: Candidate, base: Candidate) -> list[str]:
    """The judges that find it measurably worse than the base, with both figures."""
    return [
        _told(judge, one, base)
        for judge in _NAMES
        if (found := improvement(one, base, judge)) is not None and found.high < 0
    ]


def _told(judge: str, one: Candidate, base: Candidate) -> str:
    own, usual = one.mean(judge), base.mean(judge)
    told = _figures(judge, own, usual)
    if judge != VOICE or not usual < min(own, 1.0):
        return told
    way = (own - usual) / (1 - usual)  # 1 is another recording of the person
    return f"{told[:-1]}, {way:.0%} of the way to the person's own recordings)"


def _figures(judge: str, own: float, usual: float) -> str:
    name, form = _NAMES[judge]
    return f"{name} {form.format(own)} (base {form.format(usual)})"


def _base_is_best(base: Candidate, judged: Sequence[Candidate], speech_seconds: float | None) -> Verdict:
    others = [one for one in judged if not one.is_base]
    same = all(one.indistinguishable_from_base for one in others)
    most = max(len(one.finished) for one in others)
    if most < FEWEST_FINISHED:
        count = max(len(one.sentences) for one in others)
        reason = (
            "The untrained model is kept: the run was too short to be judged. No candidate "
            f"finished more than {most} of {count} sentences, and a verdict needs "
            f"{FEWEST_FINISHED}."
        )
        more = (
            f"`{commands.program('train evaluate')}` judges by all sentences, without a time "
            "limit. EVALUATE_TEXTS can name more."
        )
        return Verdict("base", 0, 0.0, reason, more, False, "")
    if base.ruled_out is not None:
        reason = "No candidate is reliable, and neither is the untrained model, which is kept."
    elif same:
        reason = "Nothing beat the untrained model: no judge can distinguish any candidate from it."
    else:
        reason = f"Nothing beat the untrained model: {_why_not(others, base)}"
    return Verdict("base", 0, 0.0, reason, advice(others, speech_seconds), same, "")


def _why_not(others: Sequence[Candidate], base: Candidate) -> str:
    """Why the candidate that comes closest is not chosen."""
    if passing := [one for one in others if one.ruled_out is None]:
        nearest = _nearest(passing, base)
        return f"{nearest.name} speaks as well, but is not audibly nearer to the person."
    nearest = min(others, key=lambda one: (one.num_failed, one.mean(WORD_ERRORS), -one.mean(WORDS)))
    why = nearest.ruled_out or ""
    return f"{nearest.name} comes closest, but {why[:1].lower()}{why[1:]}"


def advice(others: Sequence[Candidate], speech_seconds: float | None) -> str:
    """Advice on what to try next if the base is the best."""
    learned = [one for one in others if not one.indistinguishable_from_base]
    epochs = {one.epoch for one in others if one.kind != "base"}
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
        "Clips of 3 to 10 s without noise or other people teach the most; "
        f"`{commands.program('train check')}` finds those that are not clean, or whose text does "
        "not match their sound."
    )
    return " ".join(ways)
