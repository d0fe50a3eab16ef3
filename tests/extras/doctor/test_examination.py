"""`python -m xtts doctor` from the command line, on this machine and on a broken one."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from extras.common.readings.snapshot import Machine
from extras.doctor import examination
from extras.doctor.collection import ReadingPlace
from machine.storage.facts import Facts
from tests.extras.common.readings.places import program
from tests.extras.doctor import simulated
from xtts.__main__ import main

CLEAN = {"OMP_WAIT_POLICY": "PASSIVE", "OMP_NUM_THREADS": "1"}


@pytest.fixture
def laptop(monkeypatch: pytest.MonkeyPatch) -> list[ReadingPlace]:
    """All readings are those of the hybrid laptop; the list holds the places that were read."""
    asked: list[ReadingPlace] = []

    def look(place: ReadingPlace) -> Machine:
        asked.append(place)
        return simulated.MACHINES["hybrid_laptop"]

    monkeypatch.setattr(examination, "read_machine", look)
    return asked


@pytest.mark.parametrize("more", [(), ("--json", "--deep", "--no-cache")])
def test_text_and_json_are_what_was_agreed(laptop, capsys, more):
    golden = simulated.GOLDEN / f"hybrid_laptop.{'json' if more else 'txt'}"
    assert main(["doctor", *more]) == 2
    assert capsys.readouterr().out == golden.read_text()
    assert [(place.deep, place.remembers) for place in laptop] == [(bool(more), not more)]


def test_only_the_lines_that_mend(laptop, capsys):
    assert main(["doctor", "--fix-hints"]) == 2
    assert capsys.readouterr().out == "echo TORCH_BACKEND=cu126 >> .env && make install\n"


def test_nothing_to_mend_is_said(monkeypatch, capsys):
    monkeypatch.setattr(examination, "read_machine", lambda _place: simulated.MACHINES["healthy"])
    assert main(["doctor", "--fix-hints"]) == 0
    assert capsys.readouterr().out == "Nothing to fix.\n"


def doctor(home: Path, *options: str, **environ: str) -> dict[str, Any]:
    """The JSON report on this machine, with its findings by name."""
    done = subprocess.run(
        [sys.executable, "-m", "xtts", "doctor", "--json", *options],
        env=CLEAN | {"HOME": str(home), "PATH": os.defpath} | environ,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    found = json.loads(done.stdout)
    assert done.stderr == "" and done.returncode == found["exit_code"] in (0, 1, 2)
    return found | {finding["id"]: finding for finding in found["findings"]}


@pytest.mark.slow
def test_a_machine_with_nothing_still_gets_its_report(tmp_path):
    """No PATH, and a HOME in which not even root can write."""
    (tmp_path / "file").write_text("")
    found = doctor(tmp_path / "file" / "home", PATH="")
    assert found["torch"]["status"] == "ok"
    assert "could_not_run" not in {finding["status"] for finding in found["findings"]}


@pytest.mark.slow
def test_a_hanging_nvidia_smi_costs_its_limit(tmp_path):
    program(tmp_path / "bin", "nvidia-smi", "exec sleep 300")
    assert doctor(tmp_path, PATH=f"{tmp_path / 'bin'}:{os.defpath}")["schema"] == 1


@pytest.mark.slow
def test_the_second_time_it_knows(tmp_path):
    first = doctor(tmp_path)
    kept = Facts(tmp_path / ".cache" / "sotaque", "doctor 1")
    assert kept._rows["torch"]  # under a stamp of torch's files
    assert doctor(tmp_path)["torch"]["seconds"] < first["torch"]["seconds"] / 2


@pytest.mark.slow
def test_it_imports_no_torch_itself(tmp_path):
    code = (
        "import sys; from xtts.__main__ import main; main(['doctor']);"
        "sys.exit(any(name in sys.modules for name in ('torch', 'numpy', 'TTS')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=CLEAN | {"HOME": str(tmp_path), "PATH": os.defpath},
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0


@pytest.mark.slow
def test_deep_hears_the_demo_voice(tmp_path):
    found = doctor(tmp_path, "--deep")["speech_cpu"]
    assert found["status"] == "ok" and "s of speech" in found["observed"], found


@pytest.mark.slow
def test_a_library_that_is_put_before_torchs_own_is_seen(tmp_path):
    """With LD_PRELOAD: torch 2.11 looks into its own folder before LD_LIBRARY_PATH (RPATH)."""
    libraries = sorted(Path(sys.prefix).glob("lib/python3*/site-packages/nvidia/*/lib/libcufft.so.*"))
    if not libraries:
        pytest.skip("torch is a build without CUDA here")
    other = tmp_path / libraries[0].name
    try:
        other.hardlink_to(libraries[0])
    except OSError:
        shutil.copy(libraries[0], other)
    found = doctor(tmp_path, LD_PRELOAD=str(other))["library_path"]
    assert found["status"] == "warn" and str(other) in found["evidence"]
    assert found["fix"].startswith("env -u LD_LIBRARY_PATH -u LD_PRELOAD")
