"""Programs that are queried: they fail or do not exist. The children are real."""

import os
import sys

import pytest

from extras.common.readings import programs
from extras.common.readings.snapshot import ReadingFailed
from tests.extras.common.readings.places import program

REAL_REFUSED = programs.refused_settings


def test_a_program_that_cannot_judge_its_settings_is_told(tmp_path):
    preflights = {"a run": (sys.executable, "-c", "raise SystemExit('no disk')")}
    with pytest.raises(ReadingFailed, match="the settings of a run: no disk"):
        REAL_REFUSED(preflights, {"PATH": os.defpath}, tmp_path / ".env")


def test_the_kernels_log_is_read_where_it_may_be(tmp_path):
    line = "[1.0] NVRM: Xid (PCI:0000:01:00): 79, pid=1, GPU has fallen off the bus."
    refused = program(tmp_path, "dmesg", "echo 'Operation not permitted' >&2; exit 1")
    journal = program(tmp_path, "journalctl", f"echo 'other'; echo '{line}'")
    asked = {"dmesg": str(refused), "journalctl": str(journal)}
    assert programs.kernel_log(asked) == (line,)
    assert programs.kernel_log({"dmesg": str(refused)}) == ()
