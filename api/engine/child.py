"""The speaking process as asyncio sees it: start, send and read frames, kill."""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from machine.devices.probe.runner import clean_environment
from machine.devices.selection import oom_kills
from machine.process import StderrFile, kill_group
from xtts.workers import protocol as frames
from xtts.workers.failures import WorkerFailed, death

COMMAND = (sys.executable, "-m", "xtts.workers.server_main")
_REAP_SECONDS = 5.0
# An interpreter with a model takes a while to end on a busy machine.
_EXIT_SECONDS = 3.0
_READ_LIMIT = 1 << 22


class SpeakingProcess:
    """One process; when it has ended, another object is made."""

    def __init__(self, process: asyncio.subprocess.Process, errors: StderrFile) -> None:
        self._process = process
        self._errors = errors
        self._oom_kills = oom_kills()

    @staticmethod
    async def start(
        options: Sequence[str],
        *,
        command: Sequence[str] = COMMAND,
        clean_libraries: bool = False,
        folder: Path | None = None,
    ) -> "SpeakingProcess":
        """Starts it without waiting for it to load. Raises OSError."""
        errors = StderrFile()
        process = await asyncio.create_subprocess_exec(
            *command, *options, "--parent", str(os.getpid()),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            stderr=errors.fileno(),
            start_new_session=True, limit=_READ_LIMIT, cwd=folder,
            env=clean_environment() if clean_libraries else None,
        )  # fmt: skip
        return SpeakingProcess(process, errors)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, header: Mapping[str, Any]) -> None:
        """Puts a frame into the pipe; a child that has ended takes nothing and says nothing."""
        assert self._process.stdin is not None
        if not self._process.stdin.is_closing():
            self._process.stdin.write(frames.packed(header))

    async def frames(self) -> AsyncIterator[tuple[dict[str, Any], bytes]]:
        """What it says, until its end. Raises FrameError for what is no frame."""
        stdout = self._process.stdout
        assert stdout is not None
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                prefix = await stdout.readexactly(frames.PREFIX.size)
                header, body = frames.lengths(prefix)
                text = await stdout.readexactly(header)
                yield frames.header_of(text), await stdout.readexactly(body)

    async def end(self) -> WorkerFailed:
        """Ends what has said its last, and whatever it started; returns what its end means."""
        # An exit that is under way is waited for: its code says more than our SIGKILL would.
        exited = True
        try:
            await asyncio.wait_for(self._process.wait(), _EXIT_SECONDS)
        except TimeoutError:
            exited = False
        await self.kill()
        code = self._process.returncode
        last = self._errors.last_line()
        self._errors.close()
        if not exited:
            tail = f" It said last: {last}" if last else ""
            return WorkerFailed("crashed", f"It closed its output and did not end.{tail}")
        return death(code if code is not None else 0, last, oom_killed=self._killed_for_memory())

    async def kill(self) -> None:
        """SIGKILL to its whole group; one inside a driver's call is left behind."""
        kill_group(self._process.pid)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), _REAP_SECONDS)
        if self._process.stdin is not None:
            self._process.stdin.close()

    def _killed_for_memory(self) -> bool:
        return oom_kills() > self._oom_kills
