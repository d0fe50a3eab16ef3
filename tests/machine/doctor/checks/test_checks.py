"""Single rules of the checks, where a table says more than a machine."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from machine.doctor import diagnosis
from machine.doctor.checks.builds import compute_mode, library_path, visible_gpus
from machine.doctor.checks.builds import torch_build as judge_torch
from machine.doctor.checks.drivers import device_nodes, driver
from machine.doctor.checks.gpus import kernel_log
from machine.doctor.checks.onnx import onnx_runtime
from machine.doctor.checks.remedies import branch_of, fitting_backend, get_driver, has_code_for
from machine.doctor.checks.surroundings import disk, memory, speech
from machine.doctor.diagnosis import DoctorCheck, judge
from machine.doctor.finding import Finding, Severity
from machine.doctor.readings.snapshot import (
    Container,
    Driver,
    Graphics,
    MachineSettings,
    Managed,
    Nodes,
    OnnxRuntime,
    Storage,
    TrialSpeech,
)
from tests.machine.doctor.simulated import (
    ALL_NODES,
    CU126,
    CU130,
    DEMO_BYTES,
    computer,
    gpu,
    healthy,
    managed,
    torch_build,
)

LOADED = Driver("580.95.05", libcuda="/usr/lib/libcuda.so.1")


@pytest.mark.parametrize(
    ("capability", "architectures", "runs"),
    [
        ((8, 6), ("sm_86",), True),
        ((8, 9), ("sm_86",), True),  # the same major, a later minor
        ((8, 0), ("sm_86",), False),
        ((9, 0), ("sm_86",), False),
        ((9, 0), ("sm_90a",), True),
        ((9, 1), ("sm_90a",), False),  # accelerated code runs on its own GPU only
        ((12, 0), CU126, False),
        ((12, 0), CU130, True),
        ((12, 0), ("sm_90", "compute_90"), True),  # PTX is compiled for what is newer
        ((6, 1), CU126, True),
        ((6, 1), CU130, False),
        ((6, 1), ("nonsense", "sm_", "sm_x"), False),
    ],
)
def test_which_gpu_a_build_has_code_for(
    capability: tuple[int, int], architectures: tuple[str, ...], runs: bool
) -> None:
    assert has_code_for(capability, architectures) is runs


@pytest.mark.parametrize(
    ("version", "capability", "backend"),
    [
        ("580.95.05", (8, 6), "cu130"),
        ("550.54.14", (8, 6), "cu126"),
        ("580.95.05", (6, 1), "cu126"),  # document 002's card
        ("580.95.05", (12, 0), "cu130"),
        ("550.54.14", (12, 0), ""),  # neither fits: the driver must be renewed
        ("470.82.01", (7, 5), ""),
        ("580.95.05", (3, 5), ""),
        ("", (7, 5), "cu130"),
    ],
)
def test_which_build_fits(version: str, capability: tuple[int, int], backend: str) -> None:
    assert fitting_backend(version, [capability]) == backend


def test_a_version_that_is_none_is_no_version() -> None:
    assert (branch_of("550.54"), branch_of("unknown"), branch_of("")) == (550, None, None)


def test_everybody_gets_the_line_of_their_own_system() -> None:
    assert "ubuntu-drivers" in get_driver(("ubuntu", "debian"), False)
    assert "chwd" in get_driver(("cachyos", "arch"), False)
    assert "nvidia.com/drivers" in get_driver((), False)
    assert "On the host" in get_driver(("ubuntu",), True)


@pytest.mark.parametrize(
    ("value", "device", "status"),
    [
        ("0", "auto", Severity.OK),
        ("GPU-5ac1", "auto", Severity.OK),
        ("", "auto", Severity.WARN),
        ("-1", "auto", Severity.WARN),
        ("7,0", "auto", Severity.WARN),  # CUDA stops at the first that is not there
        ("-1", "cuda", Severity.FAIL),
    ],
)
def test_hidden_gpus(value: str, device: str, status: Severity) -> None:
    found = visible_gpus({"CUDA_VISIBLE_DEVICES": value}, ALL_NODES, MachineSettings(device=device))
    assert found and found.status is status


def test_a_variable_that_is_not_set_hides_nothing() -> None:
    assert visible_gpus({}, ALL_NODES, MachineSettings()) is None
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": ""}, Nodes(), MachineSettings()) is None


@pytest.mark.parametrize(
    ("fault", "inside", "words"),
    [
        ("Failed to initialize NVML: Driver/library version mismatch", False, "Reboot"),
        ("Failed to initialize NVML: Unknown Error", True, "--force-recreate"),
        ("Unable to determine the device handle for GPU0: GPU is lost.", False, "Reboot"),
    ],
)
def test_a_driver_that_does_not_answer(fault: str, inside: bool, words: str) -> None:
    told = Managed((), "nvidia-smi", fault)
    found = driver(LOADED, Graphics(), ALL_NODES, told, Container(inside))
    assert found and found.status is Severity.FAIL
    assert words in found.fix and fault in found.evidence


def test_half_a_driver() -> None:
    half = replace(LOADED, libcuda="", libcuda_fault="libcuda.so.1: cannot open")
    outside = driver(half, Graphics(), ALL_NODES, managed(), Container())
    inside = driver(half, Graphics(), ALL_NODES, managed(), Container(True))
    assert outside and inside and outside.evidence == half.libcuda_fault
    assert "NVIDIA_DRIVER_CAPABILITIES" in inside.fix


def test_nodes_that_are_not_ours_to_open() -> None:
    shut = replace(ALL_NODES, closed=("nvidia0",))
    found = device_nodes(LOADED, shut, Container())
    assert found and found.status is Severity.FAIL and "usermod" in found.fix


def test_a_build_without_cuda_beside_a_gpu() -> None:
    plain = torch_build(version="2.11.0+cpu", cuda="", architectures=(), libraries={})
    found = judge_torch(plain, ALL_NODES, managed(), LOADED, Container())
    assert found.status is Severity.WARN and "TORCH_BACKEND=cu130" in found.fix
    assert judge_torch(plain, Nodes(), Managed(), Driver(), Container()).status is Severity.OK


def test_foreign_libraries_are_a_warning_until_something_fails() -> None:
    build = torch_build(libraries={"libcufft.so.12": ("/opt/cuda/lib64/libcufft.so.12",)})
    found = library_path(build, {"LD_PRELOAD": "/opt/x.so"}, computer(gpu()))
    assert found and found.status is Severity.WARN
    assert "LD_PRELOAD=/opt/x.so" in found.evidence and "env -u LD_LIBRARY_PATH" in found.fix
    same_beginning = torch_build(
        libraries={"libcufft.so.12": ("/own-other/libcufft.so.12",)}, folders=("/own",)
    )
    found = library_path(same_beginning, {}, computer())
    assert found and found.status is Severity.WARN


def test_prohibited_is_worse_than_exclusive() -> None:
    found = compute_mode(managed(mode="Prohibited"))
    assert found and found.status is Severity.FAIL and "-c DEFAULT" in found.fix


@pytest.mark.parametrize(
    ("line", "status", "words"),
    [
        ("NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.", Severity.WARN, "power"),
        ("NVRM: Xid (PCI:0000:01:00): 13, Graphics Exception", Severity.OK, "program"),
        ("NVRM: Xid (PCI:0000:01:00): 9999, something new", Severity.WARN, "fault"),
        ("nothing of the kind", Severity.OK, "no fault"),
    ],
)
def test_the_kernels_last_word(line: str, status: Severity, words: str) -> None:
    found = kernel_log((line,), LOADED, managed())
    assert found and found.status is status
    assert words in found.observed + found.meaning


@pytest.mark.parametrize(
    ("packages", "cuda", "alone", "beside", "status", "words"),
    [
        ({}, "", "", "", Severity.OK, "not installed"),
        ({"onnxruntime-gpu": "1"}, "13.0", "", "", Severity.OK, "CUDA 13.0"),
        ({"onnxruntime-gpu": "1"}, "13.0", "libcudnn.so.9: cannot open", "", Severity.OK,
         "imported"),
        ({"onnxruntime-gpu": "1"}, "13.0", "x", "libcuda.so.1: cannot open", Severity.WARN,
         "driver"),
        ({"onnxruntime-gpu": "1"}, "13.0", "x", "libcudnn.so.9: cannot open", Severity.WARN,
         "without a word"),
        ({"onnxruntime-gpu": "1"}, "12.8", "", "", Severity.WARN, "lists CUDA"),
        ({"onnxruntime": "1", "onnxruntime-gpu": "1"}, "13.0", "", "", Severity.WARN, "chance"),
    ],
)  # fmt: skip
def test_onnx_runtime_beside_a_gpu(
    packages: dict[str, str], cuda: str, alone: str, beside: str, status: Severity, words: str
) -> None:
    found = onnx_runtime(
        OnnxRuntime(packages, cuda, alone, beside), torch_build(), ALL_NODES, Container()
    )
    assert found.status is status
    assert words in found.observed + found.meaning


@pytest.mark.parametrize(
    ("free_bytes", "model_bytes", "status"),
    [
        (1_000_000_000, DEMO_BYTES, Severity.OK),
        (200_000_000, DEMO_BYTES, Severity.WARN),
        (100_000_000, DEMO_BYTES, Severity.FAIL),
        (1_000_000_000, 1_867_929_118, Severity.FAIL),
        (10_000_000_000, 1_867_929_118, Severity.WARN),
        (20_000_000_000, 1_867_929_118, Severity.OK),
    ],
)
def test_the_disk_is_measured_by_the_model(
    free_bytes: int, model_bytes: int, status: Severity
) -> None:
    place = Storage(Path("/data"), free_bytes, 10**12)
    assert disk(MachineSettings(model_bytes=model_bytes), place).status is status


def test_a_folder_that_cannot_be_written_is_worse_than_a_full_one() -> None:
    place = Storage(Path("/data"), 10**12, 10**12, False, "read-only file system")
    found = disk(MachineSettings(), place)
    assert found.status is Severity.FAIL and "read-only" in found.evidence


def test_memory_counts_for_the_cpu_only() -> None:
    small = replace(computer(), memory_bytes=8_000_000_000)
    full_size = MachineSettings(base_model="xtts_v2")
    assert memory(full_size, small).status is Severity.WARN
    assert memory(full_size, replace(small, gpus=(gpu(),))).status is Severity.OK
    assert memory(MachineSettings(), small).status is Severity.OK


@pytest.mark.parametrize(
    ("spoken", "status"),
    [
        (TrialSpeech("cpu", 1.0, 2.5, 0.1), Severity.OK),
        (TrialSpeech("cpu", 1.0, 2.5, 0.0), Severity.FAIL),
        (TrialSpeech("cpu", 1.0, 0.1, 0.1), Severity.FAIL),
        (TrialSpeech("cpu", fault="ended by Segmentation fault"), Severity.FAIL),
        (TrialSpeech("cuda:0", 1.0, 2.5, 0.1, 1e-5), Severity.OK),
        (TrialSpeech("cuda:0", 1.0, 2.5, 0.1, 1.3), Severity.WARN),
        (TrialSpeech("cuda:0", 1.0, 2.6, 0.1, None), Severity.WARN),
    ],
)
def test_speech(spoken: TrialSpeech, status: Severity) -> None:
    (found,) = speech((spoken,))
    assert (found.id, found.status) == (f"speech_{spoken.device}", status)


def test_a_check_that_fails_itself_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(settings: Any) -> Finding:
        raise ZeroDivisionError("of all things")

    monkeypatch.setattr(diagnosis, "CHECKS", (DoctorCheck("one", ("settings",), broken),))
    (found,) = judge(healthy())
    assert found.status is Severity.COULD_NOT_RUN and "of all things" in found.evidence


def test_the_time_of_a_finding_is_that_of_its_readings() -> None:
    found = {one.id: one for one in judge(healthy())}
    assert found["torch"].seconds == 2.6 and found["disk"].seconds == 0.0
