"""Uploaded books, for the common tests of stores (`tests/api/routes/test_common_limits.py`)."""

import httpx

from tests.api.conftest import Running
from tests.api.stores import Store


def add_book(service: Running, name: str) -> httpx.Response:
    return service.client.post("/v1/books", params={"name": f"{name}.txt"}, content=b"One two three.")


def planned(service: Running) -> list[str]:
    """The address of a sentence's sound in a planned book."""
    address = f"/v1/books/{add_book(service, 'read').json()['id']}"
    service.wait_until(lambda: bool(service.client.get(address).json()["plan"]))
    return [service.client.get(address).json()["plan"]["samples"][0]["sound"]]


STORES = [
    Store(
        "/v1/books",
        "book",
        "books",
        add_book,
        max_bytes=(128 << 20) + 1,
        grow=lambda service: add_book(service, "two"),
        changing=planned,
    )
]
