"""Routes for voices as files: import one, and get that of a voice or a run."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from api.arriving import body_file, bytes_below, remove_arriving, require_free
from api.errors import APIError
from api.gate import takes_upload
from api.routes.uploads import visible_name
from api.routes.voices import voice_row
from api.runs.exports import VoiceFileResponse, ascii_name, largest_checkpoint_bytes
from api.schemas import MAX_NAME, PROBLEMS, SERVED, Responses, VoiceRow
from api.shared_folder import writing
from api.state import AppState, Shared
from api.voices import imported, uploaded_file
from api.voices.store import check_new_name
from machine.storage.files import make_folder
from xtts.voices.files.manifest import SUFFIX
from xtts.voices.files.unpacking import folder_name

router = APIRouter(prefix="/v1", responses=PROBLEMS)
_BINARY_SCHEMA = {"schema": {"type": "string", "format": "binary"}}
_REQUEST_BODY = {"requestBody": {"required": True, "content": {"application/octet-stream": _BINARY_SCHEMA}}}
_FILE_RESPONSES: Responses = {200: {"content": {"application/zip": _BINARY_SCHEMA}}}
# Complete weights of XTTS-v2 take 1.9 GB.
_MAX_FILE_BYTES = 8 << 30
WithRecording = Annotated[bool, Query(description="Whether the file contains the recording.")]


@router.post("/voices/import", status_code=201, tags=["voices"], openapi_extra=_REQUEST_BODY)
@takes_upload(_MAX_FILE_BYTES, piece_bytes=8 << 20)
async def import_voice(
    request: Request,
    state: Shared,
    name: Annotated[
        str,
        Query(
            max_length=MAX_NAME,
            description="The voice's name; empty takes that of the file. A taken name gets a number.",
        ),
    ] = "",
    replace: Annotated[bool, Query(description="Replaces the imported voice of this name instead.")] = False,
) -> VoiceRow:
    """Adds the voice of a `.sotaque` file, which is the body. Every part of it is checked before
    anything is kept (docs/voice-file.md). Use a voice only as its person allows."""
    state.check_rate(request)
    if request.headers.get("content-type", "").startswith("multipart/"):
        text = "Send the voice file itself as the body, not a form: curl --data-binary @FILE."
        raise APIError(415, "not_the_file", text)
    new_name = visible_name(name) if name else ""
    if new_name:
        check_new_name(new_name)
    folder = state.settings.voices_dir
    await asyncio.to_thread(_make_room, folder, int(request.headers.get("content-length", "0")))
    async with body_file(request, folder, "voice") as path:
        report = await imported.import_file(
            state.settings, path, new_name, replaces=replace, taken=_speakers_of_base(state)
        )
    for changed in await asyncio.to_thread(state.adapters.read_folders):
        state.engine.forget(changed)
    return voice_row(report["name"], state)


@router.get(
    "/voices/{voice_id}/file", tags=["voices", "speech"], response_class=Response, responses=_FILE_RESPONSES
)
async def voice_file(
    voice_id: str, request: Request, state: Shared, reference: WithRecording = True
) -> VoiceFileResponse:
    """An uploaded or imported voice, or an adapter, as a `.sotaque` file."""
    caller = state.check_rate(request)
    folder = _voice_folder(voice_id, state)
    if folder is None:
        voice = state.voices.find(voice_id)
        write = partial(_write_uploaded, state, caller, voice_id, reference)
        return VoiceFileResponse(state.exports, _file_name(voice.name), 64 << 20, write)
    options = [f"--checkpoint={folder.absolute()}", *_export_options(reference)]
    export = partial(_export, state, options)
    return VoiceFileResponse(state.exports, _file_name(folder.name), 3 * bytes_below(folder), export)


@router.get(
    "/runs/{run_id}/file", tags=["runs", "speech"], response_class=Response, responses=_FILE_RESPONSES
)
async def run_file(
    run_id: str,
    request: Request,
    state: Shared,
    reference: WithRecording = True,
    adapter: Annotated[
        bool, Query(description="Only what LORA_RANK learned, without the base model.")
    ] = False,
) -> VoiceFileResponse:
    """The best voice of a run as a `.sotaque` file. The first byte can take minutes."""
    state.check_rate(request)
    run = state.follower.find(run_id)
    options = [f"--output-dir={run.folder.folder.absolute()}", *_export_options(reference)]
    export = partial(_export, state, [*options, *["--adapter"] * adapter])
    name = f"{ascii_name(run.id)}{SUFFIX}"
    return VoiceFileResponse(state.exports, name, 3 * largest_checkpoint_bytes(run), export)


def _speakers_of_base(state: AppState) -> list[str]:
    """The named speakers of the served voice, which hide an imported voice of their name."""
    return list(state.engine.served_voice.speakers) if state.engine.served_voice else []


def _export_options(with_reference: bool) -> list[str]:
    return [] if with_reference else ["--no-reference"]


def _file_name(name: str) -> str:
    return f"{folder_name(name)}{SUFFIX}"


def _make_room(folder: Path, num_bytes: int) -> None:
    """Raises APIError (507) if the disk has no room for a file, and twice that for its voice."""
    with writing(folder):
        make_folder(folder)
    remove_arriving(folder)
    require_free(folder, 4 * num_bytes)


def _voice_folder(voice_id: str, state: AppState) -> Path | None:
    """The folder of an imported voice or an adapter; None for an uploaded voice. Raises APIError
    (409) for the served voice and its speakers."""
    imported_voices = state.adapters.of_other_weights(state.engine.served_sha256)
    voice = imported.find_named({**state.speakers, **imported_voices}, voice_id)
    path = Path(voice[1]) if voice else None
    if voice_id == SERVED or (path is not None and not path.is_dir()):
        text = "The served voice and its speakers have no file. /v1/runs/{run_id}/file is a run's."
        raise APIError(409, "served_voice", text)
    return path


async def _export(state: AppState, options: list[str], target: Path) -> None:
    await state.exports.export(target, *options)


async def _write_uploaded(state: AppState, caller: str, voice_id: str, reference: bool, target: Path) -> None:
    voice = state.voices.find(voice_id)
    await uploaded_file.write(state, caller, voice, target, with_reference=reference)
