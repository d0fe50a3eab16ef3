"""Waiting threads sleep soon, unless a user has said how they wait."""

import os
import subprocess
import sys
import threading
import time

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
        # A child of ours.
        ({"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "7"}, ["PASSIVE", "7"]),
    ],
)
def test_what_a_user_has_said_stays(given, expected):
    clean = {name: value for name, value in os.environ.items() if name not in NAMES}
    said = subprocess.run(
        [sys.executable, "-c", TELLS], env=clean | given, capture_output=True, text=True, check=True
    )
    assert said.stdout.strip() == str(expected)


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
    while any(one.name == "passing" for one in threading.enumerate()):
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.skipif(sys.platform != "linux", reason="torch brings libgomp for Linux")
def test_a_voice_that_was_opened_leaves_no_threads_that_slow_others():
    """As many threads as before: libgomp counts those of a thread that has ended no longer."""
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
    said = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "0"
