"""The context of a run: the precision by the GPU's check, the cores of each rank, and kept memory."""

import ctypes
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from machine.devices.health import GpuHealth
from machine.devices.selection import DeviceError, Environment, Place
from tests.machines import GPUS, SOUND, machine
from train import run_context
from train.distributed import World
from train.run_context import choose_precision
from train.settings import TrainSettings

OLD = GpuHealth(0, "GTX 1080", (6, 1), 8 << 30)
A100 = GpuHealth(0, "A100", (8, 0), 40 << 30)
TURING = GpuHealth(0, "RTX 2080", (7, 5), 8 << 30)
# The states of GPUS with another precision than bf16.
PRECISIONS = {"bf16": "fp16", "16 bits": "fp32", "everything": "fp32", "driver": "fp32"}


@pytest.mark.parametrize("wish", ["auto", "fp32", "fp16", "bf16"])
@pytest.mark.parametrize("state", GPUS)
def test_precision_by_verdicts(state, wish):
    precision = PRECISIONS.get(state, "bf16")
    found = machine(GPUS[state])
    choice = choose_precision(found, "cuda:0", wish)
    assert choice.value == (precision if wish == "auto" else wish)
    warned = wish != "auto" and f"attention_{wish}" in GPUS[state].failed_operations
    assert ("failed the check" in choice.reason) is warned
    assert choose_precision(replace(found, cpu_has_bf16=True), "cpu", "auto").value == "bf16"


@pytest.mark.parametrize(
    ("gpu", "bf16", "device", "wish", "precision"),
    [
        (None, True, "cpu", "auto", "bf16"),
        (None, False, "cpu", "auto", "fp32"),
        (A100, False, "cuda:0", "auto", "bf16"),
        (TURING, False, "cuda:0", "auto", "fp32"),
        (OLD, True, "cuda:0", "auto", "fp32"),
        (OLD, False, "cuda:0", "fp16", "fp16"),
        (None, False, "cpu", "bf16", "bf16"),
    ],
)
def test_precision(gpu, bf16, device, wish, precision):
    choice = choose_precision(machine(*([gpu] if gpu else []), bf16=bf16), device, wish)
    assert choice.value == precision and choice.reason


def test_a_gpu_without_bf16_is_told_what_it_lacks_and_what_it_may_try():
    t4 = GpuHealth(0, "Tesla T4", (7, 5), 15 << 30)
    choice = choose_precision(machine(t4), "cuda:0", "auto")
    assert choice.value == "fp32"
    assert "Tesla T4 has compute capability 7.5, and bf16 needs 8.0" in choice.reason
    assert "fp16 is not measured" in choice.reason and "PRECISION=fp16" in choice.reason


def test_fp16_on_a_cpu_is_refused():
    with pytest.raises(DeviceError, match=r"PRECISION=fp16 is for GPUs.*Set PRECISION=auto"):
        choose_precision(machine(bf16=True), "cpu", "fp16")
    assert choose_precision(machine(SOUND), "cuda:0", "fp16").value == "fp16"


@pytest.mark.parametrize(("num_threads", "threads"), [(None, 4), (3, 3)])
def test_the_cores_are_divided_among_the_ranks_of_this_machine(monkeypatch, num_threads, threads):
    told = list[int]()
    monkeypatch.setattr(torch, "set_num_threads", told.append)
    monkeypatch.setattr(run_context, "keep_freed", lambda: None)
    here, settings = (Environment(8, False, 8 << 30, False), TrainSettings(num_threads=num_threads))
    run_context.set_up_runtime(settings, here, Place("cpu", ""), World(3, 4, 1, 2))
    assert told == [threads]


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="the C library is another")
@pytest.mark.parametrize("kept", [False, True])
def test_what_a_step_frees_waits_for_the_next_one(kept):
    """Blocks like gradients are allocated, written and freed repeatedly, then returned."""
    program = (
        "import ctypes, resource; from machine.memory import trim_heap\n"
        f"if {kept}:\n"
        "    from train.run_context import keep_freed\n"
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
