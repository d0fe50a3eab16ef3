"""The page's pure functions in Node, which starts faster than a browser."""

import shutil
from pathlib import Path

import pytest

from tests.api.page.scripts import node_tests

# In the default tier where there is Node; where there is none, the system tier says so.
pytestmark = [] if shutil.which("node") else [pytest.mark.system]


@pytest.mark.parametrize("name", ["scripts.test.js", "numbers.test.js"])
def test_pure_functions_of_the_page(name: str, tmp_path: Path) -> None:
    node_tests(Path(__file__).with_name(name), tmp_path)
