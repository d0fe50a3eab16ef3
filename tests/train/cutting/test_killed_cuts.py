"""A cut that is killed and begun again gives the same bytes."""

import hashlib
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.train.cutting.recordings import demo_texts, join_demo

pytest.importorskip("pocketsphinx", reason="it has wheels for Python 3.11 and 3.13")
KILLS = 10


def hashes(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.slow
def test_ten_kills_change_no_byte(tmp_path: Path) -> None:
    join_demo(tmp_path / "tape.wav", list(range(1, 26)))
    (tmp_path / "tape.txt").write_text(" ".join(demo_texts()[:25]))

    def command(to: str) -> list[str]:
        asked = [str(tmp_path / "tape.wav"), "--text", str(tmp_path / "tape.txt")]
        return [sys.executable, "-m", "train", "cut", *asked, "--to", str(tmp_path / to)]

    begun = time.monotonic()
    subprocess.run(command("whole"), check=True, capture_output=True)
    seconds = time.monotonic() - begun
    generator, killed = random.Random(3), 0
    for _ in range(KILLS):
        child = subprocess.Popen(
            command("killed"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            child.wait(generator.uniform(0.3, 0.8) * seconds)
        except subprocess.TimeoutExpired:
            child.kill()
        killed += child.wait() == -signal.SIGKILL
    assert killed > 0
    subprocess.run(command("killed"), check=True, capture_output=True)
    assert hashes(tmp_path / "killed") == hashes(tmp_path / "whole")
