"""NamedFolder and NamedFolders: folders such as datasets and books, each with a name that a person chose."""

import contextlib
import functools
import itertools
import os
import re
import secrets
import shutil
import unicodedata
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

from api.errors import APIError
from api.shared_folder import changing, read, read_all, writing
from machine.storage.files import write_json

ID = re.compile(r"[a-z0-9](-?[a-z0-9]){0,63}")
_MAX_SLUG_LENGTH = 40
_DELETED_PREFIX = ".deleted-"


def free_id(name: str, fallback: str, taken: Collection[str]) -> str:
    """An unused id for a name, of lower-case ASCII letters, digits and single hyphens:
    "Ana, fita 1" -> ana-fita-1, then ana-fita-1-2. fallback: the id of a name without any of these."""
    ascii_name = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", ascii_name)[:_MAX_SLUG_LENGTH].strip("-") or fallback
    numbered = (f"{slug}-{number}" for number in itertools.count(2))
    return next(identity for identity in itertools.chain((slug,), numbered) if identity not in taken)


@dataclass(frozen=True)
class NamedFolder:
    """A folder below a shared one. `<word>.json` in it holds the fields; a folder without that file
    is ignored.

    Attributes:
        word: The noun for the kind, such as `book`, in messages, error codes and URLs.
        folder: Its path, which ends with `id`.
        id: The name that URLs use.
        name: The name that a person chose.
        created: When it was created, as a time that sorts by age.
    """

    word: ClassVar[str]
    folder: Path
    id: str
    name: str
    created: str

    @property
    def exists(self) -> bool:
        """Whether it still exists."""
        return self._fields_path.is_file()

    @property
    def _fields_path(self) -> Path:
        return self.folder / f"{self.word}.json"

    def write(self) -> None:
        """Writes the fields, after which `NamedFolders` finds it. Raises WriteError."""
        fields = asdict(self)
        del fields["folder"]
        write_json(self._fields_path, fields)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Holds the lock of the shared folder. Raises APIError (404) if this one was deleted."""
        with changing(self.folder.parent):
            if not self.exists:
                raise _missing(self.word)
            yield


Named = TypeVar("Named", bound=NamedFolder)


class NamedFolders(Generic[Named]):
    """The named folders in a shared folder, read again for each call because replicas change them.

    Args:
        kind: Their class.
        max_bytes: The limit of their total size.
    """

    def __init__(self, folder: Path, kind: type[Named], max_bytes: int) -> None:
        self.folder = folder
        self.max_bytes = max_bytes
        self._kind = kind

    def all(self) -> list[Named]:
        """All of them, the newest first."""
        folders = read_all(self.folder, self.get)
        return sorted(folders, key=lambda folder: (folder.created, folder.id), reverse=True)

    def get(self, identity: str) -> Named | None:
        """The folder with this id; None if it is missing or the id is invalid."""
        if not ID.fullmatch(identity):
            return None
        folder = self.folder / identity
        make = functools.partial(self._kind, folder)
        return read(make, folder / f"{self._kind.word}.json", identity)

    def find(self, identity: str) -> Named:
        """The folder with this id. Raises APIError (404), also for an invalid id."""
        folder = self.get(identity)
        if folder is None:
            raise _missing(self._kind.word)
        return folder

    @contextmanager
    def claim(self, name: str, limit: int) -> Iterator[str]:
        """Creates a folder, inside `changing`, and yields its id; removes it if filling it fails.
        Raises APIError (409) if there are already `limit`."""
        word = self._kind.word
        if len(self.all()) >= limit:
            text = f"There are already {limit} {word}s, the limit. Delete one."
            raise APIError(409, f"too_many_{word}s", text)
        is_created = False
        while not is_created:
            identity = free_id(name, word, os.listdir(self.folder))
            # Without file locks, another replica may take the same id first.
            with contextlib.suppress(FileExistsError):
                (self.folder / identity).mkdir()
                is_created = True
        try:
            yield identity
        except BaseException:
            shutil.rmtree(self.folder / identity, ignore_errors=True)
            raise

    def remove(self, folder: Named) -> None:
        """Deletes a folder. It disappears at once; after a kill, `remove_leftovers` deletes its files.

        Raises APIError if it is already deleted or cannot be deleted.
        """
        deleted_path = self.folder / f"{_DELETED_PREFIX}{folder.id}-{secrets.token_hex(4)}"
        with folder.changing():
            folder.folder.rename(deleted_path)
        # `remove_leftovers` may delete the same files at the same time.
        with writing(self.folder), contextlib.suppress(FileNotFoundError):
            shutil.rmtree(deleted_path)

    def remove_leftovers(self) -> None:
        """Removes the leftovers of killed deletions."""
        for path in self.folder.glob(f"{_DELETED_PREFIX}*"):
            shutil.rmtree(path, ignore_errors=True)


def _missing(word: str) -> APIError:
    text = f"There is no {word} with this id. /v1/{word}s lists them."
    return APIError(404, f"no_{word}", text, param=word)
