"""The hour with a GPU: results after each part, parts left out, and a rehearsal of all."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from benchmarks import gpu, gpu_parts
from benchmarks.__main__ import main


def run(out: Path, *more: str) -> dict[str, Any]:
    main(["gpu", "--rehearse", "--out", str(out), *more])
    found: dict[str, Any] = json.loads(out.read_text())
    return found["parts"]


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Three parts: one succeeds, one lacks a package, one fails. Returns the names that ran."""
    ran: list[str] = []
    ends: dict[str, Any] = {
        "well": {"4 clips": {"milliseconds": 3.5, "mfu": None}, "times": 12.0},
        "lacking": ModuleNotFoundError("No module named 'TTS'"),
        "failing": RuntimeError("CUDA error: an illegal memory access\nmore"),
    }

    def part(name: str) -> dict[str, Any]:
        ran.append(name)
        if isinstance(ends[name], Exception):
            raise ends[name]
        return ends[name]

    parts = {name: lambda _at, name=name: part(name) for name in ends}
    monkeypatch.setattr(gpu_parts, "PARTS", parts)
    return ran


def test_a_part_that_cannot_run_says_why_and_the_others_run(fakes, tmp_path):
    parts = run(tmp_path / "gpu.json")
    assert parts["well"]["figures"]["times"] == 12.0
    assert parts["lacking"] == {"not_run": "No module named 'TTS'"}
    assert parts["failing"] == {"failed": "RuntimeError: CUDA error: an illegal memory access"}
    assert main(["gpu", "--rehearse", "--out", str(tmp_path / "again.json")]) == 1


def test_it_goes_on_behind_what_is_there(fakes, tmp_path):
    run(tmp_path / "gpu.json", "--only", "well")
    assert fakes == ["well"]
    run(tmp_path / "gpu.json", "--resume")
    # Parts without figures are tried again.
    assert fakes == ["well", "lacking", "failing"]
    run(tmp_path / "gpu.json", "--resume")
    assert fakes == ["well", *["lacking", "failing"] * 2]


def test_when_the_time_is_over_no_part_begins(fakes, tmp_path):
    (tmp_path / "gpu.json").write_text('{"parts": {"machine": {"seconds": 1}}}')
    run(tmp_path / "gpu.json", "--resume", "--minutes", "-1")
    assert fakes == []


def test_without_a_gpu_it_says_so(monkeypatch, capsys):
    monkeypatch.setattr(gpu, "has_gpu_node", lambda: False)
    assert main(["gpu"]) == 2
    assert "--rehearse" in capsys.readouterr().err


def test_a_graph_says_what_the_plain_step_says():
    """The part that compares the two, on the CPU."""
    found = gpu_parts.compare_graph(gpu_parts.choose_setup("cpu", "", rehearse=True))
    assert all(row["same"] and not row["reason"] for row in found.values())


@pytest.mark.slow
def test_distances_on_the_cpu_fit_and_differ_with_the_numbers():
    rows = gpu_parts.measure_distances("cpu", 2)
    found = {(row["operation"], row["part"]): row for row in rows}
    assert len(found) == len(rows) > 20
    for row in rows:
        assert row["largest"] <= row["tolerance"] and row["between_runs"] <= row["tolerance"]
    prefill, product = (found["attention_bf16", part]["largest"] for part in ("prefill", "product"))
    assert 0 < prefill < math.inf and prefill != product


@pytest.mark.parametrize(
    ("largest", "between", "limit", "words"),
    [
        (2e-4, 0.0, 1e-4, "FAILS"),
        (1e-6, 2e-4, 1e-4, "FAILS"),
        (math.inf, 0.0, 1e-4, "FAILS"),
        (math.nan, 0.0, 1e-4, "FAILS"),
        (5e-5, 0.0, 1e-4, "too tight"),
        (1e-6, 0.0, 1e-4, "fits"),
        (0.0, 0.0, 0.0, "fits"),
        (1e-9, 0.0, 1e-4, "could be tighter"),
    ],
)
def test_what_is_said_of_a_tolerance(largest, between, limit, words):
    row = {"largest": largest, "between_runs": between, "tolerance": limit}
    assert gpu_parts.judge_tolerance(row) == words
