"""Reads ZIP files within limits on size.

A file of a few kilobytes may unpack to terabytes, and the sizes in its directory may be false. So
bytes are counted during unpacking, which stops at a limit.
"""

import zipfile
import zlib
from pathlib import Path

from extras.books.book import BookError
from machine.text import size_words

MOST_PARTS = 30_000
MOST_PART_BYTES = 64 << 20
MOST_BYTES = 512 << 20
# Text is compressed about 3 to 1, and at most 1,032 to 1. Small parts may consist of spaces.
MOST_RATIO, _RATIO_FROM_BYTES = 200, 1 << 20
_STEP = 1 << 16


class Archive:
    """The parts of a ZIP file. Raises BookError for other files and for too many parts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read = 0
        try:
            self._zip = zipfile.ZipFile(path)
        except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            raise BookError(
                f"{path} is not an EPUB: it cannot be opened as a ZIP file ({error}). Download it "
                "again."
            ) from error
        if (count := len(self._zip.infolist())) > MOST_PARTS:
            self.close()
            raise BookError(f"{path} has {count:,} parts; at most {MOST_PARTS:,} are allowed.")
        self.names = frozenset(self._zip.namelist())

    def close(self) -> None:
        """Closes the file."""
        self._zip.close()

    def __enter__(self) -> "Archive":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, name: str) -> bytes:
        """The content of a part.

        Raises BookError if it is missing, damaged, encrypted, or too large.
        """
        try:
            entry = self._zip.getinfo(name)
        except KeyError:
            raise BookError(f"{self.path} refers to the part {name!r}, which is missing.") from None
        if entry.flag_bits & 1:
            raise BookError(f"{self.path}: the part {name!r} is encrypted. {DRM_REMEDY}")
        try:
            return self._unpacked(entry)
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError) as error:
            raise BookError(f"{self.path}: the part {name!r} is damaged ({error}).") from error

    def _unpacked(self, entry: zipfile.ZipInfo) -> bytes:
        content = bytearray()
        with self._zip.open(entry) as file:
            while step := file.read(_STEP):
                content += step
                self._read += len(step)
                self._check(entry, len(content))
        return bytes(content)

    def _check(self, entry: zipfile.ZipInfo, unpacked: int) -> None:
        packed = max(1, entry.compress_size)
        if unpacked > _RATIO_FROM_BYTES and unpacked > MOST_RATIO * packed:
            reason = f"it unpacks to more than {MOST_RATIO} times its size"
        elif unpacked > MOST_PART_BYTES:
            reason = f"it unpacks to more than {size_words(MOST_PART_BYTES)}"
        elif self._read > MOST_BYTES:
            reason = f"the parts unpack to more than {size_words(MOST_BYTES)} together"
        else:
            return
        raise BookError(f"{self.path}: the part {entry.filename!r} is refused, because {reason}.")


DRM_REMEDY = (
    "The book is protected (DRM), and only the shop's program may open it. Ask the publisher "
    "for a copy without protection."
)
