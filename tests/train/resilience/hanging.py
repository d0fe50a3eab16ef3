"""A trainer without a model that hangs in a chosen way: `python -m tests.train.resilience.hanging
KIND STALL`.

From four quick steps the watchdog learns the usual duration; then the watchdog's process id is
printed and `KIND` begins.
"""

import ctypes
import os
import signal
import sys
import threading
import time

from train.resilience.heartbeat import Heartbeat


def deadlock_with_the_gil() -> None:
    """Deadlocks in C while holding the GIL, so that no thread can run Python any more."""
    library = ctypes.PyDLL(None)
    mutex = ctypes.create_string_buffer(64)
    library.pthread_mutex_lock(mutex)
    library.pthread_mutex_lock(mutex)


def sleep_with_the_gil() -> None:
    while True:
        ctypes.PyDLL(None).usleep(500_000)


def stopped() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)
    while True:
        time.sleep(1)


def a_lock_that_never_comes() -> None:
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def deaf() -> None:
    """Blocks all signals, so that only SIGKILL ends it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals))
    deadlock_with_the_gil()


def slow() -> None:
    """Exceeds the limit of a step, but not ten times the usual step."""
    time.sleep(1.5)


def main() -> None:
    kind, stall = sys.argv[1], float(sys.argv[2])
    with Heartbeat(stall) as beating:
        for step in beating.watch(range(6), "learning"):
            time.sleep(0.4 if kind == "slow" else 0.02)
            if step == 3:
                print(beating._child.pid, flush=True)
                if kind in globals():
                    globals()[kind]()
        if kind == "saving":
            with beating.allow(30, "writing a checkpoint"):
                time.sleep(3 * stall)
        if kind == "going_on":
            for _ in beating.watch(range(20), "learning"):
                time.sleep(0.1)


if __name__ == "__main__":
    main()
