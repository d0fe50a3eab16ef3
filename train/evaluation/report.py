"""Formats an evaluation: a line for each candidate, and a table of all.

All functions are pure.
"""

from collections.abc import Sequence

from machine import text
from train.evaluation.judges import (
    NATURALNESS,
    PITCH_DRIFT,
    PITCH_SPREAD,
    RATE_DRIFT,
    VOICE,
    WORD_ERRORS,
    WORDS,
)
from xtts.voices.evaluation_file import Candidate, Evaluation, SpeakerJudgement

_HEAD = (
    "",
    "unfinished",
    "cut",
    "babbling",
    "word error rate",
    "words",
    "voice",
    "naturalness",
    "rate",
    "pitch",
    "spread",
    "valid. loss",
    "",
)
_COLUMNS = (WORD_ERRORS, WORDS, VOICE, NATURALNESS, RATE_DRIFT, PITCH_DRIFT, PITCH_SPREAD)


def line(evaluation: Evaluation, one: Candidate) -> str:
    """One candidate's figures with the base's. Remarks are only in the table."""
    base = evaluation.candidates[0]
    parts = []
    of_words = (WORD_ERRORS, "word error rate") if WORD_ERRORS in one.judges else (WORDS, "words")
    others = ((VOICE, "voice"), (NATURALNESS, "naturalness"), (RATE_DRIFT, "rate"))
    for judge, name in (of_words, *others):
        if judge in one.judges:
            beside = f" (base {_mean(base, judge)})" if judge in base.judges else ""
            parts.append(f"{name} {_mean(one, judge)}{beside}")
    failed = f"{one.num_failed} of {len(one.sentences)} sentences failed (base {base.num_failed})"
    figures = ", ".join([*parts, failed])
    return f"{one.name.capitalize()}: {figures}."


def table(evaluation: Evaluation) -> str:
    """All candidates, the base first and the best marked, then the remarks and the verdict."""
    best = evaluation.best
    rows = [_HEAD, *(_row(one, one is best) for one in _ordered(evaluation.candidates))]
    return "\n".join([*text.table(rows), *_remarks(evaluation)])


def markdown(evaluation: Evaluation) -> str:
    """The same in Markdown, for TensorBoard's text page."""
    best = evaluation.best
    rows = [_HEAD, ("---",) * len(_HEAD)]
    rows += [_row(one, one is best) for one in _ordered(evaluation.candidates)]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([*lines, "", *_remarks(evaluation)])


def _ordered(candidates: Sequence[Candidate]) -> list[Candidate]:
    return sorted(candidates, key=lambda one: (one.epoch, -one.share))


def _row(one: Candidate, is_best: bool) -> tuple[str, ...]:
    loss = "" if one.validation_audio_loss is None else f"{one.validation_audio_loss:.3f}"
    measured = [_with_interval(one, judge) for judge in _COLUMNS]
    counts = (str(one.unfinished), str(one.cut), str(one.babbling))
    return (one.name, *counts, *measured, loss, "<- best" if is_best else "")


def _with_interval(one: Candidate, judge: str) -> str:
    figure = one.judges.get(judge)
    if figure is None:
        return "-"
    half = (figure.high - figure.low) / 2
    if judge.endswith("percent"):
        return f"{figure.mean:+.0f} % ±{half:.0f}"
    return f"{figure.mean:.2f} ±{half:.2f}"


def _mean(one: Candidate, judge: str) -> str:
    mean = one.judges[judge].mean
    return f"{mean:+.0f} %" if judge.endswith("percent") else f"{mean:.2f}"


def _remarks(evaluation: Evaluation) -> list[str]:
    lines = [f"{one.name}: {remark}" for one in _ordered(evaluation.candidates) for remark in one.remarks]
    lines += [
        f"No {name}: {judge.absent}." for name, judge in evaluation.judges.items() if judge.absent is not None
    ]
    if own := evaluation.person.get(NATURALNESS):
        half = (own["high"] - own["low"]) / 2
        lines.append(f"Naturalness of the person's own clips: {own['mean']:.2f} ±{half:.2f}.")
    if verdict := evaluation.verdict:
        lines.append(" ".join(part for part in (verdict.reason, verdict.advice) if part))
    return lines + [_of_speaker(one) for one in evaluation.speakers]


def _of_speaker(one: SpeakerJudgement) -> str:
    """The figures of a further speaker, with the base's."""
    spoken = one.learned or one.best
    pairs = (
        ("word error rate", spoken.word_errors, one.base.word_errors),
        ("similarity to the recording", spoken.voice, one.base.voice),
        ("naturalness", spoken.naturalness, one.base.naturalness),
    )
    figures = [
        f"{name} {mean.mean:.2f} (base {base.mean:.2f})"
        for name, mean, base in pairs
        if mean is not None and base is not None
    ]
    return " ".join([f"As {one.name}:", *([", ".join(figures) + "."] if figures else []), one.verdict])
