"""Commands for messages, written so that a user can copy them into the shell they started from.

`program("train check")` is `.venv/bin/python -m train check` in a clone, `python -m train check`
where that Python is first on the PATH, and has an absolute path anywhere else. In a process of the
console script it is `sotaque check`. In an image of the Dockerfile it is the command of Docker
Compose to type on the host.
"""

import importlib.metadata
import json
import os
import shlex
import shutil
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
# The console script of pyproject.toml.
SCRIPT = "sotaque"
# The environment in an image of the Dockerfile.
IMAGE_VENV = Path("/app/.venv")
_TRAINING_COMPOSE = "docker compose -f docker-compose-training.yml"
# The command for each target of the Makefile, for a container of the image.
_IMAGE_COMMANDS = {
    "train": f"{_TRAINING_COMPOSE} up",
    "serve": "docker compose -f docker-compose-gpu.yml up",
    "install": "docker compose build",
    "tensorboard": f"{_TRAINING_COMPOSE} up tensorboard",
}
# The arguments of Python for each target of the Makefile.
PYTHON_ARGUMENTS = {
    "train": "-m train",
    "serve": "-m api",
    "doctor": "-m xtts doctor",
    "tensorboard": "-m train.metrics.tensorboard_server",
}


def python() -> str:
    """This Python, as the user can type it."""
    executable, folder = Path(sys.executable), _working_folder()
    if folder is not None and executable.is_relative_to(folder):
        return shlex.quote(str(executable.relative_to(folder)))
    on_path = shutil.which("python")
    if on_path is not None and Path(on_path).parent == executable.parent:
        return "python"
    return shlex.quote(str(executable))


def program(words: str) -> str:
    """The command that runs a module with arguments, such as "train export --to DIR"."""
    return _python_command(f"-m {words}")


def make(target: str) -> str:
    """`make TARGET`, or a command that does the same outside of the clone."""
    if in_image():
        return _IMAGE_COMMANDS.get(target) or _python_command(PYTHON_ARGUMENTS[target])
    if _working_folder() == ROOT and not _console_script():
        return f"make {target}"
    if target in PYTHON_ARGUMENTS:
        return _python_command(PYTHON_ARGUMENTS[target])
    return f"make -C {shlex.quote(str(ROOT))} {target}"


def install_extra(name: str) -> str:
    """The command that installs an optional dependency of pyproject.toml, such as "onnx"; in an
    image, the line for a Dockerfile."""
    if in_image():
        return _dockerfile_line(f"--editable '{IMAGE_VENV.parent}[{name}]'")
    if not (ROOT / "pyproject.toml").is_file():
        return install(f"sotaque[{name}]{_install_origin()}")
    return f"{_installer('install')} -e '{in_clone('.')}[{name}]'"


def install(package: str, *, upgrade: bool = False) -> str:
    """The command that installs a package into this environment; in an image, the line for a
    Dockerfile."""
    arguments = ("--upgrade " if upgrade else "") + shlex.quote(package)
    return _dockerfile_line(arguments) if in_image() else f"{_installer('install')} {arguments}"


def uninstall(packages: str) -> str:
    """The command that removes packages, separated by blanks, from this environment."""
    return f"{_installer('uninstall')} {packages}"


@cache
def version() -> str:
    """The output of --version, such as `sotaque 0.2.0`; read once, because every sound is marked with
    it, and reading it takes a millisecond or more."""
    try:
        return f"sotaque {importlib.metadata.version('sotaque')}"
    except importlib.metadata.PackageNotFoundError:
        return "sotaque (not installed)"


def in_clone(name: str) -> str:
    """A file or folder of the clone, relative to the user's working folder."""
    return name if _working_folder() == ROOT else str(ROOT / name)


def in_image() -> bool:
    """Whether this process runs in an image of the Dockerfile."""
    return Path(sys.prefix) == IMAGE_VENV


def _python_command(arguments: str) -> str:
    if in_image():
        return f"{_TRAINING_COMPOSE} run --rm trainer python {arguments}"
    script, verb = _console_script(), _console_verb(arguments)
    if script and verb is not None:
        return f"{script} {verb}".rstrip()
    return f"{python()} {arguments}"


def _console_script() -> str:
    """The console script, as the user can type it; "" if another program was started."""
    started, folder = Path(sys.argv[0]), _working_folder()
    if started.name != SCRIPT or folder is None:
        return ""
    started = folder / started
    on_path = shutil.which(SCRIPT)
    if on_path is not None and folder / on_path == started:
        return SCRIPT
    is_below = started.is_relative_to(folder)
    return shlex.quote(str(started.relative_to(folder) if is_below else started))


def _console_verb(arguments: str) -> str | None:
    """The command of the console script that does the same as `python ARGUMENTS`; None if there is
    none. `-m train export` is "export", `-m train` and `-m train run` are "train"."""
    _, module, *words = arguments.split(" ")
    if words[:1] == ["run"]:
        words = words[1:]
    elif module == "xtts" or (module == "train" and words and not words[0].startswith("-")):
        return " ".join(words)
    if module.startswith("extras."):
        return " ".join([module.removeprefix("extras."), *words])
    verb = {"train": "train", "api": "serve"}.get(module)
    return None if verb is None else " ".join([verb, *words])


def _install_origin() -> str:
    """` @ URL` of the folder or wheel that Sotaque was installed from, because no package index has
    Sotaque; "" if it is not known (PEP 610)."""
    record = importlib.metadata.distribution("sotaque").read_text("direct_url.json")
    return f" @ {json.loads(record)['url']}" if record else ""


def _working_folder() -> Path | None:
    try:
        return Path.cwd()
    except OSError:  # deleted
        return None


def _installer(verb: str) -> str:
    """uv or pip with a verb, whichever this environment has."""
    uv = Path(sys.executable).with_name("uv")
    if uv.is_file():
        folder = _working_folder()
        is_local = folder is not None and uv == folder / ".venv/bin/uv"
        typed = ".venv/bin/uv" if is_local else shlex.quote(str(uv))
        # uv finds the .venv of this folder, unless another environment is active.
        active = {os.environ.get(name) for name in ("VIRTUAL_ENV", "CONDA_PREFIX")}
        finds_this_one = is_local and active <= {None, "", sys.prefix}
        return f"{typed} pip {verb}" + ("" if finds_this_one else f" --python {python()}")
    try:
        # Not with `find_spec`, because setuptools then replaces distutils and warns about it.
        importlib.metadata.version("pip")
    except importlib.metadata.PackageNotFoundError:  # an environment made by uv
        return f"uv pip {verb} --python {python()}"
    return f"{python()} -m pip {verb}" + (" --yes" if verb == "uninstall" else "")


def _dockerfile_line(arguments: str) -> str:
    return f"RUN uv pip install --python {IMAGE_VENV}/bin/python {arguments}"
