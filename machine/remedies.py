"""Commands that fix a machine: driver, build of torch, build of ONNX Runtime."""

import re
from collections.abc import Sequence

# CUDA major -> oldest driver branch that runs it. docs.nvidia.com/deploy/cuda-compatibility
OLDEST_DRIVER = {13: 580, 12: 525, 11: 450}
# What TORCH_BACKEND offers, the newest first, with the architectures of torch 2.11's wheels.
_SINCE_TURING = ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120")
_SINCE_MAXWELL = ("sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90")
BACKENDS = {"cu130": (13, _SINCE_TURING), "cu126": (12, _SINCE_MAXWELL)}
CPU_ONLY = "Set DEVICE=cpu: training and speaking then leave this GPU alone."
REBOOT = "Reboot."
INSTALL_LIBRARIES = ".venv/bin/uv pip install 'onnxruntime-gpu[cuda,cudnn]'"
_DRIVER_OF = {
    "ubuntu": "sudo ubuntu-drivers install && sudo reboot",
    "cachyos": "sudo chwd -a && sudo reboot",
    "debian": "sudo apt install nvidia-driver && sudo reboot",
    "arch": "sudo pacman -S nvidia-open-dkms nvidia-utils && sudo reboot",
    "fedora": "sudo dnf install akmod-nvidia && sudo reboot  (from RPM Fusion)",
    "suse": "sudo zypper install-new-recommends --repo NVIDIA && sudo reboot",
}


def get_driver(system: Sequence[str], inside: bool) -> str:
    """The line that installs or renews NVIDIA's driver; inside a container it is the host's."""
    if inside:
        return "On the host, not in this container: install or update NVIDIA's driver, and reboot."
    for name in system:
        if name in _DRIVER_OF:
            return _DRIVER_OF[name]
    return "Install or update the driver from https://www.nvidia.com/drivers and reboot."


def use_backend(name: str, inside: bool) -> str:
    """The line that changes the build of torch."""
    if inside:
        return f"Write TORCH_BACKEND={name} into .env, then: docker compose build"
    return f"echo TORCH_BACKEND={name} >> .env && make install"


def replace_builds(installed: str, wanted: str) -> str:
    """The line that puts one build in the place of all that are there."""
    return f".venv/bin/uv pip uninstall {installed} && .venv/bin/uv pip install {wanted}"


def missing_library(message: str) -> str:
    """The file that the loader, or ONNX Runtime in its words, did not find; "" for none."""
    named = re.search(r"(lib[\w.+-]+\.so[.\d]*): cannot open", message)
    return named[1] if named else ""


def fitting_backend(driver: str, capabilities: Sequence[tuple[int, int]]) -> str:
    """The newest build that this driver and all these GPUs run, "" for none."""
    branch = branch_of(driver)
    for name, (major, architectures) in BACKENDS.items():
        runs = all(has_code_for(one, architectures) for one in capabilities)
        if runs and (branch is None or branch >= OLDEST_DRIVER[major]):
            return name
    return ""


def has_code_for(capability: tuple[int, int], architectures: Sequence[str]) -> bool:
    """Whether a build with these architectures has a kernel for a GPU.

    Machine code (sm_86) runs on its major from its minor on, an accelerated one (sm_90a) on exactly
    its own; PTX (compute_90) is compiled for anything newer.
    """
    for name in architectures:
        kind, _, number = name.partition("_")
        exact = number[-1:].isalpha()
        digits = number.rstrip("abcdefghijklmnopqrstuvwxyz")
        if len(digits) < 2 or not digits.isdigit():
            continue
        built = (int(digits[:-1]), int(digits[-1]))
        if built == capability or (not exact and kind == "compute" and built <= capability):
            return True
        if not exact and kind == "sm" and built[0] == capability[0] and built <= capability:
            return True
    return False


def branch_of(driver: str) -> int | None:
    """550 of "550.54.14"; None for what is no version."""
    found = re.match(r"(\d+)\.", driver)
    return int(found[1]) if found else None


def major_of(cuda: str) -> int | None:
    """13 of "13.0"."""
    found = re.match(r"(\d+)", cuda)
    return int(found[1]) if found else None
