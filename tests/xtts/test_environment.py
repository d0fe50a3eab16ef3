"""The machine is looked at once; decisions are pure, so they are tested without a GPU."""

import sys
from pathlib import Path

import pytest
import torch

from xtts import environment, probe
from xtts.environment import (
    DeviceError,
    Environment,
    Gpu,
    choose_device,
    choose_precision,
    gpu_hint,
    oom_kills,
)

SOUND = Gpu(0, "RTX 3090", (8, 6), 24 << 30)
OLD = Gpu(0, "GTX 1080", (6, 1), 8 << 30)
BROKEN = Gpu(0, "RTX 3090", (8, 6), 24 << 30, "fft: cuFFT error: CUFFT_INVALID_SIZE")
SECOND = Gpu(1, "RTX 4090", (8, 9), 24 << 30)


def machine(*gpus: Gpu, bf16: bool = False, hint: str = "") -> Environment:
    return Environment(8, bf16, 32 << 30, False, gpus, hint)


@pytest.mark.parametrize(
    ("gpus", "wish", "device", "words"),
    [
        ((), "auto", "cpu", "no GPU"),
        ((SOUND,), "auto", "cuda:0", "passed the check"),
        ((SOUND,), "cpu", "cpu", "DEVICE=cpu"),
        ((BROKEN,), "auto", "cpu", "CUFFT_INVALID_SIZE"),
        ((BROKEN, SECOND), "auto", "cuda:1", "RTX 4090"),
        ((SOUND, SECOND), "cuda:1", "cuda:1", "RTX 4090"),
        ((SOUND,), "cuda", "cuda:0", "DEVICE=cuda"),
    ],
)
def test_device(gpus: tuple[Gpu, ...], wish: str, device: str, words: str) -> None:
    choice = choose_device(machine(*gpus), wish)
    assert choice.value == device
    assert words in choice.reason


@pytest.mark.parametrize(
    ("gpus", "wish", "words"),
    [
        ((), "cuda", "no GPU"),
        ((SOUND,), "cuda:3", "cuda:0 (RTX 3090)"),
        ((BROKEN,), "cuda", "CUFFT_INVALID_SIZE"),
    ],
)
def test_a_device_asked_for_by_name_is_never_replaced(
    gpus: tuple[Gpu, ...], wish: str, words: str
) -> None:
    with pytest.raises(DeviceError, match="DEVICE=auto") as found:
        choose_device(machine(*gpus), wish)
    assert words in str(found.value) and found.value.exit_code == 2


@pytest.mark.parametrize(
    ("gpu", "bf16", "device", "wish", "precision"),
    [
        (None, True, "cpu", "auto", "bf16"),
        (None, False, "cpu", "auto", "fp32"),
        (SOUND, False, "cuda:0", "auto", "bf16"),
        (OLD, True, "cuda:0", "auto", "fp32"),
        (OLD, False, "cuda:0", "fp16", "fp16"),
        (None, False, "cpu", "bf16", "bf16"),
    ],
)
def test_precision(gpu: Gpu | None, bf16: bool, device: str, wish: str, precision: str) -> None:
    choice = choose_precision(machine(*([gpu] if gpu else []), bf16=bf16), device, wish)
    assert choice.value == precision
    assert choice.reason


def test_a_container_that_was_given_no_gpu_is_told_the_line() -> None:
    hint = gpu_hint(driver=True, devices=False, in_container=True)
    assert "DOCKER_RUNTIME=nvidia" in hint
    assert choose_device(machine(hint=hint), "auto").reason == hint
    assert "DOCKER_RUNTIME" not in gpu_hint(driver=True, devices=False, in_container=False)
    assert gpu_hint(driver=True, devices=True, in_container=True) == ""
    assert gpu_hint(driver=False, devices=False, in_container=True) == ""


def test_looking_makes_no_cuda_context_and_finds_this_machine() -> None:
    found = environment.look()
    assert found.cpu_count >= 1
    assert found.memory_bytes > 1 << 28
    assert not torch.cuda.is_initialized()


@pytest.mark.parametrize(
    ("files", "cores", "memory_bytes", "kills"),
    [
        (
            {"cpu.max": "150000 100000", "memory.max": "1048576", "memory.events": "oom_kill 3"},
            2, 1 << 20, 3,
        ),
        (
            {"cpu/cpu.cfs_quota_us": "100000", "cpu/cpu.cfs_period_us": "100000",
             "memory/memory.limit_in_bytes": "2097152",
             "memory/memory.oom_control": "under_oom 0\noom_kill 1"},
            1, 1 << 21, 1,
        ),
        ({"cpu.max": "max 100000", "memory.max": "max"}, None, None, 0),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None, None, 0),
    ],
)  # fmt: skip
def test_a_containers_limits_count(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, files: dict[str, str],
    cores: int | None, memory_bytes: int | None, kills: int,
) -> None:  # fmt: skip
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: set(range(16)))
    monkeypatch.setattr(environment, "CGROUP", tmp_path / "none")
    everything = environment.look()
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text + "\n")
    monkeypatch.setattr(environment, "CGROUP", tmp_path)
    found = environment.look()
    assert everything.cpu_count == 16
    assert found.cpu_count == (cores or 16)
    assert found.memory_bytes == (memory_bytes or everything.memory_bytes)
    assert oom_kills() == kills


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import time; time.sleep(60)", "hung"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "Segmentation fault"),
        ("raise RuntimeError('driver too old')", "driver too old"),
        ("print('no JSON')", "the check failed"),
    ],
)
def test_a_probe_that_dies_or_hangs_is_a_verdict(code: str, words: str) -> None:
    found = probe.probe((sys.executable, "-c", code), limit_seconds=2.0)
    assert len(found) == 1 and words in found[0].verdict
    assert choose_device(machine(*found), "auto").value == "cpu"


def test_what_the_probe_prints_is_read_back() -> None:
    line = '[{"index": 0, "name": "X", "capability": [9, 0], "total_bytes": 5, "verdict": ""}]'
    found = probe.probe((sys.executable, "-c", f"print('noise'); print({line!r})"))
    assert found == (Gpu(0, "X", (9, 0), 5),)


def test_the_verdict_names_the_operation_that_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    assert probe.verdict("cpu") == ""
    real = probe.operations()

    def wrong(device: str) -> torch.Tensor:
        found = real["convolution"]("cpu")
        return found * (1.01 if device != "cpu" else 1.0)

    def failing(device: str) -> torch.Tensor:
        if device == "cpu":
            return torch.ones(1)
        raise RuntimeError("cuFFT error: CUFFT_INVALID_SIZE\nsecond line")

    monkeypatch.setattr(probe, "operations", lambda: {"convolution": wrong})
    assert "convolution is off by 1.0e-02" in probe.verdict("another")
    monkeypatch.setattr(probe, "operations", lambda: {"fft": failing})
    assert probe.verdict("another") == "fft: cuFFT error: CUFFT_INVALID_SIZE"
