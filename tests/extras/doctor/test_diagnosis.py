"""The checks together: one that fails itself, and how long each took."""

from typing import Any

from extras.doctor import diagnosis
from extras.doctor.diagnosis import judge
from extras.doctor.finding import Finding, Severity
from tests.extras.doctor.simulated import HEALTHY


def test_a_check_that_fails_itself_ends_nothing(monkeypatch):
    def broken(settings: Any) -> Finding:
        raise ZeroDivisionError("of all things")

    monkeypatch.setattr(diagnosis, "CHECKS", {"one": broken})
    (found,) = judge(HEALTHY)
    assert found.status is Severity.COULD_NOT_RUN and "of all things" in found.evidence


def test_the_time_of_a_finding_is_that_of_its_readings():
    found = {one.id: one for one in judge(HEALTHY)}
    assert found["torch"].seconds == 2.6 and found["disk"].seconds == 0.0
