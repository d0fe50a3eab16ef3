"""What every look at a machine leaves out."""

import pytest

from machine.readings import programs
from machine.readings.snapshot import TorchBuild

TORCH = TorchBuild("2.11.0+cu130", "13.0", 91900, ("sm_86",))


@pytest.fixture(autouse=True)
def _no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing it takes seconds; its own look is tested in test_programs.py."""
    monkeypatch.setattr(programs, "torch_build", lambda *_: TORCH)
    monkeypatch.setattr(programs, "refused", lambda *_: ())
