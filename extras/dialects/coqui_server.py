"""`/api/tts` of Coqui's server (`tts-server`): takes a text, returns a WAV file.

After github.com/idiap/coqui-ai-TTS, TTS/server/server.py.
"""

from typing import Annotated

from fastapi import APIRouter, Form, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from api.errors import APIError
from api.schemas import MAX_CHARACTERS, PROBLEMS, SERVED
from api.speech import speaking
from api.speech.speaking import SoundForm, sound_responses
from api.state import AppState, Shared
from extras.common import protocols
from xtts.inference.synthesis_request import SynthesisRequest

router = APIRouter(tags=["speech"], responses=PROBLEMS)


class TtsFields(BaseModel):
    """Text, voice and language by the names of Coqui's server. Its page sends every field; those
    not chosen are empty. speaker_wav, style_wav: files on that server, which are not supported."""

    text: str = Field("", max_length=MAX_CHARACTERS)
    speaker_id: str = Field("", max_length=128)
    language_id: str = Field("", max_length=32)
    speaker_wav: str = Field("", max_length=1024)
    style_wav: str = Field("", max_length=1024)


@router.get("/api/tts", response_class=Response, responses=sound_responses("wav"))
async def speak_query(request: Request, state: Shared, fields: Annotated[TtsFields, Query()]) -> Response:
    """Speaks `text` of the address into a WAV file."""
    return await _respond(request, state, fields)


@router.post("/api/tts", response_class=Response, responses=sound_responses("wav"))
async def speak_form(request: Request, state: Shared, fields: Annotated[TtsFields, Form()]) -> Response:
    """Speaks `text` of the form into a WAV file."""
    return await _respond(request, state, fields)


async def _respond(request: Request, state: AppState, fields: TtsFields) -> Response:
    caller = state.check_rate(request)
    values = {name: _field(name, request, fields) for name in TtsFields.model_fields}
    if values["speaker_wav"] or values["style_wav"]:
        text = "Files on the server are not supported. Upload a voice, and name it as speaker_id."
        raise APIError(400, "unsupported", text, param="speaker_wav")
    if not values["text"].strip():
        text = "text is missing. Send it in the URL, in a form, or as a header."
        raise APIError(422, "invalid_request", text, param="text")
    protocols.check_length(values["text"])
    ask = SynthesisRequest(values["text"], values["language_id"])
    return await speaking.respond(
        state,
        caller,
        ask,
        SoundForm("wav", "whole"),
        values["speaker_id"] or SERVED,
        voice_field="speaker_id",
        language_field="language_id",
    )


def _field(name: str, request: Request, fields: TtsFields) -> str:
    """A field, looked for where Coqui's server does: in the headers, the query, then the form."""
    header = request.headers.get(name.replace("_", "-"), "")
    try:
        # Clients write UTF-8; the header is read as ISO 8859-1.
        header = header.encode("latin-1").decode()
    except UnicodeDecodeError:
        pass
    value: str = header or request.query_params.get(name, "") or getattr(fields, name)
    return value
