"""Routes /v1/runs: runs, epochs, samples, loss curves, and promoting an epoch."""

import asyncio
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query
from fastapi.responses import FileResponse

from api.errors import APIError
from api.response_schemas import PROBLEMS, Metrics, Promoted, RunList
from api.runs import listing
from api.runs.listing import EpochSummary, RunSummary
from api.state import AppState, app_state

router = APIRouter(prefix="/v1", tags=["runs"], responses=PROBLEMS)
Shared = Annotated[AppState, Depends(app_state)]
Since = Annotated[int, Query(ge=0, le=2**53, description="`next` of the answer before")]


@router.get("/runs", response_model=RunList)
async def list_runs(parts: Shared) -> dict[str, Any]:
    """The current run and the archive."""
    return parts.follower.listing()


@router.get("/runs/{run_id}/metrics", response_model=Metrics)
async def read_metrics(run_id: str, parts: Shared, since: Since = 0) -> dict[str, Any]:
    """Rows of metrics.jsonl, from where the last answer ended."""
    run = _run(parts, run_id)
    records, end = await asyncio.to_thread(listing.records, run.folder.metrics, since)
    return {"records": records, "next": end}


@router.get(
    "/runs/{run_id}/epochs/{epoch}/{which}.wav",
    response_class=FileResponse,
    responses={200: {"content": {"audio/wav": {}}}, 206: {"content": {"audio/wav": {}}}},
)
async def read_sample(
    run_id: str, epoch: int, which: Literal["output", "reference"], parts: Shared
) -> FileResponse:
    """What an epoch said, or the recording beside it; ranges are served."""
    found = _epoch(_run(parts, run_id), epoch)
    path: Path | None = getattr(found, which)
    if path is None or not path.is_file():
        raise APIError(404, "no_sample", f"Epoch {epoch} has no {which}.")
    # Samples are written atomically and may be written again: the client asks each time.
    return FileResponse(path, media_type="audio/wav", headers={"Cache-Control": "no-cache"})


@router.post("/runs/{run_id}/epochs/{epoch}/promote", response_model=Promoted)
async def promote(run_id: str, epoch: int, parts: Shared) -> dict[str, Any]:
    """Speaks with this epoch from now on. Requests in flight finish with the voice before."""
    found = _epoch(_run(parts, run_id), epoch)
    if found.checkpoint is None:
        raise _no_checkpoint(found)
    await parts.follower.promote(run_id, found)
    return {"served": parts.follower.served_epoch()}


@router.delete("/promotion", response_model=Promoted)
async def end_promotion(parts: Shared) -> dict[str, Any]:
    """Follows VOICE again: the latest epoch, where nothing else is set."""
    await parts.follower.demote()
    return {"served": parts.follower.served_epoch()}


def _no_checkpoint(epoch: EpochSummary) -> APIError:
    """Why this epoch cannot be spoken with."""
    name = f"The checkpoint of epoch {epoch.number}"
    if epoch.state == "damaged":
        text = f"{name} was cut short or changed after it was saved. Serve another epoch."
        return APIError(409, "damaged_checkpoint", text)
    if epoch.state == "unfinished":
        text = f"{name} is being saved, or was not saved to the end. Try again, or serve another."
        return APIError(409, "unfinished_checkpoint", text)
    text = f"{name} was pruned; its sample stays. KEEP_CHECKPOINTS says how many are kept."
    return APIError(409, "no_checkpoint", text)


def _run(parts: AppState, run_id: str) -> RunSummary:
    found = parts.follower.runs.get(run_id)
    if found is None:
        raise APIError(404, "no_run", "There is no run of that name; /v1/runs lists them.")
    return found


def _epoch(run: RunSummary, number: int) -> EpochSummary:
    found = run.epochs.get(number)
    if found is None:
        raise APIError(404, "no_epoch", "That run has no such epoch; /v1/runs lists them.")
    return found
