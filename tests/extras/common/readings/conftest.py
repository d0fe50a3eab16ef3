"""The part of an inspection that these tests skip."""

import pytest

from extras.common.readings import libraries, programs
from extras.common.readings.snapshot import TorchBuild

TORCH = TorchBuild("2.11.0+cu130", "13.0", 91900, ("sm_86",))


@pytest.fixture(autouse=True)
def _no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing torch takes seconds; test_libraries.py tests its inspection."""
    monkeypatch.setattr(libraries, "torch_build", lambda *_: TORCH)
    monkeypatch.setattr(programs, "refused_settings", lambda *_: ())
