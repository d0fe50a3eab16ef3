"""The check of a GPU: every outcome of the child gives a verdict, cached while it is valid.

`--device cpu` runs the real operations without a GPU; a scripted child reports as a GPU would.
"""

import json
import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from machine.devices import probe as probing
from machine.devices import probe_child
from machine.devices.health import GpuHealth, OperationVerdict, Outcome
from machine.devices.probe import (
    DAY_SECONDS,
    ProbeChild,
    ending_outcome,
    gpu_health,
    key_of,
    probe,
    report_surprise,
    run_check,
)
from machine.process import ProcessResult, module_command
from machine.storage.facts import FILE_NAME
from tests.machine.devices.faulty_child import with_fault
from tests.machines import OPERATIONS

DEVICE = {"event": "device", "count": 1, "name": "RTX 3090", "capability": [8, 6], "total_bytes": 24 << 30}
FAULTY = "tests.machine.devices.faulty_child"
DONE = ProcessResult(0, "", "", 1.0)

# A child that prints scripted events: argument 1 is a Python expression of its options.
SCRIPTED = """
import argparse, json, os, sys
parser = argparse.ArgumentParser()
parser.add_argument("--device")
options = parser.parse_args(sys.argv[2:])
index = int(options.device[-1])
with open(os.environ["CALLS"], "a") as calls:
    print(options.device, file=calls)
bad = eval(sys.argv[1])
print(json.dumps({"event": "device", "count": int(os.environ.get("COUNT", 1)), "name":
                  f"GPU-{index}", "capability": [8, 6], "total_bytes": 5}))
for name in ("fft", "sampling", "convolution"):
    reason = f"{name} failed." if name in bad else ""
    print(json.dumps({"event": "operation", "name": name, "ok": not reason, "reason": reason,
          "outcome": "build" if reason else "ok"}))
"""


class Machine:
    """A machine whose GPUs fail as an expression says; records each start of a child."""

    def __init__(self, folder: Path, bad: str, gpus: int = 1, **environment: str) -> None:
        self.cache = folder / "cache"
        self.calls_file = folder / "calls"
        (folder / "child.py").write_text(SCRIPTED)
        self.child = ProbeChild(
            command=(sys.executable, str(folder / "child.py"), bad),
            environ={
                "CALLS": str(self.calls_file),
                "COUNT": str(gpus),
                "PATH": os.environ["PATH"],
                **environment,
            },
        )

    def probe(self, **options: Any) -> tuple[GpuHealth, ...]:
        return probe(folder=self.cache, child=self.child, **options)

    @property
    def calls(self) -> list[str]:
        return self.calls_file.read_text().splitlines() if self.calls_file.exists() else []


# --- the real child, computing on the CPU


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs operations of the real child in this process, with a fault."""
    every = probe_child.operations

    def check(names: list[str], fault: str = "") -> list[dict[str, Any]]:
        monkeypatch.setattr(probe_child, "operations", every)
        operations = with_fault(fault)()
        monkeypatch.setattr(probe_child, "operations", lambda: {name: operations[name] for name in names})
        return list(probe_child.check("cpu"))

    return check


def test_every_operation_runs_and_equals_itself(checked):
    gpu, count = gpu_health(0, checked(list(OPERATIONS)), DONE)
    assert count == 1 and gpu.outcome is Outcome.OK and gpu.reason == "" and gpu.works
    assert tuple(operation.name for operation in gpu.operations) == OPERATIONS
    assert tuple(probe_child.TOLERANCES) == tuple(probe_child.operations()) == OPERATIONS
    # 16 bits differ from float32, so a distance of 0 would mean that nothing was compared.
    operations, here = probe_child.operations(), probe_child.ProbePlace("cpu")
    half, brain = (
        probe_child.distance(part(here), part(probe_child.REFERENCE))
        for part in (operations["attention_fp16"]["prefill"], operations["attention_bf16"]["prefill"])
    )
    assert 0 < half < brain


@pytest.mark.parametrize(
    ("kind", "outcome", "words"),
    [
        (
            "cuFFT error: CUFFT_INVALID_SIZE",
            "build",
            "fft failed (512/160, 6 s): cuFFT error: CUFFT_INVALID_SIZE.",
        ),
        ("cuFFT could not plan over an empty tensor: CUFFT_INVALID_SIZE", "build", "empty tensor"),
        ("710", "sticky", "fft failed"),
        ("memory", "transient", "out of memory"),
        ("wrong", "degraded", "CPU's result by 1.0e-01 (512/160, 6 s); allowed is 1e-05."),
        ("nan", "degraded", "a non-finite value"),
    ],
)
def test_a_fault_in_one_operation(checked, kind, outcome, words):
    events = checked(["fft", "sampling"], f"fft:{kind}")
    by_name = {event["name"]: event for event in events if event["event"] == "operation"}
    assert json.loads(json.dumps(events, allow_nan=False)) == events
    assert not by_name["fft"]["ok"] and by_name["fft"]["outcome"] == outcome
    assert words in by_name["fft"]["reason"]
    # After a sticky error this process's context can check nothing else.
    assert ("sampling" in by_name) is (outcome != "sticky")
    gpu, _ = gpu_health(0, events, DONE)
    assert gpu.outcome == (outcome if outcome in ("sticky", "transient") else "degraded")
    assert gpu.failed_operations == {"fft"} and gpu.reason == by_name["fft"]["reason"]


def test_what_passes_without_cudnn_is_used_that_way(checked):
    cudnn = "cuDNN error: CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH"
    gpu, _ = gpu_health(0, checked(["fft", "train_step"], f"train_step:{cudnn}@cudnn"), DONE)
    assert gpu.works and not gpu.cudnn and not gpu.failed_operations and gpu.outcome is Outcome.DEGRADED
    assert cudnn in gpu.reason and "passes without cuDNN" in gpu.reason
    gpu, _ = gpu_health(0, checked(["fft", "train_step"], f"train_step:{cudnn}"), DONE)
    assert not gpu.works and gpu.cudnn and "without" not in gpu.reason


def test_a_device_that_cannot_be_had_is_refused_with_its_words():
    events = list(probe_child.check("cuda:7"))
    assert [event["event"] for event in events] == ["refused"]
    gpu, _ = gpu_health(7, events, DONE)
    assert gpu.outcome in (Outcome.DRIVER, Outcome.BUILD) and not gpu.works
    assert gpu.reason.startswith("the GPU cannot be used: ") and gpu.index == 7


@pytest.mark.parametrize(
    ("fault", "limit_seconds", "outcome", "words"),
    [
        ("start:SIGSEGV", 60.0, Outcome.CRASH, "SIGSEGV"),
        ("start:SIGKILL", 60.0, Outcome.TRANSIENT, "memory"),
        ("start:hang", 1.5, Outcome.HANG, "was stopped after 1."),
        ("start:SIGSTOP", 1.5, Outcome.HANG, "was stopped after 1."),
    ],
)
def test_the_real_child_dies_or_hangs(tmp_path, fault, limit_seconds, outcome, words):
    child = ProbeChild(module_command(FAULTY, fault), "cpu", limit_seconds)
    begun = time.monotonic()
    (gpu,) = probe(folder=tmp_path, child=child)
    assert (gpu.outcome, gpu.name) == (outcome, "the GPU") and words in gpu.reason
    assert not gpu.works
    assert time.monotonic() - begun < 60


def test_what_was_told_before_a_hang_is_known(tmp_path):
    doing = {"event": "doing", "operation": "convolution"}
    lines = "\n".join(json.dumps(event) for event in (DEVICE, doing))
    code = f"import time; print({lines!r}, flush=True); time.sleep(60)"
    events, ending = run_check((sys.executable, "-c", code), os.environ, 1.5)
    gpu, _ = gpu_health(0, events, ending)
    assert (gpu.name, gpu.total_bytes, gpu.outcome) == ("RTX 3090", 24 << 30, Outcome.HANG)
    assert "hung in convolution" in gpu.reason and gpu.failed_operations == {"convolution"}


def test_a_child_that_cannot_be_killed_is_left_behind(monkeypatch, tmp_path, caplog):
    """SIGKILL has no effect inside a driver's call (state D); here a no-op replaces it."""
    left = tmp_path / "pid"
    code = f"import os, time; open({str(left)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    with monkeypatch.context() as patched:
        patched.setattr("os.killpg", lambda *_: None)
        patched.setattr("machine.process.REAP_SECONDS", 0.2)
        begun = time.monotonic()
        _, ending = run_check((sys.executable, "-c", code), os.environ, 1.0)
        assert time.monotonic() - begun < 10
    assert ending.hung and ending_outcome(ending, "")[0] is Outcome.HANG
    assert "it hangs in a driver call" in caplog.text
    os.kill(int(left.read_text()), signal.SIGKILL)


def test_the_child_has_no_stdin_and_a_group_of_its_own_and_asks_nvml(tmp_path):
    code = (
        "import json, os, sys; print('noise'); print('{\"not\": \"an event\"}');"
        "print(json.dumps({'event': 'x', 'in': sys.stdin.read(), 'leads': os.getpgrp() == "
        "os.getpid(), 'nvml': os.environ['PYTORCH_NVML_BASED_CUDA_CHECK']}))"
    )
    events, ending = run_check((sys.executable, "-c", code), os.environ, 30.0)
    assert events == [{"event": "x", "in": "", "leads": True, "nvml": "1"}]
    assert ending.code == 0 and not ending.hung


@pytest.mark.parametrize(
    ("code", "hung", "last", "outcome", "words"),
    [
        (-11, False, "", Outcome.CRASH, "ended in fft by SIGSEGV"),
        (-6, False, "terminate called", Outcome.CRASH, "SIGABRT. Its last line: terminate called"),
        (-9, False, "", Outcome.TRANSIENT, "memory runs out"),
        (None, True, "", Outcome.HANG, "hung in fft"),
        (1, False, "ImportError: libcudart.so.13: none", Outcome.COULD_NOT_RUN, "cudart"),
        (1, False, "ImportError: libcufft.so.12: cannot open", Outcome.BUILD, "libcufft"),
        (1, False, "RuntimeError: The NVIDIA driver on your system is too old", Outcome.DRIVER, "too old"),
        (0, False, "", Outcome.COULD_NOT_RUN, "did not finish"),
        (-40, False, "", Outcome.CRASH, "signal 40"),
        (3, False, "noise\nthe last words\n\n", Outcome.COULD_NOT_RUN, "line: the last words"),
    ],
)
def test_what_an_end_means(code, hung, last, outcome, words):
    verdict, reason = ending_outcome(ProcessResult(code, "", last, 20.0, hung=hung), "fft")
    assert verdict is outcome and words in reason


def told(**failures: str) -> list[dict[str, Any]]:
    """The events of a check in which these operations fail with these outcomes."""
    verdicts = [
        {
            "event": "operation",
            "name": name,
            "ok": name not in failures,
            "reason": f"{name} failed." if name in failures else "",
            "outcome": failures.get(name, "ok"),
        }
        for name in OPERATIONS
    ]
    return [DEVICE, *verdicts]


@pytest.mark.parametrize(
    ("failures", "outcome"),
    [
        ({}, Outcome.OK),
        ({"fft": "build"}, Outcome.DEGRADED),
        ({"fft": "build", "convolution": "transient"}, Outcome.DEGRADED),
        ({"fft": "transient"}, Outcome.TRANSIENT),
        ({"fft": "transient", "sampling": "sticky"}, Outcome.STICKY),
        (dict.fromkeys(OPERATIONS, "build"), Outcome.BUILD),
    ],
)
def test_what_the_operations_come_to(failures, outcome):
    gpu, _ = gpu_health(2, told(**failures), DONE)
    assert gpu.outcome is outcome and gpu.failed_operations == set(failures)
    assert bool(gpu.reason) == bool(failures)
    assert (gpu.index, gpu.name, gpu.total_bytes) == (2, "RTX 3090", 24 << 30)


def test_nonsense_from_a_child_is_a_verdict(tmp_path):
    for code in ('print(\'{"event": "device", "capability": 3}\')', "print('noise')"):
        child = ProbeChild(command=(sys.executable, "-c", code))
        (gpu,) = probe(folder=tmp_path, child=child, use_cache=False)
        assert gpu.outcome is Outcome.COULD_NOT_RUN and "cannot be parsed" in gpu.reason


@pytest.mark.parametrize("bad", ["()", "('fft',)"])
def test_a_library_path_is_named_after_a_failure(tmp_path, bad):
    machine = Machine(tmp_path, bad, LD_LIBRARY_PATH="/opt", LD_PRELOAD="x")
    (gpu,) = machine.probe()
    hint = "put `env -u LD_LIBRARY_PATH -u LD_PRELOAD` before the command."
    assert gpu.reason.endswith(hint) is (bad != "()")


def test_every_gpu_is_checked(tmp_path):
    machine = Machine(tmp_path, "('fft',) if index == 0 else ()", gpus=2)
    bad, good = machine.probe()
    assert (bad.reason, bad.index) == ("fft failed.", 0)
    assert (good.reason, good.index) == ("", 1)
    assert machine.calls == ["cuda:0", "cuda:1"]


# --- the cache


@pytest.mark.parametrize("bad", ["()", "('fft',)"])
def test_a_check_is_made_once_and_again_on_demand(tmp_path, bad):
    machine = Machine(tmp_path, bad)
    first = machine.probe()
    assert bool(first[0].reason) == (bad != "()")
    assert machine.probe() == first and len(machine.calls) == 1
    assert machine.probe(use_cache=False) == first and len(machine.calls) == 2


def test_a_broken_cache_is_none(tmp_path):
    machine = Machine(tmp_path, "()")
    machine.cache.mkdir()
    (machine.cache / FILE_NAME).write_text("no table")
    assert machine.probe()[0].reason == "" and len(machine.calls) == 1
    assert machine.probe()[0].reason == "" and len(machine.calls) == 1


def test_a_cache_that_cannot_be_written_costs_nothing_but_time(tmp_path):
    machine = Machine(tmp_path, "()")
    machine.cache.write_text("a file in the place of the folder")
    assert machine.probe()[0].reason == "" and machine.probe()[0].reason == ""
    assert len(machine.calls) == 2


def test_a_surprise_makes_the_next_check_new_and_is_remembered(tmp_path):
    machine = Machine(tmp_path, "()", gpus=2)
    machine.probe()
    report_surprise("cuda:1", "CUDA error: an illegal memory access", machine.cache)
    first, second = machine.probe()
    assert len(machine.calls) == 4 and first.surprise == ""
    assert second.surprise == "CUDA error: an illegal memory access" and second.reason == ""
    assert machine.probe()[1].surprise == second.surprise and len(machine.calls) == 4


GOOD = GpuHealth(0, "RTX 3090", (8, 6), 24 << 30, operations=(OperationVerdict("fft", True),))
FULL = OperationVerdict("fft", False, outcome=Outcome.TRANSIENT)
WRONG = OperationVerdict("fft", False, outcome=Outcome.BUILD)


@pytest.mark.parametrize(
    ("gpu", "longest"),
    [
        (GOOD, DAY_SECONDS),
        (replace(GOOD, outcome=Outcome.BUILD), DAY_SECONDS),
        (replace(GOOD, outcome=Outcome.DRIVER), DAY_SECONDS),
        (replace(GOOD, outcome=Outcome.DEGRADED, operations=(WRONG,)), DAY_SECONDS),
        (replace(GOOD, outcome=Outcome.DEGRADED, operations=(WRONG, FULL)), 600.0),
        (replace(GOOD, outcome=Outcome.TRANSIENT), 600.0),
        (replace(GOOD, outcome=Outcome.HANG), 600.0),
        (replace(GOOD, outcome=Outcome.CRASH), 600.0),
    ],
)
def test_how_long_a_verdict_holds(monkeypatch, tmp_path, gpu, longest):
    """A surprise holds for a day."""
    path, now = tmp_path, [100_000.0]
    monkeypatch.setattr(probing.time, "time", lambda: now[0])
    checks = [(GOOD, gpu), (GOOD, GOOD)]
    monkeypatch.setattr(probing, "_check_gpus", lambda _: checks.pop(0))
    assert probe(folder=path) == (GOOD, gpu)
    now[0] += longest - 1
    assert probe(folder=path) == (GOOD, gpu)
    now[0] += 2
    assert probe(folder=path) == (GOOD, GOOD)
    checks.append((GOOD, gpu))
    now[0] -= 3600.0  # the clock was set back
    assert probe(folder=path) == (GOOD, gpu)


def test_a_surprise_is_forgotten_after_a_day(monkeypatch, tmp_path):
    path, now = tmp_path, [100_000.0]
    monkeypatch.setattr(probing.time, "time", lambda: now[0])
    monkeypatch.setattr(probing, "_check_gpus", lambda _: (GOOD,))
    report_surprise("cuda:0", "CUDA error", path)
    for seconds, words in ((1.0, "CUDA error"), (DAY_SECONDS, "")):
        now[0] += seconds
        assert probe(folder=path)[0].surprise == words


def test_a_machine_that_slept_is_checked_again(monkeypatch):
    seconds = {time.CLOCK_BOOTTIME: 500.25, time.CLOCK_MONOTONIC: 500.0}
    monkeypatch.setattr(probing.time, "clock_gettime", seconds.__getitem__)
    before = key_of({})
    seconds[time.CLOCK_BOOTTIME] += 60.0
    assert key_of({}) != before


def test_what_is_kept_comes_back_as_it_was(monkeypatch, tmp_path):
    gpu = replace(GOOD, outcome=Outcome.DEGRADED, reason="No.", operations=(WRONG, FULL))
    monkeypatch.setattr(probing, "_check_gpus", lambda _: (gpu,))
    assert probe(folder=tmp_path) == probe(folder=tmp_path) == (gpu,)


def test_the_key_holds_what_a_check_depends_on_and_no_card_by_name(tmp_path):
    files = {
        "proc/driver/nvidia/version": "580.65",
        "dev/nvidia0": "",
        "proc/driver/nvidia/gpus/0000:01:00.0/information": "GPU UUID: GPU-1234-5678",
        "proc/sys/kernel/random/boot_id": "boot one",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    def key(**environ: str) -> str:
        return key_of(environ, tmp_path)

    first = key()
    assert key() == first == key(HOME="/elsewhere") and "1234" not in first
    keys = {first} | {
        key(**{name: "/x"})
        for name in ("LD_LIBRARY_PATH", "LD_PRELOAD", "CUDA_VISIBLE_DEVICES", "PYTORCH_CUDA_ALLOC_CONF")
    }
    assert len(keys) == 5
    for name, text in files.items():
        (tmp_path / name).write_text(text + " changed ")
        keys.add(key())
    for node in ("nvidia1", "dxg"):
        (tmp_path / "dev" / node).touch()
        keys.add(key())
    assert len(keys) == 5 + len(files) - 1 + 2  # a device node is not read


@pytest.mark.slow
def test_the_whole_check_on_the_cpu_with_a_wrong_library(tmp_path):
    """End to end with the real child."""
    environ = {**os.environ, "LD_LIBRARY_PATH": "/opt/of/somebody/else", "OMP_NUM_THREADS": "1"}
    command = module_command(FAULTY, "fft:cuFFT error: CUFFT_INVALID_SIZE")
    (gpu,) = probe(folder=tmp_path, child=ProbeChild(command, "cpu", 240.0, environ))
    assert gpu.outcome is Outcome.DEGRADED and gpu.failed_operations == {"fft"} and gpu.works
    assert "CUFFT_INVALID_SIZE" in gpu.reason and "env -u LD_LIBRARY_PATH" in gpu.reason


def test_of_several_processes_one_checks_and_the_others_read(tmp_path, monkeypatch):
    """As under torchrun: eight at once, each with eight GPUs to check."""
    checks: list[int] = []

    def checked(*_: object, **__: object) -> tuple[GpuHealth, ...]:
        checks.append(1)
        time.sleep(0.3)
        return (GOOD,)

    monkeypatch.setattr(probing, "_check_gpus", checked)
    with ThreadPoolExecutor(8) as ranks:
        verdicts = list(ranks.map(lambda _: probe(folder=tmp_path), range(8)))
    assert verdicts == [(GOOD,)] * 8 and len(checks) == 1
