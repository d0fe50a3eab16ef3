"""The training process keeps its memory between steps and uses its share of the cores."""

import ctypes
import subprocess
import sys

import pytest
import torch

from machine.devices.selection import Environment, Place
from train import runtime
from train.distributed import World
from train.settings import TrainSettings


@pytest.mark.parametrize(("num_threads", "threads"), [(None, 4), (3, 3)])
def test_the_cores_are_divided_among_the_ranks_of_this_machine(monkeypatch, num_threads, threads):
    told = list[int]()
    monkeypatch.setattr(torch, "set_num_threads", told.append)
    monkeypatch.setattr(runtime, "keep_freed", lambda: None)
    machine, settings = (Environment(8, False, 8 << 30, False), TrainSettings(num_threads=num_threads))
    runtime.set_up_runtime(settings, machine, Place("cpu", ""), World(3, 4, 1, 2))
    assert told == [threads]


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="the C library is another")
@pytest.mark.parametrize("kept", [False, True])
def test_what_a_step_frees_waits_for_the_next_one(kept):
    """Blocks like gradients are allocated, written and freed repeatedly, then returned."""
    program = (
        "import ctypes, resource; from machine.memory import trim_heap\n"
        f"if {kept}:\n"
        "    from train.runtime import keep_freed\n"
        "    keep_freed()\n"
        "library, size = ctypes.CDLL(None), 24 << 20\n"
        "library.malloc.restype = ctypes.c_void_p\n"
        "def faults(): return resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
        "def step():\n"
        "    blocks = [ctypes.c_void_p(library.malloc(size)) for _ in range(6)]\n"
        "    for block in blocks: ctypes.memset(block, 1, size)\n"
        "    for block in blocks: library.free(block)\n"
        "for _ in range(3): step()\n"
        "before = faults(); step(); again = faults() - before\n"
        "trim_heap()\n"
        "before = faults(); step(); print(again, faults() - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True)
    again, given_back = map(int, done.stdout.split())
    assert (again < 100) == kept
    assert given_back > 1000
