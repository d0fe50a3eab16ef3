"""Route POST /v1/audio/speech: OpenAI's schema, and what other servers add to it."""

import logging
import re
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from api.encoding import MEDIA_TYPES, SENT_WHOLE
from api.engine.options import VoiceTarget
from api.errors import APIError
from api.response_schemas import PROBLEMS, CaptionedSpeech
from api.schemas import OPENAI_MODELS, OWN_MODEL, CaptionedSpeechRequest, SpeechRequest
from api.speech import speaking
from api.speech.response import SoundForm
from api.state import AppState, app_state
from api.validation_messages import shown

router = APIRouter(tags=["speech"], responses=PROBLEMS)
Shared = Annotated[AppState, Depends(app_state)]
log = logging.getLogger("api")
SOUND_RESPONSES = speaking.sound(*MEDIA_TYPES)
SOUND_RESPONSES[200]["content"]["text/event-stream"] = {}
SOUND_RESPONSES[200]["content"]["application/json"] = {
    "schema": {"$ref": "#/components/schemas/CaptionedSpeech"}
}
CAPTIONED_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "model": CaptionedSpeech,
        "content": {"application/x-ndjson": {}, "text/event-stream": {}},
    }
}
# What may stand in a header and a log line as a field's name; a client's body may hold anything.
_FIELD_NAME = re.compile(r"[A-Za-z0-9_.-]{1,40}")
_MOST_NAMED = 20


@router.post("/v1/audio/speech", response_class=Response, responses=SOUND_RESPONSES)
async def speak(wanted: SpeechRequest, request: Request, parts: Shared) -> Response:
    """Speaks `input`."""
    return await respond(wanted, parts, parts.check_rate(request))


@router.post("/dev/captioned_speech", response_class=Response, responses=CAPTIONED_RESPONSES)
async def speak_captioned(
    wanted: CaptionedSpeechRequest, request: Request, parts: Shared
) -> Response:
    """Speaks `input` and says when each word is spoken, as Kokoro-FastAPI does: lines of JSON as
    sound is made, or one object with `stream: false`."""
    return await respond(wanted, parts, parts.check_rate(request))


async def respond(wanted: SpeechRequest, parts: AppState, caller: str) -> Response:
    """Speaks with the served voice, or an uploaded one. Raises APIError."""
    check_strictly(wanted, parts)
    form = form_of(wanted, speaking.served_name(parts), parts)
    return await speaking.respond(speaking.order_of(wanted), form, parts, caller)


async def respond_with(
    voice: VoiceTarget, wanted: SpeechRequest, parts: AppState, caller: str
) -> Response:
    """Speaks with a voice that is not served, for this caller alone. Raises APIError."""
    check_strictly(wanted, parts)
    form = form_of(wanted, voice.name, parts)
    return await speaking.respond_with(voice, speaking.order_of(wanted), form, parts, caller)


def form_of(wanted: SpeechRequest, model: str, parts: AppState) -> SoundForm:
    """How the sound is sent. `stream_format` is OpenAI's and counts before `stream`; without
    either, what has its length in its header is sent whole."""
    headers = {"X-Model": speaking.in_header(model)}
    if unused := _named(wanted.unused):
        headers["X-Ignored-Fields"] = ", ".join(unused)
        parts.tell_of_unused(unused)
    words = bool(wanted.timestamp_granularities or wanted.return_timestamps)
    if wanted.stream_format == "sse":
        return SoundForm(wanted.response_format, "events", headers=headers, words=words)
    if isinstance(wanted, CaptionedSpeechRequest):
        sending: Literal["lines", "object"] = "object" if wanted.stream is False else "lines"
        return SoundForm(wanted.response_format, sending, headers=headers, words=words)
    if words:
        return SoundForm(wanted.response_format, "object", headers=headers, words=words)
    streamed = wanted.response_format not in SENT_WHOLE if wanted.stream is None else wanted.stream
    if wanted.stream_format == "audio" or streamed:
        return SoundForm(wanted.response_format, "stream", headers=headers)
    return SoundForm(wanted.response_format, "whole", headers=headers)


def check_strictly(wanted: SpeechRequest, parts: AppState) -> None:
    """With API_STRICT: raises APIError for what would have no effect."""
    if not parts.settings.api_strict:
        return
    for name in wanted.model_extra or ():
        text = f"{name} is no field of this request. Leave it out."
        raise APIError(422, "invalid_request", text, param=name)
    if wanted.instructions:
        text = "XTTS takes no instructions: it speaks as its reference does. Leave this out."
        raise APIError(400, "unsupported", text, param="instructions")
    if wanted.model not in (OWN_MODEL, *OPENAI_MODELS):
        text = f"There is no model {shown(wanted.model)}; /v1/models lists them."
        raise APIError(404, "model_not_found", text, param="model")


def _named(fields: list[str]) -> list[str]:
    """The fields by name; one that cannot stand in a header as `?`."""
    names = [name if _FIELD_NAME.fullmatch(name) else "?" for name in fields]
    return list(dict.fromkeys(names))[:_MOST_NAMED]
