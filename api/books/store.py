"""Books on disk, shared by replicas: adds, finds and deletes them; keeps the state of the work.

    BOOKS_DIR/<id>/book.json          id, name of the file, when; without it there is no book
    BOOKS_DIR/<id>/book.epub          what was uploaded, with its own ending
    BOOKS_DIR/<id>/names.json         how words are said; names.txt: the same as a list
    BOOKS_DIR/<id>/job.json           the work: asked for, being done, done, failed
    BOOKS_DIR/<id>/spoken/            what `xtts read --to` writes (docs/books.md)
    BOOKS_DIR/.lock                   as `api.shared_folder` says

Ids are made here and looked up in what is on disk: what a caller writes never becomes a path.
"""

import contextlib
import functools
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from api import shared_folder
from api.background.job_file import Job, read_job
from api.errors import APIError
from api.shared_folder import free_id, now
from machine.storage.atomic import STALE_SECONDS, make_folder, replace_file, write_json
from machine.storage.reading import read_json
from xtts.books.formats.reading import FORMATS

MOST_BOOKS = 200
# Never the last of a disk: runs and voices are written there too.
_KEPT_FREE_BYTES = 1 << 30
_DELETED, _ARRIVING = ".deleted-", ".arriving-"
_KEY = re.compile(r"[0-9a-f]{40}")
# What `xtts read` keeps for itself; a caller may download the rest of what it writes.
_OWN_FILES = ("plan.json", "progress.json", "chapters.json", "rejected.json", "report.json")


@dataclass(frozen=True)
class BookJob(Job):
    """The work on a book. wanted: as `api.books.schemas.ReadingRequest`; recording: of an uploaded
    voice that reads."""

    wanted: Mapping[str, Any] = field(default_factory=dict)
    recording: str | None = None

    @property
    def plan_only(self) -> bool:
        return bool(self.wanted.get("plan_only"))


@dataclass(frozen=True)
class UploadedBook:
    """A folder of BOOKS_DIR. name: of its file, as the person calls it."""

    folder: Path
    id: str
    name: str
    created: str

    @property
    def is_there(self) -> bool:
        """Whether nobody has deleted it."""
        return (self.folder / "book.json").is_file()

    @property
    def source(self) -> Path:
        """What was uploaded."""
        return self.folder / f"book{ending_of(self.name)}"

    @property
    def spoken(self) -> Path:
        """What `xtts read` writes."""
        return self.folder / "spoken"

    @property
    def names_list(self) -> Path:
        """The list of pronunciations, which need not exist."""
        return self.folder / "names.txt"

    @property
    def job(self) -> BookJob:
        """The state of the work on it."""
        return read_job(self.folder, BookJob)

    def files(self) -> list[Path]:
        """What was written for people: chapters, audiobook, captions, report."""
        with contextlib.suppress(OSError):
            return sorted(
                one for one in self.spoken.iterdir()
                if one.is_file() and one.name not in _OWN_FILES and not one.name.startswith(".")
                and not one.name.endswith(".sotaque-part")
            )  # fmt: skip
        return []

    def file(self, name: str) -> Path:
        """Raises APIError (404)."""
        for path in self.files():
            if path.name == name:
                return path
        raise APIError(404, "no_file", "The book has no file of that name; see its `files`.")

    def take(self, key: str) -> Path:
        """The sound of a sentence. Raises APIError (404)."""
        path = self.spoken / "sentences" / key[:2] / f"{key}.wav"
        if not _KEY.fullmatch(key) or not path.is_file():
            raise APIError(404, "no_sentence", "The book has no sentence of that key.")
        return path


class Books:
    """The folder of books, read again for each call because replicas write into it too.
    most_bytes: what all of them may take."""

    def __init__(self, folder: Path, most_bytes: int) -> None:
        self.folder = folder
        self.most_bytes = most_bytes

    def all(self) -> list[UploadedBook]:
        """Every book, the newest first."""
        books = shared_folder.read_all(self.folder, self.get)
        return sorted(books, key=lambda one: (one.created, one.id), reverse=True)

    def get(self, identity: str) -> UploadedBook | None:
        """The book of an id; None where there is none, and for what cannot be an id."""
        if not shared_folder.ID.fullmatch(identity):
            return None
        folder = self.folder / identity
        book = shared_folder.read(
            functools.partial(UploadedBook, folder), folder / "book.json", identity
        )
        return book if book and ending_of(book.name) else None

    def find(self, identity: str) -> UploadedBook:
        """Raises APIError (404), the same for an id that cannot be one."""
        book = self.get(identity)
        if book is None:
            raise _no_book()
        return book

    def arriving(self) -> Path:
        """Where an upload is written before it is a book. Raises APIError (507)."""
        with shared_folder.kept(self.folder):
            make_folder(self.folder)
        return self.folder / f"{_ARRIVING}{secrets.token_hex(8)}"

    def add(self, name: str, arrived: Path) -> UploadedBook:
        """A book of a file that has arrived. Raises APIError where there are too many."""
        with shared_folder.changing(self.folder):
            if len(self.all()) >= MOST_BOOKS:
                text = f"There are already {MOST_BOOKS} books, the limit. Delete one."
                raise APIError(409, "too_many_books", text)
            identity = free_id(Path(name).stem, "book", os.listdir(self.folder))
            book = UploadedBook(self.folder / identity, identity, name, now())
            make_folder(book.folder)
            arrived.rename(book.source)
            about = asdict(book)
            del about["folder"]
            write_json(book.folder / "book.json", about)
        return book

    def remove(self, book: UploadedBook) -> None:
        """Deletes a book. It disappears at once; after a kill `remove_rest` deletes the rest."""
        gone = self.folder / f"{_DELETED}{book.id}-{secrets.token_hex(4)}"
        with changing(book):
            book.folder.rename(gone)
        with shared_folder.kept(self.folder):
            shutil.rmtree(gone)

    def remove_rest(self) -> None:
        """Removes what killed deletions and uploads left."""
        for path in self.folder.glob(f"{_DELETED}*"):
            shutil.rmtree(path, ignore_errors=True)
        for path in self.folder.glob(f"{_ARRIVING}*"):
            with contextlib.suppress(OSError):  # of another replica, it may still arrive
                if time.time() - path.stat().st_mtime > STALE_SECONDS:
                    path.unlink()

    def free_bytes(self) -> int:
        """What the disk has left."""
        folder = self.folder.absolute()
        above = next(one for one in (folder, *folder.parents) if one.exists())
        return shutil.disk_usage(above).free

    def check_room(self, *, count: bool = True) -> None:
        """Raises APIError (507). count: whether to count what books take, a look at each file."""
        if count and (used := self.used_bytes()) > self.most_bytes:
            text = (
                f"Books take {used:,} bytes, and {self.most_bytes:,} are allowed. Delete one, or "
                "raise BOOKS_MAX_GB."
            )
            raise APIError(507, "no_space", text)
        if (free := self.free_bytes()) < _KEPT_FREE_BYTES:
            text = (
                f"The disk has {free:,} bytes left, and {_KEPT_FREE_BYTES:,} stay free. Free some."
            )
            raise APIError(507, "no_space", text)

    def used_bytes(self) -> int:
        """What all books take."""
        used = 0
        for folder, _, names in os.walk(self.folder):
            for name in names:
                with contextlib.suppress(OSError):
                    used += os.lstat(os.path.join(folder, name)).st_size
        return used


def ending_of(name: str) -> str:
    """The ending of a book's name in small letters; "" for what is no book."""
    ending = Path(name).suffix.lower()
    return ending if ending in FORMATS else ""


@contextmanager
def changing(book: UploadedBook, *, unread: bool = False) -> Iterator[None]:
    """One change of the books after another, as `api.shared_folder.changing`.

    Args:
        unread: Not while the book is read, or waits for it.

    Raises:
        APIError: It is deleted or being read by now, or what is done inside cannot be kept.
    """
    with shared_folder.changing(book.folder.parent):
        if not book.is_there:
            raise _no_book()
        if unread and book.job.is_queued:
            text = "The book is being read or waits to be read. Wait, or stop it."
            raise APIError(409, "being_read", text, retry_after=5)
        yield


def names_of(book: UploadedBook) -> dict[str, str]:
    """How words are said."""
    return {str(word): str(said) for word, said in read_json(book.folder / "names.json").items()}


def put_names(book: UploadedBook, names: Mapping[str, str]) -> None:
    """Keeps how words are said. Raises APIError."""
    known = {word: said for word, said in names.items() if said.strip()}
    lines = "".join(f"{word} = {said}\n" for word, said in known.items()).encode()
    with changing(book, unread=True):
        replace_file(book.names_list, lambda file: file.write(lines))
        write_json(book.folder / "names.json", known)


def _no_book() -> APIError:
    return APIError(
        404, "no_book", "There is no book of that id. /v1/books lists them.", param="book"
    )
