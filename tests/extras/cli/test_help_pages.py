"""The help of `sotaque`: groups, examples that work, and no torch."""

import logging
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from api import settings as api_settings
from extras.cli import help_pages
from machine import console, extras
from train import __main__ as train
from train import settings as train_settings
from xtts import __main__ as xtts

ROOT = Path(__file__).parents[3]
EXAMPLES = [example for group in help_pages.GROUPS for example in group.examples]


@pytest.fixture(autouse=True)
def _own_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves the root logger to pytest."""
    monkeypatch.setattr(logging, "basicConfig", lambda **_: None)
    monkeypatch.setattr(logging, "captureWarnings", lambda _: None)


@pytest.fixture(autouse=True)
def _in_the_script(tmp_path, monkeypatch) -> None:
    """Messages name the commands as in a process of the console script, which is on the PATH."""
    path = tmp_path / "sotaque"
    path.touch(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}:/usr/bin:/bin")
    monkeypatch.setattr(sys, "argv", [str(path)])


def test_the_help_lists_every_verb_in_a_group_with_three_examples(capsys):
    verbs = console.verbs()
    assert console.run(["--help"]) == 0
    told = capsys.readouterr().out
    assert [name for name, verb in verbs.items() if f"\n  {name:15}{verb.summary}" not in told] == []
    groups = help_pages.groups(verbs)
    assert "More" not in [group.title for group in groups]
    assert all(len(group.examples) >= 3 for group in groups)
    assert max(map(len, told.splitlines())) <= 100


def test_a_verb_without_its_extra_is_not_told(monkeypatch):
    monkeypatch.setattr(extras, "verbs", lambda _: {})
    groups = help_pages.groups(console.verbs())
    told = " ".join(
        [*(" ".join(group.verbs) for group in groups), *(" ".join(group.examples) for group in groups)]
    )
    assert "speak" in told and "cut" not in told.split() and "studio" not in told.split()


@pytest.mark.parametrize("name", console.verbs())
def test_every_verb_helps_with_its_usage_and_examples(name, capsys):
    try:
        code = console.run([name, "--help"])
    except SystemExit as ended:
        code = ended.code
    assert code in (0, None)
    told = capsys.readouterr().out
    assert told.startswith(f"usage: sotaque {name} ")
    assert f"\nexamples:\n  sotaque {name}" in told or 'eval "$(sotaque' in told
    assert "python -m" not in told


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_is_understood(example):
    words = shlex.split(example.replace('eval "$(sotaque completion bash)"', "completion bash"))
    words = words[: min(words.index(sign) if sign in words else len(words) for sign in "|<>")]
    verb, *rest = words
    if verb in ("serve", "studio"):
        api_settings.load(rest, {}, None)
    elif verb == "mcp":
        assert rest == []
    elif verb == "completion":
        assert tuple(rest) in {("bash",), ("zsh",)}
    elif verb in xtts.modules():
        xtts.parser_of_all().parse_args(words)
    else:
        parser = train.open_verb("run" if verb == "train" else verb)[1]
        options, settings = parser.parse_known_args(rest)
        train_settings.load(settings, {}, None)
        assert getattr(options, "to", "not needed") is not None


def test_help_and_completion_import_no_torch():
    code = (
        "import sys; from machine.console import run; run(['--help']); run(['completion', "
        "'bash']); sys.exit('torch' in sys.modules or 'fastapi' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True)


def test_completion_for_another_shell_is_refused(capsys):
    assert console.run(["completion", "fish"]) == 2
    assert "bash or zsh" in capsys.readouterr().err
