"""Every benchmark that `python -m benchmarks` lists starts and ends, in its smallest mode."""

import importlib.util
import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import synthetic, tables
from benchmarks.__main__ import main, names
from benchmarks.low_memory import ROWS
from machine.devices.selection import gpu_nodes
from machine.errors import SotaqueError

# The arguments of each benchmark's smallest modes; {base}: a small base model, {tmp}: a folder of
# the test's own, {clips}: a dataset of twelve clips.
SMALLEST = {
    "adapters": ["--rounds 1 --codes 6 --adapters 3 --threads 1 --folder {base} --json"],
    "book": [
        "--plan-words 300 --words 60 --chapter-words 30 --texts 1 --json",
        "--parts ray --words 120 --chapter-words 60 --json",
    ],
    "cutting": [
        "--voices slt --sentences 6 --json",
        "--voices slt --sentences 6 --by base --json",
    ],
    "data": [
        "--rounds 1 --threads 1 --folder {base} --json",
        "--starts --folder {base} --json",
        "--scale --clips 20 --json",
    ],
    "decoder": [
        "--clips 8 --steps 2 --sentences 2 --json",
        "--clips 8 --steps 2 --folder {base} --json",
    ],
    "distillation": ["--rounds 1 --threads 1 --precision fp32 --json"],
    "evaluation": ["--seeds 1 --set twenty --work {tmp} --json"],
    "extension": ["--languages el --texts 50 --folder {base} --work {tmp} --json"],
    "gpu": ["--rehearse --out {tmp}/gpu.json"],
    "guard": ["--texts 2 --faults 6 --pairs 1 --json"],
    "language": ["--vocabulary --texts 20 --work {tmp} --json"],
    "loading": ["--rounds 1 --codes 12 --folder {base} --json"],
    "low_memory": [
        "--coqui --codes 12 --threads 1 --folder {base} --json",
        "--sentences 4 --threads 1 --json",
    ],
    "memory": ["--json", "--run --json"],
    "operations": ["--json"],
    "people": ["--dataset {clips} --folds 2 --seeds 1 --work {tmp} --json"],
    "probe": ["--quick --times 1 --json"],
    "speakers": [
        "--voices slt,kal16 --clips 24 --sentences 2 --work {tmp} --json",
        "--voices slt --style --clips 24 --sentences 2 --work {tmp} --json",
    ],
    "sample": ["--rounds 1 --codes 12 --threads 1 --folder {base} --json"],
    "serving": ["--rounds 1 --json"],
    "speaking": [
        "--rounds 1 --codes 12 --folder {base} --json"
        " --precisions fp32,int8,int4,auto,onnx-fp32,onnx-int8",
        "--rounds 1 --codes 12 --folder {base} --json --precisions int8 --layers 2"
        " --small-precisions fp32",
    ],
    "takes": ["--each 1 --good 2 --json"],
    "text": ["--json"],
    "references": ["--speak-as awb --recordings 2 --sentences 2 --seeds 1 --json"],
    "tone": ["--texts 1 --sentences 3 --json"],
    "training": ["--rounds 1 --threads 1 --folder {base} --json"],
    "voice": [
        f"--speak-as slt --sentences 2 --seeds 1 --precision {precision} --json"
        for precision in ("fp32", "onnx-int8")
    ],
}  # fmt: skip
# What a whole run in a benchmark takes from the environment, as `make train` does.
SHORT_RUN = {
    "NUM_EPOCHS": "1", "MAX_TRAIN_SAMPLES": "12", "BLEND": "0.5", "LEARN_DECODER": "off",
    "EVALUATE_RECOGNISER": "off",
    "EVALUATE_NATURALNESS": "off",
}  # fmt: skip
EVALUATED = "Good morning, dear.\nWe went home early.\nThe old man walked along the river.\n"
# Ways of attention that the rehearsal of `gpu` finds no CPU for.
ONLY_ON_A_GPU = ("cudnn", "efficient", "varlen")
NEED_FLITE = ("cutting", "decoder", "guard", "references", "speakers", "takes", "tone", "voice")
# Of everything that is listed; without a smallest mode it runs as it is, and the next test says so.
MODES = [
    pytest.param(name, arguments, id=f"{name} {arguments}".strip())
    for name in names()
    for arguments in SMALLEST.get(name, [""])
]


def test_every_benchmark_has_a_smallest_mode():
    assert set(SMALLEST) == set(names())


def test_an_unknown_benchmark_is_refused(capsys):
    assert main(["speed"]) == 2
    assert "voice" in capsys.readouterr().err


def test_figures_are_a_table_and_lines():
    found = tables.text({
        "rounds": 3,
        "rows": {"ours": {"seconds": 1.23456, "mfu": 0.5}, "coqui": {"seconds": 2000.0}},
    })  # fmt: skip
    assert found.splitlines() == [
        "rounds: 3", "", "rows:", "       seconds  mfu", "ours   1.235    0.5", "coqui  2000     -",
    ]  # fmt: skip
    assert tables.text([{"a": 1, "b": [1.0, 2.0]}]) == "a  b\n1  1, 2"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = synthetic.write_base(tmp_path_factory.mktemp("base") / "base", full=False)
    synthetic.export_onnx(folder)
    return folder


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first twelve of the demo dataset: a decoder needs four to learn from."""
    demo, folder = Path("train/data/demo"), tmp_path_factory.mktemp("clips")
    (folder / "wavs").mkdir()
    lines = (demo / "metadata.csv").read_text(encoding="utf-8").splitlines()[:12]
    (folder / "metadata.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for line in lines:
        found = next(demo.rglob(f"{line.split('|')[0]}.*"))
        shutil.copy(found, folder / "wavs" / found.name)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(("name", "arguments"), MODES)
def test_it_ends_and_every_row_has_figures(name, arguments, base, clips, tmp_path):
    if name in NEED_FLITE and shutil.which("flite") is None:
        pytest.skip("apt-get install flite")
    if "--parts ray" in arguments and importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is 200 MB: .venv/bin/python -m pip install -e '.[ray]'")
    evaluated = tmp_path / "evaluated.txt"
    evaluated.write_text(EVALUATED, encoding="utf-8")
    words = arguments.format(base=base, clips=clips, tmp=tmp_path).split()
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", name, *words],
        capture_output=True, text=True, check=False,
        env=os.environ | SHORT_RUN | {"EVALUATE_TEXTS": str(evaluated)},
    )  # fmt: skip
    if name == "probe" and not gpu_nodes():
        assert done.returncode == SotaqueError.exit_code and "NVIDIA GPU" in done.stderr
        return
    assert done.returncode == 0, done.stderr[-2000:]
    if name == "gpu":
        found = json.loads((tmp_path / "gpu.json").read_text(encoding="utf-8"))["parts"]
        assert found.pop("machine")["figures"]["device"] == "cpu"
        for kernel in ONLY_ON_A_GPU:
            assert "not_run" in found["attention"]["figures"].pop(kernel)
    else:
        lines = done.stdout.splitlines()
        first = next(number for number, line in enumerate(lines) if line.startswith(("[", "{")))
        found = json.loads("\n".join(lines[first:]))  # Coqui prints before
    check_rows(found, name)
    if name == "low_memory":
        assert list(found) == [one for one in ROWS if "coqui" in arguments or one != "coqui"]
        if "--codes" in arguments:
            least, other = (found[f"{kind} LOW_MEMORY"]["peak_gb"] for kind in ("onnx", "torch"))
            assert least < 0.5 * other  # without torch
    if name == "loading":
        for side in ("coqui", "ours auto"):
            row = found[side]
            assert row["imported"] < row["loaded"] < row["first_audio"]


def check_rows(found: Any, place: str) -> bool:
    """Whether there is a number in it. Every number is finite, every row of a table has one, and
    none tells an error in its place."""
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
