"""Routes /v1/runs: runs, epochs, samples, evaluation, curves; promote, preview, export, delete."""

import asyncio
from pathlib import Path
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from fastapi import Path as PathParameter
from starlette.responses import Response

from api.errors import APIError
from api.routes import speech
from api.routes.ranged_file import WAV_RESPONSES, RangedFile, wav_file
from api.routes.speech import SpeechRequest
from api.runs import exports, listing, rows
from api.runs.exports import ZipResponse
from api.runs.listing import EpochSummary, RunSummary
from api.runs.targets import find_target
from api.schemas import PROBLEMS, EvaluationDetails, Metrics, Promoted, Responses, RunDetails, RunList
from api.state import AppState, Shared
from xtts.voices.evaluation_file import BASE_ID, candidate_id

router = APIRouter(prefix="/v1", tags=["runs"], responses=PROBLEMS)
_ZIP_RESPONSES: Responses = {
    200: {"content": {"application/zip": {"schema": {"type": "string", "format": "binary"}}}}
}
SentenceNumber = Annotated[int, PathParameter(ge=0, le=100_000, description="counted from 0")]
Since = Annotated[int, Query(ge=0, le=2**53, description="`next` of the previous response")]


@router.get("/runs")
async def list_runs(state: Shared) -> RunList:
    """The current run, those of the training queue, and the archive."""
    return state.follower.run_list()


@router.get("/runs/{run_id}")
async def read_run(run_id: str, state: Shared) -> RunDetails:
    """One run, its size on disk, and how much its deletion would free."""
    run = state.follower.find(run_id)
    # While its size is read, the follower may find that it is gone.
    row = next(row for row in state.follower.run_list().runs if row.id == run.id)
    total, freed = await asyncio.to_thread(exports.folder_sizes, run.folder.folder)
    return RunDetails(run=row, bytes=total, frees=freed, why_kept=_why_kept(state, run))


@router.delete("/runs/{run_id}", status_code=204, response_class=Response)
async def remove_run(run_id: str, state: Shared) -> Response:
    """Permanently deletes a run with all its epochs, unless it is served or being trained."""
    state.require_training_allowed()
    if reason := _why_kept(state, state.follower.find(run_id)):
        raise APIError(409, "run_in_use", reason)
    await state.follower.remove(run_id)
    return Response(status_code=204)


@router.post("/runs/{run_id}/export", response_class=Response, responses=_ZIP_RESPONSES)
async def export_run(run_id: str, request: Request, state: Shared) -> ZipResponse:
    """The best voice of a run as a zip file, with its licence and a card. The first byte can take
    minutes."""
    state.check_rate(request)
    return ZipResponse(state.exports, state.follower.find(run_id))


@router.get("/runs/{run_id}/metrics")
def read_metrics(run_id: str, state: Shared, since: Since = 0) -> Metrics:
    """Rows of metrics.jsonl, from byte `since` on."""
    run = state.follower.find(run_id)
    records, end = listing.read_metrics(run.folder.metrics, since)
    return Metrics(records=records, next=end)


@router.get("/runs/{run_id}/epochs/{epoch}/{which}.wav", response_class=RangedFile, responses=WAV_RESPONSES)
async def read_sample(
    run_id: str, epoch: int, which: Literal["output", "reference"], state: Shared
) -> RangedFile:
    """An epoch's sample, or the reference recording; supports ranges."""
    saved = _epoch(state.follower.find(run_id), epoch)
    path: Path | None = getattr(saved, which)
    if path is None or not path.is_file():
        raise APIError(404, "no_sample", f"Epoch {epoch} has no {which}.")
    return await wav_file(path, spoken=which == "output")


@router.get("/runs/{run_id}/evaluation")
def read_evaluation(run_id: str, state: Shared) -> EvaluationDetails:
    """The sentences of each judged candidate, with the URLs of their audio."""
    run = state.follower.find(run_id)
    if run.evaluation is None:
        raise APIError(404, "no_evaluation", "The run has no evaluation yet.")
    return EvaluationDetails(made_at=run.evaluation.made_at, candidates=rows.candidate_sentences(run))


@router.get(
    "/runs/{run_id}/candidates/{candidate}/sentences/{number}.wav",
    response_class=RangedFile,
    responses=WAV_RESPONSES,
)
async def read_sentence(run_id: str, candidate: str, number: SentenceNumber, state: Shared) -> RangedFile:
    """The audio of a judged candidate's sentence; supports ranges."""
    run = state.follower.find(run_id)
    judged = listing.find_candidate(run, candidate)
    if judged is None or not listing.is_current(run, judged):
        raise APIError(404, "no_candidate", "The evaluation has no such candidate.")
    path = listing.sentence_sound(run, judged, number)
    if path is None:
        raise APIError(404, "no_sample", "The audio of that sentence was not kept.")
    return await wav_file(path, spoken=True)


@router.post(
    "/runs/{run_id}/candidates/{candidate}/speech",
    tags=["speech"],
    response_class=Response,
    responses=speech.SOUND_RESPONSES,
)
async def preview(
    run_id: str, candidate: str, body: SpeechRequest, request: Request, state: Shared
) -> Response:
    """Speaks `input` with an epoch, the base (with the person's recording) or the best blend, and
    keeps the served voice. Otherwise as /v1/audio/speech."""
    caller = state.check_rate(request)
    target = find_target(state.settings, state.follower.find(run_id), candidate)
    preview_target = None if state.follower.is_served(target) else target
    return await speech.respond(state, caller, body, preview_target)


@router.post("/runs/{run_id}/epochs/{epoch}/promote")
async def promote(run_id: str, epoch: int, state: Shared) -> Promoted:
    """Serves this epoch from now on. Requests in progress finish with the previous voice."""
    saved = _epoch(state.follower.find(run_id), epoch)
    return await promote_candidate(run_id, candidate_id("epoch", saved.number), state)


@router.post("/runs/{run_id}/candidates/{candidate}/promote")
async def promote_candidate(run_id: str, candidate: str, state: Shared) -> Promoted:
    """Serves an epoch or the best blend from now on. To serve the base, set VOICE."""
    target = find_target(state.settings, state.follower.find(run_id), candidate)
    if candidate == BASE_ID:
        text = "Only an epoch or the best blend is promoted. VOICE serves the base, or an export."
        raise APIError(409, "no_checkpoint", text)
    await state.follower.promote(target)
    return Promoted(served=state.follower.served_epoch())


@router.delete("/promotion")
async def end_promotion(state: Shared) -> Promoted:
    """Ends the promotion: the service follows VOICE again."""
    await state.follower.demote()
    return Promoted(served=state.follower.served_epoch())


def _why_kept(state: AppState, run: RunSummary) -> str:
    reason = state.extras.why_kept(run.id) if run.kind == "named" else ""
    return reason or state.follower.why_kept(run)


def _epoch(run: RunSummary, number: int) -> EpochSummary:
    epoch = run.epochs.get(number)
    if epoch is None:
        raise APIError(404, "no_epoch", "The run has no such epoch. /v1/runs lists them.")
    return epoch
