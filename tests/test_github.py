"""GitHub and pre-commit run the Makefile's commands, on the Python versions of the project."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.test_readme import targets

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
JOBS = yaml.safe_load((ROOT / ".github/workflows/check.yml").read_text("utf-8"))["jobs"]
STEPS = [step for job in JOBS.values() for step in job["steps"]]


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text("utf-8"))


def test_the_workflow_is_valid():
    """By the schema that check-jsonschema carries."""
    schema = ("--builtin-schema", "vendor.github-workflows")
    done = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", *schema, *WORKFLOWS],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_the_tests_run_on_every_python_version_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    versions = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert JOBS["test"]["strategy"]["matrix"]["python"] == versions
    asked = {step["with"]["python-version"] for step in STEPS if "setup-python" in step.get("uses", "")}
    assert asked == {"${{ matrix.python }}", versions[0]}


def test_it_runs_what_make_check_runs_and_nothing_else():
    makefile = (ROOT / "Makefile").read_text("utf-8")
    (check,) = re.findall(r"^check: (.+)$", makefile, re.M)
    commands = [step["run"] for step in STEPS if "run" in step]
    assert commands == [f"make {name}" for name in check.split()]
    assert set(check.split()) <= targets()
    assert "exec make test\n" in (ROOT / ".ci/run").read_text("utf-8")


def test_pre_commit_runs_commands_of_make():
    hooks = [hook for repo in read(".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]]
    assert [hook["entry"] for hook in hooks] == ["make lint", "make types"]
    assert {hook["entry"].split()[1] for hook in hooks} <= targets()


def test_it_may_only_read_and_its_actions_have_a_major_version():
    for path in WORKFLOWS:
        assert read(str(path.relative_to(ROOT)))["permissions"] == {"contents": "read"}
    actions = [step["uses"] for step in STEPS if "uses" in step]
    assert [action for action in actions if not re.fullmatch(r"actions/[a-z-]+@v\d+", action)] == []


@pytest.mark.parametrize("name", ["fault", "wish"])
def test_a_form_for_issues_asks_something(name):
    form = read(f".github/ISSUE_TEMPLATE/{name}.yml")
    assert form["name"] and form["description"]
    ids = [field["id"] for field in form["body"]]
    assert ids and len(ids) == len(set(ids))
