"""The checks together: one that raises, and the time of each."""

from typing import Any

from extras.doctor import diagnosis, report
from extras.doctor.diagnosis import judge
from extras.doctor.finding import Finding, Severity, fail, ok
from tests.extras.doctor.simulated import HEALTHY


def test_a_check_that_fails_itself_ends_nothing(monkeypatch):
    def broken(settings: Any) -> Finding:
        raise ZeroDivisionError("of all things")

    monkeypatch.setattr(diagnosis, "CHECKS", {"one": broken})
    (found,) = judge(HEALTHY)
    assert found.status is Severity.COULD_NOT_RUN and "of all things" in found.evidence


def test_the_time_of_a_finding_is_that_of_its_readings():
    found = {finding.id: finding for finding in judge(HEALTHY)}
    assert found["torch"].seconds == 2.6 and found["disk"].seconds == 0.0


def test_whoever_has_a_fault_is_sent_to_the_page_of_errors():
    assert "docs/errors.md" in report.as_text((fail("a", "b", "c", "d"),))
    assert "docs/errors.md" not in report.as_text((ok("a"),))
