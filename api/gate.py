"""The gate that every request passes: origin, connections, API key, body size, HEAD.

It is plain ASGI, so that routes notice a client that disconnects.

A browser sends requests for any open page, even to the reader's machine and home network. The gate
therefore refuses all pages except the service's own and those in API_ALLOWED_ORIGINS.
"""

import asyncio
import hmac
import ipaddress
import secrets
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar
from urllib.parse import urlsplit

from fastapi.routing import APIRoute, APIWebSocketRoute
from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.errors import APIError, closing, response
from api.http.connections import ADMIT
from api.metrics import ServiceMetrics

# Open without a key: the pages ask for the key, and probes have none.
OPEN = frozenset({"/", "/docs", "/livez", "/readyz"})
# Answered even above the limit of requests.
PROBES = frozenset({"/livez", "/readyz", "/metrics"})
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_EXPOSED_HEADERS = [
    "Retry-After",
    "X-AI-Generated",
    "X-Cut-Pieces",
    "X-Faulty-Pieces",
    "X-Ignored-Fields",
    "X-Model",
    "X-Request-Id",
    "X-Respoken-Pieces",
    "X-Sample-Rate",
]
# Sec-Fetch-Site (https://www.w3.org/TR/fetch-metadata) of allowed pages: the service's own, or
# none, as when a person types the address.
_OWN_SITES = frozenset({"same-origin", "none"})

Endpoint = TypeVar("Endpoint", bound=Callable[..., object])


class BodyLimit(NamedTuple):
    """The largest body in bytes, and the seconds in which each piece of it must arrive."""

    max_bytes: int
    seconds: float
    piece_bytes: int


# Also the limit of an incomplete head, in `api.http.server`.
MAX_HEAD_BYTES = 16 << 10
# The largest body of a text, and the largest message of a WebSocket.
MAX_TEXT_BYTES = 64 << 10
_TEXT = BodyLimit(MAX_TEXT_BYTES, 15.0, MAX_TEXT_BYTES)
# The number of uploads that may arrive at once.
_MAX_UPLOADS = 8


def takes_upload(
    max_bytes: int, seconds: float = 60.0, piece_bytes: int = 0
) -> Callable[[Endpoint], Endpoint]:
    """Marks the function of a route whose body may exceed the limit for texts. Each `piece_bytes`
    must arrive within `seconds`; 0 means the whole body."""
    limit = BodyLimit(max_bytes, seconds, piece_bytes or max_bytes)

    def marked(endpoint: Endpoint) -> Endpoint:
        endpoint.body_limit = limit  # type: ignore[attr-defined]
        return endpoint

    return marked


def reads_the_key(endpoint: Endpoint) -> Endpoint:
    """Marks the function of a WebSocket that takes the key in a message, too: pages of browsers
    cannot send headers. It calls `refuse_given` itself."""
    endpoint.reads_the_key = True  # type: ignore[attr-defined]
    return endpoint


class OriginRules(NamedTuple):
    """origins: the pages that may send requests, as browsers write them; hosts: the host names that
    the service answers to without a key."""

    has_key: bool
    origins: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()


class Gate:
    """The only middleware of the service. A request that it refuses never reaches a route.

    Args:
        routes: All routes; those with the tag `speech` cost computation.
        sockets: The WebSockets; all of them do.
        rules: The allowed pages and host names; pages of `rules.origins` get CORS headers.
        key: The API key, or None.
        metrics: Counts every speech request by status, and every refusal by code.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        routes: Sequence[APIRoute],
        sockets: Sequence[APIWebSocketRoute],
        rules: OriginRules,
        key: str | None,
        metrics: ServiceMetrics,
    ) -> None:
        self.app = app
        self.rules = rules
        self.key = key
        self.metrics = metrics
        self._routes = routes
        self._sockets = sockets
        self._speech = [route.path_regex for route in routes if "speech" in route.tags]
        self._uploads = 0
        self._inside: ASGIApp = self._admit
        if rules.origins:
            # A preflight carries no key, and a page reads a refusal only with these headers.
            self._inside = CORSMiddleware(
                self._admit,
                allow_origins=list(rules.origins),
                allow_headers=["*"],
                allow_methods=["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"],
                allow_private_network=True,
                expose_headers=_EXPOSED_HEADERS,
            )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Gives the request its id, counts it, and refuses pages of other sites.

        A request that the shutdown cancels still gets a response.
        """
        if scope["type"] != "http":
            handle = self._open_socket if scope["type"] == "websocket" else self.app
            await handle(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        request_id = state["request_id"] = secrets.token_hex(8)
        added = [(b"x-request-id", request_id.encode()), (b"x-content-type-options", b"nosniff")]
        status = 499  # nginx's code for a client that disconnected

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message.get("headers", ()), *added]}
            await send(message)

        speaks = any(pattern.match(scope["path"]) for pattern in self._speech)
        refusal = _refuse_head(scope) or refuse_origin(
            Headers(scope=scope), scope["method"], speaks, self.rules
        )
        inside = response(refusal, scope) if refusal else self._inside
        try:
            await inside(scope, receive, sending)
        except asyncio.CancelledError:
            if status == 499:
                await response(closing(), scope)(scope, receive, sending)
        except Exception:
            status = 500
            raise
        finally:
            if speaks:
                self.metrics.requests.labels(str(status)).inc()
            if code := state.get("refused"):
                self.metrics.refusals.labels(str(status), code).inc()

    async def _open_socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuses a WebSocket as a POST that speaks: a browser asks for no permission before it
        opens one."""
        scope.setdefault("state", {})["request_id"] = secrets.token_hex(8)
        headers = Headers(scope=scope)
        route = next((route for route in self._sockets if route.matches(scope)[0] is Match.FULL), None)
        refusal = _refuse_head(scope) or refuse_origin(headers, "POST", True, self.rules)
        if refusal is None and not (key_in(headers) == "" and hasattr(_endpoint(route), "reads_the_key")):
            refusal = refuse_key(self.key, headers)
        if refusal is None and route is None:
            refusal = APIError(404, "not_found", "There is no WebSocket at this path.")
        if refusal is None:
            await self.app(scope, receive, send)
            return
        self.metrics.refusals.labels(str(refusal.status), refusal.code).inc()
        await response(refusal, scope)(scope, receive, send)

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuses requests without the key, and excess ones."""
        path, method = scope["path"], scope["method"]
        is_open = path in OPEN or path.startswith("/page/")
        try:
            if not is_open and (refusal := refuse_key(self.key, Headers(scope=scope))):
                raise refusal
            if method in _SAFE and not is_open and path not in PROBES:
                _take_place(scope)
        except APIError as refusal:
            await response(refusal, scope)(scope, receive, send)
            return
        if method == "HEAD":
            await self._answer_head(scope, receive, send)
        elif method in _SAFE:
            await self.app(scope, receive, send)
        else:
            await self._take_body(scope, receive, send)

    async def _take_body(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Enforces the limits of the body: size, time, and the number of uploads."""
        route = next((route for route in self._routes if route.matches(scope)[0] is Match.FULL), None)
        if route is None:  # 404 or 405, which reads no body
            await self.app(scope, receive, send)
            return
        limit = getattr(route.endpoint, "body_limit", _TEXT)
        body = _limit_body(receive, limit)
        is_upload = limit is not _TEXT
        try:
            declared = Headers(scope=scope).get("content-length", "0")
            if declared.isdecimal() and int(declared) > limit.max_bytes:
                raise _too_large(limit)
            if not is_upload:
                body = await _read(body)
            elif self._uploads >= _MAX_UPLOADS:
                text = f"{_MAX_UPLOADS} uploads are already arriving. Try again later."
                raise APIError(503, "uploads_full", text, retry_after=5)
            # An upload takes its place before its body: it takes a while, and must not give way.
            _take_place(scope)
        except APIError as refusal:
            await response(refusal, scope)(scope, receive, send)
            return
        self._uploads += is_upload  # before the first byte of the body is read
        try:
            await self.app(scope, body, send)
        finally:
            self._uploads -= is_upload

    async def _answer_head(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers HEAD for every GET (RFC 9110, section 9.3.2): same status and headers, no body.

        It runs the route's GET and ends the response after its headers, as a body may be endless.
        """
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


def _limit_body(receive: Receive, limit: BodyLimit) -> Receive:
    """Enforces a limit while a body arrives: its declared length can be wrong, and it can arrive at
    a byte a minute."""
    begun, arrived, whole = time.monotonic(), 0, False

    async def bounded() -> Message:
        nonlocal arrived, whole
        if whole:  # only a disconnect can follow
            return await receive()
        pieces = 1 + arrived // limit.piece_bytes
        left = begun + pieces * limit.seconds - time.monotonic()
        try:
            async with asyncio.timeout(max(0.0, left)):
                message = await receive()
        except TimeoutError:
            raise APIError(408, "slow_body", "The body did not arrive within the time limit.") from None
        arrived += len(message.get("body", b""))
        if arrived > limit.max_bytes:
            raise _too_large(limit)
        whole = not message.get("more_body", False)
        return message

    return bounded


async def _read(receive: Receive) -> Receive:
    """Reads a body to its end, or to its client's; returns a function that receives it again.
    Raises APIError."""
    messages = [await receive()]
    while messages[-1].get("more_body", False):
        messages.append(await receive())
    messages.reverse()

    async def again() -> Message:
        return messages.pop() if messages else await receive()

    return again


def _take_place(scope: Scope) -> None:
    """Counts the request among those being answered. Raises APIError (503) if no more can be."""
    admit = scope["state"].get(ADMIT)
    if admit is not None and not admit():
        text = "Too many requests are open. Close connections that you do not need."
        raise APIError(503, "too_many_connections", text, retry_after=1)


def _too_large(limit: BodyLimit) -> APIError:
    return APIError(413, "too_large", f"The body is larger than the limit of {limit.max_bytes:,} bytes.")


def _refuse_head(scope: Scope) -> APIError | None:
    """431 for a large head. h11's own limit does not hold for one that arrives at once."""
    headers = sum(len(name) + len(value) + 4 for name, value in scope["headers"])
    if headers + len(scope.get("raw_path", b"")) + len(scope.get("query_string", b"")) <= MAX_HEAD_BYTES:
        return None
    text = f"The request's head is larger than the limit of {MAX_HEAD_BYTES:,} bytes."
    return APIError(431, "head_too_large", text)


def refuse_key(key: str | None, headers: Headers) -> APIError | None:
    """401 unless the request has the right key; None without a key."""
    return None if key is None else refuse_given(key, key_in(headers))


def refuse_given(key: str, given: str) -> APIError | None:
    """401 unless this is the key, compared in constant time."""
    if hmac.compare_digest(given.encode(errors="replace"), key.encode()):
        return None
    text = "An API key is required. Send it as `Authorization: Bearer …`."
    if given:
        text = "The API key is wrong. It is the API_KEY of the service's settings."
    return APIError(401, "unauthorized", text)


def key_in(headers: Headers) -> str:
    """The key of a request: a bearer token (RFC 6750), or ElevenLabs' header."""
    kind, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else headers.get("xi-api-key", "").strip()


def refuse_origin(headers: Headers, method: str, speaks: bool, rules: OriginRules) -> APIError | None:
    """403 for a request from another site's page, or to a host name that the site may control.
    speaks: whether it costs computation."""
    host, origin = headers.get("host", ""), headers.get("origin")
    if method not in _SAFE or "access-control-request-method" in headers:
        foreign = bool(origin) and not _welcome(origin or "", host, rules)
    else:
        foreign = speaks and method != "OPTIONS" and _foreign_reader(headers, host, rules)
    if foreign:
        text = (
            "Pages of other sites may not send this request. The setting API_ALLOWED_ORIGINS of "
            "the service names the pages that may."
        )
        return APIError(403, "foreign_origin", text)
    if not rules.has_key and not _private(host) and _name(host) not in rules.hosts:
        text = (
            "Without an API key the service answers only to an IP address or a local name. Set "
            "API_KEY, or add this host name to API_ALLOWED_HOSTS."
        )
        return APIError(403, "foreign_host", text)
    return None


def _foreign_reader(headers: Headers, host: str, rules: OriginRules) -> bool:
    """Whether a GET that speaks comes from an <audio> or <img> of another site's page.

    Such a request has no Origin and maybe no Referer, and browsers send Sec-Fetch-Site only to
    secure addresses. What remains is a User-Agent that begins with Mozilla.
    """
    if origin := headers.get("origin"):
        return not _welcome(origin, host, rules)
    site = headers.get("sec-fetch-site")
    if site in _OWN_SITES:
        return False
    if referer := headers.get("referer"):
        page = urlsplit(referer)
        return not _welcome(f"{page.scheme}://{page.netloc}", host, rules)
    if site == "same-site":
        # Pages such as SillyTavern's hide the Referer, so an allowed origin on this host suffices.
        return _name(host) not in {_name(urlsplit(allowed).netloc) for allowed in rules.origins}
    browser = headers.get("user-agent", "").lower().startswith("mozilla/")
    return site is not None or (browser and not rules.has_key)


def _welcome(origin: str, host: str, rules: OriginRules) -> bool:
    """Whether this is the service's own page, or one that the settings allow."""
    return urlsplit(origin).netloc.lower() == host.lower() or origin.lower() in rules.origins


def _private(host: str) -> bool:
    """Whether the host is an IP address or a local name, which DNS rebinding cannot use."""
    name = _name(host)
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return "." not in name or name.endswith((".localhost", ".local", ".internal"))
    return True


def _endpoint(route: APIWebSocketRoute | None) -> object:
    return route.endpoint if route else None


def _name(host: str) -> str:
    """The host name in lower case and without its port; an invalid one keeps its port."""
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".").lower()
    except ValueError:
        return host.lower()
