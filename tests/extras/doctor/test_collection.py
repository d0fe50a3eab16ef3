"""All readings of a machine, as a folder: files of garbage, hanging programs, no PATH."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from extras.common.readings.snapshot import AMD, NVIDIA, Machine
from extras.doctor import collection
from extras.doctor.diagnosis import exit_code, judge
from extras.doctor.finding import Severity
from tests.extras.common.readings.places import laptop, program, write
from tests.extras.doctor.simulated import computer
from tests.processes import gone


def seen(root: Path, environ: Mapping[str, str] | None = None, **more: Any) -> Machine:
    variables = {"HOME": str(root), "PATH": ""} | dict(environ or {})
    place = collection.ReadingPlace(root, root / ".env", variables, gpus=lambda **_: computer(), **more)
    return collection.read_machine(place)


def test_a_laptop_with_two_cards_is_read(tmp_path):
    found = seen(laptop(tmp_path), {"DRI_PRIME": "1", "SECRET": "x"})
    assert found.troubles == {}
    assert found.driver and found.driver.version == "560.35.03"
    assert found.driver.system == ("cachyos", "arch")
    assert found.nodes and found.nodes.names == ("nvidia-uvm", "nvidia0", "nvidiactl")
    assert found.graphics and found.graphics.laptop
    nvidia, amd = found.graphics.cards
    assert (nvidia.vendor, nvidia.device, nvidia.power) == (NVIDIA, "1d11", "suspended")
    assert (amd.vendor, amd.screen) == (AMD, True)
    assert found.variables == {"DRI_PRIME": "1"}  # no private variables
    assert set(found.seconds) >= {"driver", "torch", "storage"}


def test_garbage_for_every_file(tmp_path):
    root = laptop(tmp_path)
    noise = bytes(range(256)) * 64
    for path in [*root.rglob("*")]:
        if path.is_file():
            path.write_bytes(noise)
    write(root, {"etc/supergfxd.conf": "{", "proc/1/cgroup": "\0", ".env": "nonsense"})
    found = seen(root)
    assert found.troubles == {}
    assert found.driver and found.driver.version == "unknown"
    assert found.graphics and found.graphics.cards == ()
    assert judge(found)


@pytest.mark.slow
def test_files_that_are_folders_and_folders_that_are_files(tmp_path):
    for name in ("proc/driver/nvidia/version", "etc/os-release", "proc/1/cgroup"):
        (tmp_path / name).mkdir(parents=True)
    write(tmp_path, {"dev": "", "sys/bus/pci/devices": ""})
    found = seen(tmp_path)
    assert found.troubles == {}
    assert found.driver and found.driver.version == ""
    assert exit_code(judge(found)) in (0, 1)


@pytest.mark.slow
def test_an_empty_machine(tmp_path):
    found = seen(tmp_path / "nowhere")
    assert found.troubles == {} and found.programs == {}
    assert found.shared_memory == 0
    assert {finding.status for finding in judge(found)} == {Severity.OK}


@pytest.mark.parametrize(
    ("device", "finding"), [("tpu", "settings"), pytest.param("cuda", "device", marks=pytest.mark.slow)]
)
def test_a_device_that_is_none_or_is_not_there_is_a_finding(tmp_path, device, finding):
    found = {finding.id: finding for finding in judge(seen(tmp_path, {"DEVICE": device}))}
    assert found[finding].status is Severity.FAIL
    assert ("DEVICE is 'tpu'" in found["settings"].meaning) == (device == "tpu")
    assert found["disk"].status is not Severity.COULD_NOT_RUN


@pytest.mark.slow
def test_nvidia_smi_that_hangs_is_left_behind_with_what_it_started(tmp_path):
    pid_file = tmp_path / "pid"
    program(tmp_path / "bin", "nvidia-smi", f"sleep 300 & echo $$ $! > {pid_file}; sleep 300")
    started = time.monotonic()
    found = seen(laptop(tmp_path), {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"}, managed_seconds=1.0)
    assert time.monotonic() - started < 30
    assert found.managed and found.managed.fault == "no answer within 1 s"
    assert all(gone(int(pid)) for pid in pid_file.read_text().split())


def test_a_look_that_raises_and_one_that_never_ends():
    def late() -> None:
        time.sleep(30)

    def wrong() -> None:
        raise RuntimeError("the kernel says no")

    readings = collection.Readings()
    readings.take({"late": late, "wrong": wrong, "good": lambda: 7}, 0.2)
    assert readings.values == {"good": 7}
    assert readings.troubles == {"late": "no answer within 0.2 s", "wrong": "the kernel says no"}
