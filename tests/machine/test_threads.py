"""Waiting threads sleep soon, unless a user has said how they wait."""

import os
import subprocess
import sys

import pytest

from machine.threads import SPINS

NAMES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
TELLS = (
    "import os; from machine.threads import limit_omp_spinning; limit_omp_spinning(); "
    f"print([os.environ.get(name) for name in {NAMES}])"
)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ["PASSIVE", str(SPINS)]),
        ({"OMP_WAIT_POLICY": "ACTIVE"}, ["ACTIVE", None]),
        ({"OMP_WAIT_POLICY": "PASSIVE"}, ["PASSIVE", None]),
        ({"GOMP_SPINCOUNT": "7"}, ["PASSIVE", "7"]),
        # A child of ours.
        ({"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "7"}, ["PASSIVE", "7"]),
    ],
)
def test_what_a_user_has_said_stays(given, expected):
    clean = {name: value for name, value in os.environ.items() if name not in NAMES}
    said = subprocess.run(
        [sys.executable, "-c", TELLS], env=clean | given, capture_output=True, text=True, check=True
    )
    assert said.stdout.strip() == str(expected)
