"""The response to a request to speak: streamed, whole, or as events; ends with its client."""

import asyncio
import base64
import contextlib
import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from api.encoding import MEDIA_TYPES, RATE, Encoder, whole
from api.engine.speech_stream import SpeechStream
from api.errors import APIError, response
from api.state import AppState

log = logging.getLogger("api")
_SEND_SECONDS = 30.0


@dataclass(frozen=True)
class SoundForm:
    """How sound is sent.

    format: one of `api.encoding.MEDIA_TYPES`; sending: as one file with its length, as bytes while
    they are made, or as OpenAI's events; wrap: of a whole one, what is sent instead of the file;
    media_type: where it is not the format's own.
    """

    format: str
    sending: Literal["whole", "stream", "events"]
    media_type: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    wrap: Callable[[bytes], bytes] | None = None

    @property
    def content_type(self) -> str:
        """Of the response."""
        if self.sending == "events":
            return "text/event-stream"
        return self.media_type or MEDIA_TYPES[self.format]


WAV = SoundForm("wav", "whole")


class SpeechResponse(Response):
    """Waits for the first sound before it says 200, so that a refusal is one; ends the speech when
    the client goes away, at whatever point."""

    def __init__(self, spoken: SpeechStream, form: SoundForm, parts: AppState) -> None:
        super().__init__()
        self.spoken = spoken
        self.form = form
        self.parts = parts
        self.started = time.monotonic()
        self.sent = False

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
            if self.form.sending == "whole":
                body = await self._whole()
                await self._begin(send, len(body))
                await _sent(send, body, more=False)
                return
            async for chunk in self._chunks():
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
        headers = {
            "content-type": self.form.content_type, "cache-control": "no-store",
            **self.form.headers,
        }  # fmt: skip
        if self.form.format == "pcm":
            headers["x-sample-rate"] = str(RATE)
        if length is not None:  # else the status goes out before the last piece is spoken
            headers["content-length"] = str(length)
            headers["x-cut-pieces"] = str(self.spoken.cut_pieces)
            headers["x-faulty-pieces"] = ", ".join(self.spoken.faults) or "0"
            headers["x-respoken-pieces"] = str(self.spoken.respoken)
        self.sent = True
        raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": 200, "headers": raw})

    async def _whole(self) -> bytes:
        pcm = b"".join([chunk async for chunk in self.spoken])
        file = await asyncio.to_thread(whole, self.form.format, pcm)
        return self.form.wrap(file) if self.form.wrap else file

    async def _chunks(self) -> AsyncIterator[bytes]:
        pieces = self._encoded(Encoder(self.form.format))
        if self.form.sending == "stream":
            async for piece in pieces:
                yield piece
            return
        async for piece in pieces:
            audio = base64.b64encode(piece).decode()
            yield _event({"type": "speech.audio.delta", "audio": audio})
        usage = {"input_tokens": len(self.spoken.ask.text), "output_tokens": 0}
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
