"""Routes /v1/datasets/{dataset}/clips and …/account.csv: hear, correct and drop what was cut."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from starlette.responses import FileResponse

from api.dataset_schemas import ClipOrder, ClipPage, ClipRequest, ClipRow
from api.datasets.clips import MOST_CLIPS
from api.errors import APIError
from api.response_schemas import PROBLEMS
from api.routes.ranged_file import WAV_RESPONSES, RangedFile, ranged_responses
from api.state import AppState, app_state

router = APIRouter(prefix="/v1/datasets/{dataset}", tags=["datasets"], responses=PROBLEMS)
Shared = Annotated[AppState, Depends(app_state)]
# A clip of that name may be another one after the next cut.
_FRESH = {"Cache-Control": "no-store"}

_CSV_RESPONSES = ranged_responses("text/csv")


@router.get("/clips", response_model=ClipPage)
async def list_clips(
    dataset: str,
    parts: Shared,
    order: Annotated[ClipOrder, Query(description="worst: what is odd comes first.")] = "worst",
    offset: Annotated[int, Query(ge=0, le=2**53)] = 0,
    limit: Annotated[int, Query(ge=1, le=MOST_CLIPS)] = 20,
) -> dict[str, Any]:
    """Clips with their waveforms and texts; none where nothing is cut."""
    found = parts.datasets.find(dataset)
    return await asyncio.to_thread(parts.clips.listing, found, order, offset, limit)


@router.patch("/clips/{clip}", response_model=ClipRow)
async def correct_clip(
    dataset: str, clip: str, wanted: ClipRequest, parts: Shared
) -> dict[str, Any]:
    """Corrects what a clip says, drops it, or takes it in again. Training reads it from then on,
    and a later cut gets it wherever the same sound is cut the same."""
    found = parts.datasets.find(dataset)
    changed = wanted.model_dump(include=wanted.model_fields_set & {"text", "dropped"})
    return await asyncio.to_thread(parts.clips.correct, found, clip, changed, wanted.sha256)


@router.get(
    "/clips/{clip}.wav", response_class=FileResponse, responses=WAV_RESPONSES,
)  # fmt: skip
async def hear_clip(dataset: str, clip: str, parts: Shared) -> FileResponse:
    """The sound of a clip; ranges are served."""
    found = parts.datasets.find(dataset)
    path = await asyncio.to_thread(parts.clips.sound, found, clip)
    return RangedFile(path, media_type="audio/wav", headers=_FRESH)


@router.get(
    "/account.csv", response_class=FileResponse, responses=_CSV_RESPONSES,
)  # fmt: skip
async def read_account(dataset: str, parts: Shared) -> FileResponse:
    """Every second of every recording: from when to when, in a clip or why not."""
    path = parts.datasets.find(dataset).clips / "account.csv"
    if not path.is_file():
        raise APIError(404, "not_cut", "That dataset is not cut yet.")
    return RangedFile(path, media_type="text/csv; charset=utf-8", headers=_FRESH)
