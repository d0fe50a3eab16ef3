"""The two locks: only versions and hashes, complete, and matching pyproject.toml.

requirements.lock is for the programs (the images have no more); requirements-dev.lock adds what
tests, checks and benchmarks need.
"""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
# The extras that `make lock` writes into each. A setting can request lora.
RUN_EXTRAS = ("api", "onnx", "lora", "cut", "naturalness", "speaker-judge", "install")
EXTRAS = {"requirements.lock": RUN_EXTRAS, "requirements-dev.lock": (*RUN_EXTRAS, "dev")}
RUN, DEVELOP = EXTRAS
LOCKS = {name: (ROOT / name).read_text(encoding="utf-8") for name in EXTRAS}
PIN = re.compile(r"([a-z0-9][a-z0-9-]*)==([^ ;]+)(?: ; ([^\\]+))? \\")
HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}(?: \\)?")
# Left out on purpose: [tool.uv] in pyproject.toml says why.
LEFT_OUT = {Requirement(text).name for text in PROJECT["tool"]["uv"]["override-dependencies"]}

# The code in the images. demo_voice, like the benchmarks, needs both locks (`make demo-voice`).
PROGRAMS = ("machine", "xtts", "train", "api", "extras")
OWN = (*PROGRAMS, "demo_voice", "benchmarks")

both = pytest.mark.parametrize("name", EXTRAS)


@cache
def pins(name: str) -> list[Requirement]:
    return [
        Requirement(f"{package}=={version}{f'; {marker}' if marker else ''}")
        for package, version, marker in PIN.findall(LOCKS[name])
    ]


@cache
def entries(name: str) -> set[str]:
    """Each version with its marker and its hashes."""
    return set(re.split(r"\n(?=\S)", LOCKS[name].strip()))


def here(name: str) -> dict[str, Requirement]:
    """The versions in the lock for this machine."""
    return {pin.name: pin for pin in pins(name) if pin.marker is None or pin.marker.evaluate()}


def asked(name: str) -> list[Requirement]:
    project = PROJECT["project"]
    extras = [project["optional-dependencies"][extra] for extra in EXTRAS[name]]
    return [Requirement(text) for texts in (project["dependencies"], *extras) for text in texts]


@both
def test_every_line_is_a_version_or_a_hash_and_every_version_has_one(name):
    # This excludes index addresses, paths of a machine and options of pip.
    lines = LOCKS[name].splitlines()
    assert [line for line in lines if not PIN.fullmatch(line) and not HASH.fullmatch(line)] == []
    after = [lines[i + 1] for i, line in enumerate(lines) if PIN.fullmatch(line)]
    assert len(after) > 100 and all(HASH.fullmatch(line) for line in after)


@both
def test_what_the_project_asks_for_is_in_the_lock(name):
    wrong = []
    for wanted in asked(name):
        found = [pin for pin in pins(name) if pin.name == canonicalize_name(wanted.name)]
        versions = [next(iter(pin.specifier)).version for pin in found]
        if not found or not all(map(wanted.specifier.contains, versions)):
            wrong.append(f"{wanted}: {versions}")
    assert wrong == [], f"{name} is older than pyproject.toml; run: make lock"


def test_what_runs_is_tested_in_the_same_versions():
    assert entries(RUN) < entries(DEVELOP), "run: make lock"


def test_a_container_carries_no_tools_of_development():
    dev = PROJECT["project"]["optional-dependencies"]["dev"]
    tools = {canonicalize_name(Requirement(text).name) for text in dev}
    assert {"pytest", "mypy", "playwright", "pocketsphinx"} <= tools
    # The programs' libraries need the one, and the aligner of `train cut` is the other.
    assert {pin.name for pin in pins(RUN)} & tools == {"pyyaml", "pocketsphinx"}


def imported() -> Iterator[tuple[str, str]]:
    """Every package that a module of the programs imports, at any level, and that module."""
    for package in PROGRAMS:
        for path in sorted((ROOT / package).rglob("*.py")):
            where = path.relative_to(ROOT)
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Import):
                    yield from ((alias.name.split(".")[0], str(where)) for alias in node.names)
                elif isinstance(node, ast.ImportFrom) and node.module:
                    yield node.module.split(".")[0], str(where)


def test_what_the_programs_import_is_in_the_lock_that_they_run_with():
    of = metadata.packages_distributions()
    locked = {pin.name for pin in pins(RUN)}
    known = sys.stdlib_module_names | set(OWN)
    missing = {
        (package, where)
        for package, where in imported()
        if package not in known
        and package in of  # the program itself asks for packages that are not installed
        and not {canonicalize_name(one) for one in of[package]} & locked
    }
    assert missing == set()


@both
def test_torch_and_torchaudio_are_a_pair(name):
    # Another pair installs and then fails at import: torchaudio compares CUDA versions.
    versions = {pin.name: str(pin.specifier) for pin in pins(name)}
    assert versions["torch"] == versions["torchaudio"]


@both
def test_it_holds_for_every_python_and_linux_that_the_project_supports(name):
    pythons = [f"3.{minor}" for minor in range(11, 15)]
    assert PROJECT["project"]["requires-python"] == ">=3.11,<3.15"
    for version in pythons:
        for machine in ("x86_64", "aarch64"):
            environment = {
                "python_version": version,
                "python_full_version": f"{version}.1",
                "platform_machine": machine,
                "sys_platform": "linux",
                "extra": "",
                "platform_python_implementation": "CPython",
                "implementation_name": "cpython",
            }
            names = [pin.name for pin in pins(name) if pin.marker is None or pin.marker.evaluate(environment)]
            assert len(names) == len(set(names)), f"two versions at once on {version}, {machine}"
            assert {"torch", "coqui-tts", "uv", "pytest"} - set(names) == (
                {"pytest"} if name == RUN else set()
            )


@both
def test_nothing_that_is_installed_misses_a_part(name):
    """It is installed with --no-deps: a user would meet a gap as an ImportError."""
    locked = here(name)
    for one in locked:
        try:
            needs = metadata.requires(one) or []
        except metadata.PackageNotFoundError:
            continue  # another TORCH_BACKEND has other libraries
        for need in map(Requirement, needs):
            if need.marker and not evaluated(need.marker):
                continue
            part = canonicalize_name(need.name)
            if part in LEFT_OUT and part not in locked:
                continue
            assert part in locked, f"{one} needs {part}; run: make lock"
            (specifier,) = locked[part].specifier
            assert need.specifier.contains(specifier.version, prereleases=True), f"{one}: {need}"


def evaluated(marker: Marker) -> bool:
    return marker.evaluate({"extra": ""})
