"""The doctor's reports on twenty machines, word for word: text, JSON and exit code.

To change them, run `.venv/bin/python -m tests.extras.doctor.simulated` and read the difference.
"""

import json

import pytest

from extras.doctor import report
from extras.doctor.diagnosis import CHECKS, judge, required_readings
from extras.doctor.finding import Severity
from tests.extras.doctor.simulated import GOLDEN, HEALTHY, MACHINES, told


def test_the_machines_are_all_there():
    assert {path.stem for path in GOLDEN.iterdir()} == set(MACHINES)


@pytest.mark.parametrize("name", MACHINES)
def test_it_says_what_was_agreed(name):
    text, machine_readable, code = told(name)
    assert text == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")
    assert machine_readable == (GOLDEN / f"{name}.json").read_text(encoding="utf-8")
    assert code == json.loads(machine_readable)["exit_code"]


@pytest.mark.parametrize("name", MACHINES)
def test_whoever_is_told_of_a_fault_is_told_what_to_do(name):
    findings = judge(MACHINES[name])
    assert len({finding.id for finding in findings}) == len(findings)
    for finding in findings:
        assert finding.observed and "\n" not in finding.fix, finding.id
        if finding.status in (Severity.WARN, Severity.FAIL):
            assert finding.fix and finding.meaning and finding.expected, finding.id
        if finding.status is Severity.OK:
            assert not finding.fix, finding.id


def test_failures_come_before_warnings_and_no_line_twice():
    findings = judge(MACHINES["hanging_child"])
    steps = report.fixes(findings)
    assert len(steps) == len(set(steps)) > 1
    firsts = [finding.fix for finding in findings if finding.status is Severity.FAIL]
    assert steps[: len(set(firsts))] == list(dict.fromkeys(firsts))


def test_every_reading_is_used():
    used = {name for check in CHECKS.values() for name in required_readings(check)}
    assert used == set(type(HEALTHY).__dataclass_fields__) - {"troubles", "seconds"}
