"""Routes /v1/voices: list, upload, rename, hear and delete voices."""

import unicodedata
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, File, Form, Request, UploadFile
from pydantic import BaseModel, Field
from starlette.responses import Response

from api.errors import APIError
from api.routes.ranged_file import WAV_RESPONSES, RangedFile, wav_file
from api.schemas import MOST_NAME, PROBLEMS, VoiceList, VoiceRow
from api.state import AppState, Shared
from api.voices import adding
from api.voices.store import SERVED, check_new_name

router = APIRouter(prefix="/v1/voices", tags=["voices"], responses=PROBLEMS)


class RenameRequest(BaseModel):
    """A voice's new name."""

    name: Annotated[str, Field(min_length=1, max_length=MOST_NAME)]


def _served(parts: AppState) -> VoiceRow:
    created = datetime.fromtimestamp(parts.started_at, UTC).isoformat(timespec="seconds")
    return VoiceRow(
        id=SERVED, name=parts.served_name, created=created, duration_seconds=None,
        origin="served", quality=None, preview=None,
    )  # fmt: skip


@router.get("")
def list_voices(parts: Shared) -> VoiceList:
    """The served voice first."""
    return VoiceList(voices=[_served(parts), *(voice.row() for voice in parts.voices.all())])


@router.post("", status_code=201, openapi_extra=adding.upload_of("file"))
async def add_voice(
    parts: Shared,
    request: Request,
    file: Annotated[UploadFile, File(description=adding.UPLOAD)],
    name: Annotated[str, Form(min_length=1, max_length=MOST_NAME)],
) -> VoiceRow:
    """A voice from a recording. Clone a voice only with its owner's consent."""
    parts.check_rate(request)
    await adding.check_one_file(request, "file")
    voice = await adding.add_voice(parts, visible_name(name), file)
    return voice.row()


@router.get("/{voice_id}")
async def read_voice(voice_id: str, parts: Shared) -> VoiceRow:
    """One voice."""
    if voice_id == SERVED:
        return _served(parts)
    return parts.voices.find(voice_id).row()


@router.patch("/{voice_id}")
def rename_voice(voice_id: str, wanted: RenameRequest, parts: Shared) -> VoiceRow:
    """Gives a voice another name; its id stays."""
    if voice_id == SERVED:
        raise APIError(409, "served_voice", "The served voice is chosen by VOICE, or by promotion.")
    voice, name = parts.voices.find(voice_id), visible_name(wanted.name)
    check_new_name(name)
    return parts.voices.rename(voice, name).row()


@router.get("/{voice_id}/preview.wav", response_class=RangedFile, responses=WAV_RESPONSES)
async def hear_voice(voice_id: str, parts: Shared) -> RangedFile:
    """The recording of an uploaded voice; ranges are served."""
    path = parts.voices.recording(parts.voices.find(voice_id))
    return await wav_file(path, cached="no-store")


@router.delete("/{voice_id}", status_code=204, response_class=Response)
async def remove_voice(voice_id: str, parts: Shared) -> Response:
    """Deletes a voice and all that was made of it; whoever speaks with it now finishes."""
    if voice_id == SERVED:
        raise APIError(409, "served_voice", "The served voice is chosen by VOICE, or by promotion.")
    await adding.remove_voice(parts, parts.voices.find(voice_id))
    return Response(status_code=204)


def visible_name(name: str) -> str:
    """The name without what cannot be seen. Raises APIError when nothing is left."""
    kept = "".join(" " if unicodedata.category(c)[0] in "CZ" else c for c in name)
    found = " ".join(kept.split())
    if not found:
        raise APIError(422, "no_name", "The name holds nothing that can be seen.", param="name")
    return found
