"""Each extra can be deleted: its folder and its tests, nothing else. The rest works.

In a copy of the tree. `make test` passes there too; these tests check what would break first.
"""

import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.raw import wait_ready
from tests.installed import ROOT, has
from tests.ports import free_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
EXTRAS = [name for name in importlib.import_module("extras").NAMES if has(name)]
# The verb that each extra adds.
VERBS = {
    "accent": "xtts accent",
    "books": "xtts read",
    "cut": "train cut",
    "distil": "train distil",
    "doctor": "xtts doctor",
    "languages": "train extend",
    "studio": "train queue",
}
PATHS = {
    "books": "/v1/books",
    "dialects": "/tts_to_audio/",
    "streams": "/v1/text-to-speech/{voice_id}",
    "studio": "/v1/datasets",
}
# An editable installation finds `extras.NAME` in its own tree, whatever the copy lacks.
ONLY_HERE = """
import sys
finders = [one for one in sys.meta_path if "editable" not in getattr(one, "__module__", "")]
sys.meta_path[:] = finders
"""
IMPORT = """
import importlib, sys
from pathlib import Path
for path in sorted(one for name in sys.argv[1:] for one in Path(name).rglob("*.py")):
    importlib.import_module(".".join(path.with_suffix("").parts).removesuffix(".__init__"))
"""
DOCUMENT = """
import json
from api import app, settings
print(json.dumps(app.build(settings.load([])[0]).openapi()))
"""
HELP = "from machine.console import run; run(['--help'])"
SMALL = {
    "MAX_TRAIN_SAMPLES": "8",
    "NUM_EPOCHS": "1",
    "EVALUATE_RECOGNISER": "off",
    "EVALUATE_NATURALNESS": "off",
    "BLEND": "off",
    "LEARN_DECODER": "off",
    "TENSORBOARD": "off",
}


def copy_without(folder: Path, *deleted: str) -> Path:
    """Copies the files that git knows, without those in these folders."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        if not name.startswith(deleted) and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    # docs/modules.md lists the files that git knows.
    for words in (("init", "--quiet"), ("add", "--all")):
        subprocess.run(["git", *words], cwd=folder, check=True)
    (folder.parent / "site").mkdir()
    (folder.parent / "site" / "sitecustomize.py").write_text(ONLY_HERE, encoding="utf-8")
    return folder


def environment(folder: Path, **settings: str) -> dict[str, str]:
    path = os.pathsep.join((str(folder), str(folder.parent / "site")))
    home = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": path}
    return {**home, "OMP_NUM_THREADS": "1", **settings}


def python(folder: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, (words, (done.stdout + done.stderr)[-3000:])
    return done.stdout


@pytest.mark.parametrize("name", EXTRAS)
def test_an_extra_can_be_deleted(name, tmp_path):
    copy = copy_without(tmp_path / "sotaque", f"extras/{name}/", f"tests/extras/{name}/")
    python(copy, "-c", IMPORT, "machine", "xtts", "train", "api", "extras")
    collected = python(
        copy, "-m", "pytest", "--collect-only", "-q", "-m", "slow or system or gpu or not slow"
    )
    files = {line.partition("::")[0] for line in collected.splitlines()}
    assert not any(file.startswith(f"tests/extras/{name}/") for file in files)
    assert any(file.startswith("tests/api/") for file in files)
    python(copy, "-m", "tests.test_modules_page")
    python(copy, "-m", "pytest", "-q", "tests/test_architecture.py", "tests/test_modules_page.py")
    assert "\n  speak " in python(copy, "-c", HELP)
    for program in ("train", "xtts"):
        told = python(copy, "-m", program, "--help")
        verb = VERBS.get(name, "").split()
        assert verb[:1] != [program] or f" {verb[1]} " not in told
    paths = json.loads(python(copy, "-c", DOCUMENT))["paths"]
    assert "/v1/audio/speech" in paths and PATHS.get(name) not in paths


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy without the folder of the extras, as after `make install`."""
    if not (ROOT / ".venv/bin/python").exists():
        pytest.skip("make install has not been run here")
    copy = copy_without(tmp_path_factory.mktemp("core") / "sotaque", "extras/", "tests/extras/")
    (copy / ".venv").symlink_to((ROOT / ".venv").resolve())
    for name in ("requirements.lock", "requirements-dev.lock", "pyproject.toml", ".ci/install"):
        os.utime(copy / name, (0, 0))
    return copy


@contextmanager
def served(core: Path) -> Iterator[httpx.Client]:
    """`make serve`, ready."""
    port = free_port()
    log = core / "serve.log"
    with log.open("w") as file:
        program = subprocess.Popen(
            ["make", "serve"],
            cwd=core,
            env=environment(core, API_PORT=str(port)),
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        wait_ready(program, port, log)
        yield httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=120, trust_env=False)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGTERM)
        program.wait(60)


def test_the_core_alone_trains_and_serves(core):
    python(core, "-c", IMPORT, "machine", "xtts", "train", "api")
    assert "\n  speak " in python(core, "-c", HELP)
    done = subprocess.run(
        ["make", "train"],
        cwd=core,
        env=environment(core, **SMALL),
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    assert (core / "train/output/checkpoints/checkpoint_epoch_1.pt").is_file()
    asked: dict[str, Any] = {"input": "Good morning.", "response_format": "wav"}
    with served(core) as client:
        status = client.get("/status").json()
        assert status["extras"] == [] and "/" in client.get("/openapi.json").json()["paths"]
        spoken = client.post("/v1/audio/speech", json=asked).raise_for_status().content
    assert spoken[:4] == b"RIFF" and len(spoken) > 10_000
