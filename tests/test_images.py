"""Both images built for real and the trainer's run, without Docker: buildah in a chroot.

The base comes from debootstrap in the place of the one on Docker Hub. Needs root, 30 GB of disk for
a while, and a way to the packages: this machine's own configuration of pip is lent to the build
as a mount, so that none of it is in the image.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import wave
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.test_containers import API, FIXED, TRAINING, program

pytestmark = [pytest.mark.system, pytest.mark.timeout(3600)]

ROOT = Path(__file__).parents[1]
PROGRAMS = ("buildah", "debootstrap", "git")  # each in the Debian package of its name
FREE_GB = 30
# 5.8 GB are torch with its CUDA libraries; with TORCH_BACKEND=cpu the image is 3 GB smaller.
MOST_BYTES = 7.5e9
SECRET = "sk-nobody-may-see-this"


@dataclass(frozen=True)
class Buildah:
    """Its own storage, in a folder that goes when the tests are done."""

    folder: Path

    def __call__(self, *words: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
        store = ("--root", str(self.folder / "store"), "--runroot", str(self.folder / "run"))
        environ = {**os.environ, "TMPDIR": str(self.folder / "tmp"), "BUILDAH_ISOLATION": "chroot"}
        done = subprocess.run(
            ["buildah", *store, *words], env=environ, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0 or not check, (done.stdout + done.stderr)[-4_000:]
        return done

    def image(self, name: str) -> dict[str, Any]:
        """What the image says about itself."""
        found: dict[str, Any] = json.loads(self("inspect", "--type", "image", name).stdout)
        return found

    def run(
        self, image: str, words: Sequence[str] = (), *options: str
    ) -> "subprocess.CompletedProcess[str]":
        """A container of the image, through its own entry point; no words = its own command."""
        config = self.image(image)["OCIv1"]["config"]
        container = self("from", image).stdout.strip()
        try:
            command = [*config["Entrypoint"], *(words or config["Cmd"])]
            return self("run", *options, container, "--", *command, check=False)
        finally:
            self("rm", container)


@pytest.fixture(scope="module")
def buildah() -> Iterator[Buildah]:
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    assert not missing, f"apt install {' '.join(missing)}"
    assert os.geteuid() == 0, "debootstrap and a build in a chroot need root"
    free_gb = shutil.disk_usage("/var/tmp").free / 1e9
    assert free_gb > FREE_GB, f"{free_gb:.0f} GB are free in /var/tmp; {FREE_GB} are needed"
    # Not pytest's own folder: that one is kept.
    folder = Path(tempfile.mkdtemp(prefix="sotaque-images-", dir="/var/tmp"))
    (folder / "tmp").mkdir()
    one = Buildah(folder)
    try:
        yield one
    finally:
        one("rm", "--all", check=False)
        subprocess.run(["umount", folder / "store" / "overlay"], capture_output=True, check=False)
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def clone(buildah: Buildah) -> Path:
    """The working tree, and what a user has in it that no image may hold."""
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    folder = buildah.folder / "clone"
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    for name in (".env", ".git/config", "train/output/checkpoints/mine.pt", "train/runs/mine",
                 "train/cache/mine.bin", "train/xtts_v2/model.pth", "xtts/__pycache__/x.pyc",
                 "my-clips/metadata.csv"):  # fmt: skip
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"API_KEY={SECRET}\n")
    return folder


@pytest.fixture(scope="module")
def base(buildah: Buildah) -> str:
    """A Debian with Python, as small as the slim one on Docker Hub."""
    root = buildah.folder / "debian"
    subprocess.run(
        ["debootstrap", "--variant=minbase", "--include=python3,python3-venv,ca-certificates",
         "bookworm", root],
        capture_output=True, check=True,
    )  # fmt: skip
    context = buildah.folder / "base"
    context.mkdir()
    subprocess.run(["tar", "-C", root, "-cf", context / "debian.tar", "."], check=True)
    (context / "Dockerfile").write_text("FROM scratch\nADD debian.tar /\n")
    shutil.rmtree(root)
    buildah("bud", "-t", "sotaque-python", str(context))
    shutil.rmtree(context)
    return "localhost/sotaque-python"


@pytest.fixture(scope="module")
def images(buildah: Buildah, base: str, clone: Path) -> Buildah:
    """Both, from the same layers."""
    for target in ("train", "api"):
        buildah(
            "bud", "--layers", *lent_pip(buildah.folder), "--build-arg", f"BASE={base}",
            "--target", target, "-t", f"sotaque-{target}", str(clone),
        )  # fmt: skip
    return buildah


def lent_pip(folder: Path) -> list[str]:
    """This machine's way to its packages, as mounts: a pip.conf, and what that one names."""
    words = [sys.executable, "-m", "pip", "config", "list"]
    if subprocess.run([*words[:3], "--version"], capture_output=True, check=False).returncode:
        words[0] = "python3"
    listed = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    options: dict[str, str] = {}
    for line in listed.splitlines():
        key, _, value = line.partition("=")
        # The environment's stand last in the list, and win, as they do in pip.
        options[key.rpartition(".")[2]] = value.strip("'\"")
    conf = folder / "pip.conf"
    conf.write_text("[global]\n" + "".join(f"{k} = {v}\n" for k, v in options.items()))
    mounts = {conf: Path("/etc/pip.conf")}
    for word in " ".join(options.values()).split():
        path = Path(urlsplit(word).path).parent if word.startswith("file:") else Path(word)
        if path.is_absolute() and path.exists():
            mounts[path] = path
    return [word for here, there in mounts.items() for word in ("-v", f"{here}:{there}:ro")]


def size_of(images: Buildah, name: str) -> int:
    done = images.run(name, ["du", "-sk", "--one-file-system", "/"])
    return int(done.stdout.split()[0]) * 1024


@pytest.mark.parametrize("target", ["train", "api"])
def test_the_image_holds_our_packages_and_nothing_of_the_users(
    images: Buildah, target: str
) -> None:
    name = f"sotaque-{target}"
    told = json.dumps(images.image(name))
    assert SECRET not in told
    # What pip was lent is in no layer's description, and left no content.
    assert "pip.conf" not in told
    listing = images.run(name, ["find", "/app", "/project", "/etc/pip.conf", "-not", "-path",
                                "/app/.venv/*", "-printf", "%p %s\n"])  # fmt: skip
    found = dict(line.rsplit(" ", 1) for line in listing.stdout.splitlines())
    assert found.pop("/etc/pip.conf", "0") == "0"
    top = {path.split("/")[2] for path in found if path.startswith("/app/")}
    assert top - {"sotaque.egg-info"} == {
        ".ci", ".venv", "LICENSE", "README.md", "api", "pyproject.toml", "requirements.lock",
        "train", "xtts",
    }  # fmt: skip
    mine = ("mine", "model.pth", ".env", ".pyc", "my-clips", ".git/")
    others = [path for path in found if any(word in path for word in mine)]
    assert others == ["/app/xtts/assets/demo/model.pth"]
    assert images.run(name, ["grep", "-rl", SECRET, "/app", "--exclude-dir=.venv"]).stdout == ""


@pytest.mark.parametrize("target", ["train", "api"])
def test_the_image_is_no_larger_than_it_must_be(images: Buildah, target: str) -> None:
    num_bytes = size_of(images, f"sotaque-{target}")
    print(f"sotaque-{target}: {num_bytes / 1e9:.2f} GB")
    assert num_bytes < MOST_BYTES


def test_no_setting_and_no_licence_is_preset(images: Buildah) -> None:
    names = {
        pair.partition("=")[0] for pair in images.image("sotaque-train")["OCIv1"]["config"]["Env"]
    }
    assert names == {"PATH", "PYTHONSAFEPATH", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE",
                     "HOME", "USER", "MPLCONFIGDIR", "NUMBA_CACHE_DIR"}  # fmt: skip


@pytest.fixture(scope="module")
def mounts(buildah: Buildah) -> Iterator[Path]:
    """Folders as Docker makes them for a first start: root's, and empty."""
    folder = buildah.folder / "mounts"
    for name in ("project", "output", "runs", "cache", "xtts_v2"):
        (folder / name).mkdir(parents=True)
    yield folder


def lent(folder: Path, **settings: str) -> list[str]:
    """The mounts and the environment of docker-compose-training.yml, and some settings."""
    places = {
        f"{folder}/{name}": f"/data/{name}" for name in ("output", "runs", "cache", "xtts_v2")
    }
    words = [word for here, there in places.items() for word in ("-v", f"{here}:{there}")]
    words += [
        "-v",
        f"{folder}/project:/project:ro",
        "-v",
        f"{ROOT}/train/data/demo:/data/dataset:ro",
    ]
    for name, value in (FIXED[TRAINING] | settings).items():
        words += ["-e", f"{name}={value}"]
    return words


def test_the_trainer_runs_the_demo_into_folders_that_were_roots(
    images: Buildah, mounts: Path
) -> None:
    done = images.run("sotaque-train", (), *lent(mounts, NUM_EPOCHS="1", NUM_THREADS="1"))
    assert done.returncode == 0, done.stdout + done.stderr
    wav = mounts / "output" / "samples" / "epoch_1_output.wav"
    with wave.open(str(wav)) as spoken:
        assert (spoken.getframerate(), spoken.getsampwidth()) == (24_000, 2)
        assert spoken.getnframes() > 12_000
    assert (mounts / "output" / "checkpoints" / "checkpoint_epoch_1.pt").is_file()
    for name in ("output", "runs", "cache"):
        owners = {path.lstat().st_uid for path in ((mounts / name), *(mounts / name).rglob("*"))}
        assert owners == {1000}, name
        assert any((mounts / name).iterdir())

    again = images.run("sotaque-train", (), *lent(mounts, NUM_EPOCHS="1", NUM_THREADS="1"))
    assert again.returncode == 0
    assert "All 1 epochs are done already" in again.stdout


def test_the_exit_code_comes_out_and_no_licence_is_agreed_to(images: Buildah, mounts: Path) -> None:
    done = images.run("sotaque-train", (), *lent(mounts, BASE_MODEL="xtts_v2"))
    assert done.returncode == 2
    assert "COQUI_TOS_AGREED=1" in done.stderr
    assert list((mounts / "xtts_v2").iterdir()) == []


def test_tensorboard_is_in_the_trainers_image(images: Buildah) -> None:
    done = images.run("sotaque-train", ["python", "-m", "tensorboard.main", "--version"])
    assert done.returncode == 0, done.stderr


def test_the_api_tells_its_settings_in_its_image(images: Buildah) -> None:
    done = images.run("sotaque-api", ["python", "-m", "api", "--help"])
    assert done.returncode == 0, done.stderr
    assert "--api-port" in done.stdout


# In the container beside the service: starts it as the image does, waits until compose's own
# question whether it is healthy is answered, has it speak, and ends it as Docker does.
SERVED = """
import json, os, signal, subprocess, sys, time, urllib.request
command, health, port = json.loads(sys.argv[1])
service = subprocess.Popen(command)
here = f"http://127.0.0.1:{port}"
ask = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
end = time.monotonic() + 300
while subprocess.run(health, stderr=subprocess.DEVNULL).returncode:
    assert service.poll() is None and time.monotonic() < end, service.poll()
    time.sleep(1)
body = json.dumps({"input": "Good morning.", "response_format": "wav"}).encode()
wanted = urllib.request.Request(here + "/v1/audio/speech", body,
                                {"Content-Type": "application/json"})
told = {
    "livez": json.load(ask(here + "/livez", timeout=10)),
    "status": json.load(ask(here + "/status", timeout=10)),
    "wav_bytes": len(ask(wanted, timeout=60).read()),
    "uid": os.stat(f"/proc/{service.pid}").st_uid,
}
service.send_signal(signal.SIGTERM)
print(json.dumps({**told, "ended": service.wait(60)}))
"""


def test_the_api_speaks_in_its_image(images: Buildah, mounts: Path) -> None:
    """With the environment and the mounts of docker-compose-gpu.yml; heard on loopback only, since
    this container has the machine's own network."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = images.image("sotaque-api")["OCIv1"]["config"]
    health = [word.replace(":8005/", f":{port}/") for word in program(API)["healthcheck"]["test"]]
    assert health[0] == "CMD" and str(port) in health[-1]
    for name in ("voices", "output"):
        (mounts / name).mkdir(exist_ok=True)
    settings = FIXED[API] | {"API_HOST": "127.0.0.1", "API_PORT": str(port), "NUM_THREADS": "1"}
    options = [word for name, value in settings.items() for word in ("-e", f"{name}={value}")]
    for name, way in (("voices", ""), ("output", ":ro")):
        options += ["-v", f"{mounts / name}:/data/{name}{way}"]
    words = [json.dumps([config["Cmd"], health[1:], port])]
    done = images.run("sotaque-api", ["python", "-c", SERVED, *words], *options)
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["livez"] == {"alive": True} and told["status"]["state"] == "ready"
    assert told["wav_bytes"] > 10_000 and told["uid"] == 1000 and told["ended"] == -signal.SIGTERM
    # The latents of its voice were kept in a folder that was root's.
    owners = {
        path.lstat().st_uid for path in ((mounts / "voices"), *(mounts / "voices").rglob("*"))
    }
    assert owners == {1000}
