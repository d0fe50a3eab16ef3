"""The watchdog process, which ends a stalled trainer (exit code 75, or 137 if it has to kill it).

It is a process, because no thread runs while C code holds the GIL or the system has stopped the
process. It reads `train.resilience.heartbeat`'s lines (`seconds activity`: how long the next line
may take) from a pipe. When that time is over, it makes the trainer dump the stacks of all threads
(SIGUSR1, handled in C by faulthandler) and tells it through another pipe to leave with 75; if no
thread of the trainer can run, it kills it. The watchdog ends when the first pipe closes, which
happens however the trainer ends.

It is started by its path with `python -I -S` and imports only the standard library, so that it
starts in 20 ms and takes 10 MB.
"""

import contextlib
import ctypes
import math
import os
import select
import signal
import sys
import time

# Seconds between the request for the stacks and the end, in which the stacks are written.
DUMP_SECONDS = 1.0
# Seconds in which a trainer whose threads run has left.
ASK_SECONDS = 2.0
# Seconds that a killed trainer may take to end.
LEAVE_SECONDS = 10.0
MAX_BYTES = 1 << 16


def main() -> None:
    """Runs the watchdog. Arguments: the trainer's process id, the pipe of its heartbeats, and the
    pipe that tells it to leave."""
    parent, beats, leave = (int(word) for word in sys.argv[1:4])
    _live_as_long_as(parent)
    # Ctrl-C and SIGTERM are for the trainer, which saves before it ends; the watchdog ends with it.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    doing = wait(beats)
    if doing is not None and os.getppid() == parent:
        end(parent, beats, leave, doing)


def wait(beats: int) -> str | None:
    """Waits until the heartbeat stops and returns the message; None if the trainer has ended.

    Time is counted in polls, not read from a clock, so that the time in which both processes were
    stopped (Ctrl-Z) does not count.
    """
    allowed, doing, silent = math.inf, "", 0.0
    while True:
        look = min(1.0, allowed / 5)
        if select.select([beats], [], [], look)[0]:
            data = os.read(beats, MAX_BYTES)
            if not data:
                return None
            # Lines are written whole, and a poll reads all that have arrived.
            words = data.decode().splitlines()[-1].split(" ", 1)
            allowed, doing, silent = float(words[0]), words[1], 0.0
        else:
            silent += look
            if silent >= allowed:
                return f"No heartbeat came from the training for {allowed:.3g} s while {doing}."


def end(parent: int, beats: int, leave: int, sentence: str) -> None:
    """Makes the trainer dump its stacks, then ends it.

    A stopped trainer is killed at once: it does not hang and, once continued, it would run while
    faulthandler reads its stacks, which is not safe.
    """
    stopped = _is_stopped(parent)
    say(f"{sentence} {'A signal stopped the process (SIGSTOP).' if stopped else 'Where it hangs:'}")
    with contextlib.suppress(ProcessLookupError, BrokenPipeError):
        if not stopped:
            os.kill(parent, signal.SIGUSR1)
            if _gone(beats, DUMP_SECONDS):
                return
            say("Ending it (exit code 75). The same command resumes from the last checkpoint.")
            os.write(leave, b"!")
            if _gone(beats, ASK_SECONDS):
                return
        say("Killing it (exit code 137). The same command resumes from the last checkpoint.")
        os.kill(parent, signal.SIGKILL)
        if not _gone(beats, LEAVE_SECONDS):
            say(f"Process {parent} does not end after SIGKILL: it hangs inside a driver.")


def _is_stopped(process: int) -> bool:
    """Whether the process is stopped, by its state in /proc (proc_pid_stat(5)); False without
    /proc."""
    try:
        with open(f"/proc/{process}/stat") as file:  # noqa: PTH123 (pathlib takes 10 ms to import)
            return file.read().rsplit(")", 1)[1].split()[0] == "T"
    except (OSError, IndexError):
        return False


def say(sentence: str) -> None:
    """Writes to the trainer's console, which may be closed."""
    with contextlib.suppress(OSError):
        os.write(2, f"{sentence}\n".encode())


def _gone(beats: int, within_seconds: float) -> bool:
    """Whether the pipe closes in time, which shows that the trainer has ended. Late heartbeats do
    not count."""
    end = time.monotonic() + within_seconds
    while (left := end - time.monotonic()) > 0:
        if select.select([beats], [], [], left)[0] and not os.read(beats, MAX_BYTES):
            return True
    return False


def _live_as_long_as(parent: int) -> None:
    """Ends this process with the trainer even if it is stopped and cannot read the pipe (1 =
    PR_SET_PDEATHSIG)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit()


if __name__ == "__main__":
    main()
