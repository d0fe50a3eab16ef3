"""Uploads of recordings: their form, limits, decoding and names, for every route that takes some."""

import asyncio
import unicodedata
from collections.abc import Sequence
from typing import Annotated

from fastapi import File, UploadFile

from api.errors import APIError, excerpt
from api.gate import takes_upload
from api.state import AppState
from api.voices import recordings
from api.voices.named import refuse_named
from api.voices.recordings import MAX_BYTES, DecodedRecording
from api.voices.store import MAX_RECORDINGS, UploadedVoice, check_new_name
from machine.storage.files import JsonObject

UPLOAD_FORMATS = "WAV, FLAC, OGG, MP3, AIFF, CAF, M4A, AAC or WebM, 1 to 60 s"
Uploads = Annotated[
    list[UploadFile],
    File(
        description=f"{UPLOAD_FORMATS}; up to {MAX_RECORDINGS}, together 20 MB at most",
        json_schema_extra={"maxItems": MAX_RECORDINGS},
    ),
]
takes_recordings = takes_upload(MAX_BYTES + (64 << 10))
# Ten minutes at 48 kHz, as the recordings are stored.
_MAX_DECODED_BYTES = 64 << 20
MEDIA_TYPES = (
    "audio/wav",
    "audio/flac",
    "audio/ogg",
    "audio/mpeg",
    "audio/mp4",
    "audio/aac",
    "audio/webm",
    "audio/aiff",
    "audio/x-caf",
)


def upload_schema(field: str) -> JsonObject:
    """The /openapi.json description of a form whose `field` is a recording."""
    encoding = {field: {"contentType": ", ".join(MEDIA_TYPES)}}
    return {"requestBody": {"content": {"multipart/form-data": {"encoding": encoding}}}}


def check_files(files: Sequence[UploadFile]) -> None:
    """Raises APIError (422) for more files than a voice can have."""
    if len(files) > MAX_RECORDINGS:
        text = f"file occurs {len(files)} times; a voice has at most {MAX_RECORDINGS} recordings."
        raise APIError(422, "several_files", text, param="file")


async def store_voice(state: AppState, name: str, recordings: Sequence[DecodedRecording]) -> UploadedVoice:
    """Stores a voice. Raises APIError for a name that is reserved or taken, or a folder that is full
    or cannot be written."""
    check_new_name(name)
    refuse_named(name, state)
    return await asyncio.to_thread(state.voices.add, name, *recordings)


async def decode_uploads(state: AppState, files: Sequence[UploadFile]) -> list[DecodedRecording]:
    """Decodes the recordings one after another. Raises APIError naming the unusable one."""
    decoded: list[DecodedRecording] = []
    async with state.decoding:
        for number, file in enumerate(files, start=1):
            # Read from the form's temporary file only when it is decoded, to save memory.
            data = await file.read(MAX_BYTES + 1)
            try:
                if len(data) > MAX_BYTES:
                    text = f"The file is larger than the limit of {MAX_BYTES:,} bytes."
                    raise APIError(413, "too_large", text)
                decoded.append(await recordings.decode(data))
            except APIError as refusal:
                if len(files) == 1 or refusal.status == 503:
                    raise
                title = f"Recording {number} ({excerpt(file.filename or '')})"
                text = f"{title}: {refusal.detail} Nothing was kept."
                raise APIError(refusal.status, refusal.code, text, param=refusal.param) from refusal
            if sum(len(recording.wav) for recording in decoded) > _MAX_DECODED_BYTES:
                text = (
                    f"The recordings take more than {_MAX_DECODED_BYTES >> 20} MB when decoded. Send "
                    "fewer, or at 48,000 samples a second or less."
                )
                raise APIError(413, "too_large", text, param="file")
    return decoded


def visible_name(name: str) -> str:
    """The name in composed Unicode, without invisible characters. Raises APIError if none is
    left."""
    composed = unicodedata.normalize("NFC", name)
    # Control characters (C) and separators (Z).
    spaced = "".join(" " if unicodedata.category(c)[0] in "CZ" else c for c in composed)
    visible = " ".join(spaced.split())
    if not visible:
        raise APIError(422, "no_name", "The name has no visible character.", param="name")
    return visible
