"""Detects the environment; chooses DEVICE and PRECISION, each with its reason.

Nothing is guessed from versions. A GPU counts when `machine.devices.probe.runner` has really run
operations on it in a child process; this process creates no CUDA context by looking.
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

# The second name of each figure is cgroup v1's, which still runs on older hosts.
CGROUP = Path("/sys/fs/cgroup")


class DeviceError(SotaqueError):
    """The device that was asked for is not there; the sentence says what is."""


@dataclass(frozen=True)
class Environment:
    """A machine as it was found; frozen, so that every decision can be tested without one.

    cpu_count: cores that this process may use; memory_bytes: the smaller of RAM and the
    container's limit; gpu_hint: a sentence when a GPU seems to be there but out of reach.
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
    """Looks at the machine. With an NVIDIA device, asks the probe in a child process, unless it
    was asked before and that still holds. use_cache: False asks again."""
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
    """Whether there is a file that a GPU is reached through: /dev/nvidia0, …, or /dev/dxg under
    WSL2, where Windows has the driver; whether that GPU is NVIDIA's is for the probe to find. root:
    another one in tests."""
    return any((root / "dev").glob("nvidia[0-9]*")) or (root / "dev/dxg").exists()


def gpu_hint(driver: bool, devices: bool, in_container: bool) -> str:
    """A host's driver without a device: in a container that is a missing line in `.env`."""
    if not driver or devices:
        return ""
    if in_container:
        return (
            "The host has an NVIDIA driver, but this container was given no GPU. Write "
            "DOCKER_RUNTIME=nvidia into .env and start it again."
        )
    return "There is an NVIDIA driver, but no /dev/nvidia0; `nvidia-smi` tells more."


def choose_device(
    machine: Environment, wish: str, good: Callable[[GpuHealth], bool] = GpuHealth.trains
) -> Choice:
    """DEVICE: auto takes the first GPU that is `good` for what is to be done, else the CPU.

    A GPU on which everything passed is taken before one that fails at something not needed.
    Raises DeviceError when a GPU is asked for by name that is not there or not good for it.
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
    asked = gpu_at(machine, wish)
    if asked is None:
        found = ", ".join(f"cuda:{gpu.index} ({gpu.name})" for gpu in machine.gpus) or "no GPU"
        hint = f" {machine.gpu_hint}" if machine.gpu_hint else ""
        raise DeviceError(f"DEVICE={wish}, but this machine has {found}.{hint} Set DEVICE=auto.")
    if not good(asked):
        raise DeviceError(
            f"DEVICE={wish}, but {asked.name} failed the check: {asked.verdict} Set DEVICE=auto to "
            "use the CPU."
        )
    return Choice(f"cuda:{asked.index}", f"DEVICE={wish}; {passed(asked)}")


def choose_precision(machine: Environment, device: str, wish: str) -> Choice:
    """PRECISION: auto is bf16 where the hardware multiplies it and multiplied it right, else fp16
    where that was right, else fp32. Raises DeviceError for fp16 on a CPU."""
    gpu = gpu_at(machine, device)
    failed = gpu.failed - gpu.without_cudnn if gpu else frozenset()
    if wish == "fp16" and gpu is None:
        raise DeviceError(
            "PRECISION=fp16 is for GPUs; this run is on the CPU, where it is slower than fp32 and "
            "less exact. Set PRECISION=auto."
        )
    if wish != "auto":
        bad = f", although the check found attention_{wish} bad" * (f"attention_{wish}" in failed)
        return Choice(wish, f"PRECISION={wish}{bad}")
    if gpu is None:
        if machine.cpu_has_bf16:
            return Choice("bf16", "this CPU multiplies bf16 in hardware")
        return Choice("fp32", "this CPU has no bf16 products (AMX or AVX512-BF16)")
    if gpu.capability < (8, 0):
        return Choice("fp32", f"{gpu.name} is older than bf16 (compute capability 8.0)")
    if "attention_bf16" not in failed:
        return Choice("bf16", f"{gpu.name} multiplies bf16 in hardware")
    if "attention_fp16" not in failed:
        return Choice("fp16", f"{gpu.name} fails at bf16, and passed fp16")
    return Choice("fp32", f"{gpu.name} fails at bf16 and at fp16")


def uses_cudnn(machine: Environment, device: str) -> Choice:
    """Whether convolutions on `device` go through cuDNN: "on" or "off"."""
    gpu = gpu_at(machine, device)
    if gpu and gpu.without_cudnn:
        return Choice("off", f"{', '.join(sorted(gpu.without_cudnn))} passed only without cuDNN")
    return Choice("on", "")


def choose_feature_device(machine: Environment, device: str) -> Choice:
    """Where codes and mels of a dataset are computed by a run on `device`: there, if it is a GPU
    whose FFT, convolutions and products passed the check; else on the CPU."""
    gpu = gpu_at(machine, device)
    if gpu is None:
        return Choice("cpu", "the run is on the CPU")
    if gpu.computes_features():
        return Choice(device, f"{gpu.name} passed the check of FFT, convolutions and products")
    return Choice("cpu", distrusted(gpu))


def gpu_at(machine: Environment, device: str) -> GpuHealth | None:
    """The GPU that "cuda" or "cuda:N" names; None for the CPU, or where there is none."""
    if not device.startswith("cuda"):
        return None
    index = int(device.partition(":")[2] or 0)
    return next((gpu for gpu in machine.gpus if gpu.index == index), None)


def passed(gpu: GpuHealth) -> str:
    """Why a GPU is used: it passed the check, or as much of it as is needed."""
    if gpu.verdict:
        return f"{gpu.name} passed what is needed of it, not all: {gpu.verdict}"
    return f"{gpu.name} passed the check"


def distrusted(gpu: GpuHealth) -> str:
    """Why a GPU is not used."""
    return f"{gpu.name} is not trusted: {gpu.verdict}"


def oom_kills() -> int:
    """How many processes of this container the kernel has killed for memory; 0 if it is silent."""
    for name in ("memory.events", "memory/memory.oom_control"):
        if found := re.search(r"^oom_kill (\d+)$", read_text(CGROUP / name), re.MULTILINE):
            return int(found[1])
    return 0


def cpu_count() -> int:
    """Cores that this process may use: its affinity, and a container's quota."""
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
    """Of this machine, or what its container may use."""
    total = re.search(r"^MemTotal:\s*(\d+) kB", read_text(Path("/proc/meminfo")), re.MULTILINE)
    found = int(total[1]) * 1024 if total else 0
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        limit = read_text(CGROUP / name).strip()
        if limit.isdigit():
            return min(found, int(limit))
    return found
