"""Kokoro-FastAPI's /dev/captioned_speech: audio with the time of each word."""

from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response

from api.routes import speech
from api.routes.speech import SpeechRequest
from api.schemas import PROBLEMS, CaptionedSpeech
from api.speech.speaking import Sending
from api.state import Shared

router = APIRouter(tags=["speech"], responses=PROBLEMS)
_RESPONSES: dict[int | str, dict[str, object]] = {
    200: {"model": CaptionedSpeech, "content": {"application/x-ndjson": {}, "text/event-stream": {}}}
}


class CaptionedSpeechRequest(SpeechRequest):
    """Kokoro-FastAPI's request for audio with the times of its words."""

    stream: Annotated[
        bool | None, Field(description="true: stream lines of JSON; false: send one object.")
    ] = True
    return_timestamps: Annotated[bool | None, Field(description="false: `timestamps` is null.")] = True

    @property
    def sending(self) -> Sending:
        """Lines of JSON, unless the request asks for one object or for OpenAI's events."""
        if self.stream_format == "sse":
            return "events"
        return "object" if self.stream is False else "lines"


@router.post("/dev/captioned_speech", response_class=Response, responses=_RESPONSES)
async def speak_captioned(body: CaptionedSpeechRequest, request: Request, state: Shared) -> Response:
    """Speaks `input`, with the time of each word, as Kokoro-FastAPI does: lines of JSON as audio is
    made, or one object with `stream: false`."""
    return await speech.respond(state, state.check_rate(request), body)
