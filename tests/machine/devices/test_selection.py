"""The machine is looked at once; decisions are pure, so they are tested without a GPU."""

from dataclasses import replace

import pytest
import torch

from machine.devices import selection
from machine.devices.health import GpuHealth
from machine.devices.selection import (
    DeviceError,
    choose_device,
    choose_feature_device,
    choose_precision,
    gpu_hint,
    oom_kills,
    uses_cudnn,
)
from tests.machines import GPUS, SOUND, machine

OLD = GpuHealth(0, "GTX 1080", (6, 1), 8 << 30)
SECOND = GpuHealth(1, "RTX 4090", (8, 9), 24 << 30)
A100 = GpuHealth(0, "A100", (8, 0), 40 << 30)
TURING = GpuHealth(0, "RTX 2080", (7, 5), 8 << 30)


@pytest.mark.parametrize(
    ("gpus", "wish", "device", "words"),
    [
        ((), "auto", "cpu", "no GPU"),
        ((GPUS["driver"], SECOND), "auto", "cuda:1", "RTX 4090"),
        ((GPUS["fft"], SECOND), "auto", "cuda:1", "RTX 4090"),
        ((SOUND, SECOND), "cuda:1", "cuda:1", "RTX 4090"),
    ],
)
def test_of_several_gpus_the_first_without_a_fault_is_taken(gpus, wish, device, words):
    choice = choose_device(machine(*gpus), wish)
    assert choice.value == device and words in choice.reason


@pytest.mark.parametrize(
    ("gpus", "wish", "words"),
    [((), "cuda", "no GPU"), ((SOUND,), "cuda:3", "cuda:0 (RTX 3090)")],
)
def test_a_device_asked_for_by_name_is_never_replaced(gpus, wish, words):
    with pytest.raises(DeviceError, match="DEVICE=auto") as found:
        choose_device(machine(*gpus), wish)
    assert words in str(found.value) and found.value.exit_code == 2


# Every state of GPUS: good for training, good for speaking, precision, cuDNN.
DECISIONS = {
    "sound": (True, True, "bf16", "on"),
    "fft": (True, True, "bf16", "on"),
    "convolution": (False, False, "bf16", "on"),
    "convolution, right without cuDNN": (True, True, "bf16", "off"),
    "convolution, right with clean libraries": (False, False, "bf16", "on"),
    "bf16": (True, True, "fp16", "on"),
    "bf16, right without cuDNN": (True, True, "bf16", "off"),
    "16 bits": (True, True, "fp32", "on"),
    "sampling": (True, False, "bf16", "on"),
    "train step": (False, True, "bf16", "on"),
    "everything": (False, False, "fp32", "on"),
    "driver": (False, False, "fp32", "on"),
    "full": (False, False, "bf16", "on"),
    "dead": (False, False, "bf16", "on"),
    "hang": (False, False, "bf16", "on"),
    "surprise": (True, True, "bf16", "on"),
    "exclusive": (True, True, "bf16", "on"),
    "exclusive surprise": (True, True, "bf16", "on"),
    "exclusive, fft": (True, True, "bf16", "on"),
    "exclusive, right with clean libraries": (False, False, "bf16", "on"),
}


@pytest.mark.parametrize("use", ["training", "speaking"])
@pytest.mark.parametrize("wish", ["auto", "cpu", "cuda", "cuda:0"])
@pytest.mark.parametrize("state", GPUS)
def test_device_by_verdicts(state, wish, use):
    good = DECISIONS[state][use == "speaking"]
    gpu, found = GPUS[state], machine(GPUS[state])
    judge = GpuHealth.trains if use == "training" else GpuHealth.speaks
    if wish.startswith("cuda") and not good:
        with pytest.raises(DeviceError, match="failed the check") as refused:
            choose_device(found, wish, judge)
        assert gpu.verdict in str(refused.value)
        return
    choice = choose_device(found, wish, judge)
    assert choice.value == ("cuda:0" if good and wish != "cpu" else "cpu")
    # Whatever the check found is told, unless nobody asked about the GPU.
    assert wish == "cpu" or gpu.verdict in choice.reason


@pytest.mark.parametrize("state", GPUS)
def test_features_are_computed_where_what_they_need_is_right(state):
    bad = {
        "fft", "exclusive, fft", "convolution", "convolution, right with clean libraries",
        "exclusive, right with clean libraries", "everything", "driver", "full", "dead", "hang",
    }  # fmt: skip
    choice = choose_feature_device(machine(GPUS[state]), "cuda:0")
    assert choice.value == ("cpu" if state in bad else "cuda:0")
    assert choice.reason.startswith("RTX 3090" if GPUS[state].name != "the GPU" else "the GPU")
    assert GPUS[state].verdict in choice.reason or choice.value == "cuda:0"
    assert choose_feature_device(machine(GPUS[state]), "cpu").value == "cpu"


@pytest.mark.parametrize("wish", ["auto", "fp32", "fp16", "bf16"])
@pytest.mark.parametrize("state", GPUS)
def test_precision_and_cudnn_by_verdicts(state, wish):
    _, _, precision, cudnn = DECISIONS[state]
    found = machine(GPUS[state])
    choice = choose_precision(found, "cuda:0", wish)
    assert choice.value == (precision if wish == "auto" else wish)
    failed = GPUS[state].failed - GPUS[state].without_cudnn
    warned = wish != "auto" and f"attention_{wish}" in failed
    assert ("failed the check" in choice.reason) is warned
    assert uses_cudnn(found, "cuda:0").value == cudnn
    assert uses_cudnn(found, "cpu").value == "on"
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


def test_a_container_that_was_given_no_gpu_is_told_the_line():
    hint = gpu_hint(driver=True, devices=False, in_container=True)
    assert "DOCKER_RUNTIME=nvidia" in hint
    assert choose_device(machine(hint=hint), "auto").reason == hint
    assert "DOCKER_RUNTIME" not in gpu_hint(driver=True, devices=False, in_container=False)
    assert gpu_hint(driver=True, devices=True, in_container=True) == ""
    assert gpu_hint(driver=False, devices=False, in_container=True) == ""


def test_looking_makes_no_cuda_context_and_finds_this_machine():
    found = selection.look_at_machine()
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
        ({"cpu.max": "40000 100000"}, 1, None, 0),
        ({"cpu.max": "max 100000", "memory.max": "max"}, None, None, 0),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None, None, 0),
    ],
)  # fmt: skip
def test_a_containers_limits_count(monkeypatch, tmp_path, files, cores, memory_bytes, kills):
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: set(range(16)))
    monkeypatch.setattr(selection, "CGROUP", tmp_path / "none")
    everything = selection.look_at_machine()
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text + "\n")
    monkeypatch.setattr(selection, "CGROUP", tmp_path)
    found = selection.look_at_machine()
    assert everything.cpu_count == 16
    assert found.cpu_count == (cores or 16)
    assert found.memory_bytes == (memory_bytes or everything.memory_bytes)
    assert oom_kills() == kills


def test_fp16_on_a_cpu_is_refused():
    with pytest.raises(DeviceError, match=r"PRECISION=fp16 is for GPUs.*Set PRECISION=auto"):
        choose_precision(machine(bf16=True), "cpu", "fp16")
    assert choose_precision(machine(SOUND), "cuda:0", "fp16").value == "fp16"


@pytest.mark.parametrize(
    ("nodes", "there"),
    [((), False), (("nvidiactl",), False), (("nvidia0",), True), (("nvidia12",), True),
     (("dxg",), True)],
)  # fmt: skip
def test_a_gpu_is_reached_through_a_file(tmp_path, nodes, there):
    """Under WSL2 there is /dev/dxg and nothing else."""
    (tmp_path / "dev").mkdir()
    for name in nodes:
        (tmp_path / "dev" / name).touch()
    assert selection.gpu_nodes(tmp_path) is there
