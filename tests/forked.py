"""Work in a forked process that a test may kill: a new interpreter would import torch first."""

import os
import signal
import time
import traceback
from collections.abc import Callable

import torch

LONGEST = 120.0
"""Seconds after which a child hangs."""


def in_child(work: Callable[[], object], crash_at: str = "") -> int:
    """The exit code of a child that runs `work`; -9 if it was killed at `crash_at`."""
    child = os.fork()
    if not child:
        # Earlier tests may have started OpenMP's threads, which are not forked: a child that shares
        # work among them waits forever.
        torch.set_num_threads(1)
        os.environ["SOTAQUE_CRASH_AT"] = crash_at
        try:
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return _ended(child)


def _ended(child: int) -> int:
    until = time.monotonic() + LONGEST
    while time.monotonic() < until:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise AssertionError(f"The child had not ended after {LONGEST:g} s.")
