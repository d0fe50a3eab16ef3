"""Where steps are computed; Ray's workers, one of which is killed."""

import importlib
import importlib.util
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.extras.cut.recordings import cut, hashes, without
from tests.tapes import demo_texts, join_demo

NUM_WORDS, WORDS_A_CHUNK = 4000, 40
NUM_CLIPS = 40
# Enough for a machine that is busy with other programs.
MAX_SECONDS = 1200
needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None,
    reason="Ray is 200 MB: .venv/bin/python -m pip install -e '.[ray]'",
)


def test_without_ray_a_sentence_says_what_to_install(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    without(monkeypatch, "ray")
    join_demo(tmp_path / "tape.wav", [1])
    assert cut(tmp_path / "tape.wav", tmp_path / "out", "--ray") == 2
    assert "pip install -e '.[ray]'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@needs_ray
@pytest.mark.slow
@pytest.mark.timeout(2 * MAX_SECONDS)
@pytest.mark.parametrize("killed", [False, True])
def test_two_workers_give_the_bytes_of_one_process(tmp_path, killed):
    pytest.importorskip("pocketsphinx", reason="it has wheels for Python 3.11 and 3.13")
    join_demo(tmp_path / "tape.wav", list(range(1, NUM_CLIPS + 1)))
    (tmp_path / "tape.txt").write_text(" ".join(demo_texts()[:NUM_CLIPS]))

    def command(to: str, *more: str) -> list[str]:
        asked = [str(tmp_path / "tape.wav"), "--text", str(tmp_path / "tape.txt")]
        return [sys.executable, "-m", "train", "cut", *asked, "--to", str(tmp_path / to), *more]

    subprocess.run(command("own"), check=True, capture_output=True)
    child = subprocess.Popen(
        command("ray", "--ray", "--workers", "2"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        if killed:
            kill_a_worker(child, tmp_path / "ray/.cutting/heard.jsonl")
        assert child.wait(MAX_SECONDS) == 0
    finally:
        child.kill()
        child.wait()
    assert hashes(tmp_path / "ray") == hashes(tmp_path / "own")


@needs_ray
@pytest.mark.slow
@pytest.mark.timeout(2 * MAX_SECONDS)
def test_recordings_without_a_text_are_measured_by_workers(tmp_path):
    for number in (1, 2, 3):
        join_demo(tmp_path / f"tape-{number}.wav", [number, number + 3, number + 6])
    tapes = [str(tmp_path / f"tape-{number}.wav") for number in (1, 2, 3)]
    for to, more in (("own", []), ("ray", ["--ray", "--workers", "2"])):
        command = [sys.executable, "-m", "train", "cut", *tapes, "--to", str(tmp_path / to), *more]
        subprocess.run(command, check=True, capture_output=True)
    assert hashes(tmp_path / "ray") == hashes(tmp_path / "own")


def kill_a_worker(child: subprocess.Popen[bytes], journal: Path) -> None:
    """After a few chunks, kills a worker that is recognising another one."""
    end = time.monotonic() + MAX_SECONDS
    while child.poll() is None and time.monotonic() < end:
        if journal.exists() and len(journal.read_bytes().splitlines()) > 3:
            for worker in psutil.Process(child.pid).children(recursive=True):
                if "ray::heard_words" in " ".join(worker.cmdline()):
                    os.kill(worker.pid, signal.SIGKILL)
                    return
        time.sleep(0.05)
    raise AssertionError("no worker was found at work")
