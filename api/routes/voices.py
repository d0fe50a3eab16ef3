"""Routes /v1/voices: list, upload, extend, rename, play and delete voices."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Form, Request
from pydantic import BaseModel
from starlette.responses import Response

from api.errors import APIError, excerpt
from api.routes.ranged_file import WAV_RESPONSES, RangedFile, wav_file
from api.routes.uploads import (
    Uploads,
    check_files,
    decode_uploads,
    store_voice,
    takes_recordings,
    upload_schema,
    visible_name,
)
from api.schemas import MAX_NAME, PROBLEMS, SERVED, NameText, VoiceList, VoiceRow
from api.state import AppState, Shared
from api.voices import imported
from api.voices.named import find_named, named_voices, refuse_named, served_row
from api.voices.store import check_count, check_new_name

router = APIRouter(prefix="/v1/voices", tags=["voices"], responses=PROBLEMS)


class RenameRequest(BaseModel):
    """A voice's new name."""

    name: NameText


def voice_row(voice_id: str, state: AppState) -> VoiceRow:
    """The voice with this id, as /v1/voices lists it. Raises APIError (404)."""
    if voice_id == SERVED:
        return served_row(state)
    if (named := find_named(voice_id, state)) is not None:
        return named.row(state)
    return state.voices.find(voice_id).row()


def _refuse_unless_uploaded(voice_id: str, state: AppState) -> None:
    """Raises APIError (409) for the served voice, its speakers and its adapters."""
    if voice_id == SERVED:
        raise APIError(409, "served_voice", "The served voice is chosen by VOICE, or by promotion.")
    if (named := find_named(voice_id, state)) is not None:
        text = f"{excerpt(voice_id)} is a speaker of the served voice, which was trained with it."
        if state.adapters.is_imported(named.path):
            text = f"{excerpt(voice_id)} was imported from a file. Import it again to change it."
        elif named.path.is_dir():
            text = f"{excerpt(voice_id)} is an adapter of the served voice, a folder in VOICES_DIR."
        raise APIError(409, "served_voice", text)


@router.get("")
def list_voices(state: Shared) -> VoiceList:
    """The served voice first, then its named speakers and adapters, then the uploaded voices."""
    named = [voice.row(state) for voice in named_voices(state)]
    uploaded = [voice.row() for voice in state.voices.all()]
    return VoiceList(voices=[served_row(state), *named, *uploaded])


@router.post("", status_code=201, openapi_extra=upload_schema("file"))
@takes_recordings
async def add_voice(
    state: Shared,
    request: Request,
    file: Uploads,
    name: Annotated[str, Form(min_length=1, max_length=MAX_NAME)],
) -> VoiceRow:
    """Makes a voice from a recording, or from up to ten of one person. Clone a voice only with its
    owner's consent."""
    state.check_rate(request)
    check_files(file)
    voice = await store_voice(state, visible_name(name), await decode_uploads(state, file))
    return voice.row()


@router.post("/{voice_id}/recordings", openapi_extra=upload_schema("file"))
@takes_recordings
async def add_recordings(voice_id: str, state: Shared, request: Request, file: Uploads) -> VoiceRow:
    """Adds recordings of the same person to a voice, up to ten in total; its id does not change."""
    state.check_rate(request)
    _refuse_unless_uploaded(voice_id, state)
    voice = state.voices.find(voice_id)
    check_files(file)
    check_count(voice, len(file))
    added = await decode_uploads(state, file)
    previous, changed = await asyncio.to_thread(state.voices.extend, voice, added)
    state.engine.forget(str(state.voices.reference_path(previous)))
    return changed.row()


@router.get("/{voice_id}")
async def read_voice(voice_id: str, state: Shared) -> VoiceRow:
    """One voice."""
    return voice_row(voice_id, state)


@router.patch("/{voice_id}")
def rename_voice(voice_id: str, body: RenameRequest, state: Shared) -> VoiceRow:
    """Renames a voice, which keeps its id."""
    _refuse_unless_uploaded(voice_id, state)
    voice, name = state.voices.find(voice_id), visible_name(body.name)
    check_new_name(name)
    refuse_named(name, state)
    return state.voices.rename(voice, name).row()


@router.get("/{voice_id}/preview.wav", response_class=RangedFile, responses=WAV_RESPONSES)
async def hear_voice(voice_id: str, state: Shared) -> RangedFile:
    """The recording of an uploaded voice (joined from several), a named speaker or an adapter;
    supports ranges."""
    named = find_named(voice_id, state)
    path = named.recording if named else state.voices.reference_path(state.voices.find(voice_id))
    if path is None:
        raise APIError(404, "no_recording", f"{excerpt(voice_id)} has no recording to play.")
    return await wav_file(path, cached="no-store", spoken=path.name == "preview.wav")


@router.delete("/{voice_id}", status_code=204, response_class=Response)
async def remove_voice(voice_id: str, state: Shared) -> Response:
    """Deletes an uploaded or imported voice with its files and latents. Requests in progress
    finish."""
    named = find_named(voice_id, state)
    if named is not None and state.adapters.is_imported(named.path):
        await asyncio.to_thread(imported.remove, state.settings, named.path)
        for changed in await asyncio.to_thread(state.adapters.read_folders):
            state.engine.forget(changed)
        return Response(status_code=204)
    _refuse_unless_uploaded(voice_id, state)
    voice = state.voices.find(voice_id)
    await asyncio.to_thread(state.voices.remove, voice)
    state.engine.forget(str(state.voices.reference_path(voice)))
    return Response(status_code=204)
