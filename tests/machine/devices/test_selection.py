"""The machine is inspected once; decisions are pure functions, tested without a GPU."""

import pytest
import torch

from machine.devices import selection
from machine.devices.health import GpuHealth
from machine.devices.selection import DeviceError, Place, choose_device, choose_place, gpu_hint, oom_kills
from tests.machines import GPUS, SOUND, machine

SECOND = GpuHealth(1, "RTX 4090", (8, 9), 24 << 30)


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
    ("gpus", "wish", "words"), [((), "cuda", "no GPU"), ((SOUND,), "cuda:3", "cuda:0 (RTX 3090)")]
)
def test_a_device_asked_for_by_name_is_never_replaced(gpus, wish, words):
    with pytest.raises(DeviceError, match="DEVICE=auto") as caught:
        choose_device(machine(*gpus), wish)
    assert words in str(caught.value) and caught.value.exit_code == 2


# Each state of GPUS: the device for speech, the device for FFTs, whether cuDNN is used.
DECISIONS = {
    "sound": ("cuda:0", "cuda:0", True),
    "fft": ("cuda:0", "cpu", True),
    "convolution": ("cpu", "cpu", True),
    "convolution, right without cuDNN": ("cuda:0", "cuda:0", False),
    "bf16": ("cuda:0", "cuda:0", True),
    "bf16, right without cuDNN": ("cuda:0", "cuda:0", False),
    "16 bits": ("cuda:0", "cuda:0", True),
    "sampling": ("cpu", "cpu", True),
    "train step": ("cuda:0", "cuda:0", True),
    "everything": ("cpu", "cpu", True),
    "driver": ("cpu", "cpu", True),
    "full": ("cpu", "cpu", True),
    "dead": ("cpu", "cpu", True),
    "hang": ("cpu", "cpu", True),
    "surprise": ("cuda:0", "cuda:0", True),
}


@pytest.mark.parametrize("wish", ["auto", "cpu", "cuda", "cuda:0"])
@pytest.mark.parametrize("state", GPUS)
def test_the_first_rung_by_verdicts(state, wish):
    device, mel_device, cudnn = DECISIONS[state]
    gpu, environment = GPUS[state], machine(GPUS[state])
    place = choose_place(environment, wish, "SAMPLE_DEVICE")
    if wish == "cpu":
        assert place == Place("cpu", "SAMPLE_DEVICE=cpu")
        return
    assert (place.value, place.mel_device, place.cudnn) == (device, mel_device, cudnn)
    assert (place.features.value, place.features.reason) == (mel_device, place.reason)
    # The reason names the check's finding and a requested device that is not used.
    assert gpu.name in place.reason and gpu.reason in place.reason
    refused = device == "cpu" and wish != "auto"
    assert place.reason.startswith(f"SAMPLE_DEVICE={wish}, but ") is refused
    assert place.code == ("" if device != "cpu" else "device_refused" if refused else "gpu_failed_check")
    if refused:
        with pytest.raises(DeviceError, match="failed the check") as error:
            choose_device(environment, wish)
        assert gpu.reason in str(error.value)


@pytest.mark.parametrize("state", GPUS)
def test_a_gpu_that_only_trains_or_only_speaks_is_used_for_that(state):
    device = choose_place(machine(GPUS[state]), "auto", for_training=True).value
    speaks = DECISIONS[state][0]
    assert device == {"sampling": "cuda:0", "train step": "cpu"}.get(state, speaks)


def test_a_gpu_that_is_preferred_is_taken_unless_it_failed_in_a_run():
    bad, surprise = GPUS["fft"], GPUS["surprise"]
    assert choose_place(machine(bad, SECOND), "auto", preferred="cuda:0").value == "cuda:0"
    assert choose_place(machine(bad, SECOND), "cuda").value == "cuda:1"
    assert choose_place(machine(surprise, SECOND), "auto", preferred="cuda:0").value == "cuda:1"
    assert choose_place(machine(surprise), "auto", preferred="cuda:0").value == "cuda:0"


def test_a_container_that_was_given_no_gpu_is_told_the_line():
    hint = gpu_hint(has_driver=True, has_node=False, in_container=True)
    assert "DOCKER_RUNTIME=nvidia" in hint
    place = choose_device(machine(hint=hint), "auto")
    assert (place.reason, place.code) == (hint, "gpu_out_of_reach")
    assert choose_place(machine(hint=hint), "cuda", "SAMPLE_DEVICE").reason.endswith(hint)
    assert "DOCKER_RUNTIME" not in gpu_hint(has_driver=True, has_node=False, in_container=False)
    assert gpu_hint(has_driver=True, has_node=True, in_container=True) == ""
    assert gpu_hint(has_driver=False, has_node=False, in_container=True) == ""


def test_looking_makes_no_cuda_context_and_finds_this_machine():
    machine = selection.look_at_machine()
    assert machine.cpu_count >= 1
    assert machine.memory_bytes > 1 << 28
    assert not torch.cuda.is_initialized()


@pytest.mark.parametrize(
    ("files", "cores", "memory_bytes", "kills"),
    [
        ({"cpu.max": "150000 100000", "memory.max": "1048576", "memory.events": "oom_kill 3"}, 2, 1 << 20, 3),
        (
            {
                "cpu/cpu.cfs_quota_us": "100000",
                "cpu/cpu.cfs_period_us": "100000",
                "memory/memory.limit_in_bytes": "2097152",
                "memory/memory.oom_control": "under_oom 0\noom_kill 1",
            },
            1,
            1 << 21,
            1,
        ),
        ({"cpu.max": "40000 100000"}, 1, None, 0),
        ({"cpu.max": "max 100000", "memory.max": "max"}, None, None, 0),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None, None, 0),
    ],
)
def test_a_containers_limits_count(monkeypatch, tmp_path, files, cores, memory_bytes, kills):
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: set(range(16)))
    monkeypatch.setattr(selection, "CGROUP", tmp_path / "none")
    everything = selection.look_at_machine()
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text + "\n")
    monkeypatch.setattr(selection, "CGROUP", tmp_path)
    machine = selection.look_at_machine()
    assert everything.cpu_count == 16
    assert machine.cpu_count == (cores or 16)
    assert machine.memory_bytes == (memory_bytes or everything.memory_bytes)
    assert oom_kills() == kills


@pytest.mark.parametrize(
    ("nodes", "there"),
    [((), False), (("nvidiactl",), False), (("nvidia0",), True), (("nvidia12",), True), (("dxg",), True)],
)
def test_a_gpu_is_reached_through_a_file(tmp_path, nodes, there):
    """WSL2 has only /dev/dxg."""
    (tmp_path / "dev").mkdir()
    for name in nodes:
        (tmp_path / "dev" / name).touch()
    assert selection.has_gpu_node(tmp_path) is there
