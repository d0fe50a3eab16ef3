"""Writes the bodies of uploads to the disk as they arrive, and checks the room for them."""

import asyncio
import contextlib
import os
import secrets
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import Request
from starlette.requests import ClientDisconnect

from api.errors import APIError
from machine.storage.files import STALE_SECONDS, is_full

_ARRIVING_PREFIX = ".arriving-"
# Each write waits for a thread, so that many small ones would be slow.
_WRITE_BYTES = 1 << 20
# Uploads and audiobooks leave this much of the disk free for runs and voices.
RESERVED_BYTES = 1 << 30


def free_bytes(folder: Path) -> int:
    """The free bytes of a folder's disk; the folder need not exist yet."""
    folder = folder.absolute()
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    return shutil.disk_usage(existing).free


def bytes_below(folder: Path) -> int:
    """The total size of all files below a folder."""
    num_bytes = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                num_bytes += os.lstat(os.path.join(parent, name)).st_size
    return num_bytes


@asynccontextmanager
async def body_file(request: Request, folder: Path, noun: str) -> AsyncIterator[Path]:
    """The body as a new file in `folder`; it is deleted afterwards unless it was renamed.

    noun: what the body is, such as `book`. Raises APIError: 507 if it cannot be written, or if the
    disk is full while the caller uses it; 422 for an empty body, 400 for one that ends early.
    """
    path = folder / f"{_ARRIVING_PREFIX}{secrets.token_hex(8)}"
    try:
        num_bytes = await _write_body(request, path, noun)
        if not num_bytes:
            raise APIError(422, f"not_a_{noun}", "The body is empty: send the file.")
        yield path
    except OSError as error:
        if not is_full(error):
            raise
        raise _write_refusal(noun, "no_space", error) from error
    finally:
        await asyncio.to_thread(path.unlink, missing_ok=True)


async def _write_body(request: Request, path: Path, noun: str) -> int:
    """Writes the body and returns its length in bytes."""
    buffer, num_bytes = bytearray(), 0
    try:
        with path.open("wb") as file:
            async for part in request.stream():
                buffer += part
                num_bytes += len(part)
                if len(buffer) >= _WRITE_BYTES:
                    full, buffer = bytes(buffer), bytearray()
                    await asyncio.to_thread(file.write, full)
                    await asyncio.to_thread(require_free, path.parent)
            file.write(buffer)
            await asyncio.to_thread(os.fsync, file.fileno())
    except ClientDisconnect:
        text = f"The connection ended before the {noun} had arrived. Send it again."
        raise APIError(400, "cut_off", text) from None
    except OSError as error:
        raise _write_refusal(noun, "no_space" if is_full(error) else "not_kept", error) from error
    return num_bytes


def _write_refusal(noun: str, code: str, error: OSError) -> APIError:
    return APIError(507, code, f"The {noun} cannot be written ({error.strerror}).")


def require_free(folder: Path, num_bytes: int = 0) -> None:
    """Raises APIError (507) unless `RESERVED_BYTES` stay free after `num_bytes` are written. Blocks."""
    if (free := free_bytes(folder)) < RESERVED_BYTES + num_bytes:
        text = (
            f"The disk has {free:,} bytes left. This needs {num_bytes:,}, and "
            f"{RESERVED_BYTES:,} stay free. Free some space."
        )
        raise APIError(507, "no_space", text)


def remove_arriving(folder: Path) -> None:
    """Removes the files of killed uploads. Another replica may be writing recent ones."""
    for path in folder.glob(f"{_ARRIVING_PREFIX}*"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > STALE_SECONDS:
                path.unlink()
