"""Routes /v1/voices: list, upload and delete voices."""

import asyncio
import unicodedata
from typing import Annotated, Any

from fastapi import APIRouter, Depends, File, Form, Request, UploadFile
from starlette.responses import Response

from api.errors import APIError
from api.response_schemas import PROBLEMS, VoiceList, VoiceRow
from api.state import AppState, app_state
from api.voices import recordings
from api.voices.recordings import MOST_BYTES
from api.voices.store import UploadedVoice

router = APIRouter(prefix="/v1/voices", tags=["voices"], responses=PROBLEMS)
Shared = Annotated[AppState, Depends(app_state)]
_MOST_NAME = 100


def _served(parts: AppState) -> dict[str, Any]:
    standing = parts.engine.standing
    name = standing.voice.name if standing else parts.engine.wanted.name
    return {
        "id": "default", "name": name, "created": parts.started_text,
        "duration_seconds": None, "origin": "served",
    }  # fmt: skip


@router.get("", response_model=VoiceList)
async def list_voices(parts: Shared) -> dict[str, Any]:
    """The served voice first."""
    uploaded = await asyncio.to_thread(parts.voices.all)
    return {"voices": [_served(parts), *(voice.row() for voice in uploaded)]}


@router.post("", response_model=VoiceRow, status_code=201)
async def add_voice(
    parts: Shared,
    request: Request,
    file: Annotated[UploadFile, File(description="WAV, FLAC or OGG, 1 to 60 s")],
    name: Annotated[str, Form(min_length=1, max_length=_MOST_NAME)],
) -> dict[str, Any]:
    """A voice from a recording. Clone a voice only with its owner's consent."""
    parts.check_rate(request)
    shown = _shown(name)
    async with parts.decoding:
        # Read from the disk, where its form was put, by those only who decode.
        data = await file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise APIError(413, "too_large", f"The file has more than {MOST_BYTES:,} bytes.")
        recording = await recordings.decoded(data)
        del data
    voice = await asyncio.to_thread(parts.voices.add, shown, recording.wav, recording.seconds)
    try:
        await parts.engine.listen(str(parts.voices.recording(voice)))
    except APIError as refusal:
        # 503: the process is being started; latents are made when the voice is first asked for.
        if refusal.status != 503:
            _remove(parts, voice)
            raise
    return voice.row()


@router.get("/{voice_id}", response_model=VoiceRow)
async def read_voice(voice_id: str, parts: Shared) -> dict[str, Any]:
    """One voice."""
    if voice_id == "default":
        return _served(parts)
    return parts.voices.find(voice_id).row()


@router.delete("/{voice_id}", status_code=204, response_class=Response)
async def remove_voice(voice_id: str, parts: Shared) -> Response:
    """Deletes a voice and all that was made of it; whoever speaks with it now finishes."""
    if voice_id == "default":
        raise APIError(409, "served_voice", "The served voice is chosen by VOICE, or by promotion.")
    _remove(parts, parts.voices.find(voice_id))
    return Response(status_code=204)


def _remove(parts: AppState, voice: UploadedVoice) -> None:
    parts.voices.remove(voice)
    parts.engine.forget(str(parts.voices.recording(voice)))


def _shown(name: str) -> str:
    """The name without what cannot be seen. Raises APIError when nothing is left."""
    kept = "".join(" " if unicodedata.category(c)[0] in "CZ" else c for c in name)
    found = " ".join(kept.split())
    if not found:
        raise APIError(422, "no_name", "The name holds nothing that can be seen.", param="name")
    return found
