"""Readings from /proc, /sys, /dev, /etc, and free disk space.

Every function takes the root folder to read under, so that a test can simulate a broken machine in
a folder. A missing file reads as empty; garbage raises nothing but OSError and ValueError.
"""

import os
import re
import shutil
from pathlib import Path

from extras.common.readings.snapshot import Container, Graphics, GraphicsCard, Nodes, Storage
from machine.devices.selection import inside_container
from machine.storage.files import read_json, read_text

# A display controller: VGA, XGA, 3D (a laptop's second card) or other.
_DISPLAY_CLASS = "0x03"
# SMBIOS: portable, laptop, notebook, hand held, sub notebook, tablet, convertible, detachable.
_LAPTOPS = {"8", "9", "10", "11", "14", "30", "31", "32"}
_VERSION = re.compile(r"(?<![\w.])(\d{3}\.\d[\d.]*)(?!\w)")


def driver_version(root: Path) -> str:
    """The version of the loaded kernel module; "" without one, "unknown" if it has no version."""
    version_file = read_text(root / "proc/driver/nvidia/version")
    match = _VERSION.search(version_file) or _VERSION.search(read_text(root / "sys/module/nvidia/version"))
    if match:
        return match[1]
    return "unknown" if version_file or (root / "sys/module/nvidia").is_dir() else ""


def system_names(root: Path) -> tuple[str, ...]:
    """ID, then ID_LIKE of os-release: ("cachyos", "arch")."""
    text = read_text(root / "etc/os-release")
    fields = dict(re.findall(r'^(ID|ID_LIKE)="?([^"\n]*)"?$', text, re.MULTILINE))
    return tuple(f"{fields.get('ID', '')} {fields.get('ID_LIKE', '')}".split())


def nodes(root: Path) -> Nodes:
    """NVIDIA's device nodes, and that of WSL."""
    names = sorted(
        path.name
        for pattern in ("nvidia*", "dxg")
        for path in (root / "dev").glob(pattern)
        if not path.is_dir()
    )
    opened = re.compile(r"nvidia\d+|nvidiactl|nvidia-uvm")
    closed = [
        name
        for name in names
        if opened.fullmatch(name) and not os.access(root / "dev" / name, os.R_OK | os.W_OK)
    ]
    return Nodes(tuple(names), tuple(closed))


def graphics(root: Path) -> Graphics:
    """Every display controller on the PCI bus, and the tool that hides the NVIDIA one."""
    cards = tuple(
        GraphicsCard(
            address=path.name,
            vendor=read_text(path / "vendor").strip().removeprefix("0x"),
            device=read_text(path / "device").strip().removeprefix("0x"),
            screen=read_text(path / "boot_vga").strip() == "1",
            power=read_text(path / "power/runtime_status").strip(),
        )
        for path in sorted((root / "sys/bus/pci/devices").glob("*"))
        if read_text(path / "class").startswith(_DISPLAY_CLASS)
    )
    battery = any((root / "sys/class/power_supply").glob("BAT*"))
    chassis = read_text(root / "sys/class/dmi/id/chassis_type").strip()
    return Graphics(cards, battery or chassis in _LAPTOPS, _switched_off(root))


def container(root: Path, programs: dict[str, str]) -> Container:
    """Whether this process runs in a container. programs: those on PATH."""
    inside = inside_container(root)
    tools = ("nvidia-ctk", "nvidia-container-runtime", "nvidia-container-cli")
    toolkit = next((programs[name] for name in tools if name in programs), "")
    return Container(inside, toolkit, programs.get("docker", ""))


def storage(output_dir: Path) -> Storage:
    """The disk of OUTPUT_DIR, which need not exist and is not created. Raises OSError."""
    place = output_dir.expanduser().absolute()
    while not place.exists() and place != place.parent:
        place = place.parent
    usage = shutil.disk_usage(place)
    fault = ""
    if not place.is_dir():
        fault = "it is a file"
    elif not os.access(place, os.W_OK | os.X_OK):
        fault = "no write permission, or a read-only file system"
    elif (entries := os.statvfs(place)).f_files and not entries.f_favail:
        fault = "no inodes left for another file"
    return Storage(place, usage.free, usage.total, fault)


def shared_memory(root: Path) -> int:
    """Bytes of /dev/shm; 0 if there is none."""
    try:
        return shutil.disk_usage(root / "dev/shm").total
    except OSError:
        return 0


def _switched_off(root: Path) -> str:
    if read_text(root / "etc/prime-discrete").strip() == "off":
        return "prime-select: /etc/prime-discrete says off"
    for folder in ("etc/udev/rules.d", "lib/udev/rules.d"):
        if (root / folder / "50-remove-nvidia.rules").exists():
            return f"envycontrol: /{folder}/50-remove-nvidia.rules"
    if read_json(root / "etc/supergfxd.conf").get("mode") == "Integrated":
        return "supergfxctl: /etc/supergfxd.conf says Integrated"
    if read_text(root / "proc/acpi/bbswitch").strip().endswith("OFF"):
        return "bbswitch: /proc/acpi/bbswitch says OFF"
    return ""
