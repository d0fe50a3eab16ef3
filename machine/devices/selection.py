"""Detects the environment and chooses DEVICE and PRECISION, each with its reason.

Nothing is guessed from versions: a GPU counts only if `machine.devices.probe.runner` has run
operations on it in a child process. This process creates no CUDA context.
"""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from machine.devices.health import GpuHealth
from machine.devices.probe.runner import probe
from machine.errors import SotaqueError
from machine.storage.reading import read_text

# Where a file has two names below, the second is cgroup v1's, which older hosts still use.
CGROUP = Path("/sys/fs/cgroup")


class DeviceError(SotaqueError):
    """The requested device does not exist or failed its check; the text names what exists."""


@dataclass(frozen=True)
class Environment:
    """What this machine has; frozen, so that every decision can be tested with a simulated one.

    Attributes:
        cpu_count: Cores that this process may use.
        cpu_has_bf16: Whether the CPU multiplies bf16 in hardware.
        memory_bytes: The smaller of RAM and the container's limit.
        gpu_hint: A sentence if a GPU seems to exist but cannot be reached.
    """

    cpu_count: int
    cpu_has_bf16: bool
    memory_bytes: int
    in_container: bool
    gpus: tuple[GpuHealth, ...] = ()
    gpu_hint: str = ""


@dataclass(frozen=True)
class Choice:
    """A value and why it was chosen."""

    value: str
    reason: str


def look_at_machine(*, use_cache: bool = True) -> Environment:
    """Reads what the machine has; with an NVIDIA device, checks it in a child process.

    Args:
        use_cache: False checks the GPUs again instead of using the cached result.
    """
    in_container = inside_container()
    devices = gpu_nodes()
    gpus: tuple[GpuHealth, ...] = ()
    if devices:
        gpus = probe(use_cache=use_cache)
    return Environment(
        cpu_count=cpu_count(),
        cpu_has_bf16=has_bf16(),
        memory_bytes=memory_bytes(),
        in_container=in_container,
        gpus=gpus,
        gpu_hint=gpu_hint(Path("/proc/driver/nvidia/version").exists(), devices, in_container),
    )


def inside_container(root: Path = Path("/")) -> bool:
    """Whether this process runs in a container of Docker, podman or Kubernetes."""
    marked = any((root / name).exists() for name in (".dockerenv", "run/.containerenv"))
    groups = read_text(root / "proc/1/cgroup")
    return marked or any(word in groups for word in ("docker", "kubepods", "libpod"))


def gpu_nodes(root: Path = Path("/")) -> bool:
    """Whether a GPU's device node exists: /dev/nvidia0, …, or /dev/dxg under WSL2.

    Under WSL2 the driver is Windows' own, and the probe finds out whether the GPU is NVIDIA's.
    Tests pass another `root`.
    """
    return any((root / "dev").glob("nvidia[0-9]*")) or (root / "dev/dxg").exists()


def gpu_hint(driver: bool, devices: bool, in_container: bool) -> str:
    """A sentence if there is a driver but no device; a container then lacks a line in `.env`."""
    if not driver or devices:
        return ""
    if in_container:
        return (
            "The host has an NVIDIA driver, but this container has no GPU. Write "
            "DOCKER_RUNTIME=nvidia into .env and start it again."
        )
    return "There is an NVIDIA driver, but no /dev/nvidia0. Run `nvidia-smi` for details."


def choose_device(
    machine: Environment, wish: str, good: Callable[[GpuHealth], bool] = GpuHealth.trains
) -> Choice:
    """Chooses the device: `auto` takes the first GPU that is `good` for the task, else the CPU.

    A GPU that passed everything comes before one that failed something unneeded.

    Args:
        machine: What the machine has.
        wish: The setting DEVICE.
        good: Whether a GPU can do the task.

    Raises:
        DeviceError: `wish` names a GPU that does not exist or is not `good`.
    """
    if wish == "cpu":
        return Choice("cpu", "DEVICE=cpu")
    if wish == "auto":
        fit = sorted(
            filter(good, machine.gpus), key=lambda gpu: (gpu.verdict, gpu.surprise) != ("", "")
        )
        if fit:
            return Choice(f"cuda:{fit[0].index}", passed(fit[0]))
        if machine.gpus:
            return Choice("cpu", distrusted(machine.gpus[0]))
        return Choice("cpu", machine.gpu_hint or "no GPU on this machine")
    gpu = gpu_at(machine, wish)
    if gpu is None:
        available = ", ".join(f"cuda:{gpu.index} ({gpu.name})" for gpu in machine.gpus) or "no GPU"
        hint = f" {machine.gpu_hint}" if machine.gpu_hint else ""
        raise DeviceError(
            f"DEVICE={wish}, but this machine has {available}.{hint} Set DEVICE=auto."
        )
    if not good(gpu):
        raise DeviceError(
            f"DEVICE={wish}, but {gpu.name} failed the check: {gpu.verdict} Set DEVICE=auto to "
            "use the CPU."
        )
    return Choice(f"cuda:{gpu.index}", f"DEVICE={wish}; {passed(gpu)}")


def choose_precision(machine: Environment, device: str, wish: str) -> Choice:
    """Chooses the precision: `auto` takes bf16 if the hardware has it and passed its check, else
    fp16 if that passed, else fp32. Raises DeviceError for fp16 on a CPU."""
    gpu = gpu_at(machine, device)
    failed = gpu.failed - gpu.without_cudnn if gpu else frozenset()
    if wish == "fp16" and gpu is None:
        raise DeviceError(
            "PRECISION=fp16 is for GPUs. This run is on the CPU, where fp16 is slower than fp32 "
            "and less exact. Set PRECISION=auto."
        )
    if wish != "auto":
        bad = f", although attention_{wish} failed the check" * (f"attention_{wish}" in failed)
        return Choice(wish, f"PRECISION={wish}{bad}")
    if gpu is None:
        if machine.cpu_has_bf16:
            return Choice("bf16", "this CPU multiplies bf16 in hardware")
        return Choice("fp32", "this CPU has no bf16 instructions (AMX or AVX512-BF16)")
    if gpu.capability < (8, 0):
        return Choice("fp32", f"{gpu.name} has no bf16 (it needs compute capability 8.0)")
    if "attention_bf16" not in failed:
        return Choice("bf16", f"{gpu.name} multiplies bf16 in hardware")
    if "attention_fp16" not in failed:
        return Choice("fp16", f"{gpu.name} failed bf16 and passed fp16")
    return Choice("fp32", f"{gpu.name} failed bf16 and fp16")


def uses_cudnn(machine: Environment, device: str) -> Choice:
    """Whether convolutions on `device` go through cuDNN: "on" or "off"."""
    gpu = gpu_at(machine, device)
    if gpu and gpu.without_cudnn:
        return Choice("off", f"{', '.join(sorted(gpu.without_cudnn))} passed only without cuDNN")
    return Choice("on", "")


def choose_feature_device(machine: Environment, device: str) -> Choice:
    """Chooses where a run on `device` computes the codes and mels of its dataset.

    That is `device` if it is a GPU whose FFT, convolutions and products passed the check, else the
    CPU.
    """
    gpu = gpu_at(machine, device)
    if gpu is None:
        return Choice("cpu", "the run is on the CPU")
    if gpu.computes_features():
        return Choice(device, f"{gpu.name} passed the check of FFT, convolutions and products")
    return Choice("cpu", distrusted(gpu))


def gpu_at(machine: Environment, device: str) -> GpuHealth | None:
    """The GPU that "cuda" or "cuda:N" names; None for the CPU, or if it does not exist."""
    if not device.startswith("cuda"):
        return None
    index = int(device.partition(":")[2] or 0)
    return next((gpu for gpu in machine.gpus if gpu.index == index), None)


def passed(gpu: GpuHealth) -> str:
    """Why a GPU is used: it passed the check, or the part of it that is needed."""
    if gpu.verdict:
        return f"{gpu.name} passed the operations that are needed, but not all: {gpu.verdict}"
    return f"{gpu.name} passed the check"


def distrusted(gpu: GpuHealth) -> str:
    """Why a GPU is not used."""
    return f"{gpu.name} is not used: {gpu.verdict}"


def oom_kills() -> int:
    """How many processes of this container the kernel killed for memory; 0 if unknown."""
    for name in ("memory.events", "memory/memory.oom_control"):
        if match := re.search(r"^oom_kill (\d+)$", read_text(CGROUP / name), re.MULTILINE):
            return int(match[1])
    return 0


def cpu_count() -> int:
    """Cores that this process may use, by its affinity and the container's quota."""
    allowed = len(os.sched_getaffinity(0))
    quota = read_text(CGROUP / "cpu.max").split()
    if not quota:
        names = ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")
        quota = [read_text(CGROUP / name).strip() for name in names]
    if all(number.isdigit() for number in quota) and len(quota) == 2:
        allowed = min(allowed, max(1, round(int(quota[0]) / int(quota[1]))))
    return allowed


def has_bf16() -> bool:
    """Whether this CPU multiplies bf16 in hardware."""
    flags = re.search(r"^flags\s*:(.*)$", read_text(Path("/proc/cpuinfo")), re.MULTILINE)
    return flags is not None and not {"amx_bf16", "avx512_bf16"}.isdisjoint(flags[1].split())


def memory_bytes() -> int:
    """Memory of this machine, or the container's limit if that is lower."""
    total = re.search(r"^MemTotal:\s*(\d+) kB", read_text(Path("/proc/meminfo")), re.MULTILINE)
    num_bytes = int(total[1]) * 1024 if total else 0
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        limit = read_text(CGROUP / name).strip()
        if limit.isdigit():
            return min(num_bytes, int(limit))
    return num_bytes
