"""Configures the number of OpenMP's threads and how they wait.

OpenMP's threads spin at the end of every parallel region. If another process uses the same cores, a
spinning thread blocks the thread that it waits for. On two shared cores, 100 codes of the embedded
voice took 21.8 s spinning, 2.2 s sleeping, and 1.3 s with one thread. But a thread that sleeps
immediately must be woken for the next region, which in a small model follows within microseconds:
on two idle cores, the first sound of the embedded voice took 115 ms sleeping, 58 ms spinning, and
74 ms with `SPINS` (docs/develop/log.md, "Threads").
"""

import functools
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

# For children without matrix products. Importing numpy reserves tens of MB for each thread of the
# linear-algebra library: 2.7 GB of address space on 64 cores.
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL", "BLIS")}
# The spins of a waiting thread of libgomp (which torch includes on Linux) before it sleeps; a few
# microseconds. Five times the spins is as fast as spinning forever, but makes four processes on two
# cores 2.9 times slower than sleeping; this number 1.3 times.
SPINS = 1000


def limit_omp_spinning() -> None:
    """Makes waiting threads sleep soon, unless OMP_WAIT_POLICY or GOMP_SPINCOUNT is set.

    Call it before torch is imported.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", str(SPINS))
    # Other OpenMP libraries do not support a count.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


class PassingThreads:
    """Runs one task at a time, each in a new thread.

    A thread that computes gets a team of OpenMP threads and keeps it. If all teams together have
    more threads than cores, libgomp disables spinning, even if all but one team are idle. After a
    voice was opened in a permanent thread, all products of another thread took twice as long.

    Args:
        begin: Called in each thread before its task.
    """

    def __init__(self, name: str, begin: Callable[[], object] = lambda: None) -> None:
        self._name = name
        self._begin = begin
        self._last: threading.Thread | None = None

    def submit(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """Runs the work after all earlier work, unless it is cancelled before. Call it from one
        thread only."""
        future: Future[T] = Future()
        task = functools.partial(work, *args, **kwargs)
        arguments = (self._last, future, self._begin, task)
        thread = threading.Thread(target=_run_after, args=arguments, name=self._name)
        thread.start()
        self._last = thread
        return future

    def join(self) -> None:
        """Waits for the end of all work."""
        if self._last is not None:
            self._last.join()


def _run_after(
    previous: threading.Thread | None, future: "Future[T]", begin: Callable[[], object], task: Callable[[], T]
) -> None:
    if previous is not None:
        previous.join()
    if not future.set_running_or_notify_cancel():
        return
    try:
        begin()
        result = task()
    except BaseException as error:
        future.set_exception(error)
        # Breaks a reference cycle: the error refers to this frame, and the future to the error.
        del future
    else:
        future.set_result(result)
