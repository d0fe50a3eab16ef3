"""Routes /v1/voices: list, upload, extend, rename, play and delete voices."""

import asyncio
import contextlib
import unicodedata
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, File, Form, Request, UploadFile
from pydantic import BaseModel
from starlette.responses import Response

from api.errors import APIError, excerpt
from api.gate import takes_upload
from api.routes.ranged_file import WAV_RESPONSES, RangedFile, wav_file
from api.schemas import MAX_NAME, PROBLEMS, SERVED, NameText, VoiceList, VoiceRow
from api.state import AppState, Shared
from api.voices import imported, recordings
from api.voices.recordings import MAX_BYTES, DecodedRecording
from api.voices.store import MAX_RECORDINGS, UploadedVoice, check_count, check_new_name
from machine.storage.files import JsonObject
from xtts.voices.speakers import normalized_name

router = APIRouter(prefix="/v1/voices", tags=["voices"], responses=PROBLEMS)


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


class RenameRequest(BaseModel):
    """A voice's new name."""

    name: NameText


def _iso_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _served_row(state: AppState) -> VoiceRow:
    return VoiceRow(
        id=SERVED,
        name=state.served_name,
        created=_iso_time(state.served_at),
        duration_seconds=None,
        origin="served",
        quality=None,
        recordings=None,
        preview=None,
    )


def _speaker_paths(state: AppState) -> dict[str, str]:
    """The named speakers of the served voice, its adapters, and the imported voices of other
    weights: name -> recording or folder."""
    return {**state.adapters.of_other_weights(state.engine.served_sha256), **state.speakers}


def _speaker_row(name: str, state: AppState) -> VoiceRow:
    path = Path(_speaker_paths(state).get(name, "x"))
    origin = "adapter" if path.is_dir() else "speaker"
    created = float(state.served_at)
    with contextlib.suppress(OSError):  # a speaker, or deleted meanwhile
        # Written by the import or by the copy of an adapter; its `made_at` is the time of the export.
        created = (path / "bundle.json").stat().st_mtime
    return _served_row(state).model_copy(
        update={
            "id": name,
            "name": name,
            "created": _iso_time(created),
            "origin": "imported" if state.adapters.is_imported(path) else origin,
            "preview": f"/v1/voices/{quote(name, safe='')}/preview.wav",
        }
    )


def _find_speaker(voice_id: str, state: AppState) -> str | None:
    """The speaker, adapter or imported voice with this name, in any spelling."""
    return next(
        (name for name in _speaker_paths(state) if normalized_name(name) == normalized_name(voice_id)), None
    )


def voice_row(voice_id: str, state: AppState) -> VoiceRow:
    """The voice with this id, as /v1/voices lists it. Raises APIError (404)."""
    if voice_id == SERVED:
        return _served_row(state)
    if (name := _find_speaker(voice_id, state)) is not None:
        return _speaker_row(name, state)
    return state.voices.find(voice_id).row()


def _refuse_unless_uploaded(voice_id: str, state: AppState) -> None:
    """Raises APIError (409) for the served voice, its speakers and its adapters."""
    if voice_id == SERVED:
        raise APIError(409, "served_voice", "The served voice is chosen by VOICE, or by promotion.")
    if (name := _find_speaker(voice_id, state)) is not None:
        text = f"{excerpt(voice_id)} is a speaker of the served voice, which was trained with it."
        path = Path(_speaker_paths(state)[name])
        if state.adapters.is_imported(path):
            text = f"{excerpt(voice_id)} was imported from a file. Import it again to change it."
        elif path.is_dir():
            text = f"{excerpt(voice_id)} is an adapter of the served voice, a folder in VOICES_DIR."
        raise APIError(409, "served_voice", text)


def upload_schema(field: str) -> JsonObject:
    """The /openapi.json description of a form whose `field` is a recording."""
    encoding = {field: {"contentType": ", ".join(MEDIA_TYPES)}}
    return {"requestBody": {"content": {"multipart/form-data": {"encoding": encoding}}}}


@router.get("")
def list_voices(state: Shared) -> VoiceList:
    """The served voice first, then its named speakers and adapters, then the uploaded voices."""
    speakers = [_speaker_row(name, state) for name in _speaker_paths(state)]
    uploaded = [voice.row() for voice in state.voices.all()]
    return VoiceList(voices=[_served_row(state), *speakers, *uploaded])


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
    _check_files(file)
    voice = await store_voice(state, visible_name(name), await decode_uploads(state, file))
    return voice.row()


@router.post("/{voice_id}/recordings", openapi_extra=upload_schema("file"))
@takes_recordings
async def add_recordings(voice_id: str, state: Shared, request: Request, file: Uploads) -> VoiceRow:
    """Adds recordings of the same person to a voice, up to ten in total; its id does not change."""
    state.check_rate(request)
    _refuse_unless_uploaded(voice_id, state)
    voice = state.voices.find(voice_id)
    _check_files(file)
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
    return state.voices.rename(voice, name).row()


@router.get("/{voice_id}/preview.wav", response_class=RangedFile, responses=WAV_RESPONSES)
async def hear_voice(voice_id: str, state: Shared) -> RangedFile:
    """The recording of an uploaded voice (joined from several), a named speaker or an adapter;
    supports ranges."""
    name = _find_speaker(voice_id, state)
    path = Path(_speaker_paths(state)[name]) if name is not None else Path()
    if name is not None and path.is_dir():
        recording = path / "reference.wav"
        # The maker of a voice file may have left it out.
        path = recording if recording.is_file() else path / "preview.wav"
    if path.suffix != ".wav":
        path = state.voices.reference_path(state.voices.find(voice_id))
    return await wav_file(path, cached="no-store", spoken=path.name == "preview.wav")


@router.delete("/{voice_id}", status_code=204, response_class=Response)
async def remove_voice(voice_id: str, state: Shared) -> Response:
    """Deletes an uploaded or imported voice with its files and latents. Requests in progress
    finish."""
    folder = Path(_speaker_paths(state).get(_find_speaker(voice_id, state) or "", "x"))
    if state.adapters.is_imported(folder):
        await asyncio.to_thread(imported.remove, state.settings, folder)
        for changed in await asyncio.to_thread(state.adapters.read_folders):
            state.engine.forget(changed)
        return Response(status_code=204)
    _refuse_unless_uploaded(voice_id, state)
    voice = state.voices.find(voice_id)
    await asyncio.to_thread(state.voices.remove, voice)
    state.engine.forget(str(state.voices.reference_path(voice)))
    return Response(status_code=204)


def _check_files(files: Sequence[UploadFile]) -> None:
    """Raises APIError (422) for more files than a voice can have."""
    if len(files) > MAX_RECORDINGS:
        text = f"file occurs {len(files)} times; a voice has at most {MAX_RECORDINGS} recordings."
        raise APIError(422, "several_files", text, param="file")


async def store_voice(state: AppState, name: str, recordings: Sequence[DecodedRecording]) -> UploadedVoice:
    """Stores a voice. Raises APIError for a reserved name, or a folder that is full or cannot be
    written."""
    check_new_name(name)
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
