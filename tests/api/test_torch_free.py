"""The service's main process computes nothing: it never imports torch, whatever the request."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from dataclasses import replace
from pathlib import Path
import api.__main__
from api.app import child_options
from tests.api.conftest import FAKE, NO_GPU, PATIENT, running, settings_in
from tests.api.run_folders import write_epoch
from tests.api.sounds import file_of, speech, upload

folder = Path(sys.argv[1])
write_epoch(folder / "output", 1)
settings = settings_in(folder, backend=sys.argv[2])
how = replace(child_options(settings), module=FAKE, look_at_machine=lambda: NO_GPU)
with running(settings, how, PATIENT) as service:
    voice = upload(service, file_of(speech())).json()["id"]
    for form in ("wav", "mp3"):
        assert service.say("hello", voice=voice, response_format=form).status_code == 200
    assert service.client.post("/v1/runs/current/epochs/1/promote").status_code == 200
    for path in ("/", "/status", "/v1/runs", "/metrics", "/openapi.json"):
        assert service.client.get(path).status_code == 200
    run = next(iter(service.state.follower.runs.values()))
    service.wait_until(lambda: run.epochs[1].sha256 in service.state.follower._verified, 30)
    assert service.client.delete(f"/v1/voices/{voice}").status_code == 204
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""


@pytest.mark.parametrize("backend", ["onnx", pytest.param("torch", marks=pytest.mark.slow)])
def test_the_service_itself_imports_no_torch(tmp_path, backend):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), backend],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.split())
    assert {"api", "uvicorn", "xtts"} <= loaded
    assert loaded & {"torch", "torchaudio", "onnxruntime", "TTS"} == set()
