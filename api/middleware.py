"""ASGI middleware: foreign origins, API key, rate limit, body size, request id, HEAD.

Plain ASGI, so that a client's going away is seen by the routes.
"""

import asyncio
import hmac
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.errors import APIError, closing, response
from api.http.connections import CROWDED
from api.http.origins import OriginRules, refuse_origin
from api.metrics import ServiceMetrics

JSON_BYTES = 64 << 10
UPLOAD_BYTES = (20 << 20) + (64 << 10)
JSON_SECONDS = 15.0
UPLOAD_SECONDS = 60.0
# Open without a key: the page asks for it, and probes have none.
OPEN = frozenset({"/", "/livez", "/readyz"})
# What tells others how the service is: answered whatever the number of connections.
PROBES = frozenset({"/livez", "/readyz", "/metrics"})
# Where recordings are uploaded; everywhere else a body is text.
UPLOADS = frozenset({"/v1/voices", "/clone_speaker"})
# A recording of a dataset comes in pieces, each a request of its own.
PIECE_BYTES = 8 << 20
TEXT_BYTES = 4 << 20
_PIECES = re.compile(r"/v1/datasets/[^/]+/recordings/[^/]+")
_TEXTS = re.compile(r"/v1/datasets/[^/]+/text")
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_MOST_BUCKETS = 10_000
# What counts as one request: a piece of a text, as XTTS-v2 speaks English. A longer text is more.
UNIT_CHARACTERS = 250
# Each lies on the disk while it arrives and waits to be decoded: 8 take 160 MB at most.
_MOST_UPLOADS = 8
# Of pieces and texts; none of them waits for a place that a recording of a voice has.
_MOST_PIECES = 4
_UPLOAD_RETRY_SECONDS = 5


class RequestId:
    """Every response carries its request id, which is in the log too."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request_id = secrets.token_hex(8)
        scope.setdefault("state", {})["request_id"] = request_id

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = message.setdefault("headers", [])
                headers += [
                    (b"x-request-id", request_id.encode()),
                    (b"x-content-type-options", b"nosniff"),
                ]
            await send(message)

        await self.app(scope, receive, sending)


class RequestCounter:
    """Every request to speak by its status, and every refusal by its code, whoever refused it."""

    def __init__(
        self, app: ASGIApp, *, metrics: ServiceMetrics, speaks: Callable[[str], bool]
    ) -> None:
        self.app = app
        self.metrics = metrics
        self.speaks = speaks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        status = 499  # nginx's number for a client that has gone

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, sending)
        except Exception:
            status = 500
            raise
        finally:
            if self.speaks(scope["path"]):
                self.metrics.requests.labels(str(status)).inc()
            if code := scope["state"].get("refused"):
                self.metrics.refusals.labels(str(status), code).inc()


class ShutdownResponse:
    """What the end of the service cancels is answered, where it was not yet."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = False

        async def sending(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self.app(scope, receive, sending)
        except asyncio.CancelledError:
            if not started:
                await response(closing(), scope)(scope, receive, send)


class ConnectionLimit:
    """503 on a connection that is one too many, but for probes; it is closed behind either."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["state"].get(CROWDED):
            await self.app(scope, receive, send)
            return

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), (b"connection", b"close")]
            await send(message)

        if scope["path"] in PROBES:
            await self.app(scope, receive, sending)
            return
        text = "Too many requests are being answered. Close connections that are not needed."
        refusal = APIError(503, "too_many_connections", text, retry_after=1)
        await response(refusal, scope)(scope, receive, sending)


class OriginGate:
    """Pages of other sites stay out, and names that they have pointed here."""

    def __init__(self, app: ASGIApp, *, rules: OriginRules) -> None:
        self.app = app
        self.rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            refusal = refuse_origin(headers, scope["method"], scope["path"], self.rules)
            if refusal is not None:
                await response(refusal, scope)(scope, receive, send)
                return
        await self.app(scope, receive, send)


class AccessGate:
    """The key, where one is set."""

    def __init__(self, app: ASGIApp, *, key: str | None) -> None:
        self.app = app
        self.key = key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            refusal = self.refused(self.key, Headers(scope=scope))
            is_open = scope["path"] in OPEN or scope["path"].startswith("/page/")
            if refusal is not None and not is_open:
                await response(refusal, scope)(scope, receive, send)
                return
        await self.app(scope, receive, send)

    @staticmethod
    def refused(key: str | None, headers: Headers) -> APIError | None:
        """401 unless the key, where there is one, was sent; compared in constant time."""
        if key is None:
            return None
        kind, _, given = headers.get("authorization", "").partition(" ")
        fits = hmac.compare_digest(given.strip().encode(), key.encode())
        if kind.lower() == "bearer" and fits:
            return None
        text = "Send the key as `Authorization: Bearer …`."
        if kind.lower() == "bearer" and given.strip():
            text = "This is not the service's key, which is the API_KEY of its settings."
        return APIError(401, "unauthorized", text)


class BodyLimit:
    """Counts the bytes of a body as they arrive, and the seconds that they take: a length that is
    said may be a lie, and a body may come a byte a minute. Of uploads only so many come at once."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._arriving = dict.fromkeys((_JSON, _UPLOAD, _PIECE, _TEXT), 0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in _SAFE:
            await self.app(scope, receive, send)
            return
        kind = _kind_of(scope["method"], scope["path"])
        counting = _Counting(receive, kind.most_bytes, kind.seconds)
        declared = Headers(scope=scope).get("content-length", "0")
        if declared.isdecimal() and int(declared) > kind.most_bytes:
            await response(_too_large(kind.most_bytes), scope)(scope, receive, send)
        elif kind.places is None:
            await self.app(scope, counting, send)
        else:
            await self._upload(kind, scope, counting, send)

    async def _upload(self, kind: "_BodyKind", scope: Scope, receive: Receive, send: Send) -> None:
        """Takes a place before the first byte of the body is read."""
        if kind.places is not None and self._arriving[kind] >= kind.places:
            text = f"{kind.places} {kind.what} are being uploaded already."
            refusal = APIError(503, "uploads_full", text, retry_after=_UPLOAD_RETRY_SECONDS)
            await response(refusal, scope)(scope, receive, send)
            return
        self._arriving[kind] += 1
        try:
            await self.app(scope, receive, send)
        finally:
            self._arriving[kind] -= 1


@dataclass(frozen=True)
class _BodyKind:
    """What a body may be. places: how many may arrive at once; None is any number."""

    what: str
    most_bytes: int
    seconds: float
    places: int | None


_JSON = _BodyKind("bodies", JSON_BYTES, JSON_SECONDS, None)
_UPLOAD = _BodyKind("recordings", UPLOAD_BYTES, UPLOAD_SECONDS, _MOST_UPLOADS)
_PIECE = _BodyKind("pieces of recordings", PIECE_BYTES, UPLOAD_SECONDS, _MOST_PIECES)
_TEXT = _BodyKind("texts", TEXT_BYTES, UPLOAD_SECONDS, _MOST_PIECES)


def _kind_of(method: str, path: str) -> _BodyKind:
    if path in UPLOADS:
        return _UPLOAD
    if method == "PATCH" and _PIECES.fullmatch(path):
        return _PIECE
    return _TEXT if method == "PUT" and _TEXTS.fullmatch(path) else _JSON


class _Counting:
    def __init__(self, receive: Receive, most: int, seconds: float) -> None:
        self._receive = receive
        self._most = most
        self._end = time.monotonic() + seconds
        self._bytes = 0
        self._whole = False

    async def __call__(self) -> Message:
        if self._whole:  # only a disconnect can come now, at any time
            return await self._receive()
        try:
            async with asyncio.timeout(max(0.0, self._end - time.monotonic())):
                message = await self._receive()
        except TimeoutError:
            text = "The body did not arrive in time."
            raise APIError(408, "slow_body", text) from None
        self._bytes += len(message.get("body", b""))
        if self._bytes > self._most:
            raise _too_large(self._most)
        self._whole = not message.get("more_body", False)
        return message


def _too_large(most: int) -> APIError:
    return APIError(413, "too_large", f"The body has more than {most:,} bytes.")


@dataclass
class RateLimiter:
    """A bucket of tokens for each caller; full at first, filled evenly. Pure but for its state.

    Whoever has a token may ask. A long text that is taken in costs more than one, also more than
    there are: the next request waits until that is paid back.
    """

    per_minute: int | None
    buckets: "OrderedDict[str, tuple[float, float]]" = field(default_factory=OrderedDict)

    def take(self, caller: str, now: float) -> float:
        """0.0 when the caller may ask, else how many seconds to wait."""
        if self.per_minute is None:
            return 0.0
        full = float(self.per_minute)
        tokens, at = self.buckets.pop(caller, (full, now))
        tokens = min(full, tokens + (now - at) * self.per_minute / 60)
        fits = tokens >= 1
        self.buckets[caller] = (tokens - fits, now)
        while len(self.buckets) > _MOST_BUCKETS:
            self.buckets.popitem(last=False)
        return 0.0 if fits else (1 - tokens) * 60 / self.per_minute

    def count_length(self, caller: str, characters: int) -> None:
        """Counts a text that is spoken for what it is beyond the one token of its request."""
        if caller in self.buckets:
            tokens, at = self.buckets[caller]
            self.buckets[caller] = tokens - (characters - 1) // UNIT_CHARACTERS, at


class HeadAsGet:
    """HEAD wherever GET is (RFC 9110, section 9.3.2): same status and headers, no body.

    Asks the routes for GET and ends the response after its headers: one may have no end.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return
        answered = False

        async def receiving() -> Message:
            # A streaming route polls this, and stops.
            return {"type": "http.disconnect"} if answered else await receive()

        async def sending(message: Message) -> None:
            nonlocal answered
            if message["type"] == "http.response.start":
                await send(message)
                answered = True
                await send({"type": "http.response.body", "body": b"", "more_body": False})

        await self.app({**scope, "method": "GET"}, receiving, sending)
