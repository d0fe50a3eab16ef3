"""Describes this machine, and chooses where to compute: a ladder of places, each with its reason.

Nothing is guessed from versions: a GPU counts only if `machine.devices.probe` has run operations on
it in a child process. This process creates no CUDA context.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from machine.devices.health import GpuHealth
from machine.devices.probe import probe
from machine.errors import SotaqueError
from machine.storage.files import read_text

# If a file has two names below, the second is cgroup v1's, which older hosts still use.
CGROUP = Path("/sys/fs/cgroup")
# Settings and arguments name these; they are here because a speaking child imports no pydantic.
DEVICE_PATTERN = r"auto|cpu|cuda(:\d{1,3})?"
SpeakPrecision = Literal["auto", "fp32", "bf16", "int8", "int4"]


def device_name(text: object) -> object:
    """A device as PyTorch names it: `gpu` is `cuda`, `gpu:1` is `cuda:1`."""
    return re.sub(r"^gpu(?=:|$)", "cuda", text) if isinstance(text, str) else text


class DeviceError(SotaqueError):
    """The requested device does not exist or failed its check; the text names what exists."""


@dataclass(frozen=True)
class Environment:
    """The hardware of this machine; frozen, so that decisions can be tested with a simulated one.

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

    def gpu(self, device: str) -> GpuHealth | None:
        """The GPU that "cuda:N" names; None for the CPU, or if it does not exist."""
        return next((gpu for gpu in self.gpus if gpu.device == device), None)


@dataclass(frozen=True)
class Choice:
    """A value and why it was chosen."""

    value: str
    reason: str


@dataclass(frozen=True)
class Place(Choice):
    """Where to compute, and why there: a rung of the ladder.

    The first rung is a GPU. If its FFT fails (cuFFT), FFTs run on the CPU and everything else stays
    on the GPU; if its convolutions fail through cuDNN, they run without it. The last is the CPU.

    Attributes:
        value: cpu or cuda:N.
        mel_device: Where FFTs run.
        cudnn: Whether convolutions go through cuDNN.
        code: Why this differs from the request, in a word; "" if it does not.
    """

    mel_device: str = "cpu"
    cudnn: bool = True
    code: str = ""

    @property
    def features(self) -> Choice:
        """Where to compute the codes and mels of a dataset, which need FFTs."""
        return Choice(self.mel_device, self.reason)


def look_at_machine(*, use_cache: bool = True) -> Environment:
    """Reads the machine's hardware, and checks NVIDIA devices in a child process.

    Args:
        use_cache: False checks the GPUs again instead of using the cached result.
    """
    in_container = inside_container()
    has_node = has_gpu_node()
    gpus: tuple[GpuHealth, ...] = ()
    if has_node:
        gpus = probe(use_cache=use_cache)
    return Environment(
        cpu_count=cpu_count(),
        cpu_has_bf16=has_bf16(),
        memory_bytes=memory_bytes(),
        in_container=in_container,
        gpus=gpus,
        gpu_hint=gpu_hint(Path("/proc/driver/nvidia/version").exists(), has_node, in_container),
    )


def inside_container(root: Path = Path("/")) -> bool:
    """Whether this process runs in a container of Docker, podman or Kubernetes."""
    has_marker = any((root / name).exists() for name in (".dockerenv", "run/.containerenv"))
    groups = read_text(root / "proc/1/cgroup")
    return has_marker or any(word in groups for word in ("docker", "kubepods", "libpod"))


def has_gpu_node(root: Path = Path("/")) -> bool:
    """Whether a GPU's device node exists: /dev/nvidia0, …, or /dev/dxg under WSL2.

    Under WSL2, Windows has the driver, and the probe finds out whether the GPU is NVIDIA's. Tests
    pass another `root`.
    """
    return any((root / "dev").glob("nvidia[0-9]*")) or (root / "dev/dxg").exists()


def gpu_hint(has_driver: bool, has_node: bool, in_container: bool) -> str:
    """A sentence if there is a driver but no device node; a container then lacks a line in `.env`."""
    if not has_driver or has_node:
        return ""
    if in_container:
        return (
            "The host has an NVIDIA driver, but this container has no GPU. Write "
            "DOCKER_RUNTIME=nvidia into .env and start it again."
        )
    return "There is an NVIDIA driver, but no /dev/nvidia0. Run `nvidia-smi` for details."


def choose_place(
    machine: Environment,
    requested: str,
    setting: str = "DEVICE",
    preferred: str = "",
    *,
    for_training: bool = False,
) -> Place:
    """Chooses the first rung of the ladder: the best GPU that the request allows, else the CPU.

    GPUs that passed everything come first, then those that failed a dispensable operation, then
    those that failed in a run.

    Args:
        requested: The device: cpu, auto, cuda (any GPU) or cuda:N.
        setting: The name of the setting that requests it.
        preferred: The GPU to take unless it failed in a run.
        for_training: Whether the place is for training; otherwise it is for speech.
    """
    if requested == "cpu":
        return Place("cpu", f"{setting}=cpu")
    candidates = [gpu for gpu in machine.gpus if requested in ("auto", "cuda", gpu.device)]
    usable = sorted(
        (gpu for gpu in candidates if (gpu.trains if for_training else gpu.speaks)),
        key=lambda gpu: (bool(gpu.surprise), gpu.device != preferred, bool(gpu.reason)),
    )
    if usable:
        gpu = usable[0]
        request = "" if requested == "auto" else f"{setting}={requested}; "
        mel_device = "cpu" if "fft" in gpu.failed_operations else gpu.device
        verdict = f"{gpu.name} passed the check"
        if gpu.reason:
            verdict = f"{gpu.name} passed the operations that are needed, but not all: {gpu.reason}"
        return Place(gpu.device, request + verdict, mel_device, gpu.cudnn)
    if candidates:
        reason = f"{candidates[0].name} failed the check: {candidates[0].reason}"
    elif machine.gpus:
        reason = "this machine has " + ", ".join(f"{gpu.device} ({gpu.name})" for gpu in machine.gpus)
    else:
        reason = "no GPU on this machine" if requested == "auto" else "this machine has no GPU"
        reason = machine.gpu_hint or reason
    if requested != "auto":
        return Place("cpu", f"{setting}={requested}, but {reason}", code="device_refused")
    code = "gpu_out_of_reach" if machine.gpu_hint else ""
    return Place("cpu", reason, code="gpu_failed_check" if machine.gpus else code)


def choose_device(machine: Environment, requested: str, *, for_training: bool = False) -> Place:
    """As `choose_place`, but never replaces the requested device.

    Raises:
        DeviceError: `requested` names a GPU that does not exist or failed its check.
    """
    place = choose_place(machine, requested, for_training=for_training)
    if place.code == "device_refused":
        raise DeviceError(f"{place.reason.rstrip('.')}. Set DEVICE=auto.")
    return place


def oom_kills() -> int:
    """The number of processes of this container that the kernel killed for memory; 0 if unknown."""
    for name in ("memory.events", "memory/memory.oom_control"):
        if match := re.search(r"^oom_kill (\d+)$", read_text(CGROUP / name), re.MULTILINE):
            return int(match[1])
    return 0


def cpu_count() -> int:
    """Cores that this process may use, by its affinity and the container's quota."""
    num_cores = len(os.sched_getaffinity(0))
    quota = read_text(CGROUP / "cpu.max").split()
    if not quota:
        names = ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")
        quota = [read_text(CGROUP / name).strip() for name in names]
    if all(number.isdigit() for number in quota) and len(quota) == 2:
        num_cores = min(num_cores, max(1, round(int(quota[0]) / int(quota[1]))))
    return num_cores


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
