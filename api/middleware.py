"""ASGI middleware: API key, foreign origins, rate limit, body size, request id, HEAD.

Plain ASGI, so that a client's going away is seen by the routes.
"""

import asyncio
import hmac
import ipaddress
import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.errors import APIError, closing, response
from api.http.connections import CROWDED
from api.metrics import ServiceMetrics

JSON_BYTES = 64 << 10
UPLOAD_BYTES = (20 << 20) + (64 << 10)
JSON_SECONDS = 15.0
UPLOAD_SECONDS = 60.0
# Open without a key: the page asks for it, and probes have none.
OPEN = frozenset({"/", "/livez", "/readyz"})
# What tells others how the service is: answered whatever the number of connections.
PROBES = frozenset({"/livez", "/readyz", "/metrics"})
_SPEECH = "/v1/audio/speech"
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_MOST_BUCKETS = 10_000
# Each lies on the disk while it arrives and waits to be decoded: 8 take 160 MB at most.
_MOST_UPLOADS = 8
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

    def __init__(self, app: ASGIApp, *, metrics: ServiceMetrics) -> None:
        self.app = app
        self.metrics = metrics

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
            if _is_speech(scope["path"]):
                self.metrics.requests.labels(str(status)).inc()
            if code := scope["state"].get("refused"):
                self.metrics.refusals.labels(str(status), code).inc()


def _is_speech(path: str) -> bool:
    """Of the served voice, or of a candidate of a run."""
    return path == _SPEECH or (path.startswith("/v1/runs/") and path.endswith("/speech"))


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


class AccessGate:
    """The key, where one is set; and pages of other sites stay out (no CORS, no rebinding)."""

    def __init__(self, app: ASGIApp, *, key: str | None) -> None:
        self.app = app
        self.key = key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            refusal = refuse_foreign_origin(headers, scope["method"], has_key=self.key is not None)
            if scope["path"] not in OPEN and not scope["path"].startswith("/page/"):
                refusal = refusal or self.refused(self.key, headers)
            if refusal is not None:
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


def refuse_foreign_origin(headers: Headers, method: str, *, has_key: bool) -> APIError | None:
    """Refuses what a browser sends for a page of another site: no person asked for it."""
    host = headers.get("host", "")
    origin = headers.get("origin")
    if method not in _SAFE and origin and urlsplit(origin).netloc.lower() != host.lower():
        return APIError(403, "foreign_origin", "A page of another site may not ask for this.")
    if not has_key and not _private(host):
        text = (
            "Without a key this is answered only under an address or a local name. To serve it "
            "under a name of your own, set API_KEY."
        )
        return APIError(403, "foreign_host", text)
    return None


def _private(host: str) -> bool:
    """Whether no public name leads here: a site that points its name at this machine would."""
    try:
        name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
        ipaddress.ip_address(name)
    except ValueError:
        return "." not in name or name.endswith((".localhost", ".local", ".internal"))
    return True


class BodyLimit:
    """Counts the bytes of a body as they arrive, and the seconds that they take: a length that is
    said may be a lie, and a body may come a byte a minute. Of uploads only so many come at once."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._uploads = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in _SAFE:
            await self.app(scope, receive, send)
            return
        upload = scope["path"] == "/v1/voices"
        most = UPLOAD_BYTES if upload else JSON_BYTES
        counting = _Counting(receive, most, UPLOAD_SECONDS if upload else JSON_SECONDS)
        declared = Headers(scope=scope).get("content-length", "0")
        if declared.isdecimal() and int(declared) > most:
            await response(_too_large(most), scope)(scope, receive, send)
        elif upload:
            await self._upload(scope, counting, send)
        else:
            await self.app(scope, counting, send)

    async def _upload(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Takes a place before the first byte of the body is read."""
        if self._uploads >= _MOST_UPLOADS:
            text = f"{_MOST_UPLOADS} recordings are being uploaded already."
            refusal = APIError(503, "uploads_full", text, retry_after=_UPLOAD_RETRY_SECONDS)
            await response(refusal, scope)(scope, receive, send)
            return
        self._uploads += 1
        try:
            await self.app(scope, receive, send)
        finally:
            self._uploads -= 1


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
    """A bucket of tokens for each caller; full at first, filled evenly. Pure but for its state."""

    per_minute: int | None
    buckets: "OrderedDict[str, tuple[float, float]]" = field(default_factory=OrderedDict)

    def take(self, caller: str, now: float) -> float:
        """0.0 when the caller may ask, else how many seconds to wait."""
        if self.per_minute is None:
            return 0.0
        tokens, at = self.buckets.pop(caller, (float(self.per_minute), now))
        tokens = min(float(self.per_minute), tokens + (now - at) * self.per_minute / 60)
        fits = tokens >= 1
        self.buckets[caller] = (tokens - fits, now)
        while len(self.buckets) > _MOST_BUCKETS:
            self.buckets.popitem(last=False)
        return 0.0 if fits else (1 - tokens) * 60 / self.per_minute


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
