"""Books on disk, shared by replicas: adds, finds and deletes them, and stores their state.

    BOOKS_DIR/<id>/book.json          id, file name and time; marks a complete book
    BOOKS_DIR/<id>/book.epub          the uploaded file, with its ending
    BOOKS_DIR/<id>/names.json         pronunciations; names.txt: the same as a list
    BOOKS_DIR/<id>/job.json           the reading: queued, running, done or failed
    BOOKS_DIR/<id>/spoken/            the output of `xtts read --to` (docs/books.md)
    BOOKS_DIR/.lock                   see `api.shared_folder`

Ids are generated here and looked up among the folders on disk, so that input never becomes a path.
"""

import contextlib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

from api import shared_folder
from api.arriving import bytes_below, remove_arriving, require_free
from api.errors import APIError
from api.shared_folder import now
from extras.books.formats.book_reader import FORMATS
from extras.common.named_folders import NamedFolders
from extras.common.work_queue import Job, WorkFolder, read_job
from machine.storage.checksums import FileStamp, stamp_of
from machine.storage.files import make_folder, read_json, replace_file, write_json

MAX_BOOKS = 200
_TAKE_KEY = re.compile(r"[0-9a-f]{40}")
# Internal files of `xtts read`; users may download all others.
_INTERNAL_FILES = ("plan.json", "progress.json", "chapters.json", "rejected.json", "report.json")


@dataclass(frozen=True)
class BookJob(Job):
    """The reading of a book.

    Attributes:
        wanted: The fields of `ReadingRequest`.
        recording: That of the uploaded voice that reads, or the folder of an adapter or imported voice; None
            for the served voice.
        bytes: The size of the book on disk when the reading ended.
    """

    wanted: Mapping[str, Any] = field(default_factory=dict)
    recording: str | None = None
    bytes: int | None = None

    @property
    def plan_only(self) -> bool:
        return bool(self.wanted.get("plan_only"))


@dataclass(frozen=True)
class UploadedBook(WorkFolder):
    """A folder of BOOKS_DIR. name: the user's name of the file."""

    word: ClassVar[str] = "book"

    @property
    def source(self) -> Path:
        """The uploaded file."""
        return self.folder / f"book{ending_of(self.name)}"

    @property
    def spoken(self) -> Path:
        """The output folder of `xtts read`."""
        return self.folder / "spoken"

    @property
    def names_list(self) -> Path:
        """The path of the list of pronunciations, which may not exist."""
        return self.folder / "names.txt"

    @property
    def job(self) -> BookJob:
        """The state of its reading."""
        return read_job(self.folder, BookJob)

    @property
    def title(self) -> str:
        """The title in the plan; "" without a plan. Cached until the plan changes."""
        with contextlib.suppress(OSError):
            return _cached_title(stamp_of(self.spoken / "plan.json"))
        return ""

    def files(self) -> list[Path]:
        """The finished files: chapters, audiobook, captions, report."""
        with contextlib.suppress(OSError):
            return sorted(
                path
                for path in self.spoken.iterdir()
                if path.is_file()
                and path.name not in _INTERNAL_FILES
                and not path.name.startswith(".")
                and not path.name.endswith(".sotaque-part")
            )
        return []

    def file(self, name: str) -> Path:
        """A finished file by name. Raises APIError (404)."""
        for path in self.files():
            if path.name == name:
                return path
        raise APIError(404, "no_file", "The book has no file with this name; see its `files`.")

    def take(self, key: str) -> Path:
        """The sound of a sentence. Raises APIError (404)."""
        path = self.spoken / "sentences" / key[:2] / f"{key}.wav"
        if not _TAKE_KEY.fullmatch(key) or not path.is_file():
            raise APIError(404, "no_sentence", "The book has no sentence of that key.")
        return path


class Books(NamedFolders[UploadedBook]):
    """BOOKS_DIR."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        super().__init__(folder, UploadedBook, max_bytes)

    def get(self, identity: str) -> UploadedBook | None:
        """As in `NamedFolders`; None also for other files."""
        book = super().get(identity)
        return book if book and ending_of(book.name) else None

    def add(self, name: str, arrived: Path) -> UploadedBook:
        """Adds a complete upload as a book. Raises APIError if there are too many."""
        with shared_folder.changing(self.folder), self.claim(Path(name).stem, MAX_BOOKS) as identity:
            book = UploadedBook(self.folder / identity, identity, name, now())
            arrived.rename(book.source)
            book.write()
        return book

    def remove_leftovers(self) -> None:
        """Removes the remains of interrupted deletions and uploads."""
        super().remove_leftovers()
        remove_arriving(self.folder)

    def check_room(self) -> None:
        """Raises APIError (507). Makes the folder where it is missing. Blocks."""
        with shared_folder.writing(self.folder):
            make_folder(self.folder)
        if (used := self.used_bytes()) > self.max_bytes:
            text = (
                f"Books use {used:,} bytes, and {self.max_bytes:,} are allowed. Delete one, or "
                "raise BOOKS_MAX_GB."
            )
            raise APIError(507, "no_space", text)
        require_free(self.folder)

    def used_bytes(self) -> int:
        """The size of all books and incomplete uploads.

        A long book has ten thousand files, so books that are not being read are not counted again:
        their size is in job.json, or else cached in this process.
        """
        used = 0
        with contextlib.suppress(OSError):
            for path in self.folder.iterdir():
                with contextlib.suppress(OSError):
                    used += _bytes_of_book(path) if path.is_dir() else path.lstat().st_size
        return used


def _bytes_of_book(folder: Path) -> int:
    with contextlib.suppress(OSError):
        state = stamp_of(folder / "job.json")
        job = read_job(folder, BookJob)
        if not job.is_queued:
            return _cached_bytes(state) if job.bytes is None else job.bytes
    return bytes_below(folder)


@lru_cache(MAX_BOOKS)
def _cached_bytes(state: FileStamp) -> int:
    return bytes_below(Path(state.path).parent)


@lru_cache(MAX_BOOKS)
def _cached_title(plan: FileStamp) -> str:
    return str(read_json(Path(plan.path)).get("title", ""))


def ending_of(name: str) -> str:
    """The ending of a book's name in lower case; "" for other files."""
    ending = Path(name).suffix.lower()
    return ending if ending in FORMATS else ""


@contextmanager
def changing(book: UploadedBook, *, refuse_while_read: bool = False) -> Iterator[None]:
    """Locks a book for a change, as `api.shared_folder.changing`.

    Args:
        refuse_while_read: Whether to refuse while the book is being read or queued.

    Raises:
        APIError: The book was deleted or is being read, or the change cannot be stored.
    """
    with book.changing():
        if refuse_while_read and book.job.is_queued:
            text = "The book is being read or queued. Wait, or stop the reading."
            raise APIError(409, "being_read", text, retry_after=5)
        yield


def names_of(book: UploadedBook) -> dict[str, str]:
    """The pronunciations of a book."""
    return {str(word): str(spoken) for word, spoken in read_json(book.folder / "names.json").items()}


def put_names(book: UploadedBook, names: Mapping[str, str]) -> None:
    """Stores the pronunciations of a book. Raises APIError."""
    pronunciations = {word: spoken for word, spoken in names.items() if spoken.strip()}
    lines = "".join(f"{word} = {spoken}\n" for word, spoken in pronunciations.items()).encode()
    with changing(book, refuse_while_read=True):
        replace_file(book.names_list, lambda file: file.write(lines))
        write_json(book.folder / "names.json", pronunciations)
