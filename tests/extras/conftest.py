"""Fixtures of the core tests that the extras also use: a service, the page, dataset checks."""

from tests.api.conftest import real, service, service_of_module, shared_service
from tests.api.page.conftest import address, open_page, opened, page, world
from tests.train.conftest import _everything_is_heard, check, workshop

__all__ = [
    "_everything_is_heard",
    "address",
    "check",
    "open_page",
    "opened",
    "page",
    "real",
    "service",
    "service_of_module",
    "shared_service",
    "workshop",
    "world",
]
