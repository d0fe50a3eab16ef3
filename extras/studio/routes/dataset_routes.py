"""Routes /v1/datasets: create a dataset, upload recordings and text, cut, correct, delete."""

import asyncio
import re
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import FileResponse, Response

from api.arriving import body_file, free_bytes
from api.errors import APIError, excerpt
from api.gate import takes_upload
from api.routes.ranged_file import WAV_RESPONSES, RangedFile, ranged_responses
from api.routes.uploads import visible_name
from api.schemas import PROBLEMS
from api.state import AppState, Shared
from extras.common.disk_space import DiskSpace
from extras.studio import dataset_schemas as schemas
from extras.studio.datasets import clips, uploads
from extras.studio.datasets.dataset_store import UploadedDataset
from extras.studio.datasets.prompts import is_read_aloud
from extras.studio.part import Studio
from extras.studio.settings import StudioServiceSettings
from machine import commands
from xtts.text.languages import ENGLISH_NAMES, tag_of

router = APIRouter(prefix="/v1/datasets", tags=["datasets"], responses=PROBLEMS)
_FILE_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}
# DATASETS_MAX_GB and the disk set lower limits.
_MAX_RECORDING_BYTES = 1 << 40
# After the next cut, the same name may mean another clip.
_NO_STORE = {"Cache-Control": "no-store"}
_CSV_RESPONSES = ranged_responses("text/csv")


@router.get("")
def list_datasets(state: Shared) -> schemas.DatasetList:
    """Lists the datasets, newest first, and the available space."""
    datasets = state.part(Studio).datasets
    rows = [
        schemas.DatasetRow(
            id=dataset.id,
            name=dataset.name,
            language=dataset.language,
            created=dataset.created,
            recordings=len(uploads.recordings(dataset)),
            state=dataset.job.state,
            read_aloud=is_read_aloud(dataset),
        )
        for dataset in datasets.all()
    ]
    space = DiskSpace(
        used=uploads.used_bytes(datasets), most=datasets.max_bytes, free=free_bytes(datasets.folder)
    )
    return schemas.DatasetList(datasets=rows, space=space)


@router.post("", status_code=201)
async def make_dataset(
    body: schemas.DatasetRequest, request: Request, state: Shared
) -> schemas.DatasetDetails:
    """Creates an empty dataset. Record a person only with their consent."""
    state.check_rate(request)
    language = _recorded_language(body.language, state.languages)
    name = visible_name(body.name)
    dataset = await asyncio.to_thread(state.part(Studio).datasets.create, name, language)
    return await asyncio.to_thread(_details, state, dataset)


@router.get("/{dataset}")
def read_dataset(dataset: str, state: Shared) -> schemas.DatasetDetails:
    """The recordings of a dataset, the state of its cut, the use of every second, and how to train
    on it."""
    return _details(state, state.part(Studio).datasets.find(dataset))


@router.delete("/{dataset}", status_code=204, response_class=Response)
async def remove_dataset(dataset: str, state: Shared) -> Response:
    """Deletes a dataset with its recordings, text, clips and corrections. Its cut is stopped."""
    uploaded = state.part(Studio).datasets.find(dataset)
    await state.part(Studio).cuts.stop(uploaded, deleted=True)
    await asyncio.to_thread(state.part(Studio).datasets.remove, uploaded)
    state.events.tell("dataset", {"id": uploaded.id})
    return Response(status_code=204)


@router.post("/{dataset}/recordings", status_code=201, openapi_extra=_FILE_BODY)
@takes_upload(_MAX_RECORDING_BYTES, piece_bytes=8 << 20)
async def upload_recording(
    dataset: str,
    request: Request,
    state: Shared,
    name: Annotated[
        str,
        Query(
            min_length=1,
            max_length=schemas.MAX_FILE_NAME,
            description="The name of the file. Its ending names the format.",
        ),
    ],
) -> schemas.RecordingRow:
    """Uploads a recording: the body is the file."""
    datasets = state.part(Studio).datasets
    uploaded, plain = datasets.find(dataset), visible_name(name)
    await asyncio.to_thread(uploads.check_new, uploaded, plain)
    declared = int(request.headers.get("content-length", "0"))
    await asyncio.to_thread(uploads.check_room, datasets, declared)
    async with body_file(request, uploaded.folder / "recordings", "recording") as path:
        recording = await asyncio.to_thread(uploads.add, datasets, uploaded, plain, path)
    state.events.tell("dataset", {"id": uploaded.id})
    return schemas.RecordingRow.model_validate(recording)


@router.delete("/{dataset}/recordings/{recording}", status_code=204, response_class=Response)
def remove_recording(dataset: str, recording: str, state: Shared) -> Response:
    """Deletes a recording. Clips cut from it stay until the next cut."""
    uploads.remove_recording(state.part(Studio).datasets.find(dataset), recording)
    return Response(status_code=204)


@router.put("/{dataset}/text", openapi_extra=_FILE_BODY)
@takes_upload(4 << 20)
async def put_text(
    dataset: str,
    request: Request,
    state: Shared,
    kind: Annotated[uploads.TextKind, Query(description="The format of the text, as a file ending.")] = "txt",
) -> schemas.DatasetText:
    """Sets the text of all recordings, in the order of their names, with or without times; at most
    4 MiB."""
    uploaded = state.part(Studio).datasets.find(dataset)
    content = await request.body()
    if not content.strip():
        raise APIError(422, "no_text", "The text is empty. Delete it to cut without a text.")
    uploads.check_text(content)
    await asyncio.to_thread(uploads.put_text, uploaded, kind, content)
    return schemas.DatasetText(kind=kind, bytes=len(content))


@router.delete("/{dataset}/text", status_code=204, response_class=Response)
def remove_text(dataset: str, state: Shared) -> Response:
    """Deletes the text. The clips of the next cut then need their texts written by hand."""
    uploads.put_text(state.part(Studio).datasets.find(dataset))
    return Response(status_code=204)


@router.post("/{dataset}/cut", status_code=202)
async def cut(dataset: str, request: Request, state: Shared) -> schemas.CutRow:
    """Queues the cut of the recordings. One dataset is cut at a time, and speech has priority."""
    state.check_rate(request)
    uploaded = state.part(Studio).datasets.find(dataset)
    await asyncio.to_thread(state.part(Studio).cuts.ask, uploaded)
    state.part(Studio).cuts.wake()
    state.events.tell("dataset", {"id": uploaded.id})
    return await asyncio.to_thread(_cut_row, state, uploaded)


@router.delete("/{dataset}/cut")
async def stop_cut(dataset: str, state: Shared) -> schemas.CutRow:
    """Stops the cut or removes it from the queue. Finished recognition is kept for the next cut."""
    uploaded = state.part(Studio).datasets.find(dataset)
    await state.part(Studio).cuts.stop(uploaded)
    return await asyncio.to_thread(_cut_row, state, uploaded)


@router.get("/{dataset}/clips")
def list_clips(
    dataset: str,
    state: Shared,
    order: Annotated[schemas.ClipOrder, Query(description="worst: the most doubtful clips first.")] = "worst",
    offset: Annotated[int, Query(ge=0, le=2**53)] = 0,
    limit: Annotated[int, Query(ge=1, le=clips.MAX_CLIPS)] = 20,
) -> schemas.ClipPage:
    """Lists clips with their waveforms and texts."""
    return clips.listing(state.part(Studio).datasets.find(dataset), order, offset, limit)


@router.patch("/{dataset}/clips/{clip}")
def correct_clip(dataset: str, clip: str, body: schemas.ClipRequest, state: Shared) -> schemas.ClipRow:
    """Corrects the text of a clip, drops the clip or restores it. Training uses the correction from
    then on, and so does a later cut that contains the same clip."""
    uploaded = state.part(Studio).datasets.find(dataset)
    changed = body.model_dump(include=body.model_fields_set & {"text", "dropped"})
    return clips.correct(uploaded, clip, changed, body.sha256)


@router.get("/{dataset}/clips/{clip}.wav", response_class=FileResponse, responses=WAV_RESPONSES)
def hear_clip(dataset: str, clip: str, state: Shared) -> FileResponse:
    """The audio of a clip; range requests are supported."""
    path = clips.sound_path(state.part(Studio).datasets.find(dataset), clip)
    return RangedFile(path, media_type="audio/wav", headers=_NO_STORE)


@router.get("/{dataset}/account.csv", response_class=FileResponse, responses=_CSV_RESPONSES)
async def read_account(dataset: str, state: Shared) -> FileResponse:
    """The use of every second of every recording: parts in clips, and parts left out with the
    reason."""
    path = state.part(Studio).datasets.find(dataset).clips / "account.csv"
    if not path.is_file():
        raise APIError(404, "not_cut", "The dataset is not cut yet.")
    return RangedFile(path, media_type="text/csv; charset=utf-8", headers=_NO_STORE)


def _recorded_language(code: str, served_languages: Sequence[str]) -> str:
    """The language of recordings in lower case: a code or locale of XTTS-v2 or of the served voice.
    Raises APIError (422)."""
    languages = sorted({*ENGLISH_NAMES, *(served.lower().partition("-")[0] for served in served_languages)})
    language = tag_of(code).lower()
    if not re.fullmatch(schemas.LOCALE, code) or language.partition("-")[0] not in languages:
        text = f"language is {excerpt(code)}. Use {', '.join(languages)}, also with a region, such as pt-br."
        raise APIError(422, "invalid_request", text, param="language")
    return language


def _details(state: AppState, dataset: UploadedDataset) -> schemas.DatasetDetails:
    text = uploads.text_of(dataset)
    summary = clips.summary(dataset)
    return schemas.DatasetDetails(
        id=dataset.id,
        name=dataset.name,
        language=dataset.language,
        created=dataset.created,
        read_aloud=is_read_aloud(dataset),
        recordings=uploads.recordings(dataset),
        text=schemas.DatasetText(kind=text.suffix[1:], bytes=text.stat().st_size) if text else None,
        cut=_cut_row(state, dataset),
        train=_training_line(state, dataset) if summary["clips"].kept else None,
        **summary,
    )


def _cut_row(state: AppState, dataset: UploadedDataset) -> schemas.CutRow:
    job = dataset.job
    return schemas.CutRow(
        **asdict(job),
        ahead=state.part(Studio).cuts.place(dataset) if job.state == "queued" else 0,
        told=state.part(Studio).cuts.told(dataset),
        outdated=bool(job.inputs) and job.inputs != uploads.signature(dataset),
    )


def _training_line(state: AppState, dataset: UploadedDataset) -> schemas.TrainingLine:
    settings = state.settings
    assert isinstance(settings, StudioServiceSettings)
    parent = settings.datasets_host_path or str(settings.datasets_dir)
    folder = f"{parent.rstrip('/')}/{dataset.id}/clips"
    variables = f"DATASET_DIR={shlex.quote(folder)} LANGUAGE={shlex.quote(dataset.language)}"
    return schemas.TrainingLine(
        dataset_dir=folder,
        command=f"{variables} {commands.make('train')}",
        container=f"{variables} docker compose -f docker-compose-training.yml up",
    )
