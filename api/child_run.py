"""Runs a child process to its end under asyncio, within a time limit."""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import NamedTuple

from machine.process import StderrFile, kill_group
from machine.text import printable

# The end of stderr that a message quotes.
_MAX_ERROR_CHARACTERS = 700


class ChildEnd(NamedTuple):
    """How a child ended.

    Attributes:
        code: The exit code; None if the time limit was reached.
        stdout: Empty unless it was piped.
        error: The end of stderr, in one line.
    """

    code: int | None
    stdout: bytes
    error: str


async def run_child(
    command: Sequence[str], limit_seconds: float, stdout: int = asyncio.subprocess.DEVNULL
) -> ChildEnd:
    """Runs a child and kills its process group at the end, also if the caller is cancelled."""
    errors = StderrFile()
    child = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=stdout,
        stderr=errors.fileno(),
        start_new_session=True,
    )
    has_hung, output = False, None
    try:
        async with asyncio.timeout(limit_seconds):
            output, _ = await child.communicate()
    except TimeoutError:
        has_hung = True
    finally:
        kill_group(child.pid)
        with contextlib.suppress(asyncio.CancelledError):
            await child.wait()
        error = " ".join(printable(errors.tail()).split())[-_MAX_ERROR_CHARACTERS:]
        errors.close()
    return ChildEnd(None if has_hung else child.returncode, output or b"", error)
