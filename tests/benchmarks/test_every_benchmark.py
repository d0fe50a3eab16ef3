"""Every benchmark that `python -m benchmarks` lists starts and ends, in its smallest mode."""

import json
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import outside_judges, synthetic
from benchmarks.__main__ import main, names
from benchmarks.loading import GROWTH_ROWS
from tests.installed import ROOT, has, missing

# The arguments of each benchmark's smallest modes. {base}: a small base model, {tmp}: the test's
# folder.
SMALLEST = {
    "data": ["--clips 20"],
    "gpu": ["--rehearse --out {tmp}/gpu.json"],
    "guard": [""],
    "loading": [
        "--rounds 1 --codes 12 --threads 1 --folder {base} --rows coqui,auto,LOW_MEMORY",
        "--sentences 4 --threads 1",
    ],
    "memory": [""],
    "nearness": ["--voice demo --person train/data/evaluation/voices --sentences 2 --seeds 1"],
    "serving": ["--rounds 1"],
    "speaking": [
        "--rounds 1 --codes 12 --folder {base} --precisions fp32,int8,int4,auto,onnx-fp32,onnx-int8",
        "--rounds 1 --codes 12 --folder {base} --precisions int8 --layers 2 --small-precisions fp32",
    ],
    "text": [""],
    "training": ["--rounds 1 --threads 1 --folder {base}"],
}
ROWS_HERE = ["coqui", "ours auto", "ours LOW_MEMORY", "onnx LOW_MEMORY"]
# Every listed benchmark. Without a smallest mode it runs as is, and the next test fails.
MODES = [
    pytest.param(name, arguments, id=f"{name} {arguments}".strip())
    for name in names()
    for arguments in SMALLEST.get(name, [""])
]


def test_every_benchmark_has_a_smallest_mode():
    assert set(SMALLEST) == set(names())


def test_an_unknown_benchmark_is_refused(capsys):
    assert main(["speed"]) == 2
    assert "|nearness|" in capsys.readouterr().err


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = synthetic.write_base(tmp_path_factory.mktemp("base") / "base", full=False)
    if has("onnx"):
        synthetic.export_onnx(folder)
    return folder


def skip_without_what_it_needs(name: str, arguments: str) -> None:
    """Also an extra named in its source or its arguments: onnx-int8 is a precision."""
    source = (ROOT / "benchmarks" / name).with_suffix(".py")
    told = {*re.findall("[a-z]+", source.read_text("utf-8") + arguments)}
    if deleted := told & set(missing()):
        pytest.skip(f"not installed: {', '.join(sorted(deleted))} of extras/")
    if name == "nearness" and (reasons := outside_judges.missing_reasons()):
        pytest.skip("; ".join(reasons))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "arguments"), MODES)
def test_it_ends_and_every_row_has_figures(name, arguments, base, tmp_path):
    skip_without_what_it_needs(name, arguments)
    words = arguments.format(base=base, tmp=tmp_path).split()
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", name, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    if name == "gpu":
        found = json.loads((tmp_path / "gpu.json").read_text(encoding="utf-8"))["parts"]
        assert found.pop("machine")["figures"]["device"] == "cpu"
    else:
        lines = done.stdout.splitlines()
        first = next(number for number, line in enumerate(lines) if line.startswith(("[", "{")))
        found = json.loads("\n".join(lines[first:]))  # Coqui prints before it
    check_rows(found, name)
    if name == "loading":
        assert list(found) == (GROWTH_ROWS if "--sentences" in arguments else ROWS_HERE)
    if name == "loading" and "--codes" in arguments:
        least, other = (found[f"{kind} LOW_MEMORY"]["peak_gb"] for kind in ("onnx", "ours"))
        assert least < 0.5 * other  # without torch
        for row in ROWS_HERE:
            marks = [found[row][mark] for mark in ("imported", "loaded", "first_audio")]
            assert marks == sorted(marks)


def check_rows(found: Any, place: str) -> bool:
    """Whether `found` has a number in it.

    Every number is finite, every row of a table has one, and no row reports an error instead.
    """
    if isinstance(found, bool | str) or found is None:
        return False
    if isinstance(found, int | float):
        assert math.isfinite(found), place
        return True
    inner = found if isinstance(found, dict) else dict(enumerate(found))
    assert not {"failed", "error", "not_run"} & inner.keys(), (place, found)
    has = {name: check_rows(one, f"{place}, {name}") for name, one in inner.items()}
    rows = [name for name, one in inner.items() if isinstance(one, dict) and one]
    assert all(has[name] for name in rows), (place, rows)
    return any(has.values())


def test_a_row_without_a_figure_is_noticed():
    assert check_rows({"a": {"seconds": 1.0}, "why": "", "false": {}}, "whole")
    for wrong in (
        {"a": {"seconds": 1.0}, "b": {"why": "none"}},
        [{"seconds": math.nan}],
        {"a": {"seconds": 1.0}, "b": {"failed": "it ended", "seconds": 3.0}},
    ):
        with pytest.raises(AssertionError):
            check_rows(wrong, "whole")
