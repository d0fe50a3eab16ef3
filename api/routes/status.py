"""Routes /, /docs, /status, /livez, /readyz, /metrics and /events."""

import time

from fastapi import APIRouter, Request
from starlette.responses import FileResponse, PlainTextResponse, Response, StreamingResponse

from api.gate import key_refusal
from api.page_files import compressed, page, styles
from api.parts import PAGE
from api.schemas import PROBLEMS, Alive, Ready, Status
from api.state import Shared, api_key_of

router = APIRouter(tags=["status"], responses=PROBLEMS)
# No content from other hosts: the page works without a network.
POLICY = (
    "default-src 'self'; media-src 'self' blob:; img-src 'self' data:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)


@router.get("/", response_model=Status, responses={200: {"content": {"text/html": {}}}})
async def root(request: Request, response: Response, state: Shared) -> Response | Status:
    """The page for a browser, the status for anything else."""
    headers = {
        "Vary": "Accept, Accept-Encoding",
        "Content-Security-Policy": POLICY,
        "Cache-Control": "no-cache",
    }
    if "text/html" in request.headers.get("accept", "") and (PAGE / "index.html").is_file():
        return _text(request, page(), "text/html", headers)
    if refusal := key_refusal(api_key_of(state.settings), request.headers):
        raise refusal
    response.headers["Vary"] = "Accept"
    return state.status()


@router.get("/page/styles.css", include_in_schema=False)
async def page_styles(request: Request) -> Response:
    """The styles of the page."""
    return _text(request, styles(), "text/css", {"Vary": "Accept-Encoding"})


def _text(request: Request, text: str, kind: str, headers: dict[str, str]) -> Response:
    """A text of the page, packed if the browser unpacks it."""
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return Response(text, media_type=kind, headers=headers)
    return Response(compressed(text), media_type=kind, headers=headers | {"Content-Encoding": "gzip"})


@router.get("/docs", include_in_schema=False)
async def reference() -> FileResponse:
    """The API reference for a browser, drawn from /openapi.json."""
    headers = {"Content-Security-Policy": POLICY, "Cache-Control": "no-cache"}
    return FileResponse(PAGE / "reference.html", media_type="text/html", headers=headers)


@router.get("/status")
async def status(state: Shared) -> Status:
    """The state of the service, with reasons."""
    return state.status()


@router.get("/livez")
async def alive() -> Alive:
    """Liveness probe."""
    return Alive(alive=True)


@router.get("/readyz", responses={503: {"model": Ready}})
async def ready(response: Response, state: Shared) -> Ready:
    """Readiness probe: 503 unless the service has spoken within the last minute."""
    engine, spoken = state.engine, state.engine.last_spoken
    response.status_code = 200 if engine.is_ready else 503
    return Ready(
        ready=engine.is_ready,
        message="It speaks." if engine.is_ready else engine.condition.message,
        last_spoken_seconds=None if spoken is None else round(time.monotonic() - spoken, 1),
    )


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(state: Shared) -> Response:
    """The metrics in Prometheus' text format."""
    state.update_gauges()
    return Response(state.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get(
    "/events", response_class=StreamingResponse, responses={200: {"content": {"text/event-stream": {}}}}
)
async def events(state: Shared) -> StreamingResponse:
    """Server-sent events: `status`, `epoch`, `metrics`, `dataset`, `training`, `book`."""
    stream = await state.events.listen([("status", state.status()), ("epoch", state.follower.run_list())])
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(stream, media_type="text/event-stream", headers=headers)
