"""`make studio`: the service and a trainer start together and end together."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import psutil
import pytest

from tests.ports import free_port
from tests.processes import gone

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_both_run_and_both_end(number, tmp_path: Path):
    port = free_port()
    folders = {
        name: str(tmp_path / name.lower())
        for name in ("OUTPUT_DIR", "QUEUE_DIR", "VOICES_DIR", "DATASETS_DIR")
    }
    studio = subprocess.Popen(
        [sys.executable, "-m", "extras.studio"],
        env={**os.environ, **folders, "API_PORT": str(port), "VOICE": "demo"},
    )
    try:
        found = trainings(port, studio)
        assert found["trainer"] is True and found["allowed"] is True
        children = psutil.Process(studio.pid).children(recursive=True)
        assert any("queue" in child.cmdline() for child in children)
        studio.send_signal(number)
        studio.wait(60)
        assert all(gone(child.pid, 20) for child in children)
    finally:
        studio.kill()
        studio.wait()


def trainings(port: int, studio: subprocess.Popen[bytes]) -> dict[str, object]:
    """The list of trainings, once the trainer runs."""
    end = time.monotonic() + 120
    while True:
        assert studio.poll() is None and time.monotonic() < end
        try:
            found = httpx.get(f"http://127.0.0.1:{port}/v1/trainings", trust_env=False).json()
            if found["trainer"]:
                return dict(found)
        except httpx.TransportError:
            pass
        time.sleep(0.2)
