"""Routes /v1/datasets: make a dataset, send recordings and their text, cut, delete."""

import asyncio
import shlex
import shutil
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Header, Query, Request
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from api.dataset_schemas import (
    CutRow,
    DatasetDetails,
    DatasetList,
    DatasetRequest,
    DatasetText,
    RecordingRequest,
    RecordingRow,
)
from api.datasets import uploads
from api.datasets.store import UploadedDataset, read_job
from api.errors import APIError
from api.response_schemas import PROBLEMS
from api.routes.voices import visible_name
from api.speech.languages import recorded_language
from api.speech.speaking import languages
from api.state import AppState, app_state

router = APIRouter(prefix="/v1/datasets", tags=["datasets"], responses=PROBLEMS)
Shared = Annotated[AppState, Depends(app_state)]
_GB = 1_000_000_000
TextKind = Literal["txt", "srt", "vtt", "lab", "textgrid"]
_BYTES = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}
# An empty piece adds nothing, and is answered with how far the recording is.
_PIECE = {"requestBody": {**_BYTES["requestBody"], "required": False}}


@router.get("", response_model=DatasetList)
async def list_datasets(parts: Shared) -> dict[str, Any]:
    """The newest first, and how much room there is."""
    return await asyncio.to_thread(_listing, parts)


@router.post("", response_model=DatasetDetails, status_code=201)
async def make_dataset(wanted: DatasetRequest, request: Request, parts: Shared) -> dict[str, Any]:
    """An empty dataset. Record a person only with their consent."""
    parts.check_rate(request)
    language = recorded_language(wanted.language, languages(parts))
    name = visible_name(wanted.name)
    made = await asyncio.to_thread(parts.datasets.create, name, language)
    return await asyncio.to_thread(_details, parts, made)


@router.get("/{dataset}", response_model=DatasetDetails)
async def read_dataset(dataset: str, parts: Shared) -> dict[str, Any]:
    """Its recordings, the state of the cut, the account of every second, and how to train on it."""
    return await asyncio.to_thread(lambda: _details(parts, parts.datasets.find(dataset)))


@router.delete("/{dataset}", status_code=204, response_class=Response)
async def remove_dataset(dataset: str, parts: Shared) -> Response:
    """Deletes all of it: recordings, text, clips, corrections. A cut of it ends."""
    found = parts.datasets.find(dataset)
    await parts.cuts.stop(found, deleted=True)
    await asyncio.to_thread(parts.datasets.remove, found)
    parts.events.tell("dataset", {"id": found.id})
    return Response(status_code=204)


@router.post(
    "/{dataset}/recordings", response_model=RecordingRow, status_code=201,
    responses={200: {"model": RecordingRow}},
)  # fmt: skip
async def announce_recording(
    dataset: str, wanted: RecordingRequest, parts: Shared, response: Response
) -> dict[str, Any]:
    """Announces a recording, whose bytes come in pieces. 200 with `received` where it has begun to
    arrive before: send on from there."""
    found = parts.datasets.find(dataset)
    name, most = visible_name(wanted.name), parts.settings.datasets_max_gb * _GB
    recording = await asyncio.to_thread(
        uploads.announce, parts.datasets, found, name, wanted.bytes, most
    )
    row = recording.row()
    if row["received"]:
        response.status_code = 200
    return row


@router.patch(
    "/{dataset}/recordings/{recording}", response_model=RecordingRow, openapi_extra=_PIECE
)
async def send_piece(
    dataset: str,
    recording: str,
    request: Request,
    parts: Shared,
    upload_offset: Annotated[
        int, Header(ge=0, le=2**53, description="How many bytes were sent before this piece.")
    ],
) -> dict[str, Any]:
    """Takes the next piece of a recording, at most 8 MiB. What arrives of it stays, whatever breaks
    off; `received` says where to go on."""
    kept = parts.datasets.find(dataset)
    found = uploads.find_recording(kept, recording)
    try:
        await uploads.receive(kept, recording, upload_offset, request.stream())
    except ClientDisconnect:
        pass  # nobody reads this answer, and no traceback need tell of a line that broke
    return found.row()


@router.delete("/{dataset}/recordings/{recording}", status_code=204, response_class=Response)
async def remove_recording(dataset: str, recording: str, parts: Shared) -> Response:
    """Deletes a recording. Clips that were cut of it stay until the next cut."""
    found = parts.datasets.find(dataset)
    await asyncio.to_thread(uploads.remove_recording, found, recording)
    return Response(status_code=204)


@router.put("/{dataset}/text", response_model=DatasetText, openapi_extra=_BYTES)
async def put_text(
    dataset: str,
    request: Request,
    parts: Shared,
    kind: Annotated[TextKind, Query(description="The ending of its file.")] = "txt",
) -> dict[str, Any]:
    """What the recordings say, in the order of their names: a text, or one with times (4 MiB)."""
    found = parts.datasets.find(dataset)
    content = await request.body()
    if not content.strip():
        raise APIError(422, "no_text", "The text is empty. Delete it to cut without one.")
    uploads.check_text(content)
    await asyncio.to_thread(uploads.put_text, found, kind, content)
    return {"kind": kind, "bytes": len(content)}


@router.delete("/{dataset}/text", status_code=204, response_class=Response)
async def remove_text(dataset: str, parts: Shared) -> Response:
    """The next cut has no text: its clips wait for somebody to write theirs."""
    found = parts.datasets.find(dataset)
    await asyncio.to_thread(uploads.remove_text, found)
    return Response(status_code=204)


@router.post("/{dataset}/cut", response_model=CutRow, status_code=202)
async def cut(dataset: str, request: Request, parts: Shared) -> dict[str, Any]:
    """Queues the cut of its recordings. One dataset is cut at a time, behind whoever speaks."""
    parts.check_rate(request)
    found = parts.datasets.find(dataset)
    await asyncio.to_thread(parts.cuts.ask, found)
    parts.cuts.wake()
    parts.events.tell("dataset", {"id": found.id})
    return await asyncio.to_thread(_cut_row, parts, found)


@router.delete("/{dataset}/cut", response_model=CutRow)
async def stop_cut(dataset: str, parts: Shared) -> dict[str, Any]:
    """Stops it, or takes it from the queue. What was heard is kept for the next time."""
    found = parts.datasets.find(dataset)
    await parts.cuts.stop(found)
    return await asyncio.to_thread(_cut_row, parts, found)


def _listing(parts: AppState) -> dict[str, Any]:
    found = parts.datasets.all()
    used, announced = uploads.space(parts.datasets)
    above = next(
        one for one in (parts.datasets.folder.absolute(), *parts.datasets.folder.absolute().parents)
        if one.exists()
    )  # fmt: skip
    return {
        "datasets": [
            {"id": one.id, "name": one.name, "language": one.language, "created": one.created,
             "recordings": len(uploads.recordings(one)), "state": read_job(one).state}
            for one in found
        ],
        "space": {"used": used + announced, "most": parts.settings.datasets_max_gb * _GB,
                  "free": shutil.disk_usage(above).free},
    }  # fmt: skip


def _details(parts: AppState, dataset: UploadedDataset) -> dict[str, Any]:
    text = uploads.text_of(dataset)
    summary = parts.clips.summary(dataset)
    return {
        "id": dataset.id, "name": dataset.name, "language": dataset.language,
        "created": dataset.created,
        "recordings": [one.row() for one in uploads.recordings(dataset)],
        "text": text and {"kind": text.suffix[1:], "bytes": text.stat().st_size},
        "cut": _cut_row(parts, dataset),
        "train": _training(parts, dataset) if summary["clips"]["kept"] else None,
        **summary,
    }  # fmt: skip


def _cut_row(parts: AppState, dataset: UploadedDataset) -> dict[str, Any]:
    job = read_job(dataset)
    changed = job.inputs != uploads.signature(dataset)
    return {
        "state": job.state, "message": job.message, "asked": job.asked, "started": job.started,
        "ended": job.ended, "ahead": parts.cuts.place(dataset) if job.state == "queued" else 0,
        "told": parts.cuts.told(dataset), "outdated": bool(job.inputs) and changed,
    }  # fmt: skip


def _training(parts: AppState, dataset: UploadedDataset) -> dict[str, Any]:
    settings = parts.settings
    top = settings.datasets_host_path or str(settings.datasets_dir)
    folder = f"{top.rstrip('/')}/{dataset.id}/clips"
    given = f"DATASET_DIR={shlex.quote(folder)} LANGUAGE={shlex.quote(dataset.language)}"
    return {
        "dataset_dir": folder,
        "command": f"{given} make train",
        "container": f"{given} docker compose -f docker-compose-training.yml up",
    }
