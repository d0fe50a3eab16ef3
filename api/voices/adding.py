"""Adds a voice from an uploaded recording: decodes it, keeps it, has the model listen to it."""

import asyncio
import contextlib
import hashlib
from typing import Any

from fastapi import Request, UploadFile

from api.errors import APIError
from api.state import AppState
from api.voices import recordings
from api.voices.recordings import MOST_BYTES
from api.voices.store import UploadedVoice, check_new_name

UPLOAD = "WAV, FLAC, OGG, MP3, M4A, AAC or WebM, 1 to 60 s"
MEDIA_TYPES = (
    "audio/wav", "audio/flac", "audio/ogg", "audio/mpeg", "audio/mp4", "audio/aac", "audio/webm",
)  # fmt: skip


def upload_of(field: str) -> dict[str, Any]:
    """What /openapi.json says of a form whose `field` is a recording."""
    encoding = {field: {"contentType": ", ".join(MEDIA_TYPES)}}
    return {"requestBody": {"content": {"multipart/form-data": {"encoding": encoding}}}}


async def check_one_file(request: Request, field: str) -> None:
    """Raises APIError (422) for a form with several files: one would be kept and the rest lost."""
    count = len((await request.form()).getlist(field))
    if count > 1:
        text = f"{field} is there {count} times; one recording is one voice. Send one at a time."
        raise APIError(422, "several_files", text, param=field)


async def add_voice(
    parts: AppState, name: str, file: UploadFile, *, once: bool = False
) -> UploadedVoice:
    """once: the voice that has this very recording, where there is one. Raises APIError for what is
    no recording, for a name that means the served voice, and where it cannot be kept."""
    async with parts.decoding:
        # Read from the disk, where its form was put, by those only who decode.
        data = await file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise APIError(413, "too_large", f"The file has more than {MOST_BYTES:,} bytes.")
        recording = await recordings.decoded(data)
    if once:
        sha256 = hashlib.sha256(recording.wav).hexdigest()
        for voice in await asyncio.to_thread(parts.voices.all):
            if voice.sha256 == sha256:
                return voice
    check_new_name(name)
    voice = await asyncio.to_thread(parts.voices.add, name, recording)
    try:
        await parts.engine.listen(str(parts.voices.recording(voice)))
    except APIError as refusal:
        # 503: the process is being started; latents are made when the voice is first asked for.
        if refusal.status != 503:
            with contextlib.suppress(APIError):  # somebody else has deleted it
                await remove_voice(parts, voice)
            raise
    return voice


async def remove_voice(parts: AppState, voice: UploadedVoice) -> None:
    """Deletes a voice and all that was made of it. Raises APIError."""
    await asyncio.to_thread(parts.voices.remove, voice)
    parts.engine.forget(str(parts.voices.recording(voice)))
