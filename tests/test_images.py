"""Builds and runs both images without Docker: buildah in a chroot, podman with runc.

The base comes from debootstrap instead of Docker Hub. Needs root, 30 GB of disk for a while, port
8005, and access to the packages: this machine's pip configuration is mounted into the build, so
that none of it is in the image.
"""

import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import wave
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.ports import free_port
from tests.test_containers import API, FIXED, TRAINING, program

pytestmark = [pytest.mark.system, pytest.mark.timeout(3600)]

ROOT = Path(__file__).parents[1]
# Each is in the Debian package of its name.
PROGRAMS = ("buildah", "debootstrap", "git", "podman", "podman-compose", "runc")
FREE_GB = 30
# torch with its CUDA libraries takes 5.8 GB; with TORCH_BACKEND=cpu the image is 3 GB smaller.
MAX_BYTES = 7.5e9
SECRET = "sk-nobody-may-see-this"
# vfs works everywhere, but copies the whole image for every container.
DRIVER = os.environ.get("STORAGE_DRIVER", "overlay")


@dataclass(frozen=True)
class Buildah:
    """Storage for buildah and podman, in a folder that is deleted after the tests."""

    folder: Path

    def __call__(self, *words: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
        return self.call("buildah", *words, check=check)

    def environ(self) -> dict[str, str]:
        """Storage, temporary files and limits of both programs."""
        storage, containers = self.folder / "storage.conf", self.folder / "containers.conf"
        storage.write_text(
            f'[storage]\ndriver = "{DRIVER}"\n'
            f'graphroot = "{self.folder / "store"}"\nrunroot = "{self.folder / "run"}"\n'
        )
        # Podman's default limits are a million, more than a small machine allows a container.
        containers.write_text(
            '[containers]\ndefault_ulimits = ["nofile=4096:4096", "nproc=8192:8192"]\n'
            '[engine]\nruntime = "runc"\n'
        )
        return os.environ | {
            "CONTAINERS_STORAGE_CONF": str(storage),
            "CONTAINERS_CONF": str(containers),
            "TMPDIR": str(self.folder / "tmp"),
            "BUILDAH_ISOLATION": "chroot",
            # No timers without systemd: the test runs the health check itself.
            "DISABLE_HC_SYSTEMD": "true",
        }

    def call(self, *words: str, check: bool = True, **more: Any) -> "subprocess.CompletedProcess[str]":
        environ = self.environ() | more.pop("env", {})
        done = subprocess.run(words, env=environ, capture_output=True, text=True, check=False, **more)
        assert done.returncode == 0 or not check, (done.stdout + done.stderr)[-4_000:]
        return done

    def image(self, name: str) -> dict[str, Any]:
        """The image's description."""
        found: dict[str, Any] = json.loads(self("inspect", "--type", "image", name).stdout)
        return found

    def config(self, target: str) -> dict[str, Any]:
        """Its entry point, command and environment."""
        found: dict[str, Any] = self.image(f"sotaque-{target}")["OCIv1"]["config"]
        return found

    def run(self, image: str, words: Sequence[str] = (), *options: str) -> "subprocess.CompletedProcess[str]":
        """A container of the image, through its entry point; without words, its default command."""
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
    # Not pytest's folder, which is kept.
    folder = Path(tempfile.mkdtemp(prefix="sotaque-images-", dir="/var/tmp"))
    (folder / "tmp").mkdir()
    one = Buildah(folder)
    try:
        yield one
    finally:
        one.call("podman", "rm", "--all", "--force", check=False)
        one.call("podman", "network", "prune", "--force", check=False)
        one("rm", "--all", check=False)
        # Including mounts inside that a killed container still holds.
        mounted = folder / "store" / "overlay"
        words = ["umount", "--recursive", "--lazy", mounted]
        subprocess.run(words, capture_output=True, check=False)
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def clone(buildah: Buildah) -> Path:
    """The working tree with user files that must not be in an image."""
    folder = copied(buildah.folder / "clone")
    for name in (
        ".env",
        ".git/config",
        "train/output/checkpoints/mine.pt",
        "train/runs/mine",
        "train/cache/mine.bin",
        "train/xtts_v2/model.pth",
        "xtts/__pycache__/x.pyc",
        "my-clips/metadata.csv",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"API_KEY={SECRET}\n")
    return folder


def copied(folder: Path) -> Path:
    """A copy of the working tree, as a clone has it."""
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def base(buildah: Buildah) -> str:
    """A Debian with Python, as small as the slim one on Docker Hub; named by its digest."""
    root = buildah.folder / "debian"
    subprocess.run(
        [
            "debootstrap",
            "--variant=minbase",
            "--include=python3,python3-venv,ca-certificates",
            "bookworm",
            root,
        ],
        capture_output=True,
        check=True,
    )
    context = buildah.folder / "base"
    context.mkdir()
    subprocess.run(["tar", "-C", root, "-cf", context / "debian.tar", "."], check=True)
    (context / "Dockerfile").write_text("FROM scratch\nADD debian.tar /\n")
    shutil.rmtree(root)
    buildah("bud", "-t", "sotaque-python", str(context))
    shutil.rmtree(context)
    (found,) = json.loads(buildah("images", "--json", "sotaque-python").stdout)
    return f"localhost/sotaque-python@{found['digest']}"


@pytest.fixture(scope="module")
def images(buildah: Buildah, base: str, clone: Path) -> Buildah:
    """Both images, from the same layers."""
    for target in ("train", "api"):
        buildah(
            "bud",
            "--layers",
            *lent_pip(buildah.folder),
            "--build-arg",
            f"BASE={base}",
            "--target",
            target,
            "-t",
            f"sotaque-{target}",
            str(clone),
        )
    return buildah


def lent_pip(folder: Path) -> list[str]:
    """This machine's access to packages, as mounts: a pip.conf, and the files it names."""
    words = [sys.executable, "-m", "pip", "config", "list"]
    if subprocess.run([*words[:3], "--version"], capture_output=True, check=False).returncode:
        words[0] = "python3"
    listed = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    options: dict[str, str] = {}
    for line in listed.splitlines():
        key, _, value = line.partition("=")
        # Those of the environment come last in the list and win, as they do in pip.
        options[key.rpartition(".")[2]] = value.strip("'\"")
    conf = folder / "pip.conf"
    conf.write_text("[global]\n" + "".join(f"{k} = {v}\n" for k, v in options.items()))
    mounts = {conf: Path("/etc/pip.conf")}
    for word in " ".join(options.values()).split():
        path = Path(urlsplit(word).path).parent if word.startswith("file:") else Path(word)
        if path.is_absolute() and path.exists():
            mounts[path] = path
    return [word for here, there in mounts.items() for word in ("-v", f"{here}:{there}:ro")]


@pytest.mark.parametrize("target", ["train", "api"])
def test_the_image_holds_our_packages_and_nothing_of_the_users(images, target):
    name = f"sotaque-{target}"
    told = json.dumps(images.image(name))
    assert SECRET not in told
    # pip's mounted configuration is in no layer's description and left no content.
    assert "pip.conf" not in told
    listing = images.run(
        name,
        ["find", "/app", "/project", "/etc/pip.conf", "-not", "-path", "/app/.venv/*", "-printf", "%p %s\n"],
    )
    found = dict(line.rsplit(" ", 1) for line in listing.stdout.splitlines())
    assert found.pop("/etc/pip.conf", "0") == "0"
    top = {path.split("/")[2] for path in found if path.startswith("/app/")}
    assert top - {"sotaque.egg-info"} == {
        ".ci",
        ".venv",
        "LICENSE",
        "README.md",
        "api",
        "extras",
        "machine",
        "pyproject.toml",
        "requirements.lock",
        "train",
        "xtts",
    }
    mine = ("mine", "model.pth", ".env", ".pyc", "my-clips", ".git/")
    others = [path for path in found if any(word in path for word in mine)]
    assert others == ["/app/xtts/assets/demo/model.pth"]
    assert images.run(name, ["grep", "-rl", SECRET, "/app", "--exclude-dir=.venv"]).stdout == ""


@pytest.mark.parametrize(
    ("target", "words", "told"),
    [("train", "tensorboard.main --version", ""), ("api", "api --help", "--api-port")],
)
def test_the_image_is_no_larger_than_it_must_be_presets_nothing_and_runs(images, target, words, told):
    done = images.run(f"sotaque-{target}", ["du", "-sk", "--one-file-system", "/"])
    num_bytes = int(done.stdout.split()[0]) * 1024
    print(f"sotaque-{target}: {num_bytes / 1e9:.2f} GB")
    assert num_bytes < MAX_BYTES
    names = {pair.partition("=")[0] for pair in images.config(target)["Env"]}
    assert names == {
        "PATH",
        "PYTHONSAFEPATH",
        "PYTHONUNBUFFERED",
        "PYTHONDONTWRITEBYTECODE",
        "HOME",
        "USER",
        "MPLCONFIGDIR",
        "NUMBA_CACHE_DIR",
    }
    done = images.run(f"sotaque-{target}", ["python", "-m", *words.split()])
    assert done.returncode == 0 and told in done.stdout, done.stderr


def test_the_image_carries_what_it_runs_and_no_tools_of_development(images):
    asked = (
        "uv",
        "fastapi",
        "onnxruntime",
        "peft",
        "tensorboard",
        "pocketsphinx",
        "torchao",
        "pytest",
        "mypy",
        "playwright",
        "ruff",
    )
    found = "import importlib.util as u, sys; print(*map(u.find_spec, sys.argv[1:]), sep='\\n')"
    done = images.run("sotaque-train", ["python", "-c", found, *asked])
    there = [line != "None" for line in done.stdout.splitlines()]
    assert dict(zip(asked, there, strict=True)) == {name: name in asked[:6] for name in asked}


@pytest.fixture(scope="module")
def mounts(buildah: Buildah) -> Iterator[Path]:
    """Folders as Docker creates them at the first start: root's, and empty."""
    folder = buildah.folder / "mounts"
    for name in ("project", "output", "runs", "cache", "xtts_v2"):
        (folder / name).mkdir(parents=True)
    yield folder


def lent(folder: Path, **settings: str) -> list[str]:
    """The mounts and the environment of docker-compose-training.yml, with some settings."""
    mounted = [f"{folder}/{name}:/data/{name}" for name in ("output", "runs", "cache", "xtts_v2")]
    mounted += [f"{folder}/project:/project:ro", f"{ROOT}/train/data/demo:/data/dataset:ro"]
    words = [word for mount in mounted for word in ("-v", mount)]
    for name, value in (FIXED[TRAINING] | settings).items():
        words += ["-e", f"{name}={value}"]
    return words


def test_the_trainer_runs_the_demo_into_folders_that_were_roots(images, mounts):
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
    assert "The run already has 1 epoch, and NUM_EPOCHS=1" in again.stdout


def test_the_exit_code_comes_out_and_no_licence_is_agreed_to(images, mounts):
    done = images.run("sotaque-train", (), *lent(mounts, BASE_MODEL="xtts_v2"))
    assert done.returncode == 2
    assert "COQUI_TOS_AGREED=1" in done.stderr
    assert list((mounts / "xtts_v2").iterdir()) == []


# In the container, next to the service: starts it as the image does, waits for compose's health
# check, has it speak, and stops it as Docker does.
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


def test_the_api_speaks_in_its_image(images, mounts):
    """With the environment and the mounts of docker-compose-gpu.yml.

    It listens on loopback only, because this container uses the machine's network.
    """
    port = free_port()
    check = program(API)["healthcheck"]["test"].replace(":8005/", f":{port}/")
    assert str(port) in check
    health = ["sh", "-c", check]  # as Docker and podman run a check given as one string
    for name in ("voices", "output"):
        (mounts / name).mkdir(exist_ok=True)
    settings = FIXED[API] | {"API_HOST": "127.0.0.1", "API_PORT": str(port), "NUM_THREADS": "1"}
    options = [word for name, value in settings.items() for word in ("-e", f"{name}={value}")]
    for name, way in (("voices", ""), ("output", ":ro")):
        options += ["-v", f"{mounts / name}:/data/{name}{way}"]
    words = [json.dumps([images.config("api")["Cmd"], health, port])]
    done = images.run("sotaque-api", ["python", "-c", SERVED, *words], *options)
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["livez"] == {"alive": True} and told["status"]["state"] == "ready"
    assert told["wav_bytes"] > 10_000 and told["uid"] == 1000 and told["ended"] == -signal.SIGTERM
    # Its latents were kept in a folder that was root's.
    owners = {path.lstat().st_uid for path in ((mounts / "voices"), *(mounts / "voices").rglob("*"))}
    assert owners == {1000}


# ---- the compose files, with podman-compose ----


@dataclass(frozen=True)
class Compose:
    """podman-compose in a clone without a `.env`: one compose file, up and down."""

    images: Buildah
    clone: Path
    file: str

    def __call__(self, *words: str, **settings: str) -> None:
        done = self.images.call("podman-compose", "-f", self.file, *words, cwd=self.clone, env=settings)
        # It exits with 0 whatever podman's result.
        assert "Error" not in done.stderr, done.stderr

    def container(self, service: str) -> str:
        words = (
            "podman",
            "ps",
            "--all",
            "--quiet",
            "--filter",
            f"label=com.docker.compose.service={service}",
        )
        return self.images.call(*words).stdout.strip()

    def exec(self, service: str, *words: str) -> "subprocess.CompletedProcess[str]":
        return self.images.call("podman", "exec", self.container(service), *words, check=False)

    def state(self, service: str) -> dict[str, Any]:
        """Podman's state of a container, including its health."""
        (found,) = json.loads(self.images.call("podman", "inspect", self.container(service)).stdout)
        state: dict[str, Any] = found["State"]
        return state

    def program(self) -> dict[str, str]:
        """Lines of /proc/PID/status of the trainer, the only child of Docker's init."""
        init = self.state("trainer")["Pid"]
        child = Path(f"/proc/{init}/task/{init}/children").read_text().split()[0]
        lines = Path(f"/proc/{child}/status").read_text().splitlines()
        return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}

    def log(self, service: str) -> str:
        done = self.images.call("podman", "logs", self.container(service))
        return done.stdout + done.stderr

    def until_healthy(self, service: str) -> None:
        """Runs the health check of the compose file, as Docker does, and reads the state."""
        asked = ("podman", "healthcheck", "run", self.container(service))
        self.until(service, lambda: self.images.call(*asked, check=False).returncode == 0)
        assert self.state(service)["Health"]["Status"] == "healthy"

    def until(self, service: str, holds: Callable[[], bool], seconds: float = 900) -> None:
        end = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < end, self.log(service)[-4_000:]
            time.sleep(1)


@pytest.fixture(scope="module")
def users_clone(images: Buildah) -> Path:
    """A fresh clone without settings: every folder is the default."""
    folder = copied(images.folder / "user")
    assert not (folder / ".env").exists()
    return folder


@pytest.fixture
def compose(images: Buildah, users_clone: Path) -> Iterator[Callable[[str], Compose]]:
    yield lambda file: Compose(images, users_clone, file)
    # Stopped first: podman does not remove a container that ends by itself during a kill.
    images.call("podman", "stop", "--all", "--time", "60", check=False)
    images.call("podman", "rm", "--all", "--force", "--time", "1")


def test_podman_compose_trains_stops_and_goes_on(users_clone, compose):
    epochs = users_clone / "train" / "output" / "checkpoints"
    training = compose(TRAINING)
    (users_clone / ".env").write_text("MAX_TRAIN_SAMPLES=40\nNUM_EPOCHS=3\n", encoding="utf-8")
    settings = {"NUM_THREADS": "1"}
    training("up", "-d", "--no-build", **settings)
    training.until_healthy("trainer")
    training.until_healthy("tensorboard")

    # The program runs unprivileged, and the image is read-only.
    training.until("trainer", lambda: training.program()["Uid"].split() == ["1000"] * 4)
    told = training.program()
    assert (told["CapPrm"], told["CapEff"], told["NoNewPrivs"]) == ("0" * 16, "0" * 16, "1")
    assert "Read-only" in training.exec("trainer", "touch", "/app/mine").stderr

    training.until("trainer", (epochs / "checkpoint_epoch_1.pt").exists)
    # The grace period of the compose file, which this podman-compose does not pass on.
    training("stop", "-t", "120")
    stopped = training.state("trainer")
    assert stopped["ExitCode"] == 143, training.log("trainer")[-4_000:]
    assert not (epochs / "checkpoint_epoch_3.pt").exists()
    training("down")

    training("up", "-d", "--no-build", **settings)
    training.until("trainer", lambda: training.state("trainer")["Status"] == "exited")
    assert training.state("trainer")["ExitCode"] == 0, training.log("trainer")[-4_000:]
    assert "Resuming from" in training.log("trainer")
    assert (epochs / "checkpoint_epoch_3.pt").is_file()
    with wave.open(str(users_clone / "train/output/samples/epoch_3_output.wav")) as spoken:
        assert spoken.getframerate() == 24_000 and spoken.getnframes() > 12_000
    assert "MAX_TRAIN_SAMPLES" in training.log("trainer")
    (users_clone / ".env").unlink()


def ask(method: str, path: str, body: object = None) -> bytes:
    """The API's answer on the port that its compose file publishes."""
    data = None if body is None else json.dumps(body).encode()
    wanted = urllib.request.Request(
        f"http://127.0.0.1:8005{path}", data, {"Content-Type": "application/json"}, method=method
    )
    directly = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with directly.open(wanted, timeout=120) as answer:
        found: bytes = answer.read()
    return found


def require_port() -> None:
    """Fails here if another program uses the port."""
    with socket.socket() as port:
        port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        port.bind(("127.0.0.1", 8005))


def assert_speaks() -> None:
    sound = ask("POST", "/v1/audio/speech", {"input": "Good morning.", "response_format": "wav"})
    with wave.open(io.BytesIO(sound)) as spoken:
        assert spoken.getframerate() == 24_000 and len(spoken.readframes(1_000_000)) > 10_000


def test_podman_compose_serves_what_was_trained(users_clone, compose):
    api = compose(API)
    require_port()
    api("up", "-d", "--no-build", NUM_THREADS="1")
    api.until_healthy("api")
    told = json.loads(ask("GET", "/status"))
    # The best voice by the run's evaluation, found without naming its folder.
    best = json.loads((users_clone / "train/output/checkpoints/best.json").read_text())
    assert "kind" in best, f"The run has no verdict: {best}"
    epoch, share = best["epoch"], best["share"]
    names = {"base": "base of ", "epoch": f"epoch {epoch} (", "blend": f"epoch {epoch} at {share:.0%} ("}
    assert told["voice"].startswith(names[best["kind"]]), told
    assert told["voice_reason"].startswith("By the run's evaluation. "), told
    assert_speaks()
    assert "Read-only" in api.exec("api", "touch", "/app/mine").stderr
    # In the folder of the clone, not in a podman volume.
    assert (users_clone / "voices").stat().st_uid == 1000
    assert api.images.call("podman", "volume", "ls", "--quiet").stdout == ""
    began = time.monotonic()
    api("stop")
    assert time.monotonic() - began < 30


def test_what_the_page_of_one_container_asks_for_is_trained_in_the_other_and_spoken_in_the_first(
    users_clone, compose, chromium
):
    """The two containers share only the folder of the queue."""
    require_port()
    api, training = compose(API), compose(TRAINING)
    api("up", "-d", "--no-build", NUM_THREADS="1", API_ALLOW_TRAINING="on")
    training("up", "-d", "--no-build", "queue", NUM_THREADS="1", LEARN_DECODER="off")
    api.until_healthy("api")
    training.until_healthy("queue")
    with chromium.new_page() as page:
        page.goto("http://127.0.0.1:8005/#/train/trains")
        page.wait_for_selector("#train-form:not([hidden])")
        page.fill("#train-form [name=folder]", "train/data/demo")
        page.fill("#train-form [name=run]", "two")
        page.fill("#train-form [name=epochs]", "1")
        page.click("#train-form summary")
        page.fill("#train-form [name=samples]", "8")
        page.click("#train")
        page.wait_for_selector("#trainings:has-text('two')")
    (job,) = json.loads(ask("GET", "/v1/trainings"))["trainings"]
    assert job["settings"] == {"NUM_EPOCHS": "1", "MAX_TRAIN_SAMPLES": "8"}

    def state() -> str:
        return str(json.loads(ask("GET", f"/v1/trainings/{job['id']}"))["state"])

    training.until("queue", lambda: state() not in ("queued", "checking", "running"))
    assert state() == "done", training.log("queue")[-4_000:]
    run = users_clone / "train" / "output" / "runs" / "two"
    assert (run / "checkpoints" / "checkpoint_epoch_1.pt").is_file()
    # The API container only queues: it cannot write the served run, and no other container trains.
    assert "Read-only" in api.exec("api", "touch", "/data/output/checkpoints").stderr
    assert f"Job {job['id']}: done" in training.log("queue")

    def listed() -> list[str]:
        return [run["id"] for run in json.loads(ask("GET", "/v1/runs"))["runs"]]

    api.until("api", lambda: "two" in listed())
    served = json.loads(ask("POST", "/v1/runs/two/epochs/1/promote"))["served"]
    assert (served["run"], served["epoch"]) == ("two", 1)
    assert_speaks()
    # Deleting frees the machine's disk, although OUTPUT_DIR is mounted read-only.
    ask("DELETE", "/v1/promotion")
    ask("DELETE", "/v1/runs/two")
    assert not run.exists() and list(run.parent.iterdir()) == []
