"""The benchmark of the GPU check: it refuses without a GPU; what it can do without one, it does."""

import ctypes
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import probe as benchmark
from benchmarks.__main__ import main
from machine.errors import SotaqueError

without_a_gpu = pytest.mark.skipif(
    any(Path("/dev").glob("nvidia[0-9]*")), reason="this machine has a GPU"
)


@without_a_gpu
@pytest.mark.parametrize("options", [[], ["--json"], ["--provoke", "assertion"]])
def test_without_a_gpu_it_says_one_sentence(capsys, options):
    assert main(["probe", *options]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1
    assert "measures an NVIDIA GPU, and cuda:0 is none on this machine" in said.err


def test_the_cpu_is_no_gpu():
    with pytest.raises(SotaqueError, match="cpu is none"):
        benchmark.require_gpu("cpu")


@pytest.mark.slow
def test_distances_on_the_cpu_fit_and_differ_with_the_numbers():
    rows = benchmark.distances("cpu", 2)
    found = {(row["operation"], row["part"]): row for row in rows}
    assert len(found) == len(rows) > 20
    for row in rows:
        assert row["largest"] <= row["tolerance"] and row["between_runs"] <= row["tolerance"]
    bf16 = found["attention_bf16", "prefill"]
    assert 0 < bf16["median"] and math.isfinite(bf16["largest"])
    assert bf16["largest"] != found["attention_bf16", "product"]["largest"]


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
    assert benchmark.advice(row) == words


def findings(**changes: Any) -> dict[str, Any]:
    """What a good GPU would give."""
    row = {"operation": "fft", "part": "x", "largest": 1e-6, "between_runs": 0.0, "tolerance": 1e-5}
    fault = {"text": "CUDA error", "exit_code": 70, "we_still_compute": True}
    check = {"name": "X", "torch": "2", "outcome": "ok", "reason": "", "cold_seconds": 9,
             "cached_seconds": 0.1}  # fmt: skip
    return {
        "check": check,
        "distances": [row],
        "faults": [
            {"fault": "assertion", "outcome": "sticky", **fault},
            {"fault": "low memory", "outcome": "transient", **fault},
        ],
        "refused_fft": {
            "check": {"failed": ["fft"]},
            "run": {"mode": "in_process", "reason": "fft failed: CUFFT_INVALID_SIZE"},
        },
        "sound_run": {"mode": "in_process"},
    } | changes


def test_what_is_good_and_what_is_not():
    assert benchmark.good(findings())
    assert "| fft | x | 1.0e-06 |" in benchmark.report(findings())
    assert "| assertion | CUDA error | sticky | 70 | True |" in benchmark.report(findings())
    bad = findings()["distances"][0] | {"largest": 1.0}
    assert not benchmark.good(findings(distances=[bad]))
    assert not benchmark.good(findings(sound_run={"mode": "cpu_subprocess"}))
    for change in ({"outcome": "build"}, {"we_still_compute": False}):
        first, second = findings()["faults"]
        assert not benchmark.good(findings(faults=[first | change, second]))


@pytest.mark.system
def test_the_shim_stands_in_front_of_the_real_library(tmp_path):
    """torch's own libcufft, loaded behind it: the name that torch asks for is the shim's."""
    shim = benchmark.build_shim(tmp_path)
    assert ctypes.CDLL(str(shim)).cufftXtMakePlanMany() == 8
    code = (
        "import ctypes, torch; from pathlib import Path;"
        "maps = Path('/proc/self/maps').read_text();"
        "assert 'cufft_shim.so' in maps and 'libcufft.so' in maps;"
        "print(ctypes.CDLL(None).cufftXtMakePlanMany())"
    )
    environ = {**os.environ, "LD_PRELOAD": str(shim)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, timeout=120,
        check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "8"
