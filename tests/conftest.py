"""For every test: no setting of the person who runs it, and the fixtures that many share."""

import os

import hypothesis
import pytest

from machine.settings.names import NAMES

# A busy machine is no fault of what is tested.
hypothesis.settings.register_profile(
    "patient", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("patient")


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """`NUM_EPOCHS=2 make test` tests the same as `make test`; so do children of a test."""
    for name in NAMES & os.environ.keys():
        monkeypatch.delenv(name)
