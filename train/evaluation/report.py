"""An evaluation in words: a line for each candidate, and a table of all, for logs and TensorBoard."""

from collections.abc import Iterable, Sequence

from machine.text import table
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


def candidate_line(evaluation: Evaluation, candidate: Candidate) -> str:
    """One candidate's figures with the base's. Remarks are only in the table."""
    base = evaluation.candidates[0]
    parts = []
    word_judge = WORD_ERRORS if WORD_ERRORS in candidate.judges else WORDS
    for judge in (word_judge, VOICE, NATURALNESS, RATE_DRIFT):
        if judge in candidate.judges:
            of_base = f" (base {_format_mean(base, judge)})" if judge in base.judges else ""
            parts.append(f"{_COLUMNS[judge]} {_format_mean(candidate, judge)}{of_base}")
    parts += [f"{name} {figure.mean:.2f}" for name, figure in candidate.further.items()]
    failures = (
        f"{candidate.num_failed} of {len(candidate.sentences)} sentences failed (base {base.num_failed})"
    )
    figures = ", ".join([*parts, failures])
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
    figures = [_format_interval(candidate, judge) for judge in columns]
    counts = (str(candidate.unfinished), str(candidate.cut), str(candidate.babbling))
    return (candidate.name, *counts, *figures, loss, "<- best" if is_best else "")


def _format_interval(candidate: Candidate, judge: str) -> str:
    figure = candidate.further.get(judge) or candidate.judges.get(judge)
    if figure is None:
        return "-"
    half = (figure.high - figure.low) / 2
    if judge.endswith("percent"):
        return f"{figure.mean:+.0f} % ±{half:.0f}"
    return f"{figure.mean:.2f} ±{half:.2f}"


def _format_mean(candidate: Candidate, judge: str) -> str:
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
    if naturalness := evaluation.person.get(NATURALNESS):
        half = (naturalness["high"] - naturalness["low"]) / 2
        lines.append(f"Naturalness of the person's own clips: {naturalness['mean']:.2f} ±{half:.2f}.")
    if (errors := evaluation.person.get(WORD_ERRORS)) is not None:
        lines.append(f"Word error rate of the person's own clips: {errors:.2f}.")
    if best := evaluation.best:
        notes = filter(None, (figure.note for figure in best.further.values()))
        lines += [f"{best.name}: {note}" for note in notes]
    if verdict := evaluation.verdict:
        lines.append(" ".join(part for part in (verdict.reason, verdict.advice) if part))
    return lines + [_speaker_line(speaker) for speaker in evaluation.speakers]


def _speaker_line(speaker: SpeakerJudgement) -> str:
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
