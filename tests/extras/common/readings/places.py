"""Imitations of machines (folders) and of programs (shell scripts)."""

import stat
from collections.abc import Mapping
from pathlib import Path

OPEN_DRIVER = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  560.35.03  Release Build\n"
    "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n"
)


def write(root: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def program(folder: Path, name: str, script: str) -> Path:
    path = write(folder, {name: f"#!/bin/sh\n{script}\n"}) / name
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def laptop(root: Path) -> Path:
    return write(
        root,
        {
            "proc/driver/nvidia/version": OPEN_DRIVER,
            "sys/bus/pci/devices/0000:01:00.0/class": "0x030200\n",
            "sys/bus/pci/devices/0000:01:00.0/vendor": "0x10de\n",
            "sys/bus/pci/devices/0000:01:00.0/device": "0x1d11\n",
            "sys/bus/pci/devices/0000:01:00.0/power/runtime_status": "suspended\n",
            "sys/bus/pci/devices/0000:05:00.0/class": "0x030000\n",
            "sys/bus/pci/devices/0000:05:00.0/vendor": "0x1002\n",
            "sys/bus/pci/devices/0000:05:00.0/device": "0x15d8\n",
            "sys/bus/pci/devices/0000:05:00.0/boot_vga": "1\n",
            "sys/bus/pci/devices/0000:00:1f.0/class": "0x060100\n",
            "sys/class/power_supply/BAT0/present": "1\n",
            "etc/os-release": 'NAME="CachyOS"\nID=cachyos\nID_LIKE="arch"\n',
            "dev/nvidia0": "",
            "dev/nvidiactl": "",
            "dev/nvidia-uvm": "",
            "dev/nvidia-caps/nvidia-cap1": "",
        },
    )
