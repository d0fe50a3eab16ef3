"""The `doctor` command: reads, judges, prints; exit code is the worst finding."""

import sys

from machine.doctor import report
from machine.doctor.diagnosis import exit_code, judge
from machine.readings.collection import ReadingPlace, look


def run(place: ReadingPlace, *, as_json: bool = False, only_fixes: bool = False) -> int:
    """0 all well, 1 something to know, 2 something to mend."""
    findings = judge(look(place))
    if as_json:
        text = report.as_json(findings)
    elif only_fixes:
        text = "".join(f"{fix}\n" for fix in report.fixes(findings))
    else:
        text = report.as_text(findings)
    sys.stdout.write(text)
    sys.stdout.flush()
    return exit_code(findings)
