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
import re
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

from api import shared_folder
from api.background.job_file import Job, read_job
from api.disk_space import KEPT_FREE_BYTES, bytes_below, free_bytes
from api.errors import APIError
from api.shared_folder import NamedFolder, NamedFolders, now
from extras.books.formats.reading import FORMATS
from machine.storage.atomic import STALE_SECONDS, make_folder, replace_file, write_json
from machine.storage.hashes import FileStamp, stamp_of
from machine.storage.reading import read_json

MOST_BOOKS = 200
_ARRIVING = ".arriving-"
_KEY = re.compile(r"[0-9a-f]{40}")
# What `xtts read` keeps for itself; a caller may download the rest of what it writes.
_OWN_FILES = ("plan.json", "progress.json", "chapters.json", "rejected.json", "report.json")


@dataclass(frozen=True)
class BookJob(Job):
    """The work on a book. wanted: as `ReadingRequest`; recording: of an uploaded voice that reads;
    bytes: what the book takes, counted when the work ended."""

    wanted: Mapping[str, Any] = field(default_factory=dict)
    recording: str | None = None
    bytes: int | None = None

    @property
    def plan_only(self) -> bool:
        return bool(self.wanted.get("plan_only"))


@dataclass(frozen=True)
class UploadedBook(NamedFolder):
    """A folder of BOOKS_DIR. name: of its file, as the person calls it."""

    word: ClassVar[str] = "book"

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

    @property
    def title(self) -> str:
        """As the plan has it, which is read when it has changed; "" where there is none."""
        with contextlib.suppress(OSError):
            return _title_at(stamp_of(self.spoken / "plan.json"))
        return ""

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


class Books(NamedFolders[UploadedBook]):
    """BOOKS_DIR."""

    def __init__(self, folder: Path, most_bytes: int) -> None:
        super().__init__(folder, UploadedBook, most_bytes)

    def get(self, identity: str) -> UploadedBook | None:
        """As of all named folders; None also for a file that is no book."""
        book = super().get(identity)
        return book if book and ending_of(book.name) else None

    def arriving(self) -> Path:
        """Where an upload is written before it is a book. Raises APIError (507)."""
        with shared_folder.kept(self.folder):
            make_folder(self.folder)
        return self.folder / f"{_ARRIVING}{secrets.token_hex(8)}"

    def add(self, name: str, arrived: Path) -> UploadedBook:
        """A book of a file that has arrived. Raises APIError where there are too many."""
        with (
            shared_folder.changing(self.folder),
            self._claimed(Path(name).stem, MOST_BOOKS) as identity,
        ):
            book = UploadedBook(self.folder / identity, identity, name, now())
            arrived.rename(book.source)
            book.write()
        return book

    def remove_rest(self) -> None:
        """Removes what killed deletions and uploads left."""
        super().remove_rest()
        for path in self.folder.glob(f"{_ARRIVING}*"):
            with contextlib.suppress(OSError):  # of another replica, it may still arrive
                if time.time() - path.stat().st_mtime > STALE_SECONDS:
                    path.unlink()

    def check_room(self, *, count: bool = True) -> None:
        """Raises APIError (507). count: whether to count what books take, a look at each file."""
        if count and (used := self.used_bytes()) > self.most_bytes:
            text = (
                f"Books take {used:,} bytes, and {self.most_bytes:,} are allowed. Delete one, or "
                "raise BOOKS_MAX_GB."
            )
            raise APIError(507, "no_space", text)
        if (free := free_bytes(self.folder)) < KEPT_FREE_BYTES:
            text = (
                f"The disk has {free:,} bytes left, and {KEPT_FREE_BYTES:,} stay free. Free some."
            )
            raise APIError(507, "no_space", text)

    def used_bytes(self) -> int:
        """What all books take, and uploads that arrive.

        A long book has ten thousand files, so one that is not being read is not counted again: its
        job says what it takes, or else this process remembers it.
        """
        used = 0
        with contextlib.suppress(OSError):
            for path in self.folder.iterdir():
                with contextlib.suppress(OSError):
                    used += _bytes_of(path) if path.is_dir() else path.lstat().st_size
        return used


def _bytes_of(folder: Path) -> int:
    with contextlib.suppress(OSError):
        state = stamp_of(folder / "job.json")
        job = read_job(folder, BookJob)
        if not job.is_queued:
            return _bytes_at(state) if job.bytes is None else job.bytes
    return bytes_below(folder)


@lru_cache(MOST_BOOKS)
def _bytes_at(state: FileStamp) -> int:
    return bytes_below(Path(state.path).parent)


@lru_cache(MOST_BOOKS)
def _title_at(plan: FileStamp) -> str:
    return str(read_json(Path(plan.path)).get("title", ""))


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
    with book.changing():
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
