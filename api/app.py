"""Builds the FastAPI application: state, routes, middleware, exception handlers."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.staticfiles import StaticFiles

from api import errors
from api.datasets.clips import Clips
from api.datasets.cutting import CutQueue
from api.datasets.store import Datasets
from api.dialects import alltalk, coqui_server, openai_lists, xtts_api_server, xtts_streaming_server
from api.encoding import RATE
from api.engine.engine import Engine
from api.engine.options import ChildOptions, EngineLimits
from api.engine.supervisor import Supervisor
from api.events import Events
from api.http import openapi
from api.http.origins import OriginRules
from api.metrics import ServiceMetrics
from api.middleware import (
    AccessGate,
    BodyLimit,
    ConnectionLimit,
    HeadAsGet,
    OriginGate,
    RateLimiter,
    RequestCounter,
    RequestId,
    ShutdownResponse,
)
from api.routes import (
    dataset_clips as clip_routes,
)
from api.routes import (
    datasets as dataset_routes,
)
from api.routes import (
    runs as run_routes,
)
from api.routes import (
    speech as speech_routes,
)
from api.routes import (
    status as status_routes,
)
from api.routes import (
    voices as voice_routes,
)
from api.runs.following import VoiceFollower
from api.settings import ApiSettings
from api.state import PAGE, AppState
from api.voices.store import Voices
from xtts.inference.compute_config import ComputeConfig

log = logging.getLogger("api")
_ROUTED = (
    speech_routes, voice_routes, run_routes, dataset_routes, clip_routes, status_routes,
    openai_lists, xtts_api_server, alltalk, coqui_server, xtts_streaming_server,
)  # fmt: skip
_TOLD_TO_PAGES = [
    "Retry-After", "X-Cut-Pieces", "X-Faulty-Pieces", "X-Ignored-Fields", "X-Model", "X-Request-Id",
    "X-Respoken-Pieces", "X-Sample-Rate",
]  # fmt: skip


def build(
    settings: ApiSettings, how: ChildOptions | None = None, limits: EngineLimits | None = None
) -> FastAPI:
    """The application. how, limits: others in tests."""
    parts = _parts(settings, how or how_of(settings), limits or limits_of(settings))
    app = FastAPI(
        title="Sotaque", description="Speaks with a fine-tuned XTTS-v2.", version="1",
        lifespan=_lifespan, redoc_url=None, docs_url=None,
    )  # fmt: skip
    app.state.parts = parts
    for module in _ROUTED:
        app.include_router(module.router)
    app.state.routes = [route for module in _ROUTED for route in module.router.routes]
    speaks = _speaks(app.state.routes)
    app.mount("/page", StaticFiles(directory=PAGE, check_dir=False), name="page")
    app.add_exception_handler(errors.APIError, errors.answer_refusal)
    app.add_exception_handler(HTTPException, errors.answer_http)
    app.add_exception_handler(RequestValidationError, errors.answer_invalid)
    app.add_exception_handler(Exception, errors.answer_fault)
    openapi.describe(app, has_key=settings.api_key is not None)
    # The last that is added is the first that is asked.
    app.add_middleware(HeadAsGet)
    app.add_middleware(BodyLimit)
    app.add_middleware(AccessGate, key=_key(settings))
    app.add_middleware(ConnectionLimit)
    app.add_middleware(ShutdownResponse)
    if settings.api_allowed_origins:
        # A preflight carries no key, and a page reads a refusal only with these headers.
        app.add_middleware(
            CORSMiddleware, allow_origins=settings.api_allowed_origins, allow_headers=["*"],
            allow_methods=["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"],
            allow_private_network=True, expose_headers=_TOLD_TO_PAGES,
        )  # fmt: skip
    app.add_middleware(OriginGate, rules=_origin_rules(settings, speaks))
    app.add_middleware(RequestCounter, metrics=parts.metrics, speaks=speaks)
    app.add_middleware(RequestId)
    return app


def _origin_rules(settings: ApiSettings, speaks: Callable[[str], bool]) -> OriginRules:
    return OriginRules(
        settings.api_key is not None, frozenset(settings.api_allowed_origins),
        frozenset(settings.api_allowed_hosts), speaks,
    )  # fmt: skip


def _speaks(routes: list[Any]) -> Callable[[str], bool]:
    """Whether a path is one of those that speak, which their tag says."""
    paths = [route.path_regex for route in routes if "speech" in route.tags]
    return lambda path: any(one.match(path) for one in paths)


def how_of(settings: ApiSettings) -> ChildOptions:
    """How the child is started."""
    precision = "int8" if settings.low_memory else settings.speak_precision
    return ChildOptions(ComputeConfig(
        settings.device, precision=precision, latents_folder=settings.voices_dir / "latents",
        backend=settings.backend, low_memory=settings.low_memory, threads=settings.num_threads,
        guard=settings.guard,
    ))  # fmt: skip


def limits_of(settings: ApiSettings) -> EngineLimits:
    """Within which limits it speaks."""
    found = EngineLimits(
        slots=settings.api_slots, queue=settings.api_queue,
        deadline=float(settings.api_deadline_seconds),
    )  # fmt: skip
    return replace(found, slots=min(found.slots or 2, 2)) if settings.low_memory else found


def _key(settings: ApiSettings) -> str | None:
    return settings.api_key.get_secret_value() if settings.api_key else None


def _parts(settings: ApiSettings, how: ChildOptions, limits: EngineLimits) -> AppState:
    metrics, events = ServiceMetrics(), Events()
    told: list[AppState] = []

    def on_event(kind: str, **facts: Any) -> None:
        if kind == "waited":
            metrics.queue_wait.observe(facts["seconds"])
        elif kind == "spoken" and not facts["spoken"].job.micro:
            _measure(metrics, facts["spoken"])
        elif kind == "fell_back":
            metrics.fallbacks.labels(facts["before"], facts["after"], facts["code"]).inc()
        if kind in ("status", "queue", "spoken") and events.heard:
            events.tell("status", status_routes.status_of(told[0]))

    engine = Engine(how, limits, on_event)
    follower = VoiceFollower(settings, engine, events)
    rate = RateLimiter(settings.api_requests_per_minute)
    voices = Voices(settings.voices_dir)
    datasets, clips = Datasets(settings.datasets_dir), Clips()
    cuts = CutQueue(
        datasets, clips, lambda dataset: events.tell("dataset", {"id": dataset}),
        recogniser=settings.cut_recogniser,
    )  # fmt: skip
    told.append(
        AppState(settings, engine, follower, voices, metrics, events, rate, datasets, clips, cuts)
    )
    return told[0]


def _measure(metrics: ServiceMetrics, spoken: Any) -> None:
    seconds = spoken.bytes / 2 / RATE
    metrics.audio_seconds.inc(seconds)
    if seconds and spoken.seconds is not None:
        metrics.rtf.set(spoken.seconds / seconds)


@contextlib.asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    parts: AppState = app.state.parts
    parts.loop = asyncio.get_running_loop()
    supervisor = Supervisor(parts.engine)
    await parts.follower.first()
    supervisor.start()
    parts.follower.start()
    parts.cuts.start()
    try:
        yield
    finally:
        await parts.cuts.close()
        await parts.follower.close()
        await supervisor.close()
