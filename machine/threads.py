"""How OpenMP's threads wait, how many there are, and limits to one thread.

OpenMP's threads spin at the end of every parallel region. If another process uses the same cores, a
spinning thread blocks the thread that it waits for. Measured on two shared cores, 100 codes of the
embedded voice took 21.8 s spinning, 2.2 s sleeping, and 1.3 s with one thread. But a thread that
sleeps at once has to be woken for the next region, which in a small model follows within
microseconds: on two idle cores the first sound of the embedded voice took 115 ms sleeping, 58 ms
spinning, and 74 ms with `SPINS` (benchmarks/record.md, "Threads that wait").
"""

import functools
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

# For a child that multiplies no matrices. Importing numpy reserves tens of MB for each thread of
# the linear-algebra library: 2.7 GB of address space on 64 cores.
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL", "BLIS")}
# How often a waiting thread of libgomp, which torch brings for Linux, looks before it sleeps; some
# microseconds. Five times as many are as fast as spinning for ever, and took four processes on two
# cores 2.9 times as long as sleeping does; these 1.3 times.
SPINS = 1000


def limit_omp_spinning() -> None:
    """Makes waiting threads sleep soon, unless OMP_WAIT_POLICY or GOMP_SPINCOUNT is set.

    Call it before torch is imported.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", str(SPINS))
    # Other OpenMP libraries know no count.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


class PassingThreads:
    """Does one task at a time, each in a thread that ends with it.

    A thread that computes gets OpenMP's threads for itself, and keeps them. With more of them than
    cores, even if all but one team wait for ever, libgomp lets none spin: after a voice was opened
    in a thread that stayed, every product of another took twice as long.

    Args:
        begin: Called in each thread before its task.
    """

    def __init__(self, name: str, begin: Callable[[], object] = lambda: None) -> None:
        self._name = name
        self._begin = begin
        self._last: threading.Thread | None = None

    def submit(self, work: Callable[P, T], *given: P.args, **named: P.kwargs) -> "Future[T]":
        """Does the work after what was submitted before, unless it is cancelled until then. Call it
        from one thread."""
        future: Future[T] = Future()
        task = functools.partial(work, *given, **named)
        after = (self._last, future, self._begin, task)
        thread = threading.Thread(target=_do, args=after, name=self._name)
        thread.start()
        self._last = thread
        return future


def _do(
    before: threading.Thread | None, future: "Future[T]", begin: Callable[[], object],
    task: Callable[[], T],
) -> None:  # fmt: skip
    if before is not None:
        before.join()
    if not future.set_running_or_notify_cancel():
        return
    try:
        begin()
        result = task()
    except BaseException as error:
        future.set_exception(error)
        # The error holds this frame: with the future in it, neither would go by itself.
        del future
    else:
        future.set_result(result)
