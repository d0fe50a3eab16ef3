"""For every test: no settings from the environment, and shared fixtures.

It imports no torch, which the process that hands tests to its workers does not need.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from machine.settings.names import CORE_SETTINGS

# A busy machine is not a fault of the tested code.
hypothesis.settings.register_profile(
    "patient", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("patient")


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """`NUM_EPOCHS=2 make test` tests the same as `make test`, in child processes too."""
    for name in CORE_SETTINGS & os.environ.keys():
        monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def base_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One tiny base for the whole session; do not write into it."""
    from tests.models import tiny_base

    return tiny_base(tmp_path_factory.mktemp("base") / "tiny")


@pytest.fixture(scope="session")
def onnx_folder(base_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny base as ONNX, for the whole session; do not write into it."""
    from tests.models import as_onnx

    return as_onnx(base_folder, tmp_path_factory.mktemp("onnx") / "voice")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """Debian's Chromium. Without it, the test fails and names the missing package."""
    program = shutil.which("chromium")
    if program is None:
        pytest.fail("chromium is not installed; on Debian: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # The sandbox needs user namespaces, which containers rarely have. Sound needs no device.
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()
