"""Commands that fix a machine: the driver, the build of torch, the build of ONNX Runtime."""

import re
import shlex
from collections.abc import Sequence

from machine import commands

# CUDA major -> oldest driver branch that runs it. docs.nvidia.com/deploy/cuda-compatibility
OLDEST_DRIVER = {13: 580, 12: 525, 11: 450}
# The values of TORCH_BACKEND, newest first, with the architectures of torch 2.11's wheels.
_SINCE_TURING = ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120")
_SINCE_MAXWELL = ("sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90")
BACKENDS = {"cu130": (13, _SINCE_TURING), "cu126": (12, _SINCE_MAXWELL)}
CPU_ONLY = "Set DEVICE=cpu: training and speaking then do not use this GPU."
REBOOT = "Reboot."
_DRIVER_COMMANDS = {
    "ubuntu": "sudo ubuntu-drivers install && sudo reboot",
    "cachyos": "sudo chwd -a && sudo reboot",
    "debian": "sudo apt install nvidia-driver && sudo reboot",
    "arch": "sudo pacman -S nvidia-open-dkms nvidia-utils && sudo reboot",
    "fedora": "sudo dnf install akmod-nvidia && sudo reboot  (from RPM Fusion)",
    "suse": "sudo zypper install-new-recommends --repo NVIDIA && sudo reboot",
}


def driver_command(distributions: Sequence[str], in_container: bool) -> str:
    """The command that installs or updates NVIDIA's driver; in a container, advice for the host.
    distributions: of Linux, the closest first, as in /etc/os-release."""
    if in_container:
        return "On the host, not in this container: install or update NVIDIA's driver, and reboot."
    for name in distributions:
        if name in _DRIVER_COMMANDS:
            return _DRIVER_COMMANDS[name]
    return "Install or update the driver from https://www.nvidia.com/drivers and reboot."


def backend_command(backend: str, in_container: bool) -> str:
    """The command that changes the build of torch to this value of TORCH_BACKEND."""
    if in_container:
        return f"Write TORCH_BACKEND={backend} into .env, then: docker compose build"
    dotenv = shlex.quote(commands.in_clone(".env"))
    return f"echo TORCH_BACKEND={backend} >> {dotenv} && {commands.make('install')}"


def replacement_command(installed: str, build: str) -> str:
    """The command that replaces the installed builds of ONNX Runtime, separated by spaces, by one."""
    return f"{commands.uninstall(installed)} && {commands.install(build)}"


def cuda_libraries_command() -> str:
    """The command that installs the CUDA libraries of ONNX Runtime."""
    return commands.install("onnxruntime-gpu[cuda,cudnn]")


def missing_library(message: str) -> str:
    """The library that a loader's error reports as missing; "" for none."""
    library = re.search(r"(lib[\w.+-]+\.so[.\d]*): cannot open", message)
    return library[1] if library else ""


def fitting_backend(driver: str, capabilities: Sequence[tuple[int, int]]) -> str:
    """The newest build that the driver and all GPUs support; "" if there is none."""
    branch = branch_of(driver)
    for backend, (cuda_major, architectures) in BACKENDS.items():
        runs = all(has_code_for(capability, architectures) for capability in capabilities)
        if runs and (branch is None or branch >= OLDEST_DRIVER[cuda_major]):
            return backend
    return ""


def has_code_for(capability: tuple[int, int], architectures: Sequence[str]) -> bool:
    """Whether a build with these architectures has a kernel for a GPU.

    Machine code (sm_86) runs on the same major version and equal or newer minor versions;
    accelerated code (sm_90a) only on the same version. PTX (compute_90) compiles for anything
    newer.
    """
    for architecture in architectures:
        kind, _, version = architecture.partition("_")
        is_accelerated = version[-1:].isalpha()
        digits = version.rstrip("abcdefghijklmnopqrstuvwxyz")
        if len(digits) < 2 or not digits.isdigit():
            continue
        compiled = (int(digits[:-1]), int(digits[-1]))
        if compiled == capability:
            return True
        if is_accelerated or compiled > capability:
            continue
        if kind == "compute" or (kind == "sm" and compiled[0] == capability[0]):
            return True
    return False


def branch_of(driver: str) -> int | None:
    """The branch of a driver version: 550 for "550.54.14"; None if it is not a version."""
    match = re.match(r"(\d+)\.", driver)
    return int(match[1]) if match else None


def major_of(cuda: str) -> int | None:
    """The major version of CUDA: 13 for "13.0"; None if it is not a version."""
    match = re.match(r"(\d+)", cuda)
    return int(match[1]) if match else None
