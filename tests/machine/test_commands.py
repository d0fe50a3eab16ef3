"""A command in a message works when copied, wherever the program was started."""

import ast
import importlib.metadata
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from machine import commands
from tests.test_architecture import MODULES, tree

ROOT = Path(__file__).parents[2]
PRINT = "from machine import commands; print(commands.program('xtts speak --help'))"
# Our commands, written by hand.
BY_HAND = re.compile(
    r"\bpython -m (?:train|xtts|api|pip|machine)\b|\.venv/bin/|\buv pip\b|sotaque\["
    r"|\bmake (?:train|serve|studio|doctor|install|tensorboard)\b"
)
# Modules with such a text, and its readers.
ALLOWED = {
    "machine/commands.py": "the one place",
    "api/runs/exports.py": "README of a downloaded voice, for a clone on another machine",
    "xtts/voices/files/model_card.py": "README of a voice file, for the same",
}


@pytest.fixture
def in_clone(monkeypatch):
    """As after `make` in a clone whose environment is not active."""
    monkeypatch.chdir(commands.ROOT)
    monkeypatch.setattr(sys, "executable", str(commands.ROOT / ".venv/bin/python"))
    monkeypatch.setattr(sys, "prefix", str(commands.ROOT / ".venv"))
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.delenv("CONDA_PREFIX", raising=False)


@pytest.fixture
def in_image(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "prefix", "/app/.venv")


def printed(python: str, folder: Path, path: str) -> str:
    env = {"PATH": path, "PYTHONPATH": str(ROOT), "HOME": str(folder)}
    return subprocess.run(
        [python, "-c", PRINT], cwd=folder, env=env, capture_output=True, text=True, check=True
    ).stdout.strip()


@pytest.mark.parametrize("where", ["clone", "elsewhere", "activated"])
def test_a_printed_command_runs_where_the_program_was_started(where, tmp_path):
    python = ROOT / ".venv/bin/python"
    if not python.exists():
        pytest.skip("not a clone with its .venv")
    folder = ROOT if where == "clone" else tmp_path / "a b"
    folder.mkdir(exist_ok=True)
    path = f"{python.parent}:{os.defpath}" if where == "activated" else os.defpath
    started = {"clone": ".venv/bin/python", "elsewhere": str(python), "activated": "python"}[where]
    command = printed(started if where != "activated" else str(python), folder, path)
    assert command == f"{started} -m xtts speak --help"
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env={"PATH": path, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"usage: {started} -m xtts speak" in done.stdout


def test_a_path_with_a_blank_is_quoted(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", "/opt/my python/bin/python")
    assert shlex.split(commands.program("train")) == ["/opt/my python/bin/python", "-m", "train"]


def test_a_deleted_working_folder_is_no_error(monkeypatch, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert commands.program("train").endswith("python -m train")
    assert "install" in commands.install_extra("onnx")


def test_make_is_named_only_where_the_makefile_is(in_clone, monkeypatch, tmp_path):
    assert [commands.make(target) for target in ("serve", "install")] == ["make serve", "make install"]
    monkeypatch.chdir(tmp_path)
    assert commands.make("serve") == f"{commands.ROOT}/.venv/bin/python -m api"
    assert commands.make("install") == f"make -C {commands.ROOT} install"


@pytest.mark.parametrize(
    ("started", "typed"),
    [
        ("{bin}/sotaque", "sotaque"),
        ("{here}/.venv/bin/sotaque", ".venv/bin/sotaque"),
        (".venv/bin/sotaque", ".venv/bin/sotaque"),
        ("/opt/my tools/sotaque", "'/opt/my tools/sotaque'"),
    ],
)
def test_the_console_script_names_itself(started, typed, monkeypatch, tmp_path):
    (tmp_path / "bin").mkdir()
    on_path = tmp_path / "bin/sotaque"
    on_path.touch()
    on_path.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(sys, "argv", [started.format(bin=tmp_path / "bin", here=tmp_path)])
    for words, verb in {
        "train": "train",
        "train run --seed 1": "train --seed 1",
        "train --seed": "train --seed",
        "train export --to DIR": "export --to DIR",
        "xtts doctor": "doctor",
        "xtts": "",
        "api": "serve",
        "extras.imagined": "imagined",
    }.items():
        assert commands.program(words) == f"{typed} {verb}".rstrip()
    assert commands.program("benchmarks gpu").endswith(" -m benchmarks gpu")
    assert commands.make("serve") == f"{typed} serve"
    assert commands.make("tensorboard").endswith(" -m train.metrics.tensorboard_server")


def test_an_extra_of_a_wheel_is_installed_from_where_the_wheel_came(monkeypatch, tmp_path):
    class Installed:
        def read_text(self, name: str) -> str:
            return '{"url": "file:///home/ana/sotaque", "dir_info": {}}'

    monkeypatch.setattr(commands, "ROOT", tmp_path)
    monkeypatch.setattr(commands.importlib.metadata, "distribution", lambda _: Installed())
    typed = shlex.split(commands.install_extra("onnx"))
    assert typed[-1] == "sotaque[onnx] @ file:///home/ana/sotaque"


@pytest.mark.parametrize("target", commands.PYTHON_ARGUMENTS)
def test_the_makefile_runs_the_same_modules(target):
    (line,) = [line for line in (ROOT / "Makefile").read_text().splitlines() if line.startswith(f"{target}:")]
    assert line.endswith("@$(RUN) " + commands.PYTHON_ARGUMENTS[target].removeprefix("-m "))


def test_an_extra_is_installed_from_the_clone(in_clone, monkeypatch, tmp_path):
    assert commands.install_extra("onnx").endswith(" pip install -e '.[onnx]'")
    monkeypatch.chdir(tmp_path)
    typed = shlex.split(commands.install_extra("onnx"))
    assert typed[-2:] == ["-e", f"{commands.ROOT}[onnx]"]
    assert not shlex.split(commands.install("av"))[0].startswith(".")


def test_another_active_environment_gets_nothing(in_clone, monkeypatch):
    if not (commands.ROOT / ".venv/bin/uv").exists():
        pytest.skip("this environment has no uv")
    assert commands.install("av") == ".venv/bin/uv pip install av"
    monkeypatch.setenv("VIRTUAL_ENV", "/home/ana/other")
    assert commands.install("av") == ".venv/bin/uv pip install --python .venv/bin/python av"


def test_without_uv_and_pip_in_the_environment_uv_installs_from_outside(in_clone, monkeypatch):
    monkeypatch.setattr(Path, "is_file", lambda path: path.name != "uv")
    assert commands.install("av") == ".venv/bin/python -m pip install av"
    missing = commands.importlib.metadata.PackageNotFoundError
    monkeypatch.setattr(
        commands.importlib.metadata, "version", lambda name: (_ for _ in ()).throw(missing(name))
    )
    assert commands.install("av") == "uv pip install --python .venv/bin/python av"


def test_in_an_image_the_command_is_typed_on_the_host(in_image):
    assert commands.program("train evaluate") == (
        "docker compose -f docker-compose-training.yml run --rm trainer python -m train evaluate"
    )
    assert commands.make("serve") == "docker compose -f docker-compose-gpu.yml up"
    assert commands.make("doctor").endswith("run --rm trainer python -m xtts doctor")
    assert commands.install_extra("aac") == (
        "RUN uv pip install --python /app/.venv/bin/python --editable '/app[aac]'"
    )


def test_the_image_is_the_one_of_the_dockerfile():
    text = (ROOT / "Dockerfile").read_text()
    assert f"WORKDIR {commands.IMAGE_VENV.parent}\n" in text and f"PATH={commands.IMAGE_VENV}/bin:" in text


@pytest.mark.parametrize("package", ["machine", "xtts", "train", "api", "extras"])
def test_no_message_writes_a_command_by_hand(package):
    messages = {
        f"{path}:{node.lineno}"
        for path in MODULES
        if path.parts[0] == package and str(path) not in ALLOWED
        for node in texts(tree(path))
        if BY_HAND.search(node.value)
    }
    assert messages == set(), "ask machine.commands"


def texts(module: ast.Module) -> list[ast.Constant]:
    """The literal strings of a module, without docstrings."""
    alone = {
        id(node.value)
        for node in ast.walk(module)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    return [
        node
        for node in ast.walk(module)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone
    ]


def test_a_clone_that_is_not_installed_has_a_version_too(monkeypatch):
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    assert commands.version().startswith("sotaque 0.")
    monkeypatch.setattr(importlib.metadata, "version", missing)
    assert commands.version.__wrapped__() == "sotaque (not installed)"  # past the cache
