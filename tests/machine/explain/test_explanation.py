"""What is counted of a log and of a run."""

from machine.explain.explanation import copies
from tests.machine.explain.on_cuda import LOG


def test_copies_are_as_warned_of_else_as_run() -> None:
    rows = ({"operator": "MemcpyToHost", "times": 3}, {"operator": "MemcpyFromHost", "times": 2},
            {"operator": "Conv", "times": 9})  # fmt: skip
    assert (copies(LOG, rows), copies("", rows), copies("", ())) == (28, 5, 0)
