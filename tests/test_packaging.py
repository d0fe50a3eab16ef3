"""pyproject.toml: a wheel has every module, every data file, and the console script."""

import importlib
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import setuptools

from tests.test_architecture import MODULES

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


@pytest.fixture(scope="module")
def packages(project) -> set[str]:
    rule = project["tool"]["setuptools"]["packages"]["find"]
    return set(setuptools.find_namespace_packages(str(ROOT), rule["exclude"], rule["include"]))


def test_a_wheel_has_every_module(packages):
    """All that a clone imports, except the tests, the benchmarks and the making of the demo voice,
    which tests/test_architecture.py forbids the rest to import."""
    tracked = {path for path in MODULES if path.parts[:2] != ("train", "data")}
    needed = {path for path in tracked if path.parts[0] not in ("benchmarks", "demo_voice")}
    assert {".".join(path.parts[:-1]) for path in needed} - packages == set()


def test_a_wheel_has_only_what_runs(packages):
    tops = {name.partition(".")[0] for name in packages}
    assert tops == {"machine", "xtts", "train", "api", "extras"}


def test_a_wheel_says_that_its_packages_have_types(project, packages):
    rules = project["tool"]["setuptools"]["package-data"]
    for top in {name.partition(".")[0] for name in packages}:
        assert "py.typed" in rules[top] and (ROOT / top / "py.typed").is_file()


def test_a_wheel_has_nothing_that_a_run_writes(packages):
    written = ("train.output", "train.runs", "train.cache", "train.queue", "train.xtts_v2")
    assert [package for package in packages if package.startswith(written)] == []


def test_a_wheel_has_every_file_of_data(project):
    """The data that a user needs; the texts and results of benchmarks stay in a clone."""
    rules = project["tool"]["setuptools"]["package-data"]
    packed = {path for name, globs in rules.items() for glob in globs for path in (ROOT / name).glob(glob)}
    listed = subprocess.run(
        ["git", "ls-files", "machine", "xtts", "train", "api", "extras"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    missing = [one for one in listed if not one.endswith(".py") and ROOT / one not in packed]
    assert missing == []


def test_the_console_script_is_a_function(project):
    module, _, function = project["project"]["scripts"]["sotaque"].partition(":")
    assert callable(getattr(importlib.import_module(module), function))
