"""`make serve` as on a fresh clone, without settings or a trained voice: it speaks."""

import io
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import openai
import pytest
import soundfile

from tests.api.raw import wait_ready
from tests.ports import free_port

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
TORN_DOWN_SECONDS = 60


def clone(folder: Path) -> Path:
    """Copies the files of a clone that `make serve` needs, and links the installed environment."""
    for name in ("api", "machine", "xtts", ".ci"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name in ("Makefile", "requirements.lock", "pyproject.toml"):
        shutil.copy2(ROOT / name, folder / name)
    (folder / ".venv").symlink_to(sys.prefix)
    return folder


def other_addresses() -> list[str]:
    """This machine's addresses other than loopback, found without sending a packet."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(("192.0.2.1", 9))
        except OSError:
            return []
        return [asking.getsockname()[0]]


def test_make_serve_speaks_without_a_key_and_on_loopback_only(tmp_path):
    folder, port = clone(tmp_path / "sotaque"), free_port()
    names = ("PATH", "HOME", "LANG", "OMP_WAIT_POLICY", "OMP_NUM_THREADS")
    environ = {name: os.environ[name] for name in names if name in os.environ}
    environ |= {"API_PORT": str(port), "TORCH_BACKEND": "default"}
    started = time.monotonic()
    log = (tmp_path / "log").open("w+b")
    # -o: the environment of this test is already installed.
    command = ("make", "-o", ".venv/.installed-default", "serve")
    process = subprocess.Popen(
        command, cwd=folder, env=environ, stdout=log, stderr=log, start_new_session=True
    )
    try:
        address = f"http://127.0.0.1:{port}"
        wait_ready(process, port, tmp_path / "log")
        print(f"ready {time.monotonic() - started:.1f} s after make")
        client = openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0)
        speech = client.audio.speech.create(
            model="tts-1", voice="alloy", input="Good morning.", response_format="wav"
        )
        sound, rate = soundfile.read(io.BytesIO(speech.content))
        assert rate == 24_000 and len(sound) > 4_800 and abs(sound).max() > 0.01
        for other in other_addresses():
            with pytest.raises(ConnectionRefusedError), socket.create_connection((other, port), 5):
                pass
        assert f"Ready: http://localhost:{port}\n" in (tmp_path / "log").read_text()
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(TORN_DOWN_SECONDS)
    assert sorted(path.name for path in folder.iterdir() if path.name[0] != ".") == [
        "Makefile",
        "api",
        "machine",
        "pyproject.toml",
        "requirements.lock",
        "voices",
        "xtts",
    ]
