"""A base folder that a test may break."""

from pathlib import Path

import pytest

from tests.models import tiny_base


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tiny_base(tmp_path / "base")
