"""A finding: severity, what was seen, what was expected, the fix."""

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How a thing stands.

    ok             as it should be, or of no concern here
    warn           it works, but slower, or something else will break
    fail           training, speaking or the GPU of this machine does not work like this
    could_not_run  nothing is known: the reading itself failed
    """

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    COULD_NOT_RUN = "could_not_run"


@dataclass(frozen=True)
class Finding:
    """fix: ONE line to type or to do, "" when ok; evidence: paths and versions, for a report to
    somebody else; seconds: how long the readings behind it took. A check leaves `id` empty: its
    place in the list names it."""

    status: Severity
    observed: str
    expected: str = ""
    meaning: str = ""
    fix: str = ""
    evidence: str = ""
    id: str = ""
    seconds: float = 0.0


def ok(observed: str, expected: str = "", meaning: str = "", evidence: str = "") -> Finding:
    """As it should be, or of no concern."""
    return Finding(Severity.OK, observed, expected, meaning, "", evidence)


def warn(observed: str, expected: str, meaning: str, fix: str, evidence: str = "") -> Finding:
    """It works, for now or slowly."""
    return Finding(Severity.WARN, observed, expected, meaning, fix, evidence)


def fail(observed: str, expected: str, meaning: str, fix: str, evidence: str = "") -> Finding:
    """It does not work like this."""
    return Finding(Severity.FAIL, observed, expected, meaning, fix, evidence)


def could_not_run(observed: str, meaning: str = "", fix: str = "", evidence: str = "") -> Finding:
    """Nothing is known."""
    return Finding(Severity.COULD_NOT_RUN, observed, "", meaning, fix, evidence)
