"""`python -m xtts doctor` from the command line, on this machine and on one made worse."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from machine.doctor import command
from machine.readings.collection import ReadingPlace
from machine.readings.snapshot import Machine
from tests.machine.doctor import simulated
from tests.machine.readings.places import program
from xtts.__main__ import main

CLEAN = {"OMP_WAIT_POLICY": "PASSIVE", "OMP_NUM_THREADS": "1"}


@pytest.fixture
def laptop(monkeypatch: pytest.MonkeyPatch) -> list[ReadingPlace]:
    """Whatever is looked at is the hybrid laptop; how it was asked for."""
    asked: list[ReadingPlace] = []

    def look(place: ReadingPlace) -> Machine:
        asked.append(place)
        return simulated.hybrid_laptop()

    monkeypatch.setattr(command, "look", look)
    return asked


def test_the_options(laptop: list[ReadingPlace], capsys: pytest.CaptureFixture[str]) -> None:
    golden = simulated.GOLDEN / "hybrid_laptop.txt"
    assert main(["doctor"]) == 2
    assert capsys.readouterr().out == golden.read_text()
    assert main(["doctor", "--json", "--deep", "--no-cache"]) == 2
    assert capsys.readouterr().out == golden.with_suffix(".json").read_text()
    assert [(place.deep, place.remembers) for place in laptop] == [(False, True), (True, False)]


def test_only_the_lines_that_mend(
    laptop: list[ReadingPlace], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--fix-hints"]) == 2
    assert capsys.readouterr().out == "echo TORCH_BACKEND=cu126 >> .env && make install\n"


def doctor(*options: str, **environ: str) -> tuple[subprocess.CompletedProcess[str], float]:
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "xtts", "doctor", *options], env=CLEAN | environ,
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    return done, time.monotonic() - started


@pytest.mark.slow
def test_a_machine_with_nothing_still_gets_its_report(tmp_path: Path) -> None:
    """No PATH, and a HOME that nothing can be written under, by root neither."""
    (tmp_path / "file").write_text("")
    done, _ = doctor("--json", PATH="", HOME=str(tmp_path / "file" / "home"))
    found = json.loads(done.stdout)
    assert done.returncode == found["exit_code"] and done.stderr == ""
    states = {one["id"]: one["status"] for one in found["findings"]}
    assert states["torch"] == "ok" and "could_not_run" not in states.values()


@pytest.mark.slow
def test_a_hanging_nvidia_smi_costs_its_limit(tmp_path: Path) -> None:
    program(tmp_path / "bin", "nvidia-smi", "exec sleep 300")
    done, _ = doctor("--json", PATH=f"{tmp_path / 'bin'}:{os.defpath}", HOME=str(tmp_path))
    assert done.returncode in (0, 1, 2) and json.loads(done.stdout)["schema"] == 1
    assert done.stderr == ""


@pytest.mark.slow
def test_the_second_time_it_knows(tmp_path: Path) -> None:
    first, _ = doctor("--json", HOME=str(tmp_path), PATH=os.defpath)
    kept = tmp_path / ".cache" / "sotaque" / "doctor.json"
    assert json.loads(kept.read_text())["known"]["torch"]["found"]["version"].startswith("2.")
    again, _ = doctor("--json", HOME=str(tmp_path), PATH=os.defpath)
    took = [
        next(one["seconds"] for one in json.loads(done.stdout)["findings"] if one["id"] == "torch")
        for done in (first, again)
    ]
    assert took[1] < took[0] / 2


@pytest.mark.slow
def test_it_imports_no_torch_itself(tmp_path: Path) -> None:
    code = (
        "import sys; from xtts.__main__ import main; main(['doctor']);"
        "sys.exit(any(name in sys.modules for name in ('torch', 'numpy', 'TTS')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=CLEAN | {"HOME": str(tmp_path), "PATH": os.defpath},
        capture_output=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0


@pytest.mark.slow
def test_deep_hears_the_demo_voice(tmp_path: Path) -> None:
    done, _ = doctor("--json", "--deep", HOME=str(tmp_path), PATH=os.defpath)
    found = {one["id"]: one for one in json.loads(done.stdout)["findings"]}
    assert found["speech_cpu"]["status"] == "ok", found["speech_cpu"]
    assert "s of speech" in found["speech_cpu"]["observed"]


@pytest.mark.slow
def test_a_library_that_is_put_before_torchs_own_is_seen(tmp_path: Path) -> None:
    """With LD_PRELOAD: torch 2.11 looks into its own folder before LD_LIBRARY_PATH (RPATH)."""
    own = sorted(Path(sys.prefix).glob("lib/python3*/site-packages/nvidia/*/lib/libcufft.so.*"))
    if not own:
        pytest.skip("torch is a build without CUDA here")
    other = tmp_path / own[0].name
    try:
        other.hardlink_to(own[0])
    except OSError:
        shutil.copy(own[0], other)
    done, _ = doctor("--json", HOME=str(tmp_path), PATH=os.defpath, LD_PRELOAD=str(other))
    found = {one["id"]: one for one in json.loads(done.stdout)["findings"]}["library_path"]
    assert found["status"] == "warn" and str(other) in found["evidence"]
    assert found["fix"].startswith("env -u LD_LIBRARY_PATH -u LD_PRELOAD")
