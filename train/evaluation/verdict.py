"""Decides which candidate is best by a rule over the judges' figures, and gives the reason.

All functions are pure. A candidate is weights and a decoder; the base with a learned decoder is a
candidate, too. The rule has three steps (docs/develop/evaluation.md says why):

    1. floors    a candidate that breaks one is out (`train.evaluation.floors`)
    2. gains     of the others, those that are measurably and audibly closer to the person than the
                 base, or sound more natural (`gains`). Without one, the base is the best
    3. nearest   of these, the most similar voice. Among voices without a measurable difference: the
                 most gains in nearness over the most similar one, then no measurably more word
                 errors, then the latest epoch, the base with a decoder, the blend with the smallest
                 share of tuned weights (`_nearest`). A blend must be measurably better than its epoch

A base that cannot be served loses to every candidate that passes the floors. If voices can be
judged, validation loss decides nothing, because it can fall while speech gets worse.
"""

from collections.abc import Collection, Sequence

from machine import commands
from train.evaluation.floors import MIN_FINISHED, UNMEASURED_PERSON, PersonFigures, with_floors
from train.evaluation.judges import (
    NATURALNESS,
    NATURALNESS_MARGIN,
    PITCH_DRIFT,
    PITCH_SPREAD,
    RATE_DRIFT,
    VOICE,
    WORD_ERRORS,
    WORDS,
    difference,
    judge_means,
)
from xtts.voices.evaluation_file import Candidate, MeanInterval, Verdict

# The name of each judge in a reason, and the format of its figures.
_FORMATS = {
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
MIN_GAIN = {
    VOICE: 0.05,
    PITCH_DRIFT: 3.0,
    PITCH_SPREAD: 15.0,
    RATE_DRIFT: 3.0,
    NATURALNESS: NATURALNESS_MARGIN,
}
# The order of candidates that no judge tells apart: the epoch has learned what there is to learn, the
# base with a decoder speaks with its own prosody, and a blend has to win.
_KIND_ORDER = ("epoch", "base", "blend")
# With less speech, a run seldom learns an accent (docs/your-voice.md).
MIN_SPEECH_SECONDS = 180.0


def decide(
    candidates: Sequence[Candidate],
    pruned: Collection[str] = (),
    speech_seconds: float | None = None,
    person: PersonFigures = UNMEASURED_PERSON,
) -> tuple[list[Candidate], Verdict | None]:
    """Returns the candidates with remarks on each, and the verdict.

    The verdict is None without the base, or with the base alone.

    Args:
        pruned: names of candidates whose checkpoints are gone; they stay in the list and cannot
            be chosen.
        speech_seconds: length of the person's clips, for the advice.
        person: the judges' figures for the person's own clips.
    """
    base = next((candidate for candidate in candidates if candidate.is_base), None)
    if base is None or len(candidates) < 2:
        return list(candidates), None
    judged = [with_floors(candidate, base, candidates, person) for candidate in candidates]
    base = next(candidate for candidate in judged if candidate.is_base)
    eligible = [
        candidate
        for candidate in judged
        if not candidate.is_base and candidate.ruled_out is None and candidate.name not in pruned
    ]
    if base.ruled_out is None:
        eligible = [candidate for candidate in eligible if gains(candidate, base)]
    eligible = [
        candidate
        for candidate in eligible
        if candidate.kind != "blend" or _beats_its_epoch(candidate, eligible, person)
    ]
    if not eligible:
        return judged, _verdict_for_base(base, judged, speech_seconds)
    best = _nearest(eligible, base, person)
    # Even if it is not the best, it shows which gains come from the decoder.
    base_with_decoder = next(
        (candidate for candidate in judged if candidate.kind == "base" and candidate.decoder), None
    )
    return judged, Verdict(
        kind=best.kind,
        epoch=best.epoch,
        share=best.share,
        reason=_reason(best, base, base_with_decoder, person),
        advice="",
        indistinguishable_from_base=False,
        checkpoint_sha256=best.checkpoint_sha256,
        decoder=best.decoder,
        way=_share_of_way(best, base) if person.held_out else None,
    )


# Gains


def gains(candidate: Candidate, base: Candidate) -> list[str]:
    """The judges by which a candidate is measurably and audibly closer to the person than the base,
    or more natural."""
    return [
        judge
        for judge, min_gain in MIN_GAIN.items()
        if (gain := improvement(candidate, base, judge)) and gain.low > 0 and gain.mean >= min_gain
    ]


def improvement(candidate: Candidate, base: Candidate, judge: str) -> MeanInterval | None:
    """The paired difference to the base by a judge, positive if the candidate is better. If the best
    figure of the judge is 0: by how much the candidate's is nearer to 0."""
    gap = difference(candidate, base, judge)
    if gap is None or (judge == WORDS and not base.knows_language):
        return None
    if judge == WORD_ERRORS:
        return MeanInterval(-gap.mean, -gap.high, -gap.low, gap.count)
    if judge not in (RATE_DRIFT, PITCH_DRIFT, PITCH_SPREAD):
        return gap
    base_mean = candidate.mean(judge) - gap.mean
    low, high = base_mean + gap.low, base_mean + gap.high
    nearest = min(abs(low), abs(high)) if low * high > 0 else 0.0
    furthest = max(abs(low), abs(high))
    mean = abs(base_mean) - abs(candidate.mean(judge))
    return MeanInterval(mean, abs(base_mean) - furthest, abs(base_mean) - nearest, gap.count)


def _nearest(
    eligible: Sequence[Candidate], base: Candidate, person: PersonFigures = UNMEASURED_PERSON
) -> Candidate:
    """The best by step 3; by validation loss if no voice was judged, or if neither the base nor a
    recogniser knows the language. Only epochs have a validation loss."""
    if _is_chosen_by_loss(eligible, base):
        with_loss = [candidate for candidate in eligible if candidate.validation_audio_loss is not None]
        return min(
            with_loss, key=lambda candidate: candidate.validation_audio_loss or 0.0, default=eligible[0]
        )
    # Candidates that fail no more often than the base come first.
    eligible = [candidate for candidate in eligible if candidate.num_failed <= base.num_failed] or eligible
    nearest = max(eligible, key=lambda candidate: candidate.mean(VOICE))
    close = [
        candidate for candidate in eligible if candidate is nearest or _has_same_voice(candidate, nearest)
    ]
    clearest = min(close, key=lambda candidate: (candidate.mean(WORD_ERRORS), -candidate.mean(WORDS)))
    return min(
        close,
        key=lambda candidate: (
            _nearness_gains(nearest, candidate) - _nearness_gains(candidate, nearest),
            is_harder_to_understand(candidate, clearest, person.word_errors),
            _KIND_ORDER.index(candidate.kind),
            -candidate.epoch,
            candidate.share,
        ),
    )


def _nearness_gains(candidate: Candidate, other: Candidate) -> int:
    """The number of gains over another candidate that bring it nearer. Naturalness is for the floors:
    of two epochs of a real woman, the less natural one was nearer to her, also in naturalness."""
    return len([judge for judge in gains(candidate, other) if judge != NATURALNESS])


def _beats_its_epoch(blend: Candidate, eligible: Sequence[Candidate], person: PersonFigures) -> bool:
    """Whether a blend is measurably better than its epoch, or its epoch is not eligible."""
    epoch = next(
        (candidate for candidate in eligible if candidate.kind == "epoch" and candidate.epoch == blend.epoch),
        None,
    )
    return (
        epoch is None
        or bool(gains(blend, epoch))
        or is_harder_to_understand(epoch, blend, person.word_errors)
    )


def _has_same_voice(candidate: Candidate, other: Candidate) -> bool:
    gap = difference(candidate, other, VOICE)
    return gap is not None and gap.contains_zero


def is_harder_to_understand(candidate: Candidate, other: Candidate, person_errors: float | None) -> bool:
    """Whether it is measurably harder to understand than another; without a recogniser, whether it
    leaves out more words. person_errors: the word error rate of the person's clips; if the recogniser
    mishears these as often, it cannot tell."""
    errors = difference(candidate, other, WORD_ERRORS)
    if errors is not None:
        return errors.low > 0 and candidate.mean(WORD_ERRORS) > (person_errors or 0.0)
    words = difference(candidate, other, WORDS)
    return words is not None and words.high < 0


def _is_chosen_by_loss(candidates: Sequence[Candidate], base: Candidate) -> bool:
    has_word_errors = any(WORD_ERRORS in candidate.judges for candidate in candidates)
    has_voice = any(VOICE in candidate.judges for candidate in candidates)
    return not has_voice or not (base.knows_language or has_word_errors)


# The reason


def _reason(
    best: Candidate, base: Candidate, base_with_decoder: Candidate | None, person: PersonFigures
) -> str:
    """Sentences: what is nearer and by how much, whether decoder or GPT brings it, and the cost."""
    gained = gains(best, base)
    ruled_out = ", and the base is ruled out" if base.ruled_out is not None else ""
    name = best.name.capitalize()
    if best.kind == "base":
        name = "The untrained model with the decoder that learned the clips"
    sentences = [f"{name} is the best{ruled_out}."]
    if _is_chosen_by_loss([best], base):
        sentences.append("Its validation loss is the lowest.")
    if nearer := [_figures_and_way(judge, best, base, person) for judge in gained if judge != NATURALNESS]:
        sentences.append(f"Nearer to the person than the untrained model: {', '.join(nearer)}.")
        if VOICE in gained and not person.held_out:
            sentences.append("The voice was compared with training clips, which flatters it.")
    if better := [
        _figures(judge, best.mean(judge), base.mean(judge))
        for judge in _FORMATS
        if _is_better_otherwise(judge, best, base)
    ]:
        sentences.append(f"{'Also b' if nearer else 'B'}etter: {', '.join(better)}.")
    sentences += _source_sentences(gained, best, base, base_with_decoder)
    for judge in (WORD_ERRORS, WORDS):
        figure, base_figure = (judge_means(candidate.old_sentences).get(judge) for candidate in (best, base))
        if figure and base_figure:
            sentences.append(f"In the old language: {_figures(judge, figure.mean, base_figure.mean)}.")
            break
    cost = ", ".join(_losses(best, base)) or "none that a judge can measure"
    return " ".join([*sentences, f"The cost: {cost}."])


def _source_sentences(
    gained: Sequence[str], best: Candidate, base: Candidate, base_with_decoder: Candidate | None
) -> list[str]:
    """Sentences that say of each gain whether it comes from the decoder, the GPT, or both."""
    if best is base_with_decoder:
        return ["All of it comes from the decoder: the GPT is the base's."]
    if not best.decoder:
        return ["All of it comes from the GPT: the decoder is the base's."] if base_with_decoder else []
    if base_with_decoder is None:
        return ["What the decoder brings without the GPT was not judged."]
    by_source, decoder_gains = dict[str, list[str]](), gains(base_with_decoder, base)
    for judge in gained:
        gpt_gain, (name, form) = improvement(best, base_with_decoder, judge), _FORMATS[judge]
        source = _SOURCES[judge in decoder_gains, gpt_gain is not None and gpt_gain.low > 0]
        decoder_alone = f" (the decoder alone: {form.format(base_with_decoder.mean(judge))})"
        by_source.setdefault(source, []).append(name + decoder_alone)
    return [f"From {source}: {', '.join(parts)}." for source, parts in by_source.items()]


def _is_better_otherwise(judge: str, best: Candidate, base: Candidate) -> bool:
    """Whether it is measurably better by a judge of something else than nearness to the person."""
    gap = improvement(best, base, judge)
    return judge in (NATURALNESS, WORD_ERRORS, WORDS) and gap is not None and gap.low > 0


def _losses(candidate: Candidate, base: Candidate) -> list[str]:
    """The judges that find it measurably worse than the base, with both figures."""
    return [
        _figures(judge, candidate.mean(judge), base.mean(judge))
        for judge in _FORMATS
        if (gap := improvement(candidate, base, judge)) is not None and gap.high < 0
    ]


def _figures_and_way(judge: str, candidate: Candidate, base: Candidate, person: PersonFigures) -> str:
    figures = _figures(judge, candidate.mean(judge), base.mean(judge))
    way = _share_of_way(candidate, base) if judge == VOICE and person.held_out else None
    return figures if way is None else f"{figures[:-1]}, {way:.0%} of the way to the person's own recordings)"


def _share_of_way(candidate: Candidate, base: Candidate) -> float | None:
    """As `Verdict.way`."""
    voice, base_voice = candidate.mean(VOICE), base.mean(VOICE)
    if VOICE not in candidate.judges or not base_voice < min(voice, 1.0):
        return None
    return round((voice - base_voice) / (1 - base_voice), 4)  # 1 is another recording of the person


def _figures(judge: str, mean: float, base_mean: float) -> str:
    name, form = _FORMATS[judge]
    return f"{name} {form.format(mean)} (base {form.format(base_mean)})"


def _verdict_for_base(base: Candidate, judged: Sequence[Candidate], speech_seconds: float | None) -> Verdict:
    others = [candidate for candidate in judged if not candidate.is_base]
    is_same = all(candidate.indistinguishable_from_base for candidate in others)
    most_finished = max(len(candidate.finished) for candidate in others)
    if most_finished < MIN_FINISHED:
        count = max(len(candidate.sentences) for candidate in others)
        reason = (
            "The untrained model is kept: the run was too short to be judged. No candidate "
            f"finished more than {most_finished} of {count} sentences, and a verdict needs "
            f"{MIN_FINISHED}."
        )
        next_step = (
            f"`{commands.program('train evaluate')}` judges by all sentences, without a time "
            "limit. EVALUATE_TEXTS can name more."
        )
        return Verdict("base", 0, 0.0, reason, next_step, False, "")
    if base.ruled_out is not None:
        reason = "No candidate is reliable, and neither is the untrained model, which is kept."
    elif is_same:
        reason = "Nothing beat the untrained model: no judge can distinguish any candidate from it."
    else:
        reason = f"Nothing beat the untrained model: {_why_no_candidate(others, base)}"
    return Verdict("base", 0, 0.0, reason, advice(others, speech_seconds), is_same, "")


def _why_no_candidate(others: Sequence[Candidate], base: Candidate) -> str:
    """Why the candidate that comes closest is not chosen."""
    if passing := [candidate for candidate in others if candidate.ruled_out is None]:
        nearest = _nearest(passing, base)
        return f"{nearest.name} speaks as well, but is not audibly nearer to the person."
    nearest = min(
        others,
        key=lambda candidate: (candidate.num_failed, candidate.mean(WORD_ERRORS), -candidate.mean(WORDS)),
    )
    fault = nearest.ruled_out or ""
    return f"{nearest.name} comes closest, but {fault[:1].lower()}{fault[1:]}"


def advice(others: Sequence[Candidate], speech_seconds: float | None) -> str:
    """Advice on what to try next if the base is the best."""
    has_learned = any(not candidate.indistinguishable_from_base for candidate in others)
    epochs = {candidate.epoch for candidate in others if candidate.kind != "base"}
    suggestions = []
    if speech_seconds is not None and speech_seconds < MIN_SPEECH_SECONDS:
        suggestions.append(
            f"Add clips: the dataset has {speech_seconds / 60:.1f} minutes of this person, with "
            "the validation clips. Half an hour is good."
        )
    if not has_learned:
        suggestions.append("Try more epochs or a higher LEARNING_RATE.")
    else:
        fewer = " or fewer epochs" if len(epochs) > 1 else ""
        suggestions.append(f"Try a lower LEARNING_RATE{fewer}.")
        if not any(candidate.kind == "blend" for candidate in others):
            suggestions.append("BLEND=auto also judges blends with the base.")
    suggestions.append(
        "Clips of 3 to 10 s without noise or other people teach the most; "
        f"`{commands.program('train check')}` finds those that are not clean, or whose text does "
        "not match their sound."
    )
    return " ".join(suggestions)
