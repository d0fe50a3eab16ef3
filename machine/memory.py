"""Returns freed memory to the system; limits oneDNN's cache; tells the address space in use.

glibc keeps freed blocks below 32 MB for later; at full size a trainer that only waits for its
sample would hold gigabytes that the process speaking it needs. The pages of a mapped file count as
ours for as long as nobody says that they were read for the last time. And oneDNN keeps the code
that it made for every shape.
"""

import contextlib
import ctypes
import mmap
import os
import re
from dataclasses import dataclass
from pathlib import Path

# The vocoder's four widths are 196 layers; the rest is for references and very short sentences.
_KEPT_SHAPES = 320


def limit_onednn_cache() -> None:
    """Has oneDNN keep the code of as many layers' shapes as speaking comes back to, not of 1,024:
    sentences of 48 lengths below 0.7 s brought 0.13 GB in place of 0.43 at full size. To be called
    before torch computes; ONEDNN_PRIMITIVE_CACHE_CAPACITY says otherwise."""
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(_KEPT_SHAPES))


def trim_heap() -> None:
    """Returns freed memory to the system; where the C library cannot, nothing happens."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def address_space_bytes() -> int:
    """What this process has mapped: what RLIMIT_AS counts."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    return pages * mmap.PAGESIZE


def mapped_libraries(maps: str, wanted: re.Pattern[str]) -> dict[str, list[str]]:
    """Libraries in a process's memory map (/proc/self/maps) whose name is `wanted`: name -> every
    path that it came from."""
    found: dict[str, set[str]] = {}
    for line in maps.splitlines():
        _, slash, path = line.partition("/")
        name = path.rpartition("/")[2]
        if wanted.match(name):
            found.setdefault(name, set()).add(slash + path)
    return {name: sorted(paths) for name, paths in sorted(found.items())}


@dataclass(frozen=True)
class MappedFiles:
    """Where files are mapped into this process: (first address, behind the last)."""

    ranges: tuple[tuple[int, int], ...]

    @staticmethod
    def look(maps: Path = Path("/proc/self/maps")) -> "MappedFiles":
        """Data only, no code; nothing where the system does not tell."""
        try:
            lines = maps.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return MappedFiles(())
        found = []
        for fields in (line.split(maxsplit=5) for line in lines):
            if len(fields) == 6 and fields[5].startswith("/") and "x" not in fields[1]:
                first, last = fields[0].split("-")
                found.append((int(first, 16), int(last, 16)))
        return MappedFiles(tuple(found))

    def forget(self, address: int, num_bytes: int) -> bool:
        """Gives back pages that were read from a file and never written; they are read again when
        they are looked at. Memory that no file stands behind is left alone: False."""
        for first, last in self.ranges:
            if first <= address and address + num_bytes <= last:
                begin = address - address % mmap.PAGESIZE
                with contextlib.suppress(OSError, AttributeError):
                    ctypes.CDLL(None).madvise(
                        ctypes.c_void_p(begin), ctypes.c_size_t(address + num_bytes - begin),
                        mmap.MADV_DONTNEED,
                    )  # fmt: skip
                return True
        return False
