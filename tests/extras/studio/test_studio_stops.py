"""SIGTERM to the studio: `docker stop` kills it ten seconds later."""

import contextlib
import threading
import time
from pathlib import Path

import httpx
import psutil
import pytest

from tests.api.raw import process
from tests.api.test_service_stopping import TEN_SECONDS, seconds_to_end
from tests.ports import free_port

DEMO_DATASET = Path("train/data/demo").resolve()


@pytest.mark.slow
def test_a_check_of_a_dataset_does_not_hold_the_end(tmp_path, monkeypatch):
    """On SIGTERM the studio ends as the service does on Ctrl-C, which waits for threads."""
    port = free_port()
    for name in ("OUTPUT_DIR", "VOICES_DIR", "QUEUE_DIR", "DATASETS_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("API_PORT", str(port))
    url = f"http://127.0.0.1:{port}/v1/trainings/check"

    def check():
        with contextlib.suppress(httpx.TransportError):
            httpx.post(url, json={"dataset": str(DEMO_DATASET)}, timeout=60, trust_env=False)

    with process("extras.studio", port=port, folder=tmp_path) as service:
        asking = threading.Thread(target=check)
        asking.start()
        for program in programs(service.pid, "--no-likelihood"):
            program.suspend()  # the check hangs
        assert seconds_to_end(service) < TEN_SECONDS
        asking.join()


def programs(pid: int, word: str) -> list[psutil.Process]:
    """The child processes with a word in their command lines, once there are some."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        children = psutil.Process(pid).children(recursive=True)
        if found := [child for child in children if word in child.cmdline()]:
            return found
        time.sleep(0.1)
    raise AssertionError(f"no program with {word}")
