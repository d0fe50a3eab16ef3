"""Returns freed memory to the system, and limits oneDNN's cache.

glibc keeps freed blocks below 32 MB for later use. At full size, a trainer that waits for its
sample would keep gigabytes that the speaking process needs. The pages of a mapped file count as
used until the process releases them. And oneDNN caches the code that it generates for every shape.
"""

import contextlib
import ctypes
import mmap
import os
from dataclasses import dataclass
from pathlib import Path

# The vocoder's four widths have 196 layers; the others are for references and very short sentences.
_MAX_CACHED_SHAPES = 320


def limit_onednn_cache() -> None:
    """Limits oneDNN's cache to the 320 layer shapes that speaking reuses, instead of 1,024.

    At full size, sentences of 48 lengths below 0.7 s then add 0.13 GB instead of 0.43 GB. Call it
    before torch computes. An ONEDNN_PRIMITIVE_CACHE_CAPACITY that is already set stays.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(_MAX_CACHED_SHAPES))


def trim_heap() -> None:
    """Returns freed memory to the system, if the C library can."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def address_space_bytes() -> int:
    """The address space that this process has mapped, as RLIMIT_AS counts it."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    return pages * mmap.PAGESIZE


@dataclass(frozen=True)
class MappedFiles:
    """The address ranges of files mapped into this process: (first address, end)."""

    ranges: tuple[tuple[int, int], ...]

    @staticmethod
    def look(maps: Path = Path("/proc/self/maps")) -> "MappedFiles":
        """Reads the ranges of data, without code; none if the system does not list them."""
        try:
            lines = maps.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return MappedFiles(())
        ranges = []
        for fields in (line.split(maxsplit=5) for line in lines):
            if len(fields) == 6 and fields[5].startswith("/") and "x" not in fields[1]:
                begin, end = fields[0].split("-")
                ranges.append((int(begin, 16), int(end, 16)))
        return MappedFiles(tuple(ranges))

    def forget(self, address: int, num_bytes: int) -> bool:
        """Releases pages that were read from a file and never written; the next access reads them
        again. Returns False, and does nothing, if the memory is not backed by a file."""
        for begin, end in self.ranges:
            if begin <= address and address + num_bytes <= end:
                page = address - address % mmap.PAGESIZE
                with contextlib.suppress(OSError, AttributeError):
                    ctypes.CDLL(None).madvise(
                        ctypes.c_void_p(page), ctypes.c_size_t(address + num_bytes - page), mmap.MADV_DONTNEED
                    )
                return True
        return False
