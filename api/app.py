"""Builds the FastAPI application: state, routes, the gate, exception handlers, /openapi.json."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute, APIWebSocketRoute
from starlette.exceptions import HTTPException

from api import errors
from api.engine.child import ChildOptions
from api.engine.queue import EngineLimits
from api.gate import OPEN_PATHS, Gate, OriginRules
from api.page_files import PageFiles
from api.parts import PAGE, page_folders, routers
from api.routes import runs, speech, status, voice_files, voices
from api.routes.speech import SpeechRequest
from api.settings import ApiSettings
from api.state import AppState, api_key_of
from machine import process
from machine.storage.files import JsonObject
from xtts.inference.compute_config import ComputeConfig

# /openapi.json lists them in this order, then those of the extras.
_ROUTE_MODULES = (speech, voices, voice_files, runs, status)
_SECURITY_SCHEMES = {
    "key": {
        "type": "http",
        "scheme": "bearer",
        "description": "The setting API_KEY of the service. Without one, no key is required.",
    }
}


def build(
    settings: ApiSettings, options: ChildOptions | None = None, limits: EngineLimits | None = None
) -> FastAPI:
    """Builds the application. options, limits: replace the defaults in tests."""
    state = AppState(settings, options or child_options(settings), limits or engine_limits(settings))
    app = FastAPI(
        title="Sotaque",
        description="Speaks with a fine-tuned XTTS-v2.",
        version="1",
        lifespan=_lifespan,
        redoc_url=None,
        docs_url=None,
    )
    app.state.service = state
    all_routers = [*(module.router for module in _ROUTE_MODULES), *routers()]
    for router in all_routers:
        app.include_router(router)
    routes = [route for router in all_routers for route in router.routes]
    app.state.routes = [route for route in routes if isinstance(route, APIRoute)]
    app.state.sockets = [route for route in routes if isinstance(route, APIWebSocketRoute)]
    for name, folder in page_folders().items():
        app.mount(f"/page/{name}", PageFiles(directory=folder))
    app.mount("/page", PageFiles(directory=PAGE, check_dir=False), name="page")
    app.add_exception_handler(errors.APIError, errors.answer_refusal)
    app.add_exception_handler(HTTPException, errors.answer_http)
    app.add_exception_handler(RequestValidationError, errors.answer_invalid)
    app.add_exception_handler(Exception, errors.answer_fault)
    app.openapi = lambda: _openapi_document(app, state)  # type: ignore[method-assign]
    key = api_key_of(settings)
    rules = OriginRules(
        key is not None, frozenset(settings.api_allowed_origins), frozenset(settings.api_allowed_hosts)
    )
    app.add_middleware(
        Gate, routes=app.state.routes, sockets=app.state.sockets, rules=rules, key=key, metrics=state.metrics
    )
    return app


def child_options(settings: ApiSettings) -> ChildOptions:
    """The options of the speaking process."""
    precision = "int8" if settings.low_memory else settings.speak_precision
    return ChildOptions(
        ComputeConfig(
            settings.device,
            precision=precision,
            latents_folder=settings.voices_dir / "latents",
            backend=settings.backend,
            low_memory=settings.low_memory,
            threads=settings.num_threads,
            guard=settings.guard,
            watermark=settings.watermark,
        )
    )


def engine_limits(settings: ApiSettings) -> EngineLimits:
    """The limits of the engine."""
    return EngineLimits(slots=2 if settings.low_memory else None)


@contextlib.asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    state: AppState = app.state.service
    state.loop = asyncio.get_running_loop()
    await asyncio.to_thread(state.exports.remove_leftovers)
    await state.follower.choose_first_voice()
    coroutines = (state.engine.keep_running(), state.follower.poll(), *state.extras.works())
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    try:
        yield
    finally:
        for task in reversed(tasks):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        process.end_awaited()


def _openapi_document(app: FastAPI, state: AppState) -> JsonObject:
    """/openapi.json, with the API key and the exact integer bounds that FastAPI leaves out."""
    if app.openapi_schema is not None:
        return app.openapi_schema
    document = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes
    )
    document["components"]["securitySchemes"] = _SECURITY_SCHEMES
    with_key: dict[str, list[str]] = {"key": []}
    # The empty requirement makes the key optional.
    document["security"] = [with_key, {}] if state.settings.api_key is None else [with_key]
    for path in OPEN_PATHS & set(document["paths"]):
        for operation in document["paths"][path].values():
            operation["security"] = [with_key, {}] if path == "/" else []
    # FastAPI turns every bound into a float, which cannot hold 2**63 - 1.
    seed = SpeechRequest.model_json_schema()["properties"]["seed"]
    document["components"]["schemas"]["SpeechRequest"]["properties"]["seed"] = seed
    app.openapi_schema = document
    return document
