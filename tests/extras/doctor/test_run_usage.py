"""The machine's figures in a run's curves, read from the event file; training never waits for
them."""

import itertools
import json
import logging
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from extras.common.readings.nvml import GpuState
from extras.doctor import run_usage
from extras.doctor.run_usage import MachineMetrics, figures_of
from extras.doctor.usage import Usage
from tests.train.metrics.test_logs import curves, logs, records, train

GPU = GpuState(0, "RTX 3090", 60.0, 8_000_000_000, 24_000_000_000)


def readings(*usages: Usage) -> Callable[[], Callable[[], Usage]]:
    """A meter that returns these readings, then the last one again and again."""
    given = itertools.chain(usages, itertools.repeat(usages[-1]))
    return lambda: lambda: next(given)


def wait_until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_what_is_told_stands_in_the_event_file_and_in_the_metrics(tmp_path):
    usage = Usage((GPU,), 25.0, 9_000_000_000, 64_000_000_000, 150.0, 3_000_000_000)
    with MachineMetrics(readings(usage), 0.01) as machine, logs(tmp_path, usage=machine.take) as found:
        wait_until(lambda: bool(machine._figures))
        train(found, 1, 1)
        train(found, 2, 3)  # LOG_EVERY=10: these steps are not logged
        wait_until(lambda: bool(machine._figures))
        train(found, 4, 4)
    told = {
        "cpu_percent": 25.0,
        "memory_bytes": 9e9,
        "trainer_cpu_percent": 150.0,
        "trainer_memory_bytes": 3e9,
        "gpu0_busy_percent": 60.0,
        "gpu0_memory_bytes": 8e9,
    }
    shown = curves(tmp_path)
    for name, value in told.items():
        points = {point.step: point.value for point in shown.Scalars(f"machine/{name}")}
        assert points == pytest.approx({1: value, 4: value}, rel=1e-6)
    kept = {record["step"]: record.get("machine") for record in records(tmp_path)}
    assert kept == {1: told, 2: None, 3: None, 4: told}


def test_a_line_tells_the_mean_since_the_one_before():
    busy = (Usage((GPU,), cpu_percent=10.0), Usage((), cpu_percent=30.0))
    machine = MachineMetrics(readings(*busy))
    machine._figures = [figures_of(percent) for percent in busy]
    assert machine.take() == {"cpu_percent": 20.0, "gpu0_busy_percent": 60.0, "gpu0_memory_bytes": 8e9}
    assert machine.take() == {}


def test_a_driver_that_hangs_costs_no_time(tmp_path):
    """Neither a step nor the end of the run waits for it."""
    never = threading.Event()

    def hanging() -> Callable[[], Usage]:
        never.wait(60)
        raise AssertionError

    started = time.monotonic()
    with MachineMetrics(hanging, 0.01) as machine, logs(tmp_path, usage=machine.take) as found:
        train(found, 1, 4)
    assert time.monotonic() - started < 5
    assert machine._thread.daemon  # or else the process would wait for it
    assert all("machine" not in record for record in records(tmp_path))
    never.set()
    machine._thread.join(5)


def test_a_meter_that_fails_is_told_once(caplog):
    def broken() -> Callable[[], Usage]:
        raise OSError("no /proc")

    caplog.set_level(logging.WARNING, logger="train")
    with MachineMetrics(broken, 0.01) as machine:
        machine._thread.join(5)
        assert machine.take() == {}
    assert [message for message in caplog.messages if "no /proc" in message] == caplog.messages
    assert len(caplog.messages) == 1


def test_this_machine_is_read_for_real(tmp_path):
    with MachineMetrics(every_seconds=0.05) as machine:
        wait_until(lambda: len(machine._figures) >= 2)
    found = machine.take()
    assert found["trainer_memory_bytes"] > 50_000_000  # this process, with torch
    assert found["memory_bytes"] > found["trainer_memory_bytes"] / 2
    assert 0 <= found["trainer_cpu_percent"] and 0 <= found.get("cpu_percent", 0.0) <= 100
    json.dumps(found, allow_nan=False)


def test_a_run_numbers_gpus_as_its_cuda_does(monkeypatch):
    """CUDA_VISIBLE_DEVICES=1: the second card of the machine is cuda:0 of this run."""
    cards = (GpuState(0, "A", 1.0, uuid="GPU-aa"), GpuState(1, "B", 99.0, uuid="GPU-bb"))
    reader = SimpleNamespace(read=lambda: cards)
    monkeypatch.setattr(run_usage, "GpuUsageReader", lambda: reader)
    read = run_usage._this_machine()
    assert [gpu.name for gpu in read().gpus] == ["A", "B"]  # before this process uses CUDA
    monkeypatch.setattr("torch.cuda.is_initialized", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    card = SimpleNamespace(uuid="bb")
    monkeypatch.setattr("torch.cuda.get_device_properties", lambda _index: card)
    figures = figures_of(read())
    assert figures["gpu0_busy_percent"] == 99.0 and "gpu1_busy_percent" not in figures
