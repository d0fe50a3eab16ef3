"""A stop works at any time and at any replica, even between the choice of an item and its start."""

import asyncio
import contextlib
import errno
import os
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from extras.books.uploads.book_store import Books, UploadedBook
from extras.books.uploads.reading_queue import BookQueue, Reader
from tests.extras.books.doubles import QUEUES
from xtts.inference.compute_config import ComputeConfig


def queue_in(folder: Path) -> BookQueue:
    """The queue of one replica."""

    def reader(recording: str | None) -> Reader:
        return Reader({}, ComputeConfig())

    return BookQueue(Books(folder, 1 << 40), lambda _: None, reader, lambda: False, QUEUES["readings"])


@pytest.fixture
def queued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[BookQueue, UploadedBook]:
    """A queue with a book whose reading does not end."""
    monkeypatch.setenv("FAKE_READER", "hang")
    (tmp_path / "arrived").write_bytes(b"A book.")
    queue = queue_in(tmp_path / "books")
    book = queue._store.add("a.txt", tmp_path / "arrived")
    queue.ask(book, {}, None)
    return queue, book


@contextlib.asynccontextmanager
async def working(queue: BookQueue) -> AsyncIterator[None]:
    work = asyncio.create_task(queue.work())
    try:
        async with asyncio.timeout(60):
            yield
    finally:
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work


def test_what_is_stopped_between_its_choice_and_its_start_is_not_begun(queued, monkeypatch):
    queue, book = queued
    choose, chosen, go, again = queue._next, *(threading.Event() for _ in range(3))

    def next_() -> UploadedBook | None:
        found = choose()
        (again if chosen.is_set() else chosen).set()
        assert go.wait(60)
        return found

    monkeypatch.setattr(queue, "_next", next_)

    async def stopped() -> None:
        async with working(queue):
            await asyncio.to_thread(chosen.wait)
            await queue.stop(book)
            go.set()
            while not (again.is_set() or queue.told(book)):
                await asyncio.sleep(0.01)

    asyncio.run(stopped())
    assert book.job.state == "stopped" and not book.spoken.exists()


def test_what_begins_while_it_is_stopped_ends(queued, monkeypatch):
    queue, book = queued
    unqueue = queue._unqueue

    def begun_meanwhile(item: UploadedBook) -> bool:
        while not queue.told(item):
            time.sleep(0.01)
        return unqueue(item)

    monkeypatch.setattr(queue, "_unqueue", begun_meanwhile)

    async def stopped() -> None:
        stop = asyncio.create_task(queue.stop(book))
        await asyncio.sleep(0)
        async with working(queue):
            await stop
            assert queue._running is None and book.job.state == "stopped"

    asyncio.run(stopped())


def test_what_another_replica_stops_ends_although_the_folder_was_away_for_a_moment(queued, monkeypatch):
    queue, book = queued
    monkeypatch.setattr("extras.common.work_queue._CHECKS_UNTIL_ROOM", 1)
    away = threading.Event()

    def room() -> None:
        if not away.is_set():
            away.set()
            raise OSError(errno.ESTALE, "Stale file handle")

    monkeypatch.setattr(queue, "_check_room", room)

    async def stopped() -> None:
        async with working(queue):
            await asyncio.to_thread(away.wait, 60)
            await asyncio.to_thread(queue_in(book.folder.parent)._unqueue, book)
            while queue._running is not None:
                await asyncio.sleep(0.01)

    asyncio.run(stopped())
    assert book.job.state == "stopped"


def test_the_next_service_removes_what_a_kill_has_left_and_nothing_else(queued):
    queue, book = queued
    killed, arriving = (queue._store.folder / f".arriving-{number}" for number in range(2))
    for path in (killed, arriving):
        path.write_bytes(b"Half of a book.")
    os.utime(killed, (0, 0))
    other = queue_in(book.folder.parent)
    assert other._next() == book
    assert not killed.exists() and arriving.exists() and book.source.exists()
    arriving.touch()
    os.utime(arriving, (0, 0))  # the other service holds the queue's lock
    assert queue._next() is None and arriving.exists()


@pytest.mark.parametrize(
    ("then", "left"), [("nothing", "stopped"), ("asked again", "done"), ("deleted", "none")]
)
def test_a_stop_at_another_replica_ends_the_child(queued, then, left):
    """The other replica does not hold the queue's lock, so it has no child to end."""
    queue, book = queued
    other = queue_in(book.folder.parent)

    async def stopped() -> None:
        async with working(queue):
            while not queue.told(book):
                await asyncio.sleep(0.01)
            assert queue._running is not None and queue._running[1] is not None
            child = queue._running[1]
            if then == "deleted":
                (book.folder / "book.json").unlink()
            else:
                await other.stop(book)
            if then == "asked again":  # before the child has ended; its second reading ends by itself
                other.ask(book, {}, None)
            assert await child.wait() != 0
            while queue._running is not None or book.job.is_queued:
                await asyncio.sleep(0.01)

    asyncio.run(stopped())
    assert book.job.state == left and book.folder.exists() == (then != "deleted")
