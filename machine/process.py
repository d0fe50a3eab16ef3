"""Child processes: run with a time limit, kill the group, die with the parent.

A driver that hangs holds whoever calls it in the kernel, where not even SIGKILL reaches: such a
child is left behind, and the answer says that it hung.
"""

import contextlib
import ctypes
import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# What a killed child gets to be gone; one inside a driver's call needs longer than anybody waits.
_REAP_SECONDS = 1.0
_KEPT_CHARACTERS = 1 << 20
# Colours and other commands to a terminal (ECMA-48), then every control character but the tab and
# the newline.
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\^_]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class ProcessResult:
    """What a program said, without control characters: it may be shown on a terminal as it stands.

    code: its exit status, negative for a signal; None = it hung, or could not be started, and
    `fault` says which.
    """

    code: int | None
    out: str
    errors: str
    seconds: float
    fault: str = ""

    @property
    def last_error(self) -> str:
        """The last line that tells something, of what was wrong."""
        told = [line.strip() for line in self.errors.splitlines() if line.strip()]
        if self.code is not None and self.code < 0:
            name = signal.strsignal(-self.code) or f"signal {-self.code}"
            return f"ended by {name}" + (f": {told[-1][:300]}" if told else "")
        return self.fault or (told[-1][:300] if told else "")


def printable(text: str) -> str:
    """Without what would move the cursor, colour the screen or ring; lines and tabs stay."""
    return _CONTROL.sub("", _ESCAPES.sub("", text.replace("\r\n", "\n")))


def run_with_timeout(
    command: Sequence[str], limit_seconds: float, environ: Mapping[str, str] | None = None
) -> ProcessResult:
    """Runs a program in a process group of its own; never raises, never waits past the limit.

    Ctrl-C ends the program too, and goes on up.
    """
    started = time.monotonic()

    def answer(code: int | None, out: str = "", errors: str = "", fault: str = "") -> ProcessResult:
        seconds = time.monotonic() - started
        kept = printable(out[:_KEPT_CHARACTERS]), printable(errors[-_KEPT_CHARACTERS:])
        return ProcessResult(code, *kept, seconds, fault)

    try:
        child = subprocess.Popen(
            tuple(command), env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, encoding="utf-8", errors="replace", start_new_session=True,
        )  # fmt: skip
    except (OSError, ValueError) as error:
        return answer(None, fault=f"{command[0]} cannot be started ({error})")
    try:
        out, errors = child.communicate(timeout=limit_seconds)
    except KeyboardInterrupt:  # its group is not the terminal's: Ctrl-C did not reach it
        with contextlib.suppress(OSError):
            os.killpg(child.pid, signal.SIGKILL)
        raise
    except subprocess.TimeoutExpired:
        with contextlib.suppress(OSError):
            os.killpg(child.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.communicate(timeout=_REAP_SECONDS)
        for pipe in (child.stdout, child.stderr):
            if pipe:
                pipe.close()
        return answer(None, fault=f"no answer within {limit_seconds:g} s")
    return answer(child.returncode, out, errors)


def die_with_parent(parent: int) -> None:
    """Has the kernel kill this process when its parent dies, in whatever way.

    The parent is the thread that started this process (prctl(2)): it must live as long.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before we asked
        os._exit(1)
