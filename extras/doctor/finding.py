"""A finding: its severity, the observation, the expectation, and the fix."""

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """The severity of a finding.

    ok             as expected, or not relevant here
    warn           it works, but slowly, or something else may fail
    fail           training, speaking or the GPU does not work
    could_not_run  nothing is known: the reading failed
    """

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    COULD_NOT_RUN = "could_not_run"


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes:
        fix: One line to type or to do; "" when ok.
        evidence: Paths and versions, for a bug report.
        id: The name of the check; `diagnosis` fills it if the check leaves it empty.
        seconds: How long its readings took.
    """

    status: Severity
    observed: str
    expected: str = ""
    meaning: str = ""
    fix: str = ""
    evidence: str = ""
    id: str = ""
    seconds: float = 0.0


def ok(observed: str, expected: str = "", meaning: str = "", evidence: str = "") -> Finding:
    """A finding as expected, or not relevant here."""
    return Finding(Severity.OK, observed, expected, meaning, "", evidence)


def warn(observed: str, expected: str, meaning: str, fix: str, evidence: str = "") -> Finding:
    """A finding for something that works slowly or may fail."""
    return Finding(Severity.WARN, observed, expected, meaning, fix, evidence)


def fail(observed: str, expected: str, meaning: str, fix: str, evidence: str = "") -> Finding:
    """A finding for something that does not work."""
    return Finding(Severity.FAIL, observed, expected, meaning, fix, evidence)


def could_not_run(observed: str, meaning: str = "", fix: str = "", evidence: str = "") -> Finding:
    """A finding for a reading or check that failed."""
    return Finding(Severity.COULD_NOT_RUN, observed, "", meaning, fix, evidence)


def gigabytes(num_bytes: float) -> str:
    """A size with two significant digits: 0.06 GB, 2.4 GB, 68 GB."""
    amount = num_bytes / 1e9
    return f"{amount:.{2 if amount < 1 else 1 if amount < 10 else 0}f} GB"
