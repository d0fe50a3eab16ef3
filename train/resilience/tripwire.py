"""A pipe that ends this process with an exit code even when its interpreter hangs.

A process that stalls in C code while it holds the GIL runs no more Python: no thread, no signal
handler. The C library still runs. Its asynchronous read (aio_read(3), in a separate thread) calls a
function when a byte arrives (SIGEV_THREAD, sigevent(7)); here that function is `_exit`. So
`train.resilience.watchdog`, another process, can end a stalled trainer with 75 instead of the 137
of SIGKILL.
"""

import contextlib
import ctypes
import os

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
    """struct aiocb of the GNU C library on 64 bits: 168 bytes; fields not named here stay zero."""

    _fields_ = (
        ("descriptor", ctypes.c_int),
        ("operation", ctypes.c_int),
        ("priority", ctypes.c_int),
        ("buffer", ctypes.c_void_p),
        ("num_bytes", ctypes.c_size_t),
        ("notification", _Notification),
        ("rest", ctypes.c_char * 128),
    )


def tripwire(exit_code: int) -> int | None:
    """The descriptor to write the byte to, which a child inherits.

    This process keeps the descriptor open too, so that the end of the child does not end it. None
    if the C library has no such read.
    """
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
    # Never freed: the C library's thread may read them for the first time while the interpreter
    # shuts down. Freed memory would look like a failed request, and cause this exit code.
    for kept in (library, buffer, request):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
    return write_end


def _with_aio() -> ctypes.CDLL | None:
    for name in (None, "librt.so.1"):  # a separate library before glibc 2.34
        with contextlib.suppress(OSError):
            library = ctypes.CDLL(name)
            if hasattr(library, "aio_read"):
                return library
    return None
