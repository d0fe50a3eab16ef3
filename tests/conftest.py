"""For every test: no setting of the person who runs it, and the fixtures that many share."""

import os

import pytest

from xtts.setting_names import NAMES


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """`NUM_EPOCHS=2 make test` tests the same as `make test`; so do children of a test."""
    for name in NAMES & os.environ.keys():
        monkeypatch.delenv(name)
