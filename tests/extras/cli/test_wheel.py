"""A wheel in a fresh environment, started in an empty folder."""

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path

import httpx
import pytest
import soundfile

from tests.api.raw import wait_ready
from tests.ports import free_port

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def sotaque(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The console script of a wheel, with the dependencies of the test environment."""
    folder = tmp_path_factory.mktemp("wheel")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / "clone" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / "clone" / name)
    pip = (sys.executable, "-m", "pip")
    built = (*pip, "wheel", ".", "--no-deps", "--no-build-isolation", "--wheel-dir", folder)
    subprocess.run(built, cwd=folder / "clone", check=True)
    shutil.rmtree(folder / "clone")
    venv = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    python = venv / "bin/python"
    (wheel,) = folder.glob("*.whl")
    subprocess.run((*pip, "--python", python, "install", "--no-deps", wheel), check=True)
    (site,) = venv.glob("lib/python*/site-packages")
    # As a path only: the .pth files in that folder, which add the clone, are not read.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return venv / "bin/sotaque"


def environment(sotaque: Path, **settings: str) -> dict[str, str]:
    path = f"{sotaque.parent}{os.pathsep}{os.defpath}"
    return {"PATH": path, "OMP_NUM_THREADS": "1", "HOME": str(sotaque.parent), **settings}


def run(sotaque: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sotaque", *words],
        cwd=folder,
        env=environment(sotaque),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_the_embedded_voice_speaks(sotaque, tmp_path):
    done = run(sotaque, tmp_path, "speak", "Good morning.")
    assert done.returncode == 0, done.stderr
    voice, sound = done.stdout.splitlines()
    assert voice.startswith("Voice: demo (") and sound.startswith("speech.wav: ")
    assert soundfile.info(tmp_path / "speech.wav").duration > 0.5
    assert [path.name for path in tmp_path.iterdir()] == ["speech.wav"]


def test_the_demo_dataset_is_checked_and_the_log_names_the_packages(sotaque, tmp_path):
    done = run(sotaque, tmp_path, "check", "--no-likelihood", "--max-train-samples", "20")
    assert done.returncode == 0, done.stderr
    site = sotaque.parents[1] / "lib"
    assert f"DATASET_DIR={site}" in done.stdout and "Dataset: 20 clips" in done.stdout


def test_the_service_speaks_shows_its_page_and_takes_a_training(sotaque, tmp_path):
    port = free_port()
    with (tmp_path / "log.txt").open("w") as log:
        service = subprocess.Popen(
            ["sotaque", "serve"],
            cwd=tmp_path,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment(sotaque, API_PORT=str(port)),
        )
    try:
        wait_ready(service, port, tmp_path / "log.txt")
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
            assert "<title>" in client.get("/", headers={"Accept": "text/html"}).text
            assert client.get("/page/page.js").status_code == 200
            speech = {"input": "Good morning.", "response_format": "wav"}
            sound = client.post("/v1/audio/speech", json=speech, timeout=60).content
            assert sound.startswith(b"RIFF")
            training = {"run": "demo", "dataset": "train/data/demo"}
            row = client.post("/v1/trainings", json=training, timeout=60).json()
            assert row["state"] == "queued" and "`sotaque queue`" in row["message"]
    finally:
        service.send_signal(signal.SIGTERM)
        service.wait(60)
