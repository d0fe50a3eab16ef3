"""A run's evaluation as /v1/runs shows it: candidates with figures, sentences, verdict.

Ids of candidates are `base`, `epoch_3` and `epoch_3_share_0.5` (a blend of epoch 3 and the base).
"""

from collections.abc import Callable
from pathlib import Path

from api.runs.listing import RunSummary
from api.schemas import (
    CandidateRow,
    CandidateSentences,
    EvaluationRow,
    SaidSentence,
    VerdictRow,
)
from xtts.voices.evaluation_file import Candidate, CandidateKind, Verdict

BASE = "base"


def candidate_id(kind: CandidateKind, epoch: int, share: float = 1.0) -> str:
    """The id of a candidate in URLs."""
    if kind == "base":
        return BASE
    return f"epoch_{epoch}" + (f"_share_{share:g}" if kind == "blend" else "")


def find_candidate(run: RunSummary, wanted: str) -> Candidate | None:
    """The judged candidate of that id."""
    for one in run.evaluation.candidates if run.evaluation else ():
        if candidate_id(one.kind, one.epoch, one.share) == wanted:
            return one
    return None


def is_current(run: RunSummary, candidate: Candidate) -> bool:
    """Whether the run still holds the weights that were judged; an epoch that was trained again
    has others. For a pruned epoch, the hash of the checkpoint that spoke its sample decides."""
    epoch = run.epochs.get(candidate.epoch)
    if candidate.kind == "base" or epoch is None:
        return True
    known = {sha256 for sha256 in (epoch.sha256, epoch.sampled) if sha256}
    return not known or candidate.checkpoint_sha256 in known


def listed(
    run: RunSummary, *, served: str | None, can_speak: Callable[[str], bool]
) -> EvaluationRow | None:
    """The evaluation as /v1/runs lists it, without sentences; None if nothing was judged. served:
    the id of the candidate that is served, if it belongs to this run."""
    evaluation = run.evaluation
    if evaluation is None:
        return None
    verdict = evaluation.verdict
    return EvaluationRow(
        made_at=evaluation.made_at, language=evaluation.language,
        sentence_set=evaluation.sentence_set,
        sentences=max((len(one.sentences) for one in evaluation.candidates), default=0),
        judges=evaluation.judges, smallest_difference=evaluation.smallest_difference,
        candidates=[
            _row(one, verdict, served, can_speak) for one in evaluation.candidates
            if is_current(run, one)
        ],
        verdict=verdict and VerdictRow(
            **vars(verdict), candidate=candidate_id(verdict.kind, verdict.epoch, verdict.share)
        ),
    )  # fmt: skip


def _row(
    one: Candidate, verdict: Verdict | None, served: str | None, can_speak: Callable[[str], bool]
) -> CandidateRow:
    name = candidate_id(one.kind, one.epoch, one.share)
    best = verdict and candidate_id(verdict.kind, verdict.epoch, verdict.share)
    return CandidateRow(
        **vars(one), id=name, name=one.name, validation_loss=one.validation_audio_loss,
        is_best=best == name, is_served=served == name, can_speak=can_speak(name),
    )  # fmt: skip


def sentences(run: RunSummary) -> list[CandidateSentences]:
    """Each candidate with its sentences: the URL of the sound, and the judges' figures."""
    candidates = run.evaluation.candidates if run.evaluation else []
    return [_said(run, one) for one in candidates if is_current(run, one)]


def _said(run: RunSummary, one: Candidate) -> CandidateSentences:
    name = candidate_id(one.kind, one.epoch, one.share)
    where = f"/v1/runs/{run.id}/candidates/{name}/sentences"
    rows = [
        SaidSentence(
            **vars(sentence),
            sound=f"{where}/{number}.wav" if sound_of(run, one, number) else None,
        )
        for number, sentence in enumerate(one.sentences)
    ]
    return CandidateSentences(id=name, name=one.name, sentences=rows)


def sound_of(run: RunSummary, candidate: Candidate, number: int) -> Path | None:
    """The WAV file of a sentence. evaluation.json may have been edited or copied from elsewhere, so
    only WAV files inside the run folder are served."""
    if not 0 <= number < len(candidate.sentences):
        return None
    wav = candidate.sentences[number].wav
    if wav is None or "\0" in wav:
        return None
    try:
        folder = run.folder.folder.resolve()
        path = (folder / wav).resolve()
        inside = path.is_relative_to(folder) and path.suffix == ".wav" and path.is_file()
    except (OSError, RuntimeError):  # a name that is too long, a loop of links
        return None
    return path if inside else None
