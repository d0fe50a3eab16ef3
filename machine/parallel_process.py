"""Children that run in parallel to this process, and keep their stderr.

    JsonLineProcess     a worker that answers requests: one JSON object per line, each way
    ChildProcess        anything else
asyncio's children use only `StderrFile`.
"""

import contextlib
import json
import os
import selectors
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from machine.process import end_group, tail
from machine.text import last_line

# A worker holds a model, and returning gigabytes to the system takes longer.
_REAP_SECONDS = 5.0
_STDERR_KEPT_BYTES = 4096


class StderrFile:
    """Receives a long-running child's stderr, in an unnamed file on disk."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`

    def fileno(self) -> int:
        """The descriptor for the child."""
        return self._file.fileno()

    def last_line(self) -> str:
        """The last line that is not blank, at most 300 characters of it; "" if there is none."""
        return last_line(self.tail())

    def tail(self) -> str:
        """The last 4 kB."""
        return tail(self._file, _STDERR_KEPT_BYTES)

    def close(self) -> None:
        """Deletes the file."""
        self._file.close()


class ChildProcess:
    """A child that runs in parallel to this process; `errors` receives its stderr.

    It dies with the thread that started it if it is started with `module_command`.

    Args:
        command: Its command.
        pipes: Whether stdin and stdout are pipes to this process; otherwise they are closed.
        output: A file that gets its stdout, unless `pipes`.

    Raises:
        OSError: The child cannot be started.
    """

    def __init__(
        self, command: Sequence[str], *, pipes: bool = False, output: BinaryIO | None = None
    ) -> None:
        self.errors = StderrFile()
        wanted = subprocess.PIPE if pipes else subprocess.DEVNULL
        self._process = subprocess.Popen(
            tuple(command),
            stdin=wanted,
            stdout=output or wanted,
            stderr=self.errors.fileno(),
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def code(self) -> int | None:
        """Its exit status, negative for a signal; None while it runs."""
        return self._process.poll()

    @property
    def user_seconds(self) -> float:
        """The CPU time that it has spent in user mode; 0 if unknown."""
        with contextlib.suppress(OSError, IndexError):
            stat = Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8", errors="replace")
            # Field 14 of proc(5); the fields start after the name, which may hold spaces.
            return int(stat.rpartition(")")[2].split()[11]) / os.sysconf("SC_CLK_TCK")
        return 0.0

    def wait(self, limit_seconds: float) -> int | None:
        """Waits for its end and returns `code`."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(limit_seconds)
        return self.code

    def ask_to_stop(self) -> None:
        """Sends SIGTERM to the child only, which must end its children itself."""
        if self.code is None:
            self._process.terminate()

    def end(self) -> None:
        """Kills the child and its children, and deletes its `errors`."""
        end_group(self._process, _REAP_SECONDS)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self.errors.close()


class JsonLineProcess(ChildProcess):
    """A worker that reads a JSON object per line from stdin and answers with one on stdout.

    The worker calls `reserve_stdout`.
    """

    def __init__(self, command: Sequence[str]) -> None:
        super().__init__(command, pipes=True)
        self._received = bytearray()

    def send(self, message: Mapping[str, Any]) -> None:
        """Writes one line.

        Raises:
            EOFError: The worker has ended.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise EOFError from error

    def receive(self, limit_seconds: float) -> dict[str, Any]:
        """Waits for the next line.

        Raises:
            TimeoutError: No line arrived in time; you can call it again.
            EOFError: The worker has ended, or did not write a JSON object.
        """
        try:
            message = json.loads(self._line(limit_seconds))
        except ValueError as error:
            raise EOFError from error
        if not isinstance(message, dict):
            raise EOFError
        return message

    def _line(self, limit_seconds: float) -> bytes:
        assert self._process.stdout is not None
        end = time.monotonic() + limit_seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._received:
                if not selector.select(max(0.0, end - time.monotonic())):
                    raise TimeoutError
                # Bypass Python's buffer, which the selector does not see.
                chunk = os.read(self._process.stdout.fileno(), 1 << 16)
                if not chunk:
                    raise EOFError
                self._received += chunk
        line, _, rest = bytes(self._received).partition(b"\n")
        self._received[:] = rest
        return line
