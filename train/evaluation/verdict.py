"""Decides which candidate is best by a rule over the judges' figures, and reports the evaluation.

All functions are pure. A candidate is weights and a decoder; the base with a learned decoder is one
like any other. The rule has three steps (docs/develop/evaluation.md says why):

    1. floors    a candidate that breaks one is out (`train.evaluation.floors`)
    2. gains     of the rest, those that come measurably and audibly closer to the person than the
                 base does, or sound more natural (`gains`). Without one, the base is the best
    3. nearest   of these, the most similar voice. Among voices without a measurable
                 difference: the most gains in nearness over the most similar one, then no measurably
                 more word errors, then the latest epoch, the base with a decoder, the blend with the smallest
                 share of tuned weights (`_nearest`). A blend must be measurably better than its epoch

A base that cannot be served loses to every candidate that passes the floors. If voices can be
judged, validation loss decides nothing, because it can fall while speech gets worse.
"""

from collections.abc import Collection, Iterable, Sequence

from machine import commands
from machine.text import table
from train.evaluation.floors import MIN_FINISHED, UNMEASURED, PersonFigures, with_floors
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
from xtts.voices.evaluation_file import Candidate, Evaluation, MeanInterval, SpeakerJudgement, Verdict

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
# The columns of the table with a judge's figure, and their headings.
_COLUMNS = {
    WORD_ERRORS: "word error rate",
    WORDS: "words",
    VOICE: "voice",
    NATURALNESS: "naturalness",
    RATE_DRIFT: "rate",
    PITCH_DRIFT: "pitch",
    PITCH_SPREAD: "spread",
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
# The order of candidates that nothing tells apart: the epoch has learned what there is to learn, the
# base with a decoder speaks with its own prosody, and a blend has to win.
_ORDER = ("epoch", "base", "blend")
# With less speech, a run seldom learns an accent (docs/your-voice.md).
MIN_SPEECH_SECONDS = 180.0


def decide(
    candidates: Sequence[Candidate],
    pruned: Collection[str] = (),
    speech_seconds: float | None = None,
    person: PersonFigures = UNMEASURED,
) -> tuple[list[Candidate], Verdict | None]:
    """Returns the candidates with remarks on each, and the verdict.

    The verdict is None without the base, or with the base alone.

    Args:
        pruned: names of candidates whose checkpoints are gone; they stay in the list and cannot
            be chosen.
        speech_seconds: length of the person's clips, for the advice.
        person: what the judges say of the person's own clips.
    """
    base = next((candidate for candidate in candidates if candidate.is_base), None)
    if base is None or len(candidates) < 2:
        return list(candidates), None
    judged = [with_floors(candidate, base, candidates, person) for candidate in candidates]
    base = next(candidate for candidate in judged if candidate.is_base)
    left = [
        candidate
        for candidate in judged
        if not candidate.is_base and candidate.ruled_out is None and candidate.name not in pruned
    ]
    if base.ruled_out is None:
        left = [candidate for candidate in left if gains(candidate, base)]
    left = [candidate for candidate in left if candidate.kind != "blend" or _wins(candidate, left, person)]
    if not left:
        return judged, _base_is_best(base, judged, speech_seconds)
    best = _nearest(left, base, person)
    # The base with a decoder, also if that is not the best: it divides what was won.
    decoder = next(
        (candidate for candidate in judged if candidate.kind == "base" and candidate.decoder), None
    )
    return judged, Verdict(
        best.kind,
        best.epoch,
        best.share,
        _why(best, base, decoder),
        "",
        False,
        best.checkpoint_sha256,
        best.decoder,
        _way(best, base),
    )


# What is won


def gains(candidate: Candidate, base: Candidate) -> list[str]:
    """The judges by which a candidate is measurably and audibly closer to the person than the base,
    or more natural."""
    return [
        judge
        for judge, least in MIN_GAIN.items()
        if (better := improvement(candidate, base, judge)) and better.low > 0 and better.mean >= least
    ]


def improvement(candidate: Candidate, base: Candidate, judge: str) -> MeanInterval | None:
    """The paired difference to the base by a judge, positive where it is better; for a judge whose
    best figure is 0, by how much it is nearer to 0."""
    gap = against(candidate, base, judge)
    if gap is None or (judge == WORDS and not base.knows_language):
        return None
    if judge == WORD_ERRORS:
        return MeanInterval(-gap.mean, -gap.high, -gap.low, gap.count)
    if judge not in (RATE_DRIFT, PITCH_DRIFT, PITCH_SPREAD):
        return gap
    usual = candidate.mean(judge) - gap.mean
    ends = usual + gap.low, usual + gap.high
    nearest = min(map(abs, ends)) if ends[0] * ends[1] > 0 else 0.0
    furthest = max(map(abs, ends))
    mean = abs(usual) - abs(candidate.mean(judge))
    return MeanInterval(mean, abs(usual) - furthest, abs(usual) - nearest, gap.count)


def _nearest(left: Sequence[Candidate], base: Candidate, person: PersonFigures = UNMEASURED) -> Candidate:
    """The best by step 3; by validation loss if no voice was judged, or if neither the base nor a
    recogniser knows the language. Only epochs have a validation loss."""
    if _chosen_by_loss(left, base):
        with_loss = [candidate for candidate in left if candidate.validation_audio_loss is not None]
        return min(with_loss, key=lambda candidate: candidate.validation_audio_loss or 0.0, default=left[0])
    # Candidates that fail no more often than the base come first.
    left = [candidate for candidate in left if candidate.num_failed <= base.num_failed] or left
    nearest = max(left, key=lambda candidate: candidate.mean(VOICE))
    close = [candidate for candidate in left if candidate is nearest or _same_voice(candidate, nearest)]
    clearest = min(close, key=lambda candidate: (candidate.mean(WORD_ERRORS), -candidate.mean(WORDS)))
    return min(
        close,
        key=lambda candidate: (
            _nearness_gains(nearest, candidate) - _nearness_gains(candidate, nearest),
            is_harder(candidate, clearest, person.word_errors),
            _ORDER.index(candidate.kind),
            -candidate.epoch,
            candidate.share,
        ),
    )


def _nearness_gains(candidate: Candidate, other: Candidate) -> int:
    """The gains over another candidate that bring it nearer. Naturalness is for the floors: of two
    epochs of a real woman, the less natural one was nearer to her, in naturalness as well."""
    return len([judge for judge in gains(candidate, other) if judge != NATURALNESS])


def _wins(blend: Candidate, left: Sequence[Candidate], person: PersonFigures) -> bool:
    """Whether a blend is measurably better than its epoch, or its epoch is not among `left`."""
    epoch = next(
        (candidate for candidate in left if candidate.kind == "epoch" and candidate.epoch == blend.epoch),
        None,
    )
    return epoch is None or bool(gains(blend, epoch)) or is_harder(epoch, blend, person.word_errors)


def _same_voice(candidate: Candidate, other: Candidate) -> bool:
    gap = against(candidate, other, VOICE)
    return gap is not None and gap.contains_zero


def is_harder(candidate: Candidate, other: Candidate, of_person: float | None) -> bool:
    """Whether it is measurably harder to understand than another; without a recogniser, whether it
    leaves out more words. of_person: the word error rate of the person's clips; a recogniser that
    mishears these as often cannot tell."""
    errors = against(candidate, other, WORD_ERRORS)
    if errors is not None:
        return errors.low > 0 and candidate.mean(WORD_ERRORS) > (of_person or 0.0)
    words = against(candidate, other, WORDS)
    return words is not None and words.high < 0


def _chosen_by_loss(left: Sequence[Candidate], base: Candidate) -> bool:
    recognised = any(WORD_ERRORS in candidate.judges for candidate in left)
    voiced = any(VOICE in candidate.judges for candidate in left)
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
    if nearer := [_figures_and_way(judge, best, base) for judge in won if judge != NATURALNESS]:
        sentences.append(f"Nearer to the person than the untrained model: {', '.join(nearer)}.")
    if better := [_figures_and_way(judge, best, base) for judge in _NAMES if _also_better(judge, best, base)]:
        sentences.append(f"{'Also b' if nearer else 'B'}etter: {', '.join(better)}.")
    sentences += _sources(won, best, base, decoder)
    for judge in (WORD_ERRORS, WORDS):
        figure, usual = (means(candidate.old_sentences).get(judge) for candidate in (best, base))
        if figure and usual:
            sentences.append(f"In the old language: {_figures(judge, figure.mean, usual.mean)}.")
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
    by_source, of_decoder = dict[str, list[str]](), gains(decoder, base)
    for judge in won:
        more, (name, form) = improvement(best, decoder, judge), _NAMES[judge]
        who = _SOURCES[judge in of_decoder, more is not None and more.low > 0]
        alone = f" (the decoder alone: {form.format(decoder.mean(judge))})"
        by_source.setdefault(who, []).append(name + alone)
    return [f"From {who}: {', '.join(parts)}." for who, parts in by_source.items()]


def _also_better(judge: str, best: Candidate, base: Candidate) -> bool:
    """Whether it is measurably better in what does not make it nearer."""
    gap = improvement(best, base, judge)
    return judge in (NATURALNESS, WORD_ERRORS, WORDS) and gap is not None and gap.low > 0


def _worse(candidate: Candidate, base: Candidate) -> list[str]:
    """The judges that find it measurably worse than the base, with both figures."""
    return [
        _figures_and_way(judge, candidate, base)
        for judge in _NAMES
        if (gap := improvement(candidate, base, judge)) is not None and gap.high < 0
    ]


def _figures_and_way(judge: str, candidate: Candidate, base: Candidate) -> str:
    mean, usual = candidate.mean(judge), base.mean(judge)
    figures = _figures(judge, mean, usual)
    way = _way(candidate, base) if judge == VOICE else None
    return figures if way is None else f"{figures[:-1]}, {way:.0%} of the way to the person's own recordings)"


def _way(candidate: Candidate, base: Candidate) -> float | None:
    """As `Verdict.way`."""
    voice, usual = candidate.mean(VOICE), base.mean(VOICE)
    if VOICE not in candidate.judges or not usual < min(voice, 1.0):
        return None
    return round((voice - usual) / (1 - usual), 4)  # 1 is another recording of the person


def _figures(judge: str, mean: float, usual: float) -> str:
    name, form = _NAMES[judge]
    return f"{name} {form.format(mean)} (base {form.format(usual)})"


def _base_is_best(base: Candidate, judged: Sequence[Candidate], speech_seconds: float | None) -> Verdict:
    others = [candidate for candidate in judged if not candidate.is_base]
    same = all(candidate.indistinguishable_from_base for candidate in others)
    most = max(len(candidate.finished) for candidate in others)
    if most < MIN_FINISHED:
        count = max(len(candidate.sentences) for candidate in others)
        reason = (
            "The untrained model is kept: the run was too short to be judged. No candidate "
            f"finished more than {most} of {count} sentences, and a verdict needs "
            f"{MIN_FINISHED}."
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
    if passing := [candidate for candidate in others if candidate.ruled_out is None]:
        nearest = _nearest(passing, base)
        return f"{nearest.name} speaks as well, but is not audibly nearer to the person."
    nearest = min(
        others,
        key=lambda candidate: (candidate.num_failed, candidate.mean(WORD_ERRORS), -candidate.mean(WORDS)),
    )
    why = nearest.ruled_out or ""
    return f"{nearest.name} comes closest, but {why[:1].lower()}{why[1:]}"


def advice(others: Sequence[Candidate], speech_seconds: float | None) -> str:
    """Advice on what to try next if the base is the best."""
    learned = [candidate for candidate in others if not candidate.indistinguishable_from_base]
    epochs = {candidate.epoch for candidate in others if candidate.kind != "base"}
    ways = []
    if speech_seconds is not None and speech_seconds < MIN_SPEECH_SECONDS:
        ways.append(
            f"Add clips: the dataset has {speech_seconds / 60:.1f} minutes of this person, with "
            "the validation clips. Half an hour is good."
        )
    if not learned:
        ways.append("Try more epochs or a higher LEARNING_RATE.")
    else:
        fewer = " or fewer epochs" if len(epochs) > 1 else ""
        ways.append(f"Try a lower LEARNING_RATE{fewer}.")
        if not any(candidate.kind == "blend" for candidate in others):
            ways.append("BLEND=auto also judges blends with the base.")
    ways.append(
        "Clips of 3 to 10 s without noise or other people teach the most; "
        f"`{commands.program('train check')}` finds those that are not clean, or whose text does "
        "not match their sound."
    )
    return " ".join(ways)


# The evaluation in words: a line for each candidate, and a table of all


def candidate_line(evaluation: Evaluation, candidate: Candidate) -> str:
    """One candidate's figures with the base's. Remarks are only in the table."""
    base = evaluation.candidates[0]
    parts = []
    of_words = (WORD_ERRORS, "word error rate") if WORD_ERRORS in candidate.judges else (WORDS, "words")
    others = ((VOICE, "voice"), (NATURALNESS, "naturalness"), (RATE_DRIFT, "rate"))
    for judge, name in (of_words, *others):
        if judge in candidate.judges:
            of_base = f" (base {_mean(base, judge)})" if judge in base.judges else ""
            parts.append(f"{name} {_mean(candidate, judge)}{of_base}")
    parts += [f"{name} {figure.mean:.2f}" for name, figure in candidate.further.items()]
    failed = f"{candidate.num_failed} of {len(candidate.sentences)} sentences failed (base {base.num_failed})"
    figures = ", ".join([*parts, failed])
    return f"{candidate.name.capitalize()}: {figures}."


def evaluation_table(evaluation: Evaluation) -> str:
    """All candidates, the base first and the best marked, then the remarks and the verdict."""
    return "\n".join([*table(_rows(evaluation)), *_remarks(evaluation)])


def evaluation_markdown(evaluation: Evaluation) -> str:
    """The same in Markdown, for TensorBoard's text page."""
    head, *rows = _rows(evaluation)
    lines = ["| " + " | ".join(row) + " |" for row in (head, ("---",) * len(head), *rows)]
    return "\n".join([*lines, "", *_remarks(evaluation)])


def _by_epoch(candidates: Sequence[Candidate]) -> list[Candidate]:
    return sorted(candidates, key=lambda candidate: (candidate.epoch, -candidate.share))


def _rows(evaluation: Evaluation) -> list[tuple[str, ...]]:
    """The headings, and a row for each candidate."""
    columns = _COLUMNS | {
        name: name for name, judge in evaluation.judges.items() if judge.further and judge.absent is None
    }
    best = evaluation.best
    return [
        _head(columns.values()),
        *(
            _row(candidate, columns, is_best=candidate is best)
            for candidate in _by_epoch(evaluation.candidates)
        ),
    ]


def _head(columns: Iterable[str]) -> tuple[str, ...]:
    return ("", "unfinished", "cut", "babbling", *columns, "valid. loss", "")


def _row(candidate: Candidate, columns: Iterable[str], *, is_best: bool) -> tuple[str, ...]:
    loss = "" if candidate.validation_audio_loss is None else f"{candidate.validation_audio_loss:.3f}"
    measured = [_with_interval(candidate, judge) for judge in columns]
    counts = (str(candidate.unfinished), str(candidate.cut), str(candidate.babbling))
    return (candidate.name, *counts, *measured, loss, "<- best" if is_best else "")


def _with_interval(candidate: Candidate, judge: str) -> str:
    figure = candidate.further.get(judge) or candidate.judges.get(judge)
    if figure is None:
        return "-"
    half = (figure.high - figure.low) / 2
    if judge.endswith("percent"):
        return f"{figure.mean:+.0f} % ±{half:.0f}"
    return f"{figure.mean:.2f} ±{half:.2f}"


def _mean(candidate: Candidate, judge: str) -> str:
    mean = candidate.judges[judge].mean
    return f"{mean:+.0f} %" if judge.endswith("percent") else f"{mean:.2f}"


def _remarks(evaluation: Evaluation) -> list[str]:
    lines = [
        f"{candidate.name}: {remark}"
        for candidate in _by_epoch(evaluation.candidates)
        for remark in candidate.remarks
    ]
    lines += [
        f"No {name}: {judge.absent}." for name, judge in evaluation.judges.items() if judge.absent is not None
    ]
    if natural := evaluation.person.get(NATURALNESS):
        half = (natural["high"] - natural["low"]) / 2
        lines.append(f"Naturalness of the person's own clips: {natural['mean']:.2f} ±{half:.2f}.")
    if (errors := evaluation.person.get(WORD_ERRORS)) is not None:
        lines.append(f"Word error rate of the person's own clips: {errors:.2f}.")
    if best := evaluation.best:
        notes = filter(None, (figure.note for figure in best.further.values()))
        lines += [f"{best.name}: {note}" for note in notes]
    if verdict := evaluation.verdict:
        lines.append(" ".join(part for part in (verdict.reason, verdict.advice) if part))
    return lines + [_of_speaker(speaker) for speaker in evaluation.speakers]


def _of_speaker(speaker: SpeakerJudgement) -> str:
    """The figures of a further speaker, with the base's."""
    spoken = speaker.learned or speaker.best
    pairs = (
        ("word error rate", spoken.word_errors, speaker.base.word_errors),
        ("similarity to the recording", spoken.voice, speaker.base.voice),
        ("naturalness", spoken.naturalness, speaker.base.naturalness),
    )
    figures = [
        f"{name} {mean.mean:.2f} (base {base.mean:.2f})"
        for name, mean, base in pairs
        if mean is not None and base is not None
    ]
    return " ".join(
        [f"As {speaker.name}:", *([", ".join(figures) + "."] if figures else []), speaker.verdict]
    )
