"""The Dockerfile, the two compose files and the entry point keep the contract, without Docker.

Tests marked `system` build the images.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from api.settings import ApiSettings
from machine.settings import names
from machine.settings.loading import with_extras
from machine.settings.types import fields
from tests.ports import free_port
from train.settings import TrainSettings

ROOT = Path(__file__).parents[1]
TRAINING = "docker-compose-training.yml"
API = "docker-compose-gpu.yml"
BOTH = (TRAINING, API)
# Values that each container sets itself, in its env_file: the mount points of its folders, and the
# port inside.
FIXED = {
    TRAINING: {
        "DATASET_DIR": "/data/dataset",
        "OUTPUT_DIR": "/data/output",
        "RUNS_DIR": "/data/runs",
        "CACHE_DIR": "/data/cache",
        "XTTS_V2_DIR": "/data/xtts_v2",
        "TENSORBOARD": "off",
        "DATASETS_DIR": "/data/datasets",
        "QUEUE_DIR": "/data/queue",
    },
    API: {
        "OUTPUT_DIR": "/data/output",
        "VOICES_DIR": "/data/voices",
        "DATASETS_DIR": "/data/datasets",
        "XTTS_V2_DIR": "/data/xtts_v2",
        "API_HOST": "0.0.0.0",
        "BOOKS_DIR": "/data/books",
        "QUEUE_DIR": "/data/queue",
        "API_PORT": "8005",
        "API_ALLOW_NO_KEY": "on",
    },
}
# A folder's name on the host, which the container cannot know by itself.
TOLD = {"DATASETS_HOST_PATH": "${DATASETS_DIR:-./datasets}"}
NAMES = {
    service: {name.upper() for name in fields(with_extras(kind))}
    for service, kind in ((TRAINING, TrainSettings), (API, ApiSettings))
}


def compose(name: str, environ: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The file as Compose reads it: `${NAME:-default}` filled in, an empty value as a missing one.

    environ: None leaves the text unchanged.
    """
    text = (ROOT / name).read_text(encoding="utf-8")
    if environ is not None:
        text = re.sub(r"\$\{(\w+):-([^}]*)\}", lambda m: environ.get(m[1]) or m[2], text)
        assert "${" not in text
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded


def program(name: str, environ: Mapping[str, str] | None = None) -> dict[str, Any]:
    service: dict[str, Any] = compose(name, environ)["services"]["trainer" if name == TRAINING else "api"]
    return service


def environment(name: str) -> dict[str, str | None]:
    """The service's environment. None: passed by name, with any value it has on the host."""
    service = program(name)
    files = [(ROOT / file).read_text(encoding="utf-8") for file in service["env_file"]]
    lines = [line for text in files for line in text.splitlines() if line and line[0] != "#"]
    assert all("=" in line for line in lines)  # passed by name, it would come from the host
    pairs = [line.partition("=") for line in (*lines, *service["environment"])]
    assert len({key for key, *_ in pairs}) == len(pairs)
    return {key: value if equals else None for key, equals, value in pairs}


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize("environ", [None, {}], ids=["as it stands", "filled in"])
def test_the_files_are_what_compose_accepts(name, environ):
    schemas = resources.files("check_jsonschema") / "builtin_schemas" / "vendor"
    schema = json.loads((schemas / "compose-spec.json").read_text(encoding="utf-8"))
    jsonschema.Draft7Validator(schema).validate(compose(name, environ))


@pytest.mark.parametrize("name", BOTH)
def test_every_setting_is_passed_by_name_and_an_empty_value_still_wins(name):
    # `- NAME` and never `- NAME=${NAME:-…}`: the latter would turn an empty value into no value.
    passed = environment(name)
    assert set(passed) - {"NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"} == NAMES[name]
    assert {key: passed[key] for key in FIXED[name]} == FIXED[name]
    assert {key: passed[key] for key in TOLD if key in NAMES[name]} in (TOLD, {})
    assert {passed[key] for key in NAMES[name] - set(FIXED[name]) - set(TOLD)} == {None}


@pytest.mark.parametrize("name", BOTH)
def test_they_start_on_any_machine_and_one_line_gives_them_the_gpu(name):
    assert program(name, {})["runtime"] == "runc"
    assert program(name, {"DOCKER_RUNTIME": ""})["runtime"] == "runc"
    assert program(name, {"DOCKER_RUNTIME": "nvidia"})["runtime"] == "nvidia"
    assert "deploy" not in program(name)  # a reservation is fatal without a GPU
    assert environment(name)["NVIDIA_VISIBLE_DEVICES"] == "${NVIDIA_VISIBLE_DEVICES:-all}"
    assert environment(name)["NVIDIA_DRIVER_CAPABILITIES"] == "compute,utility"


@pytest.mark.parametrize("name", BOTH)
def test_a_missing_dotenv_is_no_fault(name):
    # Compose fills ${…} from .env if it exists; other files of settings belong to the clone.
    for service in compose(name)["services"].values():
        files = service.get("env_file", [])
        assert all(file.startswith(".ci/") and (ROOT / file).is_file() for file in files)
        assert not [source for source in sources(service).values() if source.endswith(".env")]


@pytest.mark.parametrize("name", BOTH)
def test_ports_are_published_on_this_machine_only(name):
    inside = "6006" if name == TRAINING else "8005"
    moved = {"TENSORBOARD_PORT": "7000", "API_PORT": "7000"}
    for environ, outside in (({}, inside), (moved, "7000")):
        services = compose(name, environ)["services"].values()
        published = [port for service in services for port in service.get("ports", [])]
        assert published == [f"127.0.0.1:{outside}:{inside}"]


def test_tensorboard_lives_as_long_as_the_service_and_shows_what_the_trainer_writes():
    services = compose(TRAINING, {})["services"]
    command = services["tensorboard"]["command"]
    assert {"--logdir=/data/runs", "--host=0.0.0.0", "--port=6006"} <= set(command)
    board, trainer = (sources(services[name])["/data/runs"] for name in ("tensorboard", "trainer"))
    assert board == trainer and "depends_on" not in services["tensorboard"]


def sources(service: Mapping[str, Any]) -> dict[str, str]:
    return {mount["target"]: mount["source"] for mount in service["volumes"]}


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {
            "OUTPUT_DIR": "/big/out",
            "DATASET_DIR": "~/voices/anna",
            "RUNS_DIR": "r",
            "CACHE_DIR": "c",
            "XTTS_V2_DIR": "~/models/v2",
        },
        {"OUTPUT_DIR": "", "DATASET_DIR": "", "RUNS_DIR": "", "CACHE_DIR": ""},
    ],
)
@pytest.mark.parametrize("name", BOTH)
def test_each_folder_of_the_settings_is_mounted_where_the_container_looks_for_it(name, environ):
    mounted = sources(program(name, environ))
    defaults = {
        "DATASET_DIR": "./train/data/demo",
        "OUTPUT_DIR": "./train/output",
        "RUNS_DIR": "./train/runs",
        "CACHE_DIR": "./train/cache",
        "XTTS_V2_DIR": "./train/xtts_v2",
        "VOICES_DIR": "./voices",
        "DATASETS_DIR": "./datasets",
        "QUEUE_DIR": "./train/queue",
        "BOOKS_DIR": "./books",
    }
    for key, inside in FIXED[name].items():
        if key in defaults:
            assert mounted[inside] == (environ.get(key) or defaults[key])
    assert mounted["/project"] == "."


@pytest.mark.parametrize("name", BOTH)
def test_podman_compose_reads_the_same_file(name):
    """Three differences from Docker Compose; test_images starts it for real."""
    for service in compose(name)["services"].values():
        # It also fills in ${DATASET_DIR:-…} from the service's environment.
        own = {line.partition("=")[0] for line in service.get("environment", []) if "=" in line}
        filled_in = re.findall(r"\$\{(\w+)", json.dumps([service["volumes"], service.get("ports")]))
        assert own & set(filled_in) == set()
        # Before 1.1 it takes a source without a dot for a volume's name,
        defaults = [source.partition(":-")[2] or source for source in sources(service).values()]
        assert all(default.startswith(".") for default in defaults)
        # and it does not quote the words of a list.
        assert isinstance(service["healthcheck"]["test"], str)


@pytest.mark.parametrize("name", BOTH)
def test_a_container_may_do_no_more_than_it_must(name):
    for service in compose(name)["services"].values():
        assert service["cap_drop"] == ["ALL"]
        # To change the owner of root's mounts, to switch users, and to forward a stop to that user.
        assert set(service["cap_add"]) == {"CHOWN", "DAC_OVERRIDE", "KILL", "SETGID", "SETUID"}
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["read_only"] is True
        assert [mount.partition(":")[0] for mount in service["tmpfs"]] == ["/tmp"]
        assert "privileged" not in service and "user" not in service
    writable = [mount for mount in program(name)["volumes"] if not mount.get("read_only")]
    kept = {"/data/output", "/data/runs", "/data/cache", "/data/xtts_v2", "/data/queue"}
    deletable = {"/data/output/runs", "/data/output/archive"}
    assert {mount["target"] for mount in writable} == (
        kept
        if name == TRAINING
        else {"/data/voices", "/data/datasets", "/data/books", "/data/queue", *deletable}
    )


def test_the_queue_trains_as_the_trainer_does_and_only_if_it_is_asked_for():
    services = compose(TRAINING)["services"]
    queue, trainer = services["queue"], services["trainer"]
    assert queue["command"] == ["python", "-m", "train", "queue"]
    assert queue["profiles"] == ["queue"] and "profiles" not in trainer
    for key in ("volumes", "environment", "env_file", "runtime", "cap_drop"):
        assert queue[key] == trainer[key]
    shared = {"/data/queue", "/data/datasets", "/data/output"}
    mine, theirs = sources(queue), sources(program(API))
    assert {at: mine[at] for at in shared} == {at: theirs[at] for at in shared}


@pytest.mark.parametrize("environ", [{}, {"OUTPUT_DIR": "/big/out"}])
def test_what_the_page_may_delete_is_a_part_of_the_folder_that_it_reads(environ):
    mounted = sources(program(API, environ))
    for name in ("runs", "archive"):
        assert mounted[f"/data/output/{name}"] == f"{mounted['/data/output']}/{name}"


def test_a_dataset_that_is_not_there_is_a_fault_and_an_output_folder_is_made():
    volumes = program(TRAINING)["volumes"]
    # The short form would take `my-clips` for a volume's name and train on an empty folder.
    assert {one["type"] for one in (*volumes, *program(API)["volumes"])} == {"bind"}
    made = {volume["target"]: volume.get("bind", {}).get("create_host_path") for volume in volumes}
    assert made["/data/dataset"] is False
    assert {made[f"/data/{name}"] for name in ("output", "runs", "cache", "xtts_v2")} == {True}


@pytest.mark.parametrize("name", BOTH)
def test_a_stop_reaches_the_program_and_leaves_it_time(name):
    service = program(name)
    assert service["init"] is True and "shm_size" in service
    number, unit = re.fullmatch(r"(\d+)([ms])", service["stop_grace_period"]).groups()
    assert int(number) * {"m": 60, "s": 1}[unit] >= 20  # STOP_SECONDS is 8


def test_the_health_checks_ask_the_program_itself():
    assert "127.0.0.1:8005/readyz" in program(API)["healthcheck"]["test"]
    board = compose(TRAINING)["services"]["tensorboard"]["healthcheck"]["test"]
    assert "127.0.0.1:6006" in board
    for command in (program(API)["healthcheck"]["test"], board):
        python, option, code = shlex.split(command)
        assert (python, option) == ("python", "-c")
        compile(code, "healthcheck", "exec")
    with pytest.raises(OSError):  # as for a dead TensorBoard
        exec(shlex.split(board)[-1].replace("6006", str(free_port())))


def test_the_trainer_is_healthy_while_something_is_written(tmp_path):
    command = program(TRAINING)["healthcheck"]["test"].replace("/data", str(tmp_path))
    for folder in ("output", "cache", "xtts_v2"):
        (tmp_path / folder).mkdir()
    metrics = tmp_path / "output" / "metrics.jsonl"
    metrics.touch()
    assert subprocess.run(["sh", "-c", command], check=False).returncode == 0
    for path in (metrics, *tmp_path.iterdir()):
        os.utime(path, (1e9, 1e9))
    assert subprocess.run(["sh", "-c", command], check=False).returncode != 0


# ---- the images ----


def dockerfile() -> list[list[str]]:
    """The instructions, as words; continued lines joined."""
    text = re.sub(r"\\\n", " ", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
    return [line.split() for line in text.splitlines() if line and line[0] != "#"]


def stages() -> dict[str, list[list[str]]]:
    found: dict[str, list[list[str]]] = {}
    for words in dockerfile():
        if words[0] == "FROM":
            found[words[3]] = []
        if found:  # lines before the first stage belong to none
            found[list(found)[-1]].append(words)
    return found


def test_there_is_one_base_and_two_images_and_compose_builds_them():
    froms = {name: lines[0][1] for name, lines in stages().items()}
    assert froms == {"base": "${BASE}", "train": "base", "api": "base"}
    assert dockerfile()[0] == ["ARG", "BASE=python:3.11-slim"]
    for name, target in ((TRAINING, "train"), (API, "api")):
        for service in compose(name)["services"].values():
            assert service["build"]["target"] == target
            # A base with a digest is always the same; the user chooses which.
            assert service["build"]["args"] == {
                "BASE": "${BASE_IMAGE:-python:3.11-slim}",
                "TORCH_BACKEND": "${TORCH_BACKEND:-default}",
            }
    assert ["ARG", "TORCH_BACKEND=default"] in stages()["base"]
    for name, port in (("train", "6006"), ("api", "8005")):
        assert ["EXPOSE", port] in stages()[name]
        assert ["CMD", '["python",', '"-m",', f'"{name}"]'] in stages()[name]


def test_a_change_of_the_code_does_not_install_torch_again():
    lines = [" ".join(words) for words in stages()["base"]]
    locked = next(i for i, line in enumerate(lines) if line.endswith(".ci/install lock"))
    code = next(i for i, line in enumerate(lines) if line.startswith("COPY xtts"))
    assert locked < code


def test_nobody_agrees_to_a_licence_and_no_setting_is_preset():
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    preset = set(re.findall(r"\b([A-Z_]+)=", text))
    assert preset & names.CORE_SETTINGS == set()
    assert environment(TRAINING)["COQUI_TOS_AGREED"] is None


def test_the_image_gets_every_package_and_nothing_else():
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split("\n")
    lines = [line for line in ignored if line and line[0] != "#"]
    assert lines[0] == "*"
    allowed = {line[1:] for line in lines if line[0] == "!"}
    copied = {word for words in dockerfile() if words[0] == "COPY" for word in words[1:-1]}
    assert copied == allowed
    assert {path for path in copied if not (ROOT / path).exists()} == set()
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = packages["tool"]["setuptools"]["packages"]["find"]["include"]
    assert {name.rstrip("*") for name in wanted} <= allowed
    kept_out = {line for line in lines[1:] if line[0] != "!"}
    assert {"train/output", "train/runs", "train/cache"} <= kept_out


# ---- the entry point ----


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that another user may enter, unlike pytest's."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    for name in ("project", "output", "runs", "cache", "xtts_v2"):
        (folder / name).mkdir()
    yield folder
    shutil.rmtree(folder)


def enter(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    folders = {"OUTPUT_DIR": "output", "RUNS_DIR": "runs", "CACHE_DIR": "not there", "XTTS_V2_DIR": "xtts_v2"}
    environ = {"PATH": os.environ["PATH"]} | {n: str(folder / at) for n, at in folders.items()}
    return subprocess.run(
        ["/bin/sh", str(ROOT / ".ci" / "entrypoint"), "/bin/sh", "-c", command],
        cwd=folder / "project",
        env=environ,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, as in a container")
@pytest.mark.parametrize("owner", [0, 1234])
def test_root_owned_mounts_work_although_the_program_is_not_root_nor_can_become_it(open_folder, owner):
    os.chown(open_folder / "project", owner, owner)
    (open_folder / "runs" / "older").mkdir()
    theirs = open_folder / "output" / "theirs"
    theirs.touch()
    os.chown(theirs, 4321, 4321)
    touched = "$OUTPUT_DIR/a $RUNS_DIR/older/b $XTTS_V2_DIR/c"
    done = enter(open_folder, f"id -u; id -g; id -G; touch {touched}")
    assert done.returncode == 0, done.stderr
    who = owner or 1000
    assert done.stdout.split() == [str(who)] * 3
    assert (open_folder / "output" / "a").stat().st_uid == who
    assert (open_folder / "runs" / "older" / "b").stat().st_uid == who
    assert theirs.stat().st_uid == 4321  # another user's files keep their owner
    done = enter(open_folder, "grep -E '^(NoNewPrivs|CapEff)' /proc/self/status")
    assert done.stdout.split() == ["CapEff:", "0" * 16, "NoNewPrivs:", "1"]


def test_the_exit_code_and_the_arguments_are_the_programs(open_folder):
    done = enter(open_folder, "echo 'two  words'; exit 65")
    assert (done.returncode, done.stdout) == (65, "two  words\n")
