"""The `doctor` command: reads, judges and prints; the exit code is the worst finding."""

import sys

from extras.doctor import report
from extras.doctor.collection import ReadingPlace, read_machine
from extras.doctor.diagnosis import exit_code, judge


def run(place: ReadingPlace, *, as_json: bool = False, only_fixes: bool = False) -> int:
    """Returns 0 if all is well, 1 for a warning or a failed reading, 2 for a fault to fix."""
    findings = judge(read_machine(place))
    if as_json:
        text = report.as_json(findings)
    elif only_fixes:
        text = "".join(f"{fix}\n" for fix in report.fixes(findings)) or "Nothing to fix.\n"
    else:
        text = report.as_text(findings)
    sys.stdout.write(text)
    sys.stdout.flush()
    return exit_code(findings)
