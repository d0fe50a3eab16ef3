"""`sotaque`: every verb of every program in one command, whichever extras are installed."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from machine import commands, console, extras
from train import __main__ as train
from xtts import __main__ as xtts

ROOT = Path(__file__).parents[2]
CONTRACT = "train check evaluate sample export speak serve learn-decoder prepare".split()


@pytest.fixture(autouse=True)
def _own_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves the root logger to pytest."""
    monkeypatch.setattr(logging, "basicConfig", lambda **_: None)
    monkeypatch.setattr(logging, "captureWarnings", lambda _: None)


@pytest.fixture
def script(tmp_path, monkeypatch) -> Path:
    """The console script as pip writes it, on the PATH and in sys.argv."""
    path = tmp_path / "bin/sotaque"
    path.parent.mkdir()
    path.write_text(f"#!{sys.executable}\nimport sys\nfrom machine.console import main\nsys.exit(main())\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}:/usr/bin:/bin")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setattr(sys, "argv", [str(path)])
    return path


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of Sotaque without any extra."""
    monkeypatch.setattr(extras, "entries", lambda: ())


def test_every_program_has_its_verbs_here_and_no_two_have_one_name():
    assert set(CONTRACT) <= set(console.verbs())
    count = len(train.modules()) + len(xtts.modules()) + len(extras.verbs("sotaque"))
    assert len(console.verbs()) == count + 1  # serve


@pytest.mark.usefixtures("alone")
def test_the_core_alone_lists_its_verbs(capsys):
    assert console.run(["--help"]) == 0
    told = capsys.readouterr().out
    listed = [line.split()[0] for line in told.splitlines() if line.startswith("  ")]
    assert set(CONTRACT) <= set(listed) and "studio" not in listed
    assert told.startswith("usage: sotaque COMMAND") and "`sotaque COMMAND --help`" in told


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("name", CONTRACT)
def test_each_verb_of_the_core_alone_helps_with_its_usage(name, script, capsys):
    try:
        code = console.run([name, "--help"])
    except SystemExit as ended:
        code = ended.code
    assert code in (0, None)
    assert capsys.readouterr().out.startswith(f"usage: sotaque {name} ")


@pytest.mark.usefixtures("alone")
def test_a_verb_of_an_extra_that_is_not_there_is_refused(capsys):
    assert console.run(["studio"]) == 2
    assert "Unknown command 'studio'." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("exprt", "Did you mean `sotaque export`?"),
        ("evalute", "Did you mean `sotaque evaluate`?"),
        ("run", "Did you mean `sotaque train`?"),
        ("xyz", "Unknown command 'xyz'. `sotaque --help`"),
        ("--num-epochs", "Unknown command '--num-epochs'."),
    ],
)
def test_an_unknown_verb_is_refused_with_the_nearest(word, told, capsys):
    assert console.run([word]) == 2
    output = capsys.readouterr()
    assert told in output.err and output.out == ""


def test_settings_are_flags_and_the_exit_code_is_the_programs(monkeypatch):
    seen = []
    monkeypatch.setattr("train.verbs.run.run", lambda settings, _: seen.append(settings.seed) or 65)
    assert console.run(["train", "--seed", "5"]) == 65 and seen == [5]
    monkeypatch.setattr("api.__main__.serve", lambda settings: seen.append(settings.api_port) or 0)
    assert console.run(["serve", "--api-port", "8006"]) == 0 and seen == [5, 8006]


def test_what_a_verb_refuses_is_told_by_its_own_name(script, capsys):
    for words in (["--seed", "x"], ["--foo"]):
        with pytest.raises(SystemExit) as ended:
            console.run(["speak", *words])
        assert ended.value.code == 2
        assert capsys.readouterr().err.startswith("usage: sotaque speak ")
    assert console.run(["export"]) == 2
    assert "export needs --to DIR" in capsys.readouterr().err


def test_a_command_in_a_message_is_the_verb_of_the_script(script):
    modules = {name: module.removesuffix(".__main__") for name, module in extras.verbs("sotaque").items()}
    for name in console.verbs():
        module = {"serve": "api", **modules}.get(name)
        program_of = "xtts" if name in xtts.modules() else "train"
        words = module or f"{program_of} {'run' if name == 'train' else name}"
        if name not in ("completion", "mcp"):  # Nothing but the script runs them.
            assert commands.program(f"{words} --x") == f"sotaque {name} --x"


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ([], 2, "usage: sotaque COMMAND"),
        (["--version"], 0, commands.version()),
        (["check", "--num-epochs", "many"], 2, "NUM_EPOCHS is 'many'"),
    ],
)
def test_the_script_ends_with_the_code_of_the_verb(script, words, code, told):
    done = subprocess.run(["sotaque", *words], cwd=script.parent, capture_output=True, text=True, check=False)
    assert done.returncode == code and told in done.stdout + done.stderr


def test_a_closed_pipe_is_no_error(script):
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        ["sotaque", "speak", "--help"], cwd=script.parent, stdout=writing, stderr=subprocess.PIPE, check=False
    )
    os.close(writing)
    assert done.returncode == 0 and done.stderr == b""


def test_help_imports_no_torch():
    code = (
        "import sys; from machine.console import run; run(['--help']);"
        "sys.exit('torch' in sys.modules or 'fastapi' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True)
