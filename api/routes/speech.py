"""Route POST /v1/audio/speech: OpenAI's schema, and what other servers add to it."""

import re
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from starlette.responses import Response

from api.encoding import MEDIA_TYPES, SENT_WHOLE
from api.engine.options import VoiceTarget
from api.errors import APIError, shown
from api.response_schemas import PROBLEMS, CaptionedSpeech
from api.schemas import OPENAI_MODELS, OWN_MODEL, CaptionedSpeechRequest, SpeechRequest
from api.speech import speaking
from api.speech.speaking import Sending, SoundForm
from api.state import AppState, Shared
from xtts.inference.synthesis_request import SynthesisRequest

router = APIRouter(tags=["speech"], responses=PROBLEMS)
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
    return await respond(parts, parts.check_rate(request), wanted)


@router.post("/dev/captioned_speech", response_class=Response, responses=CAPTIONED_RESPONSES)
async def speak_captioned(
    wanted: CaptionedSpeechRequest, request: Request, parts: Shared
) -> Response:
    """Speaks `input` and says when each word is spoken, as Kokoro-FastAPI does: lines of JSON as
    sound is made, or one object with `stream: false`."""
    return await respond(parts, parts.check_rate(request), wanted)


async def respond(
    parts: AppState, caller: str, wanted: SpeechRequest, target: VoiceTarget | None = None
) -> Response:
    """Speaks with the served voice or an uploaded one, or with `target` for this caller alone.
    Raises APIError."""
    check_strictly(wanted, parts)
    form = form_of(wanted, target.name if target else parts.served_name, parts)
    ask = SynthesisRequest(
        wanted.input, wanted.language or wanted.lang_code or "", wanted.seed, wanted.temperature,
        wanted.speed,
    )  # fmt: skip
    return await speaking.respond(
        parts, caller, ask, form, wanted.voice_id, target=target,
        language_field="language" if wanted.language else "lang_code",
    )  # fmt: skip


def form_of(wanted: SpeechRequest, model: str, parts: AppState) -> SoundForm:
    """How the sound is sent. `stream_format` is OpenAI's and counts before `stream`; without
    either, what has its length in its header is sent whole."""
    # A header carries ASCII: of a model's name the rest percent-encoded, of a field's `?`.
    headers = {"X-Model": quote(model, safe=" !#$&'()*+,-./:;=?@[]_~")}
    names = [name if _FIELD_NAME.fullmatch(name) else "?" for name in wanted.unused]
    if unused := list(dict.fromkeys(names))[:_MOST_NAMED]:
        headers["X-Ignored-Fields"] = ", ".join(unused)
        parts.log_unused_fields(unused)
    words = bool(wanted.timestamp_granularities or wanted.return_timestamps)
    whole = wanted.response_format in SENT_WHOLE if wanted.stream is None else not wanted.stream
    if wanted.stream_format == "sse":
        sending: Sending = "events"
    elif isinstance(wanted, CaptionedSpeechRequest):
        sending = "object" if wanted.stream is False else "lines"
    elif words:
        sending = "object"
    else:
        sending = "whole" if whole and wanted.stream_format != "audio" else "stream"
    return SoundForm(wanted.response_format, sending, headers=headers, words=words)


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
