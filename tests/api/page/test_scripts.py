"""The page's pure functions in Node, which starts in less time than a browser."""

import shutil
import subprocess
from pathlib import Path

import pytest

from api.state import PAGE

pytestmark = pytest.mark.system
TESTS = Path(__file__).with_name("scripts.test.js")


def test_pure_functions_of_the_page(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.fail("node is not installed; on Debian: apt-get install nodejs")
    for script in (*PAGE.glob("*.js"), TESTS):
        shutil.copy(script, tmp_path)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    done = subprocess.run(
        [node, "--test", TESTS.name], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
