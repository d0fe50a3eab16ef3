"""Readings from the kernel's and the system's files."""

import pytest

from extras.common.readings import system_files
from tests.extras.common.readings.places import write


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"etc/prime-discrete": "off\n"}, "prime-select"),
        ({"etc/udev/rules.d/50-remove-nvidia.rules": "x"}, "envycontrol"),
        ({"etc/supergfxd.conf": '{"mode": "Integrated"}'}, "supergfxctl"),
        ({"etc/supergfxd.conf": "[1]"}, ""),
        ({"proc/acpi/bbswitch": "0000:01:00.0 OFF\n"}, "bbswitch"),
        ({"etc/prime-discrete": "on-demand\n"}, ""),
    ],
)
def test_who_switched_the_card_off(tmp_path, files, words):
    off = system_files.graphics(write(tmp_path, files)).off
    assert off.startswith(words) and bool(off) == bool(words)


def test_a_disk_is_asked_about_before_the_folder_exists(tmp_path):
    found = system_files.storage(tmp_path / "a" / "b")
    assert (found.place, found.write_fault) == (tmp_path, "") and found.free_bytes > 0
    assert not (tmp_path / "a").exists()
    (tmp_path / "file").write_text("")
    assert system_files.storage(tmp_path / "file").write_fault == "it is a file"
