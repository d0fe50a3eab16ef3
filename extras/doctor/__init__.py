"""`python -m xtts doctor`: finds faults of this machine, and the commands that fix them.

`extras.common.readings` fills a frozen `Machine`, the pure functions in `checks` judge it
(`diagnosis` has the list), and `report` prints. A reading that fails or hangs is a finding, not an
error.
"""

VERBS = {
    "xtts": {
        "doctor": "extras.doctor.verbs.doctor",
        "monitor": "extras.doctor.verbs.monitor",
        "explain": "extras.doctor.verbs.explain",
    }
}
USAGE = "extras.doctor.run_usage"
