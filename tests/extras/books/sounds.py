"""The routes of books that send sound (`tests/api/test_marks.py`). The fake reader's files are
silent; `test_read.py` reads the marks in those of the real one."""

from collections.abc import Callable, Iterator

import httpx

from tests.api.conftest import Running
from tests.extras.books.test_book_routes import Book

Sound = tuple[httpx.Response, bytes | None]


def sentence(service: Running) -> Iterator[Sound]:
    (sample,) = Book(service).ended()["plan"]["samples"]
    yield service.client.get(sample["sound"]), None


def files(service: Running) -> Iterator[Sound]:
    book = Book(service)
    book.ended()
    forms = ["wav", "mp3", "flac", "opus", "m4a", "m4b", "epub"]
    for row in book.read(formats=forms)["files"]:
        if not row["name"].endswith(".html"):
            yield service.client.get(row["address"]), None


SPOKEN = {
    ("GET", "/v1/books/{book}/sentences/{take}.wav"): sentence,
    ("GET", "/v1/books/{book}/files/{file}"): files,
}
RECORDED: dict[tuple[str, str], Callable[[Running], Iterator[Sound]]] = {}
