"""A pipe that ends this process with an exit code even when its interpreter hangs.

A process that stalls inside C code, its GIL held, runs no Python any more: no thread, no signal
handler. What still runs is the C library. Its asynchronous read (aio_read(3), a thread of its own)
calls a function when a byte has come (SIGEV_THREAD, sigevent(7)); here the function is `_exit`.
So `train.resilience.watchdog`, another process, can end a stalled trainer with 75 where SIGKILL
would say 137.
"""

import ctypes
import os
from functools import cache

_SIGEV_THREAD = 2


class _Notification(ctypes.Structure):
    """struct sigevent of Linux on 64 bits: 64 bytes."""

    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signal_number", ctypes.c_int),
        ("kind", ctypes.c_int),
        ("function", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("rest", ctypes.c_char * 32),
    )


class _Read(ctypes.Structure):
    """struct aiocb of the GNU C library on 64 bits: 168 bytes; what is not named stays zero."""

    _fields_ = (
        ("descriptor", ctypes.c_int),
        ("operation", ctypes.c_int),
        ("priority", ctypes.c_int),
        ("buffer", ctypes.c_void_p),
        ("num_bytes", ctypes.c_size_t),
        ("notification", _Notification),
        ("rest", ctypes.c_char * 128),
    )


@cache
def tripwire(exit_code: int) -> int | None:
    """The descriptor to write that byte to, for a child to inherit; one for the whole process.

    This process keeps the descriptor too: that its child ends must not end it. None where the C
    library has no such read.
    """
    if ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    library = _with_aio()
    if library is None:
        return None
    read_end, write_end = os.pipe()
    buffer = ctypes.create_string_buffer(1)
    leave = ctypes.cast(library._exit, ctypes.c_void_p).value
    request = _Read(
        descriptor=read_end,
        buffer=ctypes.addressof(buffer),
        num_bytes=1,
        notification=_Notification(value=exit_code, kind=_SIGEV_THREAD, function=leave),
    )
    if library.aio_read(ctypes.byref(request)) != 0:
        os.close(read_end)
        os.close(write_end)
        return None
    # The C library's thread may look at them for the first time while the interpreter ends: freed
    # by then, they would read as a request that failed, and the exit code would be this one.
    for kept in (library, buffer, request):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
    # The thread that reads is not in a forked child.
    os.register_at_fork(after_in_child=tripwire.cache_clear)
    return write_end


def _with_aio() -> ctypes.CDLL | None:
    for name in (None, "librt.so.1"):  # a library of its own before glibc 2.34
        try:
            library = ctypes.CDLL(name, use_errno=True)
            if library.aio_read and library._exit:
                return library
        except (OSError, AttributeError):
            continue
    return None
