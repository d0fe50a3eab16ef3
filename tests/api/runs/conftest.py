"""Fixtures with evaluated runs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.conftest import Running
from tests.api.judged_run import judged_service


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "output"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Running]:
    with judged_service(tmp_path) as opened:
        yield opened


@pytest.fixture(scope="module")
def still(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One service for all read-only tests."""
    with judged_service(tmp_path_factory.mktemp("still")) as opened:
        yield opened
