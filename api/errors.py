"""Turns every HTTP error into an RFC 9457 body; on OpenAI's routes it also has OpenAI's `error`.

No body contains a path of this machine or a traceback: messages of other modules pass through
`without_paths`.
"""

import errno
import logging
import re
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Match
from starlette.types import Scope

from machine.storage.files import JsonObject

log = logging.getLogger("api")

PROBLEM_MEDIA_TYPE = "application/problem+json"
# The paths of OpenAI's clients.
_OPENAI_PREFIXES = ("/v1/audio/", "/v1/models")
# An absolute path, such as /data/output/x.pt, but not a URL path of this service, nor C:\x.
_PATH = re.compile(
    r"(?<![\w.:/])(?!/v1/|/openapi\.json|/studio_speakers\b|/clone_speaker\b)"
    r"~?/[^\s'\"(),;]*[^\s'\"(),;.:]"
)
_MAX_EXCERPT_CHARACTERS = 40


class APIError(HTTPException):
    """A refused request with its reason; it becomes the response.

    It is an HTTPException because FastAPI turns any other error while reading a body into a 400.

    Args:
        code: A word for programs, such as `queue_full`.
        retry_after: In whole seconds.
        param: The field of the request that is at fault.
    """

    def __init__(
        self, status: int, code: str, detail: str, *, retry_after: int | None = None, param: str | None = None
    ) -> None:
        headers = {}
        if retry_after is not None:
            headers["Retry-After"] = str(retry_after)
        if status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        super().__init__(status, detail, headers)
        self.status = status
        self.code = code
        self.retry_after = retry_after
        self.param = param

    def __str__(self) -> str:
        return self.detail


def closing_refusal() -> APIError:
    """The refusal of a service that is stopping; the client can try another replica."""
    return APIError(503, "closing", "The service is stopping.", retry_after=5)


def starting_refusal() -> APIError:
    """The refusal of a service whose speaking process is not ready."""
    return APIError(503, "starting", "The speaking process is starting.", retry_after=2)


def problem_response(refusal: APIError, scope: Scope) -> JSONResponse:
    """The response of a refusal to the request of `scope`."""
    state = scope.get("state", {})
    state["refused"] = refusal.code
    body: dict[str, object] = {
        "type": f"about:blank#{refusal.code}",
        "title": HTTPStatus(refusal.status).phrase,
        "status": refusal.status,
        "detail": without_paths(refusal.detail),
        "code": refusal.code,
        "request_id": state.get("request_id", ""),
    }
    if refusal.param is not None:
        body["param"] = refusal.param
    if str(scope.get("path", "")).startswith(_OPENAI_PREFIXES):
        body["error"] = {
            "message": body["detail"],
            "type": _openai_type(refusal.status),
            "code": refusal.code,
            "param": refusal.param,
        }
    return JSONResponse(body, refusal.status, headers=refusal.headers, media_type=PROBLEM_MEDIA_TYPE)


async def answer_refusal(request: Request, error: Exception) -> JSONResponse:
    """FastAPI's handler for APIError."""
    assert isinstance(error, APIError)
    return problem_response(error, request.scope)


async def answer_http(request: Request, error: Exception) -> JSONResponse:
    """Answers requests that the framework refuses, such as an unknown path or method."""
    status = int(getattr(error, "status_code", 500))
    detail = str(getattr(error, "detail", ""))
    if status in (404, 405) and _is_route(request, f"/v1{request.url.path}"):
        status = 404
        detail = f"There is nothing at this path. Did you mean /v1{request.url.path}?"
    elif status == 404:
        detail = "There is nothing at this path. /openapi.json lists the paths."
    elif status == 405:
        detail = f"This path takes {' and '.join(sorted(_methods_of(request)))}."
    elif status == 400:
        if (refusal := _body_refusal(request, error)) is not None:
            return problem_response(refusal, request.scope)
        detail = (
            "The body does not match its Content-Type. Or it is nested too deeply, or one of its "
            "numbers or names is too long."
        )
    code = HTTPStatus(status).phrase.lower().replace(" ", "_")
    answer = problem_response(APIError(status, code, detail), request.scope)
    for name, value in (getattr(error, "headers", None) or {}).items():
        answer.headers[name] = value
    if status == 405:
        answer.headers["Allow"] = ", ".join(sorted(_methods_of(request)))
    return answer


def _body_refusal(request: Request, error: Exception) -> APIError | None:
    """Why FastAPI could not read a body; None if its form is malformed.

    FastAPI answers all these errors with 400. It keeps an arriving form in temporary files
    (TMPDIR), so an OSError is a fault of this machine.
    """
    cause = error.__cause__
    if isinstance(cause, UnicodeDecodeError):
        # `json` also detects UTF-16 and UTF-32, so the encoding may be one of these.
        text = (
            f"The body is not {cause.encoding.upper()}: byte 0x{cause.object[cause.start]:02x} at "
            f"position {cause.start:,}. Send JSON as UTF-8."
        )
        return APIError(400, "invalid_json", text)
    if not isinstance(cause, OSError):
        return None
    request_id = request.scope.get("state", {}).get("request_id", "")
    log.error(
        "Request %s: its body could not be kept in the temporary folder (TMPDIR): %s", request_id, cause
    )
    if cause.errno in (errno.ENOSPC, errno.EDQUOT):
        text = "The service has no room for temporary files (TMPDIR). Free some, and send it again."
        return APIError(507, "no_space", text)
    text = "The service cannot write temporary files (TMPDIR). Its log has the details."
    return APIError(500, "no_temporary_file", text)


def _is_route(request: Request, path: str) -> bool:
    """Whether a route takes this method at `path`. The base URL of many clients lacks /v1."""
    scope = {**request.scope, "path": path, "root_path": ""}
    return any(route.matches(scope)[0] is Match.FULL for route in request.app.state.routes)


def _methods_of(request: Request) -> set[str]:
    """All methods of this path; each is a separate route, and the framework reports only the first.

    If `/clips/{clip}.wav` and `/clips/{clip}` both match, only the more specific one counts.
    """
    routes = [
        route for route in request.app.state.routes if route.matches(request.scope)[0] is not Match.NONE
    ]
    max_literals = max((_num_literals(route) for route in routes), default=0)
    routes = [route for route in routes if _num_literals(route) == max_literals]
    methods = set().union(*(getattr(route, "methods", None) or () for route in routes))
    return methods | {"HEAD"} if "GET" in methods else methods


def _num_literals(route: BaseRoute) -> int:
    """The number of literal characters in a route's path."""
    return len(re.sub(r"\{[^}]*\}", "", getattr(route, "path", "")))


async def answer_invalid(request: Request, error: Exception) -> JSONResponse:
    """Answers a body or parameter that does not match the schema, with its first error."""
    faults: list[JsonObject] = list(getattr(error, "errors", list)())
    fault: JsonObject = faults[0] if faults else {"loc": (), "msg": "it cannot be read", "type": "invalid"}
    path = [str(part) for part in fault["loc"][1:]]
    # If the field is a union, pydantic adds the type that it tried.
    param = path[0] if path else None
    status, code = 422, "invalid_request"
    if fault["type"] == "json_invalid":
        status, code, param = 400, "invalid_json", None
    detail = fault_sentence(fault, param)
    content_type = request.headers.get("content-type", "").lower()
    if fault["type"] == "missing" and "json" in content_type and _takes_a_form(request):
        status, code, param = 415, "unsupported_media_type", None
        detail = "This route takes a form, not JSON. Send a form, as `curl -d` does."
    elif param is None and isinstance(fault.get("input"), bytes):
        status, code = 415, "unsupported_media_type"
        detail = "Send JSON with the header `Content-Type: application/json`."
    return problem_response(APIError(status, code, detail, param=param), request.scope)


def _takes_a_form(request: Request) -> bool:
    """Whether this route takes a form and not JSON, according to /openapi.json."""
    path = getattr(request.scope.get("route"), "path", "")
    operation = request.app.openapi()["paths"].get(path, {}).get(request.method.lower(), {})
    content = operation.get("requestBody", {}).get("content", {})
    return bool(content) and "application/json" not in content


async def answer_fault(request: Request, error: Exception) -> JSONResponse:
    """Answers an unexpected error: logs its traceback, and sends the client its request id."""
    request_id = request.scope.get("state", {}).get("request_id", "")
    log.error("Request %s failed.", request_id, exc_info=error)
    refusal = APIError(
        500, "internal", "The service failed. Its log has the details under this request's id."
    )
    return problem_response(refusal, request.scope)


def without_paths(text: str) -> str:
    """The text with each path reduced to its file name."""
    return _PATH.sub(lambda match: match[0].rstrip("/").rsplit("/", 1)[-1] or "/", text)


def _openai_type(status: int) -> str:
    if status == 401:
        return "authentication_error"
    if status == 429:
        return "rate_limit_error"
    return "server_error" if status >= 500 else "invalid_request_error"


def fault_sentence(fault: JsonObject, param: str | None) -> str:
    """The message for one of pydantic's `errors()`. param: the field; None for the whole body."""
    kind, context = str(fault["type"]), fault.get("ctx") or {}
    if param is None:
        return _body_sentence(kind, context)
    if kind == "missing":
        return f"{param} is missing."
    if kind == "extra_forbidden":
        return f"{param} is not a field of this request. Leave it out."
    message = str(fault["msg"]).rstrip(".")
    rule = message.removeprefix("Input ").removeprefix("String ")
    if rule == message:
        return f"{param}: {message}."
    value = fault.get("input")
    actual = f"{len(str(value)):,}" if kind.startswith("string_too_") else excerpt(value)
    return f"{param} {rule}, not {actual}."


def _body_sentence(kind: str, context: JsonObject) -> str:
    if kind == "json_invalid":
        reason = str(context.get("error", "")).rstrip(".")
        return f"The body is not JSON: {reason[:1].lower()}{reason[1:]}."
    if kind == "missing":
        return "The request has no body."
    return 'The body must be a JSON object, such as {"input": "Good morning."}.'


def excerpt(value: object) -> str:
    """A value as the client wrote it, shortened if it is long."""
    text = repr(value)
    return text if len(text) <= _MAX_EXCERPT_CHARACTERS else text[: _MAX_EXCERPT_CHARACTERS - 1] + "…"
