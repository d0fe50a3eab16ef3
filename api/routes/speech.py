"""Route POST /v1/audio/speech: OpenAI's schema with language, temperature and seed."""

import asyncio
import base64
import contextlib
import json
import logging
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from api.encoding import MEDIA_TYPES, RATE, SENT_WHOLE, Encoder, whole
from api.engine.options import OpenedVoiceState, VoiceTarget
from api.engine.speech_stream import SpeechParams, SpeechStream
from api.errors import APIError, response
from api.response_schemas import PROBLEMS
from api.schemas import OPENAI_MODELS, OPENAI_VOICES, SpeechRequest
from api.state import AppState, app_state
from api.validation_messages import shown

router = APIRouter(tags=["speech"], responses=PROBLEMS)
Shared = Annotated[AppState, Depends(app_state)]
OWN_MODEL = "sotaque"
log = logging.getLogger("api")
_SEND_SECONDS = 30.0
_SOUND = {media: {"schema": {"type": "string", "format": "binary"}}
          for media in MEDIA_TYPES.values()}  # fmt: skip


SOUND_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"content": {**_SOUND, "text/event-stream": {}}}
}


@router.post("/v1/audio/speech", response_class=Response, responses=SOUND_RESPONSES)
async def speak(wanted: SpeechRequest, request: Request, parts: Shared) -> Response:
    """Speaks `input`."""
    parts.check_rate(request)
    return respond(wanted, parts)


def respond(wanted: SpeechRequest, parts: AppState) -> Response:
    """Speaks with the served voice. Raises APIError."""
    _check(wanted, parts.engine.standing)
    recording = _recording(wanted.voice_id, parts)
    return SpeechResponse(parts.engine.speak(_params(wanted), recording), wanted, parts)


async def respond_with(voice: VoiceTarget, wanted: SpeechRequest, parts: AppState) -> Response:
    """Speaks with a voice that is not served, for this caller alone. Raises APIError."""
    _check(wanted, parts.engine.previews.current_of(voice))
    recording = _recording(wanted.voice_id, parts)
    spoken = await parts.engine.preview(voice, _params(wanted), recording)
    return SpeechResponse(spoken, wanted, parts)


def _params(wanted: SpeechRequest) -> SpeechParams:
    return SpeechParams(
        wanted.input, wanted.language or "", wanted.seed, wanted.temperature, wanted.speed,
        whole=_is_whole(wanted),
    )  # fmt: skip


def _is_whole(wanted: SpeechRequest) -> bool:
    """Whether nothing of the answer is sent before all of it is spoken."""
    return wanted.stream_format is None and wanted.response_format in SENT_WHOLE


def _check(wanted: SpeechRequest, opened: OpenedVoiceState | None) -> None:
    """opened: None where it is not known yet which languages it speaks; the text is refused then
    where it is read."""
    if wanted.model not in (OWN_MODEL, *OPENAI_MODELS):
        text = f"There is no model {shown(wanted.model)}; /v1/models lists them."
        raise APIError(404, "model_not_found", text, param="model")
    languages = opened.languages if opened else ()
    if wanted.language and languages:
        short = {known.split("-")[0] for known in languages}
        if wanted.language.lower().split("-")[0] not in short:
            text = (
                f"language is {shown(wanted.language)}; this voice speaks {', '.join(languages)}."
            )
            raise APIError(400, "language_unsupported", text, param="language")


def _recording(voice_id: str, parts: AppState) -> str | None:
    """None for the served voice, which OpenAI's names are too."""
    if voice_id == "default" or voice_id in OPENAI_VOICES:
        return None
    return str(parts.voices.recording(parts.voices.find(voice_id)))


class SpeechResponse(Response):
    """Waits for the first sound before it says 200, so that a refusal is one; ends the speech when
    the client goes away, at whatever point."""

    def __init__(self, spoken: SpeechStream, wanted: SpeechRequest, parts: AppState) -> None:
        super().__init__()
        self.spoken = spoken
        self.wanted = wanted
        self.parts = parts
        self.started = time.monotonic()
        self.sent = False
        self._whole = _is_whole(wanted)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.ensure_future(self._send(scope, receive, send))
        leaving = asyncio.ensure_future(_gone(receive))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            for task in (sending, leaving):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await task
            self.parts.engine.cancel(self.spoken)
            self._tell_of_pieces(scope)
            self.parts.metrics.duration.observe(time.monotonic() - self.started)

    async def _send(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async for chunk in self._body():
                if not self.sent:
                    await self._begin(send, None)
                await _sent(send, chunk, more=True)
            await _sent(send, b"", more=False)
        except APIError as refusal:
            if self.sent:
                # The status has been said. Without its end, the body is whole to no client.
                log.warning("A stream was cut off: %s", refusal.detail)
                self.parts.metrics.streams_cut.labels(refusal.code).inc()
                return
            await response(refusal, scope)(scope, receive, send)
        except TimeoutError:
            log.warning("A client that took nothing for %g s was let go.", _SEND_SECONDS)

    def _tell_of_pieces(self, scope: Scope) -> None:
        for ending in self.spoken.faults:
            self.parts.metrics.faulty_pieces.labels(ending).inc()
        self.parts.metrics.respoken_pieces.inc(self.spoken.respoken)
        if self.spoken.faults:
            reasons = [piece["reason"] for piece in self.spoken.pieces if piece["reason"]]
            log.warning(
                "Request %s: %d of its %d pieces did not end as they should (%s): %s.",
                scope.get("state", {}).get("request_id", ""), len(self.spoken.faults),
                len(self.spoken.pieces), ", ".join(self.spoken.faults), "; ".join(reasons),
            )  # fmt: skip
        if count := self.spoken.cut_pieces:
            self.parts.metrics.cut_pieces.inc(count)
            log.warning(
                "Request %s: %d of its pieces ran to the model's code limit without an end. The "
                "end of such a piece may be missing, or sound that nobody asked for.",
                scope.get("state", {}).get("request_id", ""), count,
            )  # fmt: skip

    async def _begin(self, send: Send, length: int | None) -> None:
        media = MEDIA_TYPES[self.wanted.response_format]
        if self.wanted.stream_format == "sse":
            media = "text/event-stream"
        headers = [(b"content-type", media.encode()), (b"cache-control", b"no-store")]
        if self.wanted.response_format == "pcm":
            headers.append((b"x-sample-rate", str(RATE).encode()))
        if length is not None:
            headers.append((b"content-length", str(length).encode()))
        if self._whole:  # else the status goes out before the last piece is spoken
            headers.append((b"x-cut-pieces", str(self.spoken.cut_pieces).encode()))
            headers.append((b"x-faulty-pieces", ", ".join(self.spoken.faults).encode() or b"0"))
            headers.append((b"x-respoken-pieces", str(self.spoken.respoken).encode()))
        self.sent = True
        await send({"type": "http.response.start", "status": 200, "headers": headers})

    async def _body(self) -> AsyncIterator[bytes]:
        form, stream = self.wanted.response_format, self.wanted.stream_format
        if self._whole:
            pcm = b"".join([chunk async for chunk in self.spoken])
            yield await asyncio.to_thread(whole, form, pcm)
            return
        encoder = Encoder(form)
        pieces = self._encoded(encoder)
        if stream != "sse":
            async for piece in pieces:
                yield piece
            return
        async for piece in pieces:
            audio = base64.b64encode(piece).decode()
            yield _event({"type": "speech.audio.delta", "audio": audio})
        usage = {"input_tokens": len(self.wanted.input), "output_tokens": 0}
        usage["output_tokens"] = self.spoken.bytes // (2 * RATE // 50)
        usage["total_tokens"] = sum(usage.values())
        more = {
            "usage": usage, "cut_pieces": self.spoken.cut_pieces, "pieces": self.spoken.pieces,
        }  # fmt: skip
        yield _event({"type": "speech.audio.done", **more})

    async def _encoded(self, encoder: Encoder) -> AsyncIterator[bytes]:
        async for chunk in self.spoken:
            if piece := await _off(encoder, encoder.add, chunk):
                yield piece
        if piece := await _off(encoder, encoder.end):
            yield piece


async def _off(encoder: Encoder, function: Any, *given: Any) -> bytes:
    """Encoders that compute do so beside the event loop."""
    if encoder.form in ("pcm", "wav"):
        found: bytes = function(*given)
        return found
    return await asyncio.to_thread(function, *given)


async def _sent(send: Send, body: bytes, *, more: bool) -> None:
    """One that does not read for half a minute is let go."""
    async with asyncio.timeout(_SEND_SECONDS):
        await send({"type": "http.response.body", "body": body, "more_body": more})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _event(data: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(data)}\n\n".encode()
