"""The routes of Coqui's XTTS streaming server, as pipecat's XTTSService calls them.

After github.com/coqui-ai/xtts-streaming-server, server/main.py. There a voice is two arrays, its
latents, which the client reads once and sends with each text. Here both arrays encode the voice's
id instead, so that the latents of a person's voice never leave the service, and a client's numbers
never reach the model.
"""

import asyncio
import base64
import hashlib
import itertools
import json
from pathlib import PurePath
from typing import Annotated

from fastapi import APIRouter, File, Request, UploadFile
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from api.errors import APIError
from api.routes.uploads import UPLOAD_FORMATS, decode_uploads, store_voice, takes_recordings, upload_schema
from api.schemas import MAX_NAME, PROBLEMS, SERVED, LanguageText, Text, means_served
from api.speech import speaking
from api.speech.speaking import SoundForm, sound_responses
from api.state import AppState, Shared
from extras.common import protocols
from machine.text import plain_name
from xtts.inference.synthesis_request import SynthesisRequest

router = APIRouter(tags=["xtts-streaming-server"], responses=PROBLEMS)
_HANDLE_PREFIX = "sotaque:"
# Coqui's demo keeps such arrays in half precision, which represents byte / 256 exactly.
_HANDLE_SCALE = 256.0
_MAX_HANDLE_LENGTH = len(_HANDLE_PREFIX) + 4 * MAX_NAME  # at most four bytes a character


class VoiceHandle(BaseModel):
    """The handle of a voice: two arrays of numbers, which clients send back unchanged."""

    model_config = ConfigDict(allow_inf_nan=False)

    speaker_embedding: Annotated[list[float], Field(max_length=4096)]
    gpt_cond_latent: list[list[float]]


class TtsRequest(VoiceHandle):
    """A text for a voice of /studio_speakers or /clone_speaker."""

    text: Text
    language: LanguageText


class TtsStreamRequest(TtsRequest):
    """add_wav_header: false for 16-bit samples at 24 kHz alone; stream_chunk_size changes
    nothing."""

    add_wav_header: bool = True
    stream_chunk_size: str | int = "20"


@router.get("/studio_speakers")
async def list_studio_speakers(state: Shared) -> dict[str, VoiceHandle]:
    """The voices by name, the served one first, as `default` and by its present name: a client
    looks for a stored name here and does not ask for one that is not listed."""
    served = {SERVED: SERVED, state.served_name: SERVED}
    labels = served | await protocols.labels(state)
    return {label: handle_of(voice) for label, voice in labels.items()}


@router.post("/clone_speaker", openapi_extra=upload_schema("wav_file"))
@takes_recordings
async def clone_speaker(
    request: Request, state: Shared, wav_file: Annotated[UploadFile, File(description=UPLOAD_FORMATS)]
) -> VoiceHandle:
    """Adds a voice from a recording, under its file name; the same recording gives the same voice.
    Clone a voice only with its owner's consent."""
    state.check_rate(request)
    count = len((await request.form()).getlist("wav_file"))
    if count > 1:  # one would be kept, and the rest lost
        text = f"wav_file occurs {count} times. A voice has one recording: send one."
        raise APIError(422, "several_files", text, param="wav_file")
    stem = PurePath(wav_file.filename or "").stem
    name = "".join(character for character in stem if character.isprintable())[:100].strip()
    if not name or means_served(name):
        name = "cloned"  # clients name the voice by its handle, not by this
    decoded = await decode_uploads(state, [wav_file])
    sha256 = hashlib.sha256(decoded[0].wav).hexdigest()
    uploaded = await asyncio.to_thread(state.voices.all)
    for voice in uploaded:
        if voice.sha256 == sha256:
            return handle_of(voice.id)
    taken_names = {plain_name(voice.name) for voice in uploaded}
    numbered = (f"{name} {number}" for number in itertools.count(2))
    name = next(
        candidate
        for candidate in itertools.chain((name,), numbered)
        if plain_name(candidate) not in taken_names
    )
    return handle_of((await store_voice(state, name, decoded)).id)


@router.post("/tts_stream", tags=["speech"], response_class=Response, responses=sound_responses("wav"))
async def speak_stream(body: TtsStreamRequest, request: Request, state: Shared) -> Response:
    """Speaks `text` as a WAV stream, or as samples alone."""
    caller = state.check_rate(request)
    form = SoundForm("wav" if body.add_wav_header else "pcm", "stream", "audio/wav")
    return await _respond(body, form, state, caller)


@router.post(
    "/tts",
    tags=["speech"],
    response_class=Response,
    responses={200: {"content": {"application/json": {"schema": {"type": "string"}}}}},
)
async def speak_whole(body: TtsRequest, request: Request, state: Shared) -> Response:
    """Speaks `text` into a WAV file, sent in base64 as a JSON string."""
    caller = state.check_rate(request)
    form = SoundForm("wav", "whole", "application/json", wrap=_in_base64)
    return await _respond(body, form, state, caller)


def handle_of(voice_id: str) -> VoiceHandle:
    """The voice as two arrays."""
    numbers = [byte / _HANDLE_SCALE for byte in f"{_HANDLE_PREFIX}{voice_id}".encode()]
    return VoiceHandle(speaker_embedding=numbers, gpt_cond_latent=[numbers])


def voice_of(handle: VoiceHandle) -> str:
    """The id that the arrays encode. Raises APIError (400) for arrays of another server."""
    numbers = [number * _HANDLE_SCALE for number in handle.speaker_embedding]
    is_handle = len(numbers) <= _MAX_HANDLE_LENGTH and all(
        0 < number < 256 and number == int(number) for number in numbers
    )
    text = bytes(map(int, numbers)).decode(errors="replace") if is_handle else ""
    if not text.startswith(_HANDLE_PREFIX):
        message = (
            "These latents are from another server. Take speaker_embedding and gpt_cond_latent "
            "from this one: /studio_speakers, or /clone_speaker with the recording."
        )
        raise APIError(400, "foreign_latents", message, param="speaker_embedding")
    return text.removeprefix(_HANDLE_PREFIX)


async def _respond(body: TtsRequest, form: SoundForm, state: AppState, caller: str) -> Response:
    speech = SynthesisRequest(body.text, body.language)
    return await speaking.respond(
        state, caller, speech, form, voice_of(body), voice_field="speaker_embedding"
    )


def _in_base64(wav: bytes) -> bytes:
    return json.dumps(base64.b64encode(wav).decode()).encode()
