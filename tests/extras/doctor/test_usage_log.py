"""`python -m xtts monitor`: lines, CSV, a fake GPU, a trainer, and a clean Ctrl-C."""

import csv
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from extras.common.readings.nvml import GpuState
from extras.doctor import usage_log
from extras.doctor.usage import Usage
from xtts.__main__ import main

WITHOUT_NVML = pytest.mark.skipif(Path("/dev/nvidia0").exists(), reason="NVML of this machine would be asked")
GPU = GpuState(0, "RTX 3090", 10.0, 8_000_000_000, 24_000_000_000)


class OneGpu:
    """Replaces `GpuUsageReader`."""

    fault = ""

    def read(self) -> tuple[GpuState, ...]:
        return (GpuState(0, "NVIDIA GeForce RTX 3090", 7.0, 2048 << 20, 24576 << 20),)

    def close(self) -> None: ...


@pytest.fixture(autouse=True)
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def show(*options: object) -> int:
    return main(["monitor", "--interval", "0.1", *map(str, options)])


@WITHOUT_NVML
def test_without_a_gpu_it_says_so_once_and_shows_the_rest(capsys):
    assert show("--duration", "0.35") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("No GPU can be read: libnvidia-ml.so.1")
    assert lines[1].split()[:3] == ["time", "CPU", "RAM,"]
    assert len(lines) == 2 + 3 + 1 and "GPU" not in "".join(lines[2:])
    assert lines[-1].startswith("On average: CPU")


def test_every_interval_is_a_line_and_a_row(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(usage_log, "GpuUsageReader", OneGpu)
    log = tmp_path / "logs" / "machine.csv"
    assert show("--duration", "0.35", "--log", log) == 0
    assert show("--duration", "0.15", "--log", log) == 0  # appended
    out = capsys.readouterr().out
    assert "GPU 0: busy, GB" in out and "  7 %   2.1/25.8" in out
    assert "RTX 3090 busy 7 %, at most 2.1 GB" in out
    rows = list(csv.DictReader(log.open(newline="")))
    assert len(rows) == 4
    for row in rows:
        assert row["gpu0_busy_percent"] == "7.0"
        assert int(row["gpu0_memory_used_bytes"]) == 2048 << 20
        assert int(row["memory_total_bytes"]) > int(row["memory_used_bytes"]) > 0
        assert row["trainer_memory_bytes"] == ""  # no trainer runs
        assert row["time"].endswith("+00:00")
    assert 0.05 < float(rows[0]["seconds"]) < 0.3


@pytest.mark.parametrize(
    ("name", "told"), [("mine.csv", "has other columns"), ("mine.csv/x.csv", "cannot be written")]
)
def test_a_log_that_cannot_be_gone_on_with_is_told_and_left_alone(tmp_path, capsys, name, told):
    (tmp_path / "mine.csv").write_text("name,wage\nana,1\n")
    assert show("--duration", "0.1", "--log", tmp_path / name) == 2
    assert told in capsys.readouterr().err
    assert (tmp_path / "mine.csv").read_text() == "name,wage\nana,1\n"


@pytest.mark.parametrize("option", ["--interval", "--duration"])
@pytest.mark.parametrize("value", ["0", "-1", "nan", "soon"])
def test_times_that_are_none(option, value):
    with pytest.raises(SystemExit) as ended:
        main(["monitor", option, value])
    assert ended.value.code == 2


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_cleanly(tmp_path, ending):
    log = tmp_path / "m.csv"
    with subprocess.Popen(
        [sys.executable, "-m", "xtts", "monitor", "--interval", "0.1", "--log", str(log)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if line[:2].isdigit():
                break
        child.send_signal(ending)
        out, errors = child.communicate(timeout=20)
    assert (child.returncode, errors) == (0, "")
    assert out.splitlines()[-1].startswith("On average:")
    assert log.read_text().endswith("\n")


def test_a_reader_that_leaves_is_no_fault():
    with subprocess.Popen(
        [sys.executable, "-m", "xtts", "monitor", "--interval", "0.1", "--duration", "20"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        assert child.stdout and child.stderr
        child.stdout.readline()
        child.stdout.close()
        assert (child.wait(20), child.stderr.read()) == (0, b"")


def test_the_trainer_is_found_by_its_lock(tmp_path):
    proc = tmp_path / "proc"
    (proc / "41").mkdir(parents=True)
    (proc / "41" / "cmdline").write_bytes(b"/x/train-it/.venv/bin/python\0-m\0train\0")
    assert usage_log.find_trainer(tmp_path, proc) is None
    (tmp_path / ".lock").write_text("41\n")
    assert usage_log.find_trainer(tmp_path, proc) == 41
    # Another program now has this process id.
    (proc / "41" / "cmdline").write_bytes(b"/x/train-it/.venv/bin/python\0-m\0api\0")
    assert usage_log.find_trainer(tmp_path, proc) is None
    (tmp_path / ".lock").write_text("")
    assert usage_log.find_trainer(tmp_path, proc) is None


def test_a_gpu_that_waits_is_pointed_at():
    """Document 004: the GPU is only 10 % busy, and the user does not know why."""
    idle = Usage((GPU,), 95.0, 9_000_000_000, 64_000_000_000, 99.0, 3_000_000_000)
    told = usage_log.summary([idle, idle])
    assert "RTX 3090 busy 10 %, at most 8.0 GB" in told and "data_wait_share" in told
    assert "the trainer at most 3.0 GB" in told
    # One of two GPUs is busy, which is enough.
    used = GpuState(1, "RTX 4090", 90.0, 1, 2)
    assert "data_wait_share" not in usage_log.summary([Usage((GPU, used), trainer_memory_bytes=1)])
    assert "data_wait_share" not in usage_log.summary([Usage((GPU,))])  # no trainer


def test_what_is_not_known_is_a_question_mark():
    assert "? %" in usage_log.usage_line(Usage((GpuState(0, "MIG"),)))
    assert usage_log.summary([Usage()]).startswith("On average: CPU ? %")
