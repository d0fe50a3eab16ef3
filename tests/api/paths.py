"""Paths that this copy serves: the core's, and those of installed extras."""

from functools import cache

from api import app, parts


@cache
def _every() -> frozenset[str]:
    routers = [*(module.router for module in app._ROUTE_MODULES), *parts.routers()]
    return frozenset(route.path for router in routers for route in router.routes)  # type: ignore[attr-defined]


def served(*paths: str) -> list[str]:
    """The paths without those of deleted extras."""
    return [path for path in paths if path in _every()]
