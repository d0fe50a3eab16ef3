"""The list of books reads only the files that changed since the last time."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from api.arriving import bytes_below
from extras.books.uploads import book_store
from extras.books.uploads.book_store import BookJob, Books, UploadedBook
from extras.books.uploads.reading_queue import BookQueue, Reader
from extras.common.work_queue import write_job
from machine.storage.files import write_json
from xtts.inference.compute_config import ComputeConfig


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often a plan was read, and how often the files of a book were counted."""
    calls = Counter[str]()

    def counting(name: str, does: Callable[[Path], Any]) -> None:
        def call(path: Path) -> Any:
            calls[name] += 1
            return does(path)

        monkeypatch.setattr(book_store, name, call)

    counting("read_json", book_store.read_json)
    counting("bytes_below", book_store.bytes_below)
    return calls


def book_in(books: Books, name: str) -> UploadedBook:
    books.check_room()
    arriving = books.folder / ".arriving-1"
    arriving.write_bytes(b"A book.")
    book = books.add(name, arriving)
    (book.spoken / "sentences").mkdir(parents=True)
    plan(book, "First")
    (book.spoken / "sentences/a.wav").write_bytes(bytes(1000))
    return book


def plan(book: UploadedBook, title: str) -> None:
    write_json(book.spoken / "plan.json", {"title": title, "chapters": [{"number": 1}] * 500})


def test_what_has_not_changed_is_not_read_again(tmp_path, counted):
    books = Books(tmp_path / "books", 1 << 40)
    first, other = (book_in(books, name) for name in ("a.txt", "b.txt"))
    for book in (first, other):
        write_job(book.folder, BookJob(), state="done")
    (books.folder / ".arriving-2").write_bytes(bytes(100))

    def listed() -> tuple[list[str], int, dict[str, int]]:
        counted.clear()
        found = sorted(book.title for book in books.all()), books.used_bytes()
        return *found, dict(counted)

    titles, used, reads = listed()
    every = [path for path in books.folder.rglob("*") if path.is_file()]
    assert titles == ["First", "First"] and used == sum(path.stat().st_size for path in every)
    assert reads == {"read_json": 2, "bytes_below": 2}
    assert listed() == (titles, used, {})
    plan(first, "Another")
    assert listed() == (["Another", "First"], used, {"read_json": 1})
    # Files are counted each time during a reading, and once more after it.
    job = write_job(first.folder, first.job, state="running")
    (first.spoken / "sentences/b.wav").write_bytes(bytes(3000))
    assert [listed()[2] for _ in range(2)] == [{"bytes_below": 1}] * 2
    write_job(first.folder, job, state="done")
    reads = [listed()[2] for _ in range(2)]
    assert reads == [{"bytes_below": 1}, {}] and listed()[1] - used == 3000 + len("Another") - 5


def test_after_a_restart_the_files_of_a_book_that_was_read_are_not_looked_at(tmp_path, counted):
    books = Books(tmp_path / "books", 1 << 40)
    book = book_in(books, "a.txt")
    reader = Reader({}, ComputeConfig())
    queue = BookQueue(books, lambda _: None, lambda recording: reader, lambda: False)
    used = bytes_below(book.folder)
    queue.ask(book, {}, None)
    write_job(book.folder, book.job, state="running")
    queue._end(book, "done", "")
    # The job itself is written after the count.
    assert abs(books.used_bytes() - used) < 400 and not counted["bytes_below"]
    # Removed from the queue: files of a killed reading may not have been counted.
    queue.ask(book, {}, None)
    assert queue._unqueue(book)
    assert abs(books.used_bytes() - used) < 400 and counted["bytes_below"] == 1


def test_a_book_without_work_or_plan_is_listed(tmp_path):
    books = Books(tmp_path / "books", 1 << 40)
    (tmp_path / "arrived").write_bytes(b"A book.")
    book = books.add("a.txt", tmp_path / "arrived")
    assert book.title == "" and books.used_bytes() > len(b"A book.")
    books.remove(book)
    assert books.all() == []
