"""The page's pure functions in Node, which starts faster than a browser."""

from pathlib import Path

import pytest

from tests.api.page.scripts import node_tests

pytestmark = pytest.mark.system


def test_pure_functions_of_the_page(tmp_path: Path) -> None:
    node_tests(Path(__file__).with_name("scripts.test.js"), tmp_path)
