"""A candidate's entry in evaluation.json, made of what was measured. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from train.evaluation import judges
from train.evaluation.judges import JudgedSentence
from train.evaluation.person import Person
from train.evaluation.plan import SOUNDED_EVERY
from train.evaluation.sentences import KEPT_SOUNDS, EvaluationSentence
from train.evaluation.statistics import mean_interval
from train.evaluation.verdict import against
from xtts.voices.evaluation_file import Candidate, CandidateKind, JudgeFigure, SpokenSentence
from xtts.workers.requests import SpokenFacts


def candidate(
    kind: CandidateKind,
    epoch: int,
    share: float,
    sentences: Sequence[EvaluationSentence],
    facts: Sequence[SpokenFacts],
    person: Person,
    usual: float,
    *,
    sha256: str = "",
    loss: float | None = None,
    seconds: float = 0.0,
    device: str = "cpu",
) -> Candidate:
    """What was measured of the first so many sentences, judged. usual: `judges.base_evidence`."""
    found = judges.judged(facts, person, usual)
    outcomes = [one.outcome for one in found]
    folder = folder_of(kind, epoch, share)
    return Candidate(
        kind=kind,
        epoch=epoch,
        share=share,
        checkpoint_sha256=sha256,
        unfinished=outcomes.count("unfinished"),
        cut=outcomes.count("cut"),
        babbling=outcomes.count("babbling"),
        judges=_figures(found),
        validation_audio_loss=loss,
        indistinguishable_from_base=False,
        ruled_out=None,
        remarks=[],
        seconds=round(seconds, 2),
        device=device,
        sentences=[
            SpokenSentence(
                asked.request.text, asked.source, asked.request.seed, one.seconds,
                judged.expected_seconds, one.codes, one.text_tokens, judged.outcome,
                judged.figures, wav_of(folder, number), one.heard,
            )
            for number, (asked, one, judged) in enumerate(
                zip(sentences, facts, found, strict=False)
            )
        ],
    )  # fmt: skip


def folder_of(kind: CandidateKind, epoch: int, share: float) -> str:
    """The name of the folder that keeps some of what a candidate says."""
    if kind == "base":
        return "base"
    return f"epoch_{epoch}" + (f"_share_{share:g}" if kind == "blend" else "")


def wav_of(folder: str, number: int) -> str | None:
    """Where a sentence's sound is kept, relative to OUTPUT_DIR; None where it is not."""
    if number % SOUNDED_EVERY or number // SOUNDED_EVERY >= KEPT_SOUNDS:
        return None
    return f"samples/evaluation/{folder}/{number + 1:02}.wav"


def compared(candidates: Sequence[Candidate]) -> list[Candidate]:
    """With each figure's difference to the base, which is the first."""
    base, *others = candidates
    return [base] + [
        replace(one, judges={
            name: replace(figure, against_base=against(one, base, name))
            for name, figure in one.judges.items()
        })
        for one in others
    ]  # fmt: skip


def smallest_differences(candidates: Sequence[Candidate]) -> dict[str, float]:
    """As `xtts.voices.evaluation_file.Evaluation.smallest_difference`."""
    found: dict[str, float] = {}
    for one in candidates:
        for name, figure in one.judges.items():
            if figure.against_base is not None:
                half = (figure.against_base.high - figure.against_base.low) / 2
                found[name] = round(max(found.get(name, 0.0), half), 5)
    return found


def _figures(found: Sequence[JudgedSentence]) -> dict[str, JudgeFigure]:
    names = dict.fromkeys(name for one in found for name in one.figures)
    values = {
        name: [value for one in found if (value := one.figures.get(name)) is not None]
        for name in names
    }
    return {
        name: JudgeFigure(known.mean, known.low, known.high, known.count)
        for name in names
        if (known := mean_interval(values[name])) is not None
    }
