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

from api.errors import APIError, closing_refusal, problem_response
from api.http.connections import ADMIT
from api.metrics import ServiceMetrics

# Open without a key: the pages ask for the key, and probes have none.
OPEN_PATHS = frozenset({"/", "/docs", "/livez", "/readyz"})
# Answered even above the limit of requests.
_PROBE_PATHS = frozenset({"/livez", "/readyz", "/metrics"})
# Methods that change nothing (RFC 9110, 9.2.1).
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
# Sec-Fetch-Site (https://www.w3.org/TR/fetch-metadata) of allowed pages: the service's own, or
# none, as when a person types the address.
_OWN_SITES = frozenset({"same-origin", "none"})
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
_TEXT_LIMIT = BodyLimit(MAX_TEXT_BYTES, 15.0, MAX_TEXT_BYTES)
# The number of uploads that may arrive at once.
_MAX_UPLOADS = 8


def takes_upload(
    max_bytes: int, seconds: float = 60.0, piece_bytes: int = 0
) -> Callable[[Endpoint], Endpoint]:
    """Marks the function of a route whose body may exceed the limit for texts. Each `piece_bytes`
    must arrive within `seconds`; 0 means the whole body."""
    limit = BodyLimit(max_bytes, seconds, piece_bytes or max_bytes)

    def mark(endpoint: Endpoint) -> Endpoint:
        endpoint.body_limit = limit  # type: ignore[attr-defined]
        return endpoint

    return mark


def reads_the_key(endpoint: Endpoint) -> Endpoint:
    """Marks the function of a WebSocket that also takes the key in a message: pages in browsers
    cannot send headers. The function calls `given_key_refusal` itself."""
    endpoint.reads_the_key = True  # type: ignore[attr-defined]
    return endpoint


class OriginRules(NamedTuple):
    """The pages and host names that may send requests.

    Attributes:
        has_key: Whether the service has an API key.
        origins: The allowed pages, as browsers write them.
        hosts: The host names that the service answers to without a key.
    """

    has_key: bool
    origins: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()


class Gate:
    """The only middleware of the service. A request that it refuses never reaches a route.

    Args:
        routes: All routes; those with the tag `speech` cost computation.
        sockets: The WebSocket routes; each costs computation.
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
        added_headers = [(b"x-request-id", request_id.encode()), (b"x-content-type-options", b"nosniff")]
        status = 499  # nginx's code for a client that disconnected

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message.get("headers", ()), *added_headers]}
            await send(message)

        speaks = any(pattern.match(scope["path"]) for pattern in self._speech)
        refusal = _head_refusal(scope) or origin_refusal(
            Headers(scope=scope), scope["method"], speaks, self.rules
        )
        inside = problem_response(refusal, scope) if refusal else self._inside
        try:
            await inside(scope, receive, send_with_id)
        except asyncio.CancelledError:
            if status == 499:
                await problem_response(closing_refusal(), scope)(scope, receive, send_with_id)
        except Exception:
            status = 500
            raise
        finally:
            if speaks:
                self.metrics.requests.labels(str(status)).inc()
            if code := state.get("refused"):
                self.metrics.refusals.labels(str(status), code).inc()

    async def _open_socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Opens a WebSocket, or refuses it as a POST that speaks: a browser asks for no permission
        before it opens one."""
        scope.setdefault("state", {})["request_id"] = secrets.token_hex(8)
        headers = Headers(scope=scope)
        route = next((route for route in self._sockets if route.matches(scope)[0] is Match.FULL), None)
        refusal = _head_refusal(scope) or origin_refusal(headers, "POST", True, self.rules)
        sends_key_later = key_in(headers) == "" and hasattr(_endpoint(route), "reads_the_key")
        if refusal is None and not sends_key_later:
            refusal = key_refusal(self.key, headers)
        if refusal is None and route is None:
            refusal = APIError(404, "not_found", "There is no WebSocket at this path.")
        if refusal is None:
            await self.app(scope, receive, send)
            return
        self.metrics.refusals.labels(str(refusal.status), refusal.code).inc()
        await problem_response(refusal, scope)(scope, receive, send)

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuses requests without the key, and excess ones."""
        path, method = scope["path"], scope["method"]
        is_open = path in OPEN_PATHS or path.startswith("/page/")
        try:
            if not is_open and (refusal := key_refusal(self.key, Headers(scope=scope))):
                raise refusal
            if method in _SAFE_METHODS and not is_open and path not in _PROBE_PATHS:
                _count_request(scope)
        except APIError as refusal:
            await problem_response(refusal, scope)(scope, receive, send)
            return
        if method == "HEAD":
            await self._answer_head(scope, receive, send)
        elif method in _SAFE_METHODS:
            await self.app(scope, receive, send)
        else:
            await self._take_body(scope, receive, send)

    async def _take_body(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Enforces the limits of the body: size, time, and the number of uploads."""
        route = next((route for route in self._routes if route.matches(scope)[0] is Match.FULL), None)
        if route is None:  # 404 or 405, which reads no body
            await self.app(scope, receive, send)
            return
        limit = getattr(route.endpoint, "body_limit", _TEXT_LIMIT)
        body = _limit_body(receive, limit)
        is_upload = limit is not _TEXT_LIMIT
        try:
            declared = Headers(scope=scope).get("content-length", "0")
            if declared.isdecimal() and int(declared) > limit.max_bytes:
                raise _too_large(limit)
            if not is_upload:
                body = await _buffer_body(body)
            elif self._uploads >= _MAX_UPLOADS:
                text = f"{_MAX_UPLOADS} uploads are already arriving. Try again later."
                raise APIError(503, "uploads_full", text, retry_after=5)
            # An upload is counted before its body arrives. A body takes a while, and requests that
            # come meanwhile must not take its place.
            _count_request(scope)
        except APIError as refusal:
            await problem_response(refusal, scope)(scope, receive, send)
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

        async def receive_until_answered() -> Message:
            # A streaming route polls this, and stops.
            return {"type": "http.disconnect"} if answered else await receive()

        async def send_head_only(message: Message) -> None:
            nonlocal answered
            if message["type"] == "http.response.start":
                await send(message)
                answered = True
                await send({"type": "http.response.body", "body": b"", "more_body": False})

        await self.app({**scope, "method": "GET"}, receive_until_answered, send_head_only)


def _limit_body(receive: Receive, limit: BodyLimit) -> Receive:
    """Enforces a limit while a body arrives: its declared length can be wrong, and it can arrive at
    a byte a minute."""
    started, arrived_bytes, is_complete = time.monotonic(), 0, False

    async def receive_within_limit() -> Message:
        nonlocal arrived_bytes, is_complete
        if is_complete:  # only a disconnect can follow
            return await receive()
        pieces = 1 + arrived_bytes // limit.piece_bytes
        seconds_left = started + pieces * limit.seconds - time.monotonic()
        try:
            async with asyncio.timeout(max(0.0, seconds_left)):
                message = await receive()
        except TimeoutError:
            raise APIError(408, "slow_body", "The body did not arrive within the time limit.") from None
        arrived_bytes += len(message.get("body", b""))
        if arrived_bytes > limit.max_bytes:
            raise _too_large(limit)
        is_complete = not message.get("more_body", False)
        return message

    return receive_within_limit


async def _buffer_body(receive: Receive) -> Receive:
    """Reads a body until it ends or its client leaves; returns a function that receives it again.
    Raises APIError."""
    messages = [await receive()]
    while messages[-1].get("more_body", False):
        messages.append(await receive())
    messages.reverse()

    async def receive_again() -> Message:
        return messages.pop() if messages else await receive()

    return receive_again


def _count_request(scope: Scope) -> None:
    """Counts the request among those being answered. Raises APIError (503) if no more can be."""
    admit = scope["state"].get(ADMIT)
    if admit is not None and not admit():
        text = "Too many requests are open. Close connections that you do not need."
        raise APIError(503, "too_many_connections", text, retry_after=1)


def _too_large(limit: BodyLimit) -> APIError:
    return APIError(413, "too_large", f"The body is larger than the limit of {limit.max_bytes:,} bytes.")


def _head_refusal(scope: Scope) -> APIError | None:
    """431 for a large head. h11's own limit does not hold for one that arrives at once."""
    header_bytes = sum(len(name) + len(value) + 4 for name, value in scope["headers"])
    if header_bytes + len(scope.get("raw_path", b"")) + len(scope.get("query_string", b"")) <= MAX_HEAD_BYTES:
        return None
    text = f"The request's head is larger than the limit of {MAX_HEAD_BYTES:,} bytes."
    return APIError(431, "head_too_large", text)


def key_refusal(key: str | None, headers: Headers) -> APIError | None:
    """401 unless the request has the right key; None if the service has none."""
    return None if key is None else given_key_refusal(key, key_in(headers))


def given_key_refusal(key: str, given: str) -> APIError | None:
    """401 unless `given` is the key, compared in constant time."""
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


def _endpoint(route: APIWebSocketRoute | None) -> object:
    return route.endpoint if route else None


def origin_refusal(headers: Headers, method: str, speaks: bool, rules: OriginRules) -> APIError | None:
    """403 for a request from another site's page, or to a host name that such a site may control.
    speaks: whether the request costs computation."""
    host, origin = headers.get("host", ""), headers.get("origin")
    if method not in _SAFE_METHODS or "access-control-request-method" in headers:
        is_foreign = bool(origin) and not _is_allowed_page(origin or "", host, rules)
    else:
        is_foreign = speaks and method != "OPTIONS" and _is_foreign_reader(headers, host, rules)
    if is_foreign:
        text = (
            "Pages of other sites may not send this request. The setting API_ALLOWED_ORIGINS of "
            "the service names the pages that may."
        )
        return APIError(403, "foreign_origin", text)
    if not rules.has_key and not _is_local_host(host) and _host_name(host) not in rules.hosts:
        text = (
            "Without an API key the service answers only to an IP address or a local name. Set "
            "API_KEY, or add this host name to API_ALLOWED_HOSTS."
        )
        return APIError(403, "foreign_host", text)
    return None


def _is_foreign_reader(headers: Headers, host: str, rules: OriginRules) -> bool:
    """Whether a GET that speaks comes from an <audio> or <img> of another site's page.

    Such a request has no Origin and maybe no Referer, and browsers send Sec-Fetch-Site only to
    secure addresses. What remains is a User-Agent that begins with Mozilla.
    """
    if origin := headers.get("origin"):
        return not _is_allowed_page(origin, host, rules)
    site = headers.get("sec-fetch-site")
    if site in _OWN_SITES:
        return False
    if referer := headers.get("referer"):
        page = urlsplit(referer)
        return not _is_allowed_page(f"{page.scheme}://{page.netloc}", host, rules)
    if site == "same-site":
        # Pages such as SillyTavern's hide the Referer, so an allowed origin on this host suffices.
        return _host_name(host) not in {_host_name(urlsplit(allowed).netloc) for allowed in rules.origins}
    is_browser = headers.get("user-agent", "").lower().startswith("mozilla/")
    return site is not None or (is_browser and not rules.has_key)


def _is_allowed_page(origin: str, host: str, rules: OriginRules) -> bool:
    """Whether this is the service's own page, or one that the settings allow."""
    return urlsplit(origin).netloc.lower() == host.lower() or origin.lower() in rules.origins


def _is_local_host(host: str) -> bool:
    """Whether the host is an IP address or a local name, which DNS rebinding cannot use."""
    name = _host_name(host)
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return "." not in name or name.endswith((".localhost", ".local", ".internal"))
    return True


def _host_name(host: str) -> str:
    """The host name in lower case and without its port; an invalid one keeps its port."""
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".").lower()
    except ValueError:
        return host.lower()
