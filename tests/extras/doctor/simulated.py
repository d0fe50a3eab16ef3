"""Simulated machines, as readings for the doctor; its reports on them are stored.

    .venv/bin/python -m tests.extras.doctor.simulated

rewrites tests/extras/doctor/golden/. Read the difference before you commit it: users will see it.
"""

import sys
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from extras.common.readings.nvml import GpuState
from extras.common.readings.snapshot import (
    AMD,
    NVIDIA,
    Container,
    Driver,
    Graphics,
    GraphicsCard,
    Machine,
    MachineSettings,
    Managed,
    Nodes,
    OnnxRuntime,
    Storage,
    TorchBuild,
)
from extras.doctor import report
from extras.doctor.diagnosis import exit_code, judge
from machine.devices.health import GpuHealth, OperationVerdict, Outcome
from machine.devices.selection import Environment
from tests.extras.common.test_remedies import CU126, CU130
from tests.machines import OPERATIONS

GOLDEN = Path(__file__).parent / "golden"
SITE = "/home/ana/sotaque/.venv/lib/python3.11/site-packages"
OWN = f"{SITE}/nvidia/cu13/lib"
ALL_NODES = Nodes(("nvidia-modeset", "nvidia-uvm", "nvidia0", "nvidiactl"))
DEMO_BYTES = 18_131_247


def card(
    maker: str = NVIDIA, device: str = "2204", address: str = "0000:01:00.0", **more: Any
) -> GraphicsCard:
    return GraphicsCard(address, maker, device, **more)


def passed(*failing: OperationVerdict) -> tuple[OperationVerdict, ...]:
    """All operations pass except the given ones."""
    bad = {gpu.name: gpu for gpu in failing}
    good = {name: OperationVerdict(name, True) for name in OPERATIONS}
    return tuple((good | bad).values())


def gpu(
    name: str = "NVIDIA GeForce RTX 3090", capability: tuple[int, int] = (8, 6), **more: Any
) -> GpuHealth:
    return GpuHealth(0, name, capability, **{"total_bytes": 25_300_000_000, "operations": passed(), **more})


def managed(
    name: str = "NVIDIA GeForce RTX 3090",
    capability: tuple[int, int] = (8, 6),
    driver: str = "580.95.05",
    mode: str = "Default",
) -> Managed:
    state = GpuState(0, name, 0.0, 400 << 20, 24576 << 20, capability, driver, mode)
    return Managed((state,), "nvidia-smi")


def computer(*gpus: GpuHealth, inside: bool = False, hint: str = "") -> Environment:
    return Environment(16, True, 64_000_000_000, inside, gpus, hint)


def torch_build(**more: Any) -> TorchBuild:
    fields: dict[str, Any] = {
        "version": "2.11.0+cu130",
        "cuda": "13.0",
        "cudnn": 91900,
        "architectures": CU130,
        "libraries": {"libcufft.so.12": (f"{OWN}/libcufft.so.12",)},
        "folders": (OWN, f"{SITE}/torch/lib"),
    }
    return TorchBuild(**(fields | more))


def checked(
    outcome: Outcome,
    reason: str,
    name: str = "NVIDIA GeForce RTX 3090",
    capability: tuple[int, int] = (8, 6),
    **more: Any,
) -> Environment:
    """A machine whose GPU did not pass the check."""
    found = {"outcome": outcome, "reason": reason, "operations": (), **more}
    return computer(gpu(name, capability, **found))


# A healthy machine with an RTX 3090.
HEALTHY = Machine(
    settings=MachineSettings(model_bytes=DEMO_BYTES),
    refused=(),
    driver=Driver(
        "580.95.05", libcuda="/usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05", system=("ubuntu", "debian")
    ),
    nodes=ALL_NODES,
    graphics=Graphics((card(screen=True),)),
    managed=managed(),
    container=Container(),
    variables={},
    programs={"nvidia-smi": "/usr/bin/nvidia-smi", "ffmpeg": "/usr/bin/ffmpeg"},
    torch=torch_build(),
    onnx=OnnxRuntime(),
    storage=Storage(Path("/home/ana/sotaque"), 120_000_000_000, 500_000_000_000),
    shared_memory=32_000_000_000,
    kernel_log=(),
    environment=computer(gpu()),
    seconds={"environment": 6.0, "torch": 2.5, "managed": 0.1},
)
CPU_ONLY = replace(
    HEALTHY,
    driver=Driver(system=("debian",)),
    nodes=Nodes(),
    graphics=Graphics(),
    managed=Managed(),
    programs={},
    environment=computer(),
)
OLD_BUILD = {"version": "2.11.0+cu126", "cuda": "12.6", "architectures": CU126}
UNKNOWN = "CUDA unknown error - this may be due to an incorrectly set up environment."
NO_KERNEL = "CUDA error: no kernel image is available"
BLACKWELL, MX230 = "NVIDIA GeForce RTX 5090", "NVIDIA GeForce MX230"
OTHER = "/usr/local/cuda-13.1/lib64"
NO_FFT = "cuFFT error: CUFFT_INVALID_SIZE"
CLEAN = "If another library than torch's is loaded, put `env -u LD_LIBRARY_PATH` before the command."
NO_CUBLAS = "libcublasLt.so.13: cannot open shared object file: No such file or directory"
ASSERTED = "CUDA error: device-side assert triggered"

MACHINES: Mapping[str, Machine] = {
    "healthy": HEALTHY,
    "cpu_only": CPU_ONLY,
    "no_driver": replace(
        CPU_ONLY,
        driver=Driver(nouveau=True, system=("ubuntu", "debian")),
        graphics=Graphics((card(screen=True),)),
    ),
    # A container started with runc on a host with a GPU.
    "no_toolkit": replace(
        CPU_ONLY,
        driver=Driver(
            "580.95.05", system=("debian",), libcuda_fault="libcuda.so.1: cannot open shared object file"
        ),
        graphics=Graphics((card(),)),
        container=Container(inside=True),
        variables={"NVIDIA_VISIBLE_DEVICES": "all"},
        shared_memory=1_073_741_824,
        environment=computer(
            inside=True, hint="The host has an NVIDIA driver, but this container has no GPU."
        ),
    ),
    "uvm_missing": replace(
        HEALTHY,
        nodes=Nodes(("nvidia-modeset", "nvidia0", "nvidiactl")),
        environment=checked(Outcome.DRIVER, UNKNOWN),
    ),
    "old_driver": replace(
        HEALTHY,
        driver=replace(HEALTHY.driver or Driver(), version="550.54.14"),
        managed=managed(driver="550.54.14"),
        environment=checked(
            Outcome.DRIVER, "The NVIDIA driver on your system is too old (found version 12040)."
        ),
    ),
    "blackwell_on_an_old_build": replace(
        HEALTHY,
        managed=managed(BLACKWELL, (12, 0)),
        torch=torch_build(**OLD_BUILD),
        environment=checked(Outcome.BUILD, NO_KERNEL, BLACKWELL, (12, 0)),
    ),
    "wrong_libcufft": replace(
        HEALTHY,
        variables={"LD_LIBRARY_PATH": OTHER},
        torch=torch_build(
            libraries={
                "libcufft.so.12": (f"{OTHER}/libcufft.so.12",),
                "libcublas.so.13": (f"{OWN}/libcublas.so.13",),
            }
        ),
        environment=checked(
            Outcome.DEGRADED,
            f"fft: {NO_FFT} {CLEAN}",
            operations=passed(OperationVerdict("fft", False, reason=NO_FFT)),
        ),
    ),
    "cpu_build_of_onnx_runtime": replace(HEALTHY, onnx=OnnxRuntime({"onnxruntime": "1.31.1"})),
    "onnx_runtime_of_another_major": replace(
        HEALTHY,
        torch=torch_build(**OLD_BUILD),
        onnx=OnnxRuntime({"onnxruntime-gpu": "1.31.1"}, "13.0", NO_CUBLAS, NO_CUBLAS),
    ),
    "small_shared_memory": replace(
        HEALTHY,
        container=Container(inside=True),
        shared_memory=67_108_864,
        environment=computer(gpu(), inside=True),
    ),
    "no_ffmpeg": replace(HEALTHY, programs={"nvidia-smi": "/usr/bin/nvidia-smi"}),
    "disk_full": replace(
        HEALTHY,
        settings=MachineSettings(Path("/data/run"), base_model="xtts_v2", model_bytes=1_867_929_118),
        storage=Storage(Path("/data"), 3_100_000_000, 500_000_000_000),
    ),
    "exclusive_mode": replace(
        HEALTHY,
        managed=managed(mode="Exclusive_Process"),
        environment=checked(
            Outcome.TRANSIENT, "CUDA error: CUDA-capable device(s) is/are busy or unavailable"
        ),
    ),
    "poisoned_child": replace(
        HEALTHY,
        environment=checked(
            Outcome.STICKY,
            f"sampling: {ASSERTED}",
            operations=(OperationVerdict("sampling", False, reason=ASSERTED, outcome=Outcome.STICKY),),
        ),
    ),
    "hanging_child": replace(
        HEALTHY,
        managed=Managed((), "nvidia-smi", "no answer within 8 s"),
        kernel_log=("[ 8412.1] NVRM: Xid (PCI:0000:01:00): 79, pid=4112, GPU has fallen off the bus.",),
        environment=checked(Outcome.HANG, "the check hung for 60 s.", "the GPU", (0, 0), total_bytes=0),
    ),
    # Document 002: CachyOS, a GeForce MX230 and a Vega 8; prime-run was tried in vain.
    "hybrid_laptop": replace(
        HEALTHY,
        driver=Driver("580.95.05", libcuda="/usr/lib/libcuda.so.580.95.05", system=("cachyos", "arch")),
        graphics=Graphics(
            (card(device="1d11", power="suspended"), card(AMD, "15d8", "0000:05:00.0", screen=True)),
            laptop=True,
        ),
        variables={"DRI_PRIME": "1", "__NV_PRIME_RENDER_OFFLOAD": "1"},
        managed=managed(MX230, (6, 1)),
        environment=checked(Outcome.BUILD, NO_KERNEL, MX230, (6, 1)),
    ),
    "hybrid_laptop_switched_off": replace(
        CPU_ONLY,
        driver=Driver(system=("ubuntu", "debian")),
        graphics=Graphics(
            (card(AMD, "15d8", "0000:05:00.0", screen=True),),
            True,
            "prime-select: /etc/prime-discrete says off",
        ),
        programs={"prime-select": "/usr/bin/prime-select"},
    ),
    "after_suspend": replace(HEALTHY, environment=checked(Outcome.STICKY, UNKNOWN)),
    # Every reading failed or hung.
    "nothing_could_be_read": Machine(
        troubles=dict.fromkeys(
            (field.name for field in fields(Machine) if field.default is None), "no answer within 5 s"
        )
    ),
}


def told(name: str) -> tuple[str, str, int]:
    """Text, JSON and exit code."""
    findings = judge(MACHINES[name])
    return report.as_text(findings), report.as_json(findings), exit_code(findings)


def main() -> int:
    GOLDEN.mkdir(exist_ok=True)
    for path in GOLDEN.iterdir():
        path.unlink()
    for name in MACHINES:
        text, machine_readable, _ = told(name)
        (GOLDEN / f"{name}.txt").write_text(text, encoding="utf-8")
        (GOLDEN / f"{name}.json").write_text(machine_readable, encoding="utf-8")
    print(f"{len(MACHINES)} machines in {GOLDEN}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
