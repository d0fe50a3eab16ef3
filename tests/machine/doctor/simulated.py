"""Machines that nobody has at hand, as the doctor's readings; and what it says of each, kept.

    .venv/bin/python -m tests.machine.doctor.simulated

writes tests/machine/doctor/golden/ again. Read the difference before you commit it: it is what
people will be told.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from machine.devices.health import (
    CLEAN_LIBRARY_PATH,
    OPERATIONS,
    GpuHealth,
    OperationVerdict,
    Outcome,
    ProbeVariant,
)
from machine.devices.nvml import GpuState
from machine.devices.selection import Environment
from machine.doctor import report
from machine.doctor.diagnosis import exit_code, judge
from machine.readings.snapshot import (
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

GOLDEN = Path(__file__).parent / "golden"
SITE = "/home/ana/sotaque/.venv/lib/python3.11/site-packages"
OWN = f"{SITE}/nvidia/cu13/lib"
CU130 = ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120")
CU126 = ("sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90")
ALL_NODES = Nodes(("nvidia-modeset", "nvidia-uvm", "nvidia0", "nvidiactl"))
DEMO_BYTES = 18_131_247


def card(maker: str = NVIDIA, device: str = "2204", address: str = "0000:01:00.0",
         **more: Any) -> GraphicsCard:  # fmt: skip
    return GraphicsCard(address, maker, device, **more)


def passed(*failing: OperationVerdict) -> tuple[OperationVerdict, ...]:
    """Every operation good but those given."""
    bad = {one.name: one for one in failing}
    good = {name: OperationVerdict(name, True, 1e-6, 1e-4, seconds=0.1) for name in OPERATIONS}
    return tuple((good | bad).values())


def gpu(name: str = "NVIDIA GeForce RTX 3090", capability: tuple[int, int] = (8, 6),
        **more: Any) -> GpuHealth:  # fmt: skip
    return GpuHealth(
        0, name, capability, **{"total_bytes": 25_300_000_000, "operations": passed(), **more}
    )


def managed(name: str = "NVIDIA GeForce RTX 3090", capability: tuple[int, int] = (8, 6),
            driver: str = "580.95.05", mode: str = "Default") -> Managed:  # fmt: skip
    state = GpuState(0, name, 0.0, 400 << 20, 24576 << 20, capability, driver, mode)
    return Managed((state,), "nvidia-smi")


def computer(*gpus: GpuHealth, inside: bool = False, hint: str = "") -> Environment:
    return Environment(16, True, 64_000_000_000, inside, gpus, hint)


def torch_build(**more: Any) -> TorchBuild:
    known: dict[str, Any] = {
        "version": "2.11.0+cu130",
        "cuda": "13.0",
        "cudnn": 91900,
        "architectures": CU130,
        "libraries": {"libcufft.so.12": (f"{OWN}/libcufft.so.12",)},
        "folders": (OWN, f"{SITE}/torch/lib"),
    }
    return TorchBuild(**(known | more))


def healthy() -> Machine:
    """An RTX 3090 where all is well."""
    return Machine(
        settings=MachineSettings(model_bytes=DEMO_BYTES),
        refused=(),
        driver=Driver("580.95.05", libcuda="/usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05",
                      system=("ubuntu", "debian")),
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
    )  # fmt: skip


def cpu_only() -> Machine:
    return replace(
        healthy(), driver=Driver(system=("debian",)), nodes=Nodes(), graphics=Graphics(),
        managed=Managed(), programs={}, environment=computer(),
    )  # fmt: skip


def no_driver() -> Machine:
    return replace(
        cpu_only(),
        driver=Driver(nouveau=True, system=("ubuntu", "debian")),
        graphics=Graphics((card(screen=True),)),
    )


def no_toolkit() -> Machine:
    """A container that was started with runc on a host with a GPU."""
    hint = "The host has an NVIDIA driver, but this container was given no GPU."
    return replace(
        cpu_only(),
        driver=Driver("580.95.05", system=("debian",),
                      libcuda_fault="libcuda.so.1: cannot open shared object file"),
        graphics=Graphics((card(),)),
        container=Container(inside=True),
        variables={"NVIDIA_VISIBLE_DEVICES": "all"},
        shared_memory=1_073_741_824,
        environment=computer(inside=True, hint=hint),
    )  # fmt: skip


def uvm_missing() -> Machine:
    reason = "CUDA unknown error - this may be due to an incorrectly set up environment."
    return replace(
        healthy(),
        nodes=Nodes(("nvidia-modeset", "nvidia0", "nvidiactl")),
        environment=computer(gpu(outcome=Outcome.DRIVER, operations=(), reason=reason)),
    )


def old_driver() -> Machine:
    reason = "The NVIDIA driver on your system is too old (found version 12040)."
    return replace(
        healthy(),
        driver=replace(healthy().driver or Driver(), version="550.54.14"),
        managed=managed(driver="550.54.14"),
        environment=computer(gpu(outcome=Outcome.DRIVER, operations=(), reason=reason)),
    )


def blackwell_on_an_old_build() -> Machine:
    name, reason = "NVIDIA GeForce RTX 5090", "CUDA error: no kernel image is available"
    return replace(
        healthy(),
        managed=managed(name, (12, 0)),
        torch=torch_build(version="2.11.0+cu126", cuda="12.6", architectures=CU126),
        environment=computer(
            gpu(name, (12, 0), outcome=Outcome.BUILD, operations=(), reason=reason)
        ),
    )


def wrong_libcufft() -> Machine:
    other = "/usr/local/cuda-13.1/lib64"
    bad = OperationVerdict("fft", False, reason="cuFFT error: CUFFT_INVALID_SIZE")
    advice = "Without LD_LIBRARY_PATH it passes: put `env -u LD_LIBRARY_PATH` before the command."
    return replace(
        healthy(),
        variables={"LD_LIBRARY_PATH": other},
        torch=torch_build(libraries={
            "libcufft.so.12": (f"{other}/libcufft.so.12",),
            "libcublas.so.13": (f"{OWN}/libcublas.so.13",),
        }),
        environment=computer(gpu(
            outcome=Outcome.DEGRADED, operations=passed(bad), reason=f"fft: {bad.reason} {advice}",
            libraries={"libcufft.so.12": f"{other}/libcufft.so.12"},
            variants=(ProbeVariant(CLEAN_LIBRARY_PATH, True, advice),),
        )),
    )  # fmt: skip


def cpu_build_of_onnx_runtime() -> Machine:
    return replace(healthy(), onnx=OnnxRuntime({"onnxruntime": "1.31.1"}))


def onnx_runtime_of_another_major() -> Machine:
    fault = "libcublasLt.so.13: cannot open shared object file: No such file or directory"
    return replace(
        healthy(),
        torch=torch_build(version="2.11.0+cu126", cuda="12.6", architectures=CU126),
        onnx=OnnxRuntime({"onnxruntime-gpu": "1.31.1"}, "13.0", fault, fault),
    )


def small_shared_memory() -> Machine:
    return replace(
        healthy(),
        container=Container(inside=True),
        shared_memory=67_108_864,
        environment=computer(gpu(), inside=True),
    )


def no_ffmpeg() -> Machine:
    return replace(healthy(), programs={"nvidia-smi": "/usr/bin/nvidia-smi"})


def disk_full() -> Machine:
    return replace(
        healthy(),
        settings=MachineSettings(
            Path("/data/run"), base_model="xtts_v2", model_bytes=1_867_929_118
        ),
        storage=Storage(Path("/data"), 3_100_000_000, 500_000_000_000),
    )


def exclusive_mode() -> Machine:
    reason = "CUDA error: CUDA-capable device(s) is/are busy or unavailable"
    busy = gpu(outcome=Outcome.TRANSIENT, operations=(), reason=reason, exclusive=True)
    return replace(healthy(), managed=managed(mode="Exclusive_Process"), environment=computer(busy))


def poisoned_child() -> Machine:
    bad = OperationVerdict(
        "sampling", False, reason="CUDA error: device-side assert triggered",
        outcome=Outcome.STICKY,
    )  # fmt: skip
    return replace(
        healthy(),
        environment=computer(
            gpu(outcome=Outcome.STICKY, operations=(bad,), reason=f"sampling: {bad.reason}")
        ),
    )


def hanging_child() -> Machine:
    return replace(
        healthy(),
        managed=Managed((), "nvidia-smi", "no answer within 8 s"),
        kernel_log=(
            "[ 8412.1] NVRM: Xid (PCI:0000:01:00): 79, pid=4112, GPU has fallen off the bus.",
        ),
        environment=computer(gpu(
            "the GPU", (0, 0), total_bytes=0, outcome=Outcome.HANG, operations=(),
            reason="the check hung for 60 s.",
        )),
    )  # fmt: skip


def hybrid_laptop() -> Machine:
    """Document 002: CachyOS, a GeForce MX230 beside a Vega 8, and prime-run tried in vain."""
    name, reason = "NVIDIA GeForce MX230", "CUDA error: no kernel image is available"
    return replace(
        healthy(),
        driver=Driver("580.95.05", libcuda="/usr/lib/libcuda.so.580.95.05",
                      system=("cachyos", "arch")),
        graphics=Graphics(
            (card(device="1d11", power="suspended"),
             card(AMD, "15d8", "0000:05:00.0", screen=True)),
            laptop=True,
        ),
        variables={"DRI_PRIME": "1", "__NV_PRIME_RENDER_OFFLOAD": "1"},
        managed=managed(name, (6, 1)),
        environment=computer(
            gpu(name, (6, 1), outcome=Outcome.BUILD, operations=(), reason=reason)
        ),
    )  # fmt: skip


def hybrid_laptop_switched_off() -> Machine:
    return replace(
        cpu_only(),
        driver=Driver(system=("ubuntu", "debian")),
        graphics=Graphics((card(AMD, "15d8", "0000:05:00.0", screen=True),), True,
                          "prime-select: /etc/prime-discrete says off"),
        programs={"prime-select": "/usr/bin/prime-select"},
    )  # fmt: skip


def after_suspend() -> Machine:
    reason = "CUDA unknown error - this may be due to an incorrectly set up environment."
    return replace(
        healthy(),
        environment=computer(gpu(outcome=Outcome.STICKY, operations=(), reason=reason)),
    )


def nothing_could_be_read() -> Machine:
    """Every look failed or hung."""
    names = ("settings", "refused", "driver", "nodes", "graphics", "managed", "container",
             "variables", "programs", "torch", "onnx", "storage", "shared_memory", "kernel_log",
             "environment")  # fmt: skip
    return Machine(troubles=dict.fromkeys(names, "no answer within 5 s"))


_ALL: tuple[Callable[[], Machine], ...] = (
    healthy, cpu_only, no_driver, no_toolkit, uvm_missing, old_driver, blackwell_on_an_old_build,
    wrong_libcufft, cpu_build_of_onnx_runtime, onnx_runtime_of_another_major, small_shared_memory,
    no_ffmpeg, disk_full, exclusive_mode, poisoned_child, hanging_child, hybrid_laptop,
    hybrid_laptop_switched_off, after_suspend, nothing_could_be_read,
)  # fmt: skip
MACHINES: Mapping[str, Callable[[], Machine]] = {make.__name__: make for make in _ALL}


def told(name: str) -> tuple[str, str, int]:
    """Text, JSON and exit code."""
    findings = judge(MACHINES[name]())
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
