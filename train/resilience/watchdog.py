"""The watchdog process, which ends a stalled trainer (exit code 75).

A process, because a thread is as dead as the rest while C code holds the GIL or the system has
stopped the process. It reads `train.resilience.heartbeat`'s lines (`seconds doing`: how long the
next one may take) from a pipe. When that time is over it has the trainer dump the stacks of all its
threads (SIGUSR1, answered in C by faulthandler) and ends it with exit code 75 by its tripwire; one
that even then does not go is killed. It ends when the pipe does: with its trainer, however that
dies.

Started by its path with `python -I -S`: it imports nothing but the standard library, so that it is
there in 20 ms and takes 10 MB.
"""

import contextlib
import ctypes
import math
import os
import select
import signal
import sys
import time

# Between the signal that asks for the stacks and the end: they are written to a console.
DUMP_SECONDS = 1.0
# From the end that was asked for to the one that is not.
LEAVE_SECONDS = 10.0
MOST_BYTES = 1 << 16


def main() -> None:
    """Arguments: the trainer's process, the pipe to read, the tripwire (-1 = none)."""
    parent, beats, tripwire = (int(word) for word in sys.argv[1:4])
    _live_as_long_as(parent)
    # A Ctrl-C or a stop is for the trainer, which ends in its own time; then so does this.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    doing = waited(beats)
    if doing is not None and os.getppid() == parent:
        end(parent, beats, tripwire, doing)


def waited(beats: int) -> str | None:
    """Waits for silence; the sentence about it, or None when the trainer has ended.

    Time is counted in looks, not read from a clock: whoever was stopped together with the trainer
    (Ctrl-Z) has not waited for it.
    """
    allowed, doing, silent = math.inf, "", 0.0
    while True:
        look = min(1.0, allowed / 5)
        if select.select([beats], [], [], look)[0]:
            data = os.read(beats, MOST_BYTES)
            if not data:
                return None
            # Lines are written whole, and a look takes all there are.
            words = data.decode().splitlines()[-1].split(" ", 1)
            allowed, doing, silent = float(words[0]), words[1], 0.0
        else:
            silent += look
            if silent >= allowed:
                return f"No heartbeat came from the training for {allowed:.3g} s while {doing}."


def end(parent: int, beats: int, tripwire: int, sentence: str) -> None:
    """Has the trainer tell where it hangs, then ends it.

    One that the system has stopped is not asked. It hangs nowhere; and woken for it, it would run
    on while its stacks are read, which faulthandler survives only when they stand still.
    """
    stopped = _is_stopped(parent)
    say(f"{sentence} {'A signal stopped the process (SIGSTOP).' if stopped else 'Where it hangs:'}")
    with contextlib.suppress(ProcessLookupError):
        if not stopped:
            os.kill(parent, signal.SIGUSR1)
            if _gone(beats, DUMP_SECONDS):
                return
        say(
            "Ending it with exit code 75. The same command goes on from the last checkpoint; "
            "STALL_SECONDS sets how long a step may take."
        )
        if tripwire >= 0:
            os.write(tripwire, b"!")
            os.kill(parent, signal.SIGCONT)  # a stopped process cannot leave
            if _gone(beats, LEAVE_SECONDS):
                return
        os.kill(parent, signal.SIGKILL)
        if not _gone(beats, LEAVE_SECONDS):
            say(f"Process {parent} does not end after SIGKILL: it hangs inside a driver.")


def _is_stopped(process: int) -> bool:
    """Its state after the name in parentheses (proc_pid_stat(5)); False where there is no /proc."""
    try:
        with open(f"/proc/{process}/stat") as file:  # noqa: PTH123 (pathlib takes 10 ms to import)
            return file.read().rsplit(")", 1)[1].split()[0] == "T"
    except (OSError, IndexError):
        return False


def say(sentence: str) -> None:
    """To the trainer's console, which may be gone."""
    with contextlib.suppress(OSError):
        os.write(2, f"{sentence}\n".encode())


def _gone(beats: int, within_seconds: float) -> bool:
    """Whether the pipe ends, and with it the trainer. Late beats are no life: it was too late."""
    end = time.monotonic() + within_seconds
    while (left := end - time.monotonic()) > 0:
        if select.select([beats], [], [], left)[0] and not os.read(beats, MOST_BYTES):
            return True
    return False


def _live_as_long_as(parent: int) -> None:
    """The pipe's end says the same, but not to a process that is stopped (1 = PR_SET_PDEATHSIG)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit()


if __name__ == "__main__":
    main()
