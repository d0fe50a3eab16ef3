"""A service's figures: medians, and the memory of each process by role."""

import os
import subprocess
import sys

from benchmarks import serving


def test_the_middle_of_many_times():
    assert serving.percentiles([*range(1, 102)]) == {"p50": 51, "p95": 96.9}


def test_memory_is_counted_by_what_a_process_does():
    command = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([*command, "xtts.workers.text_worker"], **pipes) as child:
        child.stdout.readline()
        found = serving.memory_mb(os.getpid())
        child.stdin.close()
    assert found["text"] >= 2 and found["API"] > found["text"]
    assert abs(found["all"] - sum(found.values()) + found["all"]) <= 2
