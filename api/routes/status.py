"""Routes /, /status, /livez, /readyz, /metrics and /events."""

import time
from importlib import metadata
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import FileResponse, JSONResponse
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from api import encoding
from api.errors import without_paths
from api.response_schemas import PROBLEMS, Alive, Ready, Status
from api.speech.speaking import served_name
from api.state import PAGE, AppState, app_state

router = APIRouter(tags=["status"], responses=PROBLEMS)
Shared = Annotated[AppState, Depends(app_state)]
# Nothing from elsewhere: the page works without a network.
POLICY = (
    "default-src 'self'; media-src 'self' blob:; img-src 'self' data:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)


def status_of(parts: AppState) -> dict[str, Any]:
    """The status, as /status and the events tell it."""
    engine = parts.engine
    standing = engine.standing
    return {
        **engine.placement,
        "message": engine.message,
        "reason_code": engine.reason_code,
        "voice": served_name(parts),
        "voice_reason": without_paths(parts.follower.reason),
        "state": engine.state,
        "ready": engine.ready,
        "queue": {
            "waiting": len(engine.waiting.queue),
            "slots": engine.waiting.slots,
            "speaking": len(engine.waiting.speaking),
        },
        "licence": standing.licence if standing else "",
        "version": metadata.version("sotaque"),
        "languages": list(standing.languages) if standing else [],
        "formats": encoding.offered(),
        "precision": standing.precision if standing else "",
        "restarts": engine.happened.restarts,
        "uptime_seconds": round(time.monotonic() - parts.started, 1),
    }


@router.get("/", response_model=Status, responses={200: {"content": {"text/html": {}}}})
async def root(request: Request, parts: Shared) -> Response:
    """The page for a browser, the status for anything else."""
    headers = {"Vary": "Accept", "Content-Security-Policy": POLICY, "Cache-Control": "no-cache"}
    index = PAGE / "index.html"
    if "text/html" in request.headers.get("accept", "") and index.is_file():
        return FileResponse(index, media_type="text/html", headers=headers)
    if refusal := parts.gate(request):
        raise refusal
    return JSONResponse(status_of(parts), headers={"Vary": "Accept"})


@router.get("/status", response_model=Status)
async def status(parts: Shared) -> dict[str, Any]:
    """What runs where, and why."""
    return status_of(parts)


@router.get("/livez", response_model=Alive)
async def alive() -> dict[str, Any]:
    """The event loop turns."""
    return {"alive": True}


@router.get("/readyz", response_model=Ready, responses={503: {"model": Ready}})
async def ready(parts: Shared) -> JSONResponse:
    """503 until it has really spoken, and when it has not for a minute."""
    engine = parts.engine
    spoken = engine.last_spoken
    seconds = None if spoken is None else round(time.monotonic() - spoken, 1)
    body = {
        "ready": engine.ready,
        "message": "It speaks." if engine.ready else engine.message,
        "last_spoken_seconds": seconds,
    }
    return JSONResponse(body, 200 if engine.ready else 503)


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(parts: Shared) -> Response:
    """Prometheus' text format."""
    parts.measure()
    return Response(parts.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get("/events", response_class=StreamingResponse,
            responses={200: {"content": {"text/event-stream": {}}}})  # fmt: skip
async def events(parts: Shared) -> StreamingResponse:
    """`status`, `epoch` and `metrics`, as they happen."""
    first = [("status", status_of(parts)), ("epoch", parts.follower.listing())]
    stream = await parts.events.listen(first)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(stream, media_type="text/event-stream", headers=headers)
