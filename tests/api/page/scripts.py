"""Runs tests of the page's scripts in Node."""

import shutil
import subprocess
from pathlib import Path

import pytest

from api.parts import PAGE, page_folders


def node_tests(tests: Path, folder: Path, extra: str = "") -> None:
    """Copies the served page and these tests into one folder and runs the tests.

    extra: the extra with the tested scripts; "" for the core.
    """
    node = shutil.which("node")
    if node is None:
        pytest.fail("node is not installed; on Debian: apt-get install nodejs")
    for name, part in {"": PAGE, **page_folders()}.items():
        shutil.copytree(part, folder / name, dirs_exist_ok=True)
    shutil.copy(tests, folder / extra)
    (folder / "package.json").write_text('{"type": "module"}')
    done = subprocess.run(
        [node, "--test", tests.name], cwd=folder / extra, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
