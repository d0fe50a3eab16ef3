"""Describes runs, epochs, samples and evaluations as the models of /v1/runs."""

import contextlib
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from api.runs.listing import EpochSummary, RunSummary, is_current, losses_of, sentence_sound
from api.schemas import (
    CandidateRow,
    CandidateSentences,
    EpochRow,
    EvaluationRow,
    RunRow,
    SaidSentence,
    Sample,
    Served,
    VerdictRow,
    WordTimestamp,
)
from xtts.voices.evaluation_file import candidate_id


def run_row(
    run: RunSummary, *, served: Served | None, verified: Mapping[str, bool], speakable: Collection[str]
) -> RunRow:
    """One run as /v1/runs lists it.

    Args:
        served: The served part of this run; None if it is another run's.
        verified: SHA-256 -> whether the content of the checkpoint has it.
        speakable: The ids of the candidates that can speak.
    """
    best_epoch, served_id = run.best_epoch, served.candidate if served else None
    epoch_rows = []
    for epoch in run.epochs.values():
        is_verified = verified.get(epoch.sha256)
        epoch_rows.append(
            EpochRow(
                epoch=epoch.number,
                step=epoch.manifest.step if epoch.manifest else None,
                checkpoint=epoch.checkpoint is not None,
                checkpoint_state="damaged" if is_verified is False else epoch.state,
                verified=is_verified,
                sample=_sample_row(run, epoch),
                validation_loss=losses_of(epoch).get("validation_audio_loss"),
                is_best=epoch.number == best_epoch,
                is_served=served_id == candidate_id("epoch", epoch.number),
            )
        )
    return RunRow(
        id=run.id,
        kind=run.kind,
        path_name=run.folder.folder.name,
        created=datetime.fromtimestamp(run.created, UTC).isoformat(timespec="seconds"),
        training=run.is_training,
        minutes=run.minutes,
        epochs=epoch_rows,
        evaluation=_evaluation_row(run, served_id, speakable),
    )


def _sample_row(run: RunSummary, epoch: EpochSummary) -> Sample | None:
    if epoch.sample is None:
        return None
    url, sample = f"/v1/runs/{run.id}/epochs/{epoch.number}", epoch.sample
    names = Sample.model_fields.keys() - {"output", "reference", "words"}
    try:
        return Sample(
            output=f"{url}/output.wav" if epoch.output else None,
            reference=f"{url}/reference.wav" if epoch.reference else None,
            words=_word_timestamps(sample.get("words")),
            **{name: sample.get(name) for name in names},
        )
    except ValidationError:  # written by another program, or by hand
        return None


def _word_timestamps(words: Any) -> list[WordTimestamp] | None:
    """The times of a sample's words; None if its sidecar has none or is of an earlier version."""
    with contextlib.suppress(ValidationError, TypeError):
        return [WordTimestamp.model_validate(word, strict=True) for word in words]
    return None


def _evaluation_row(
    run: RunSummary, served_id: str | None, speakable: Collection[str]
) -> EvaluationRow | None:
    """The evaluation without sentences; None if nothing was judged. served_id: of the served
    candidate."""
    evaluation = run.evaluation
    if evaluation is None:
        return None
    verdict = evaluation.verdict
    best_id = verdict and verdict.candidate
    candidate_rows = []
    for candidate in evaluation.candidates:
        if is_current(run, candidate):
            candidate_rows.append(
                CandidateRow(
                    **vars(candidate),
                    id=candidate.id,
                    name=candidate.name,
                    validation_loss=candidate.validation_audio_loss,
                    is_best=best_id == candidate.id,
                    is_served=served_id == candidate.id,
                    can_speak=candidate.id in speakable,
                )
            )
    return EvaluationRow(
        made_at=evaluation.made_at,
        language=evaluation.language,
        sentence_set=evaluation.sentence_set,
        sentences=max((len(candidate.sentences) for candidate in evaluation.candidates), default=0),
        judges=evaluation.judges,
        smallest_difference=evaluation.smallest_difference,
        candidates=candidate_rows,
        verdict=verdict and VerdictRow(**vars(verdict), candidate=best_id),
    )


def candidate_sentences(run: RunSummary) -> list[CandidateSentences]:
    """Each candidate with its sentences: the URL of the sound, and the judges' figures."""
    rows = []
    for candidate in run.evaluation.candidates if run.evaluation else ():
        if not is_current(run, candidate):
            continue
        url = f"/v1/runs/{run.id}/candidates/{candidate.id}/sentences"
        sentences = [
            SaidSentence(
                **vars(sentence),
                sound=f"{url}/{number}.wav" if sentence_sound(run, candidate, number) else None,
            )
            for number, sentence in enumerate(candidate.sentences)
        ]
        rows.append(CandidateSentences(id=candidate.id, name=candidate.name, sentences=sentences))
    return rows
