"""Waiting threads sleep soon, unless the user has set how they wait."""

import gc
import os
import subprocess
import sys
import threading
import time
import weakref

import pytest

from machine.threads import SPINS, PassingThreads

NAMES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
TELLS = (
    "import os; from machine.threads import limit_omp_spinning; limit_omp_spinning(); "
    f"print([os.environ.get(name) for name in {NAMES}])"
)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ["PASSIVE", str(SPINS)]),
        ({"OMP_WAIT_POLICY": "ACTIVE"}, ["ACTIVE", None]),
        ({"OMP_WAIT_POLICY": "PASSIVE"}, ["PASSIVE", None]),
        ({"GOMP_SPINCOUNT": "7"}, ["PASSIVE", "7"]),
        # One of our children.
        ({"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "7"}, ["PASSIVE", "7"]),
    ],
)
def test_what_a_user_has_said_stays(given, expected):
    clean = {name: value for name, value in os.environ.items() if name not in NAMES}
    result = subprocess.run(
        [sys.executable, "-c", TELLS], env=clean | given, capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == str(expected)


def test_tasks_are_done_in_order_each_in_a_thread_that_ends():
    begun, done = list[str](), list[int]()
    threads = PassingThreads("passing", lambda: begun.append(threading.current_thread().name))

    def work(number: int) -> int:
        time.sleep(0.02 * (3 - number))
        done.append(number)
        if number == 1:
            raise ValueError("one")
        return threading.get_ident()

    futures = [threads.submit(work, number) for number in range(4)]
    with pytest.raises(ValueError, match="one"):
        futures[1].result(10)
    idents = {futures[number].result(10) for number in (0, 2, 3)}
    assert done == [0, 1, 2, 3] and begun == ["passing"] * 4
    assert threading.get_ident() not in idents
    until = time.monotonic() + 10
    while any(thread.name == "passing" for thread in threading.enumerate()):
        assert time.monotonic() < until
        time.sleep(0.01)


def test_what_is_cancelled_before_its_turn_is_not_done_and_nothing_is_printed(capfd):
    threads, go, done = PassingThreads("passing"), threading.Event(), list[int]()
    running = threads.submit(go.wait, 10)
    queued, last = (threads.submit(done.append, number) for number in (1, 2))
    while not running.running():
        time.sleep(0.01)
    assert queued.cancel() and not running.cancel()
    go.set()
    last.result(10)
    assert done == [2] and running.result() and queued.cancelled()
    assert capfd.readouterr().err == ""


def test_what_failed_is_held_by_its_future_alone():
    class Tensors:
        pass

    references = list[weakref.ref[Tensors]]()

    def fail() -> None:
        tensors = Tensors()
        references.append(weakref.ref(tensors))
        raise ValueError("too large")

    threads = PassingThreads("passing")
    gc.disable()
    try:
        future = threads.submit(fail)
        assert future.exception(10) is not None and references[0]() is not None
        threads.submit(int).result(10)  # the thread has ended
        del future
        assert references[0]() is None
    finally:
        gc.enable()


@pytest.mark.skipif(sys.platform != "linux", reason="torch brings libgomp for Linux")
def test_a_voice_that_was_opened_leaves_no_threads_that_slow_others():
    """The thread count is as before: libgomp drops the threads of one that has ended."""
    told = """
import os
import time
import torch
from machine.threads import PassingThreads
torch.set_num_threads(2)
count = lambda: len(os.listdir("/proc/self/task"))
product = lambda: torch.ones(600, 600) @ torch.ones(600, 600) + torch.ones(600, 600).exp()
product()
before = count()
threads = PassingThreads("opening")
threads.submit(product).result()
threads._last.join()
until = time.monotonic() + 20  # they end after the thread that they belonged to
while count() > before and time.monotonic() < until:
    time.sleep(0.01)
print(count() - before)
"""
    result = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "0"
