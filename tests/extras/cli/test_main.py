"""`sotaque`: every verb of every program in one command."""

import logging
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from api import settings as api_settings
from extras.cli import __main__ as program
from extras.cli import help_pages, verbs
from machine import commands, extras
from train import __main__ as train
from train import settings as train_settings
from xtts import __main__ as xtts

ROOT = Path(__file__).parents[3]
CONTRACT = """train check cut evaluate sample export speak read serve studio doctor monitor explain
    learn-decoder extend distil queue prepare completion""".split()
EXAMPLES = [one for group in help_pages.GROUPS for one in group.examples]


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
    path.write_text(
        f"#!{sys.executable}\nimport sys\nfrom extras.cli.__main__ import main\nsys.exit(main())\n"
    )
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}:/usr/bin:/bin")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setattr(sys, "argv", [str(path)])
    return path


def test_every_program_has_its_verbs_here_and_no_two_have_one_name():
    assert set(CONTRACT) <= set(verbs.find_all())
    count = len(train.modules()) + len(xtts.modules()) + len(extras.verbs("sotaque"))
    assert len(verbs.find_all()) == count + 1  # serve


def test_the_help_lists_every_verb_in_a_group_with_three_examples(capsys):
    known = verbs.find_all()
    assert program.run(["--help"]) == 0
    told = capsys.readouterr().out
    assert [
        name for name, verb in known.items() if f"\n  {name:15}{verb.summary}" not in told
    ] == []
    groups = help_pages.groups(known)
    assert "More" not in [group.title for group in groups]
    assert all(len(group.examples) >= 3 for group in groups)
    assert max(map(len, told.splitlines())) <= 100


def test_a_verb_without_its_extra_is_not_told(monkeypatch):
    monkeypatch.setattr(extras, "verbs", lambda _: {})
    groups = help_pages.groups(verbs.find_all())
    told = " ".join(
        [*(" ".join(one.verbs) for one in groups), *(" ".join(one.examples) for one in groups)]
    )
    assert "speak" in told and "cut" not in told.split() and "studio" not in told.split()


@pytest.mark.parametrize("name", verbs.find_all())
def test_every_verb_helps_with_its_usage_and_examples(name, script, capsys):
    try:
        code = program.run([name, "--help"])
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
    words = words[: min(words.index(one) if one in words else len(words) for one in "|<>")]
    verb, *rest = words
    if verb in ("serve", "studio"):
        api_settings.load(rest, {}, None)
    elif verb == "completion":
        assert tuple(rest) in {("bash",), ("zsh",)}
    elif verb in xtts.modules():
        xtts.parser_of_all().parse_args(words)
    else:
        parser = train.opened("run" if verb == "train" else verb)[1]
        own, settings = parser.parse_known_args(rest)
        train_settings.load(settings, {}, None)
        assert getattr(own, "to", "not needed") is not None


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
    assert program.run([word]) == 2
    output = capsys.readouterr()
    assert told in output.err and output.out == ""


def test_settings_are_flags_and_the_exit_code_is_the_programs(monkeypatch):
    seen = []
    monkeypatch.setattr("train.verbs.run.run", lambda settings, _: seen.append(settings.seed) or 65)
    assert program.run(["train", "--seed", "5"]) == 65 and seen == [5]
    monkeypatch.setattr("api.__main__.serve", lambda settings: seen.append(settings.api_port) or 0)
    assert program.run(["serve", "--api-port", "8006"]) == 0 and seen == [5, 8006]


def test_what_a_verb_refuses_is_told_by_its_own_name(script, capsys):
    with pytest.raises(SystemExit) as ended:
        program.run(["read"])
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert told.startswith("usage: sotaque read BOOK --to DIR [options]") and "BOOK, --to" in told
    assert program.run(["export"]) == 2
    assert "export needs --to DIR" in capsys.readouterr().err


def test_a_command_in_a_message_is_the_verb_of_the_script(script):
    own = {
        name: module.removesuffix(".__main__") for name, module in extras.verbs("sotaque").items()
    }
    for name in verbs.find_all():
        module = {"serve": "api", **own}.get(name)
        program_of = "xtts" if name in xtts.modules() else "train"
        words = module or f"{program_of} {'run' if name == 'train' else name}"
        if name != "completion":
            assert commands.program(f"{words} --x") == f"sotaque {name} --x"


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ([], 2, "usage: sotaque COMMAND"),
        (["--version"], 0, commands.version()),
        (["completion", "fish"], 2, "bash or zsh"),
        (["check", "--num-epochs", "many"], 2, "NUM_EPOCHS is 'many'"),
    ],
)
def test_the_script_ends_with_the_code_of_the_verb(script, words, code, told):
    done = subprocess.run(
        ["sotaque", *words], cwd=script.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == code and told in done.stdout + done.stderr


@pytest.mark.parametrize("words", [["speak", "--help"], ["completion", "zsh"]])
def test_a_closed_pipe_is_no_error(script, words):
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        ["sotaque", *words], cwd=script.parent, stdout=writing, stderr=subprocess.PIPE, check=False
    )
    os.close(writing)
    assert done.returncode == 0 and done.stderr == b""


def test_help_imports_no_torch():
    code = (
        "import sys; from extras.cli.__main__ import run; run(['--help']); run(['completion', "
        "'bash']); sys.exit('torch' in sys.modules or 'fastapi' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True)
