"""Memory that was freed, given back to the system.

glibc keeps freed blocks below 32 MB for later; at full size a trainer that only waits for its
sample would hold gigabytes that the process speaking it needs.
"""

import contextlib
import ctypes


def give_back_freed() -> None:
    """Returns freed memory to the system; where the C library cannot, nothing happens."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
