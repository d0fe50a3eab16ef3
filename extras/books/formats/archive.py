"""Reads the parts of a ZIP file, or of a folder as Apple Books makes them, within limits on size.

A file of a few kilobytes may unpack to terabytes, and the sizes in its directory may be false. So
bytes are counted during unpacking, which stops at a limit.

A document may name a part in another form than the archive: accents composed or decomposed, another
case, `\\`, `%20`, or UTF-8 that the archive does not declare.
"""

import unicodedata
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO
from urllib.parse import unquote

from extras.books.book import BookError
from machine.text import size_words

MAX_PARTS = 30_000
MAX_PART_BYTES = 64 << 20
MAX_BYTES = 512 << 20
# Text is compressed about 3 to 1, and at most 1,032 to 1. Small parts may consist of spaces.
MAX_RATIO, _MIN_RATIO_BYTES = 200, 1 << 20
_READ_BYTES = 1 << 16


class Archive:
    """The parts of a ZIP file or folder. Raises BookError for other files and for too many
    parts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._bytes_read = 0
        self._zip = None if path.is_dir() else _open(path)
        self._parts = _folder_parts(path) if self._zip is None else _zip_parts(self._zip)
        if (count := len(self._parts)) > MAX_PARTS:
            self.close()
            raise BookError(f"{path} has {count:,} parts; at most {MAX_PARTS:,} are allowed.")
        self._name_by_form = dict[str, str]()
        for name in self._parts:
            for form in _forms_of(name):
                self._name_by_form.setdefault(form, name)

    def find(self, name: str) -> str | None:
        """The name of a part as the archive writes it; None if there is no such part."""
        if name in self._parts:
            return name
        return next(filter(None, map(self._name_by_form.get, _forms_of(name))), None)

    def find_below(self, name: str) -> str | None:
        """As `find`, also in the only folder that has this part: people pack a book with its
        folder."""
        ending = "/" + _canonical_form(name)
        names_below = [part for form, part in self._name_by_form.items() if form.endswith(ending)]
        return self.find(name) or (names_below[0] if len(set(names_below)) == 1 else None)

    def close(self) -> None:
        """Closes the file."""
        if self._zip is not None:
            self._zip.close()

    def __enter__(self) -> "Archive":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, name: str) -> bytes:
        """The content of a part.

        Raises BookError if it is missing, damaged, encrypted, or too large.
        """
        if (stored := self.find(name)) is None:
            raise BookError(f"{self.path} refers to the part {name!r}, which is missing.")
        part = self._parts[stored]
        if isinstance(part, zipfile.ZipInfo) and part.flag_bits & 1:
            raise BookError(f"{self.path}: the part {name!r} is encrypted. {DRM_REMEDY}")
        try:
            return self._unpack(name, part)
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError) as error:
            raise BookError(f"{self.path}: the part {name!r} is damaged ({error}).") from error

    def _unpack(self, name: str, part: zipfile.ZipInfo | Path) -> bytes:
        content = bytearray()
        with self._open(part) as file:
            packed = part.compress_size if isinstance(part, zipfile.ZipInfo) else None
            while chunk := file.read(_READ_BYTES):
                content += chunk
                self._bytes_read += len(chunk)
                self._check_limits(name, len(content), packed)
        return bytes(content)

    def _open(self, part: zipfile.ZipInfo | Path) -> IO[bytes]:
        if isinstance(part, Path):
            return part.open("rb")
        assert self._zip is not None
        return self._zip.open(part)

    def _check_limits(self, name: str, unpacked: int, packed: int | None) -> None:
        ratio = 0.0 if packed is None else unpacked / max(1, packed)
        if unpacked > _MIN_RATIO_BYTES and ratio > MAX_RATIO:
            reason = f"it unpacks to more than {MAX_RATIO} times its size"
        elif unpacked > MAX_PART_BYTES:
            reason = f"it unpacks to more than {size_words(MAX_PART_BYTES)}"
        elif self._bytes_read > MAX_BYTES:
            reason = f"the parts unpack to more than {size_words(MAX_BYTES)} together"
        else:
            return
        raise BookError(f"{self.path}: the part {name!r} is refused, because {reason}.")


def _open(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise BookError(
            f"{path} is not an EPUB: it cannot be opened as a ZIP file ({error}). Download it again."
        ) from error


_PartsByName = Mapping[str, zipfile.ZipInfo | Path]


def _zip_parts(archive: zipfile.ZipFile) -> _PartsByName:
    return {entry.filename: entry for entry in archive.infolist() if not entry.is_dir()}


def _folder_parts(folder: Path) -> _PartsByName:
    """The files of a folder, without links, which may lead outside it."""
    parts = dict[str, zipfile.ZipInfo | Path]()
    for path in folder.rglob("*"):
        if path.is_file() and path.resolve().is_relative_to(folder.resolve()):
            parts[path.relative_to(folder).as_posix()] = path
        if len(parts) > MAX_PARTS:
            break
    return parts


def _forms_of(name: str) -> Iterator[str]:
    """The forms of a name, in the order of preference."""
    yield _canonical_form(name)
    try:
        # Python decodes names without the flag of UTF-8 as cp437.
        repaired = name.encode("cp437").decode()
    except UnicodeError:
        repaired = name
    yield _canonical_form(repaired)
    yield _canonical_form(unquote(repaired))


def _canonical_form(name: str) -> str:
    return unicodedata.normalize("NFC", name.replace("\\", "/")).casefold().removeprefix("./")


DRM_REMEDY = (
    "The book is protected (DRM), and only the shop's program may open it. Ask the publisher "
    "for a copy without protection."
)
