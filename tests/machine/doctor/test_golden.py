"""What the doctor says of twenty machines, word for word: text, JSON and exit code.

To change it: `.venv/bin/python -m tests.machine.doctor.simulated`, then read the difference.
"""

import pytest

from machine.doctor import report
from machine.doctor.diagnosis import CHECKS, judge, needs
from machine.doctor.finding import Severity
from tests.machine.doctor.simulated import EXIT_CODES, GOLDEN, MACHINES, healthy, told

ASKED_FOR = {
    "no_driver", "no_toolkit", "uvm_missing", "old_driver", "blackwell_on_an_old_build",
    "wrong_libcufft", "cpu_build_of_onnx_runtime", "onnx_runtime_of_another_major",
    "small_shared_memory", "no_ffmpeg", "disk_full", "exclusive_mode", "poisoned_child",
    "hanging_child",
}  # fmt: skip


def test_the_machines_are_all_there() -> None:
    assert len(ASKED_FOR) == 14 and set(MACHINES) >= ASKED_FOR
    assert {path.stem for path in GOLDEN.iterdir()} == set(MACHINES) == set(EXIT_CODES)


@pytest.mark.parametrize("name", MACHINES)
def test_it_says_what_was_agreed(name: str) -> None:
    text, machine_readable, code = told(name)
    assert text == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")
    assert machine_readable == (GOLDEN / f"{name}.json").read_text(encoding="utf-8")
    assert code == EXIT_CODES[name]


@pytest.mark.parametrize("name", MACHINES)
def test_whoever_is_told_of_a_fault_is_told_what_to_do(name: str) -> None:
    findings = judge(MACHINES[name]())
    assert len({one.id for one in findings}) == len(findings)
    for one in findings:
        assert one.observed and "\n" not in one.fix, one.id
        if one.status in (Severity.WARN, Severity.FAIL):
            assert one.fix and one.meaning and one.expected, one.id
        if one.status is Severity.OK:
            assert not one.fix, one.id


def test_failures_come_before_warnings_and_no_line_twice() -> None:
    findings = judge(MACHINES["hanging_child"]())
    steps = report.fixes(findings)
    assert len(steps) == len(set(steps)) > 1
    firsts = [one.fix for one in findings if one.status is Severity.FAIL]
    assert steps[: len(set(firsts))] == list(dict.fromkeys(firsts))


def test_every_reading_is_used() -> None:
    used = {name for check in CHECKS.values() for name in needs(check)}
    assert used == set(type(healthy()).__dataclass_fields__) - {"troubles", "seconds"}
