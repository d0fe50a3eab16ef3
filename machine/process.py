"""Child processes: start, time limit, kill the group, die with the parent.

Each child leads a process group, so that its children are killed with it. A call into a hanging
driver cannot be interrupted, not even by SIGKILL. Such a child is abandoned, and the result says
that it hung.

    run_with_timeout    runs a program to its end
    ChildProcess        runs in parallel to this process
    JsonLineProcess     a worker that answers requests: one JSON object per line, each way

asyncio starts its own children (`api.engine.child`, `api.voices.recordings`) and uses `kill_group`
and `StderrFile`. The watchdog (`train.resilience.heartbeat`) is different: it shares the trainer's
process group, so that Ctrl-Z stops both, and imports no module of Sotaque.
"""

import contextlib
import ctypes
import json
import logging
import os
import runpy
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO

from machine.storage.files import JsonObject
from machine.text import last_line, printable

log = logging.getLogger(__name__)

# The wait for a killed child. A child in a hanging driver call may never end.
REAP_SECONDS = 2.0
# A worker holds a model, and returning gigabytes to the system takes longer.
_WORKER_REAP_SECONDS = 5.0
_MAX_STDERR_BYTES = 4096
_MAX_OUTPUT_BYTES = 1 << 20
_PR_SET_PDEATHSIG = 1
# The children that threads wait for in `run_with_timeout`.
_awaited: "set[subprocess.Popen[bytes]]" = set()


def signal_name(number: int) -> str:
    """SIGSEGV for 11; a real-time signal has no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


@dataclass(frozen=True)
class ProcessResult:
    """The result of a program. Its output is safe for a terminal, without control characters.

    Attributes:
        code: Exit status, negative for a signal; None if it hung or could not be started.
        out, errors: stdout and stderr; for a program that hung, the output up to the time limit.
        seconds: Its run time.
        fault: Why `code` is None; "" otherwise.
        hung: Whether it was still running at the time limit.
    """

    code: int | None
    out: str
    errors: str
    seconds: float
    fault: str = ""
    hung: bool = False

    @property
    def last_error(self) -> str:
        """Why it failed, in one line: the fault, the signal that ended it, or the last line of its
        stderr."""
        last = last_line(self.errors)
        if self.code is not None and self.code < 0:
            name = signal.strsignal(-self.code) or f"signal {-self.code}"
            return f"ended by {name}" + (f": {last}" if last else "")
        return self.fault or last


def run_with_timeout(
    command: Sequence[str],
    limit_seconds: float,
    environ: Mapping[str, str] | None = None,
    *,
    stdin: bytes = b"",
) -> ProcessResult:
    """Runs a program in a new process group; never raises, never waits past the limit.

    Ctrl-C kills the program too, and is raised again here. stdin: the content of its stdin.
    """
    started = time.monotonic()
    # Files instead of pipes: output from before a hang is kept, and a child that cannot be killed
    # does not block a reader.
    with _memory_file(stdin) as input_file, _memory_file() as out, _memory_file() as errors:
        try:
            child = subprocess.Popen(
                tuple(command),
                env=environ,
                stdin=input_file,
                stdout=out,
                stderr=errors,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            fault = f"{command[0]} cannot be started ({error})"
            return ProcessResult(None, "", "", time.monotonic() - started, fault)
        has_hung = False
        try:
            _awaited.add(child)
            child.wait(limit_seconds)
        except subprocess.TimeoutExpired:
            has_hung = True
        finally:  # after Ctrl-C too: the terminal does not signal the child's process group
            _awaited.discard(child)
            end_group(child, REAP_SECONDS)
        return ProcessResult(
            None if has_hung else child.returncode,
            printable(_read(out, 0, _MAX_OUTPUT_BYTES)),
            printable(_tail(errors, _MAX_OUTPUT_BYTES)),
            time.monotonic() - started,
            f"no answer within {limit_seconds:g} s" if has_hung else "",
            has_hung,
        )


def end_awaited() -> None:
    """Kills all programs that threads wait for in `run_with_timeout`. Otherwise a stopping service
    would wait for them, because an interpreter does not end before its threads."""
    for child in tuple(_awaited):
        if child.returncode is None:
            kill_group(child.pid)


def kill_group(pid: int) -> None:
    """Sends SIGKILL to a process group, even if its leader has ended, because children may still
    run."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def end_group(child: "subprocess.Popen[bytes]", reap_seconds: float) -> None:
    """Kills a child with its group and waits for `reap_seconds`; then abandons it."""
    kill_group(child.pid)
    try:
        child.wait(reap_seconds)
    except subprocess.TimeoutExpired:
        log.warning("Process %d does not end: it hangs in a driver call.", child.pid)
        child.returncode = -signal.SIGKILL  # so that Popen does not wait for it again


def _tail(file: IO[bytes], max_bytes: int) -> str:
    """The end of a file that a child may still write."""
    return _read(file, max(0, os.fstat(file.fileno()).st_size - max_bytes), max_bytes)


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
        return _tail(self._file, _MAX_STDERR_BYTES)

    def close(self) -> None:
        """Deletes the file."""
        self._file.close()


class ChildProcess:
    """A child that runs in parallel to this process; `errors` receives its stderr.

    It dies with the thread that started it if it is started with `module_command`.

    Args:
        command: Its command.
        pipes: Whether stdin and stdout are pipes to this process; otherwise they are closed.
        output: A file that gets its stdout, with or without `pipes`.

    Raises:
        OSError: The child cannot be started.
    """

    def __init__(
        self, command: Sequence[str], *, pipes: bool = False, output: BinaryIO | None = None
    ) -> None:
        self.errors = StderrFile()
        default_stream = subprocess.PIPE if pipes else subprocess.DEVNULL
        self._process = subprocess.Popen(
            tuple(command),
            stdin=default_stream,
            stdout=output or default_stream,
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
        end_group(self._process, _WORKER_REAP_SECONDS)
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

    def send(self, message: Mapping[str, object]) -> None:
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

    def receive(self, limit_seconds: float) -> JsonObject:
        """Waits for the next line.

        Raises:
            TimeoutError: No line arrived in time; you can call it again.
            EOFError: The worker has ended, or did not write a JSON object.
        """
        try:
            message = json.loads(self._read_line(limit_seconds))
        except ValueError as error:
            raise EOFError from error
        if not isinstance(message, dict):
            raise EOFError
        return message

    def _read_line(self, limit_seconds: float) -> bytes:
        assert self._process.stdout is not None
        deadline = time.monotonic() + limit_seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._received:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise TimeoutError
                # Bypass Python's buffer, which the selector does not see.
                chunk = os.read(self._process.stdout.fileno(), 1 << 16)
                if not chunk:
                    raise EOFError
                self._received += chunk
        line, _, remainder = bytes(self._received).partition(b"\n")
        self._received[:] = remainder
        return line


# --- the child's side


def reserve_stdout() -> BinaryIO:
    """Returns stdout for the answers and redirects everything that libraries print to stderr."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return answers


def write_json_line(answers: BinaryIO, message: Mapping[str, object], body: bytes = b"") -> None:
    """Writes one answer to the parent: to `JsonLineProcess` or `api.engine.child`, say.

    body: bytes that follow the line, with their number in it; only `api.engine.child` reads them.
    """
    if body:
        message = {**message, "bytes": len(body)}
    answers.write(json.dumps(message).encode() + b"\n" + body)
    answers.flush()


def module_command(module: str, *arguments: str) -> tuple[str, ...]:
    """The command of `python -m MODULE ARGUMENT…` as a child that dies with this thread."""
    return (sys.executable, "-m", "machine.process", str(os.getpid()), module, *arguments)


def main() -> None:
    """The child of `module_command`: arguments are the parent, the module, and its arguments.

    The kernel kills it when the thread that started it dies (prctl(2)).
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(sys.argv[1]):  # it died before the call
        os._exit(1)
    sys.argv = sys.argv[2:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


def _memory_file(content: bytes = b"") -> IO[bytes]:
    """An unnamed file in memory, because the doctor must work on a full disk."""
    try:
        file: IO[bytes] = os.fdopen(os.memfd_create("child"), "w+b")
    except (OSError, AttributeError):  # not on Linux, or in a sandbox
        file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    file.write(content)
    file.seek(0)
    return file


def _read(file: IO[bytes], start: int, max_bytes: int) -> str:
    # pread instead of seek: a child that still runs shares the file position.
    text = os.pread(file.fileno(), max_bytes, start).decode("utf-8", errors="replace")
    return text.replace("\r\n", "\n").replace("\r", "\n")


if __name__ == "__main__":
    main()
