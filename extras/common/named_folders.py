"""Named folders such as datasets and books, and the bodies of uploads as they arrive."""

import asyncio
import contextlib
import functools
import itertools
import os
import re
import secrets
import shutil
import time
import unicodedata
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

from fastapi import Request
from pydantic import BaseModel
from starlette.requests import ClientDisconnect

from api.errors import APIError
from api.shared_folder import changing, kept, read, read_all
from machine.storage.atomic import is_full, write_json
from machine.storage.leftovers import STALE_SECONDS

ID = re.compile(r"[a-z0-9](-?[a-z0-9]){0,63}")
_LONGEST_SLUG = 40
_DELETED = ".deleted-"
_ARRIVING = ".arriving-"
# Each write waits for a thread.
_WRITE_BYTES = 1 << 20
# Uploads and audiobooks leave this much of the disk free for runs and voices.
KEPT_FREE_BYTES = 1 << 30


def free_id(name: str, otherwise: str, taken: Collection[str]) -> str:
    """An unused id for a name, of lower-case ASCII letters, digits and single hyphens:
    "Ana, fita 1" -> ana-fita-1, then ana-fita-1-2. otherwise: the id if none of these is left."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", plain)[:_LONGEST_SLUG].strip("-") or otherwise
    numbered = (f"{slug}-{number}" for number in itertools.count(2))
    return next(one for one in itertools.chain((slug,), numbered) if one not in taken)


@dataclass(frozen=True)
class NamedFolder:
    """A folder below a shared one. name: as a person chose it. `<word>.json` in it holds the
    fields; a folder without that file is ignored.

    Class attribute:
        word: The noun for it, such as `book`, in messages, error codes and URLs.
    """

    word: ClassVar[str]
    folder: Path
    id: str
    name: str
    created: str

    @property
    def is_there(self) -> bool:
        """Whether it still exists."""
        return self._fields.is_file()

    @property
    def _fields(self) -> Path:
        return self.folder / f"{self.word}.json"

    def write(self) -> None:
        """Writes the fields, after which `NamedFolders` finds it. Raises WriteError."""
        fields = asdict(self)
        del fields["folder"]
        write_json(self._fields, fields)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Holds the lock of the shared folder. Raises APIError (404) if this one was deleted."""
        with changing(self.folder.parent):
            if not self.is_there:
                raise _missing(self.word)
            yield


Named = TypeVar("Named", bound=NamedFolder)


class NamedFolders(Generic[Named]):
    """The named folders in a shared folder, read again for each call because replicas change them.

    kind: their class; most_bytes: the limit of their total size.
    """

    def __init__(self, folder: Path, kind: type[Named], most_bytes: int) -> None:
        self.folder = folder
        self.most_bytes = most_bytes
        self._kind = kind

    def all(self) -> list[Named]:
        """All of them, the newest first."""
        found = read_all(self.folder, self.get)
        return sorted(found, key=lambda one: (one.created, one.id), reverse=True)

    def get(self, identity: str) -> Named | None:
        """The folder with this id; None if it is missing or the id is invalid."""
        if not ID.fullmatch(identity):
            return None
        folder = self.folder / identity
        make = functools.partial(self._kind, folder)
        return read(make, folder / f"{self._kind.word}.json", identity)

    def find(self, identity: str) -> Named:
        """The folder with this id. Raises APIError (404), also for an invalid id."""
        found = self.get(identity)
        if found is None:
            raise _missing(self._kind.word)
        return found

    @contextmanager
    def _claimed(self, name: str, most: int) -> Iterator[str]:
        """Creates a folder, inside `changing`, and yields its id; removes it if filling it fails.
        Raises APIError (409) if there are already `most`."""
        word = self._kind.word
        if len(self.all()) >= most:
            text = f"There are already {most} {word}s, the limit. Delete one."
            raise APIError(409, f"too_many_{word}s", text)
        made = False
        while not made:
            identity = free_id(name, word, os.listdir(self.folder))
            # Without file locks, another replica may take the same id first.
            with contextlib.suppress(FileExistsError):
                (self.folder / identity).mkdir()
                made = True
        try:
            yield identity
        except BaseException:
            shutil.rmtree(self.folder / identity, ignore_errors=True)
            raise

    def remove(self, item: Named) -> None:
        """Deletes a folder. It disappears at once; after a kill, `remove_rest` deletes its files.

        Raises APIError if it is already deleted or cannot be deleted.
        """
        gone = self.folder / f"{_DELETED}{item.id}-{secrets.token_hex(4)}"
        with item.changing():
            item.folder.rename(gone)
        # `remove_rest` may delete the same files at the same time.
        with kept(self.folder), contextlib.suppress(FileNotFoundError):
            shutil.rmtree(gone)

    def remove_rest(self) -> None:
        """Removes the leftovers of killed deletions."""
        for path in self.folder.glob(f"{_DELETED}*"):
            shutil.rmtree(path, ignore_errors=True)


def _missing(word: str) -> APIError:
    text = f"There is no {word} with this id. /v1/{word}s lists them."
    return APIError(404, f"no_{word}", text, param=word)


class DiskSpace(BaseModel):
    """Disk space in bytes. used: by all datasets, or by all books; most: the limit of
    DATASETS_MAX_GB or BOOKS_MAX_GB; free: on the disk."""

    used: int
    most: int
    free: int


def free_bytes(folder: Path) -> int:
    """The free bytes of a folder's disk; the folder need not exist yet."""
    folder = folder.absolute()
    above = next(one for one in (folder, *folder.parents) if one.exists())
    return shutil.disk_usage(above).free


def bytes_below(folder: Path) -> int:
    """The total size of all files below a folder."""
    used = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                used += os.lstat(os.path.join(parent, name)).st_size
    return used


@asynccontextmanager
async def arrived(request: Request, folder: Path, what: str) -> AsyncIterator[Path]:
    """The body as a new file in `folder`; it is deleted afterwards unless it was renamed.

    what: the word for it, such as `book`. Raises APIError: 507 if it cannot be written, 422 for an
    empty body, 400 for one that ends early.
    """
    path = folder / f"{_ARRIVING}{secrets.token_hex(8)}"
    try:
        await _write(request, path, what)
        yield path
    except ClientDisconnect:
        text = f"The connection ended before the {what} had arrived. Send it again."
        raise APIError(400, "cut_off", text) from None
    except OSError as error:
        code = "no_space" if is_full(error) else "not_kept"
        text = f"The {what} cannot be written ({error.strerror})."
        raise APIError(507, code, text) from error
    finally:
        await asyncio.to_thread(path.unlink, missing_ok=True)


async def _write(request: Request, path: Path, what: str) -> None:
    held, count = bytearray(), 0
    with path.open("wb") as file:
        async for part in request.stream():
            held += part
            count += len(part)
            if len(held) >= _WRITE_BYTES:
                taken, held = bytes(held), bytearray()
                await asyncio.to_thread(file.write, taken)
                await asyncio.to_thread(require_free, path.parent)
        file.write(held)
        await asyncio.to_thread(os.fsync, file.fileno())
    if not count:
        raise APIError(422, f"not_a_{what}", "The body is empty: send the file.")


def require_free(folder: Path, more_bytes: int = 0) -> None:
    """Raises APIError (507) unless `KEPT_FREE_BYTES` stay free after `more_bytes`. Blocks."""
    if (free := free_bytes(folder)) < KEPT_FREE_BYTES + more_bytes:
        text = (
            f"The disk has {free:,} bytes left. This needs {more_bytes:,}, and "
            f"{KEPT_FREE_BYTES:,} stay free. Free some space."
        )
        raise APIError(507, "no_space", text)


def remove_arriving(folder: Path) -> None:
    """Removes the files of killed uploads. Another replica may be writing recent ones."""
    for path in folder.glob(f"{_ARRIVING}*"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > STALE_SECONDS:
                path.unlink()
