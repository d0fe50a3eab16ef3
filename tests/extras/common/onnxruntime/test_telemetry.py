"""ONNX Runtime sends no telemetry and writes no files."""

import ast
import subprocess
import sys

import pytest

from tests.test_architecture import MODULES, ROOT, tree

CODE = "from extras.common.onnxruntime.sessions import runtime; print(runtime().__version__)"


def test_it_leaves_nothing_in_the_users_home(tmp_path):
    pytest.importorskip("onnxruntime")
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        env={"HOME": str(tmp_path), "PATH": ""},
        cwd=".",
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() and list(tmp_path.rglob("*")) == []


def test_it_is_imported_nowhere_else():
    found = [
        f"{path}:{node.lineno}"
        for path in MODULES
        if path.parts[0] not in ("benchmarks", "demo_voice")
        and "onnxruntime" in (ROOT / path).read_text(encoding="utf-8")
        for node in ast.walk(tree(path))
        if (isinstance(node, ast.Import) and "onnxruntime" in [name.name for name in node.names])
        or (isinstance(node, ast.ImportFrom) and node.module == "onnxruntime")
    ]
    assert found == []
