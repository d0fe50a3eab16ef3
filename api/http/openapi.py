"""/openapi.json with what FastAPI leaves out: the API key, and integers without fractions."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from api.middleware import OPEN
from api.schemas import SpeechRequest

_SCHEME = "key"
_SECURITY_SCHEMES = {
    _SCHEME: {
        "type": "http",
        "scheme": "bearer",
        "description": "API_KEY of the service's settings; without one, no key is asked for.",
    }
}


def describe(app: FastAPI, *, has_key: bool) -> None:
    """Has `app` tell this document. has_key: whether a key is asked for."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app, has_key=has_key)
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]


def _document(app: FastAPI, *, has_key: bool) -> dict[str, Any]:
    found = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes
    )
    found["components"]["securitySchemes"] = _SECURITY_SCHEMES
    with_key: dict[str, list[str]] = {_SCHEME: []}
    # An empty requirement means that none is needed.
    found["security"] = [with_key] if has_key else [with_key, {}]
    for path in OPEN & set(found["paths"]):
        for operation in found["paths"][path].values():
            operation["security"] = [with_key, {}] if path == "/" else []
    _whole_numbers(found["components"]["schemas"])
    return found


def _whole_numbers(schemas: dict[str, Any]) -> None:
    """FastAPI turns every bound into a float, and 2**63 - 1 is none."""
    seed = SpeechRequest.model_json_schema()["properties"]["seed"]
    schemas["SpeechRequest"]["properties"]["seed"] = seed
