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
# Where the Dockerfile installs.
IMAGE = Path("/app/.venv")
_TRAINING = "docker compose -f docker-compose-training.yml"
_IN_IMAGE = {
    "train": f"{_TRAINING} up",
    "serve": "docker compose -f docker-compose-gpu.yml up",
    "install": "docker compose build",
    "tensorboard": f"{_TRAINING} up tensorboard",
}
# The arguments of Python for each target of the Makefile.
ARGUMENTS = {
    "train": "-m train",
    "serve": "-m api",
    "doctor": "-m xtts doctor",
    "tensorboard": "-m train.metrics.tensorboard_server",
}


def python() -> str:
    """This Python, as the user can type it."""
    executable, here = Path(sys.executable), _here()
    if here is not None and executable.is_relative_to(here):
        return shlex.quote(str(executable.relative_to(here)))
    first = shutil.which("python")
    if first is not None and Path(first).parent == executable.parent:
        return "python"
    return shlex.quote(str(executable))


def program(words: str) -> str:
    """The command that runs a module with arguments, such as "train export --to DIR"."""
    return _run(f"-m {words}")


def make(target: str) -> str:
    """`make TARGET`, or a command that does the same outside of the clone."""
    if in_image():
        return _IN_IMAGE.get(target) or _run(ARGUMENTS[target])
    if _here() == ROOT and not _script():
        return f"make {target}"
    if target in ARGUMENTS:
        return _run(ARGUMENTS[target])
    return f"make -C {shlex.quote(str(ROOT))} {target}"


def install_extra(name: str) -> str:
    """The command that installs an optional dependency of pyproject.toml, such as "onnx"; in an
    image, the line for a Dockerfile."""
    if in_image():
        return _run_line(f"--editable '{IMAGE.parent}[{name}]'")
    if not (ROOT / "pyproject.toml").is_file():
        return install(f"sotaque[{name}]{_origin()}")
    return f"{_installer('install')} -e '{in_clone('.')}[{name}]'"


def install(package: str, *, upgrade: bool = False) -> str:
    """The command that installs a package into this environment; in an image, the line for a
    Dockerfile."""
    what = ("--upgrade " if upgrade else "") + shlex.quote(package)
    return _run_line(what) if in_image() else f"{_installer('install')} {what}"


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
    return name if _here() == ROOT else str(ROOT / name)


def in_image() -> bool:
    """Whether this process runs in an image of the Dockerfile."""
    return Path(sys.prefix) == IMAGE


def _run(arguments: str) -> str:
    if in_image():
        return f"{_TRAINING} run --rm trainer python {arguments}"
    script, verb = _script(), _verb(arguments)
    if script and verb is not None:
        return f"{script} {verb}".rstrip()
    return f"{python()} {arguments}"


def _script() -> str:
    """The console script, as the user can type it; "" if another program was started."""
    started, here = Path(sys.argv[0]), _here()
    if started.name != SCRIPT or here is None:
        return ""
    started = here / started
    first = shutil.which(SCRIPT)
    if first is not None and here / first == started:
        return SCRIPT
    near = started.is_relative_to(here)
    return shlex.quote(str(started.relative_to(here) if near else started))


def _verb(arguments: str) -> str | None:
    """The command of the console script that does the same as `python ARGUMENTS`; None if there is
    none. `-m train export` is "export", `-m train` and `-m train run` are "train"."""
    _, module, *rest = arguments.split(" ")
    if rest[:1] == ["run"]:
        rest = rest[1:]
    elif module == "xtts" or (module == "train" and rest and not rest[0].startswith("-")):
        return " ".join(rest)
    if module.startswith("extras."):
        return " ".join([module.removeprefix("extras."), *rest])
    first = {"train": "train", "api": "serve"}.get(module)
    return None if first is None else " ".join([first, *rest])


def _origin() -> str:
    """` @ URL` of the folder or wheel that Sotaque was installed from, which no package index has;
    "" if it is not known (PEP 610)."""
    record = importlib.metadata.distribution("sotaque").read_text("direct_url.json")
    return f" @ {json.loads(record)['url']}" if record else ""


def _here() -> Path | None:
    try:
        return Path.cwd()
    except OSError:  # deleted
        return None


def _installer(verb: str) -> str:
    """uv or pip with a verb, whichever this environment has."""
    uv = Path(sys.executable).with_name("uv")
    if uv.is_file():
        here = _here()
        local = here is not None and uv == here / ".venv/bin/uv"
        typed = ".venv/bin/uv" if local else shlex.quote(str(uv))
        # It finds the .venv of this folder, unless another environment is active.
        active = {os.environ.get(name) for name in ("VIRTUAL_ENV", "CONDA_PREFIX")}
        is_active = local and active <= {None, "", sys.prefix}
        return f"{typed} pip {verb}" + ("" if is_active else f" --python {python()}")
    try:
        # Not with `find_spec`, because setuptools then replaces distutils and warns about it.
        importlib.metadata.version("pip")
    except importlib.metadata.PackageNotFoundError:  # an environment made by uv
        return f"uv pip {verb} --python {python()}"
    return f"{python()} -m pip {verb}" + (" --yes" if verb == "uninstall" else "")


def _run_line(what: str) -> str:
    return f"RUN uv pip install --python {IMAGE}/bin/python {what}"
