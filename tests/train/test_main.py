"""`python -m train`: its verbs and its errors."""

import logging
import subprocess
import sys

import pytest

from train import __main__ as program


@pytest.fixture(autouse=True)
def _own_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps pytest's configuration of the root logger."""
    monkeypatch.setattr(logging, "basicConfig", lambda **_: None)
    monkeypatch.setattr(logging, "captureWarnings", lambda _: None)


OWN = {
    "check": ["--verify", "--repair"],
    "sample": ["--epoch"],
    "export": ["--checkpoint", "--to", "--base", "--onnx"],
}


@pytest.mark.parametrize("verb", program.modules())
def test_every_verb_is_told_and_helps_with_its_own_options_and_where_the_settings_are_told(verb, capsys):
    assert program.main(["--help"]) == 0
    assert f"\n{verb} " in capsys.readouterr().out
    with pytest.raises(SystemExit) as left:
        program.main([verb, "--help"])
    assert left.value.code == 0
    told = capsys.readouterr().out
    if verb != "run":  # it lists every setting
        options, _, settings = told.partition("Every setting is also a flag")
        assert f"python -m train {verb}" in options
        assert all(f"  {name} " in options for name in OWN.get(verb, []))
        assert "docs/settings.md" in settings and len(told.splitlines()) < 25


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["teach"], "Unknown command 'teach'. Use one of: run, check"),
        (["export"], "export needs --to DIR"),
        (["check", "--num-epochs", "many"], "NUM_EPOCHS is 'many'"),
    ],
)
def test_what_is_asked_for_wrongly_is_refused_before_anything_is_done(monkeypatch, capsys, words, told):
    monkeypatch.setattr("train.verbs.check.run", lambda *_: pytest.fail("it was run"))
    assert program.main(words) == 2
    assert told in capsys.readouterr().err


def test_without_a_verb_it_runs(monkeypatch):
    seen = []
    monkeypatch.setattr("train.verbs.run.run", lambda settings, _: seen.append(settings.seed) or 7)
    assert program.main(["--seed", "5"]) == 7 and seen == [5]


def test_ctrl_c_before_a_run_is_130(monkeypatch):
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("train.verbs.check.run", interrupted)
    assert program.main(["check"]) == 130


@pytest.mark.parametrize("verb", ["run", "evaluate", "sample", "export"])
def test_an_output_dir_that_is_a_file_is_refused(verb, tmp_path, capsys):
    (tmp_path / "file").touch()
    to = ["--to", str(tmp_path / "voice")] if verb == "export" else []
    assert program.main([verb, *to, "--output-dir", str(tmp_path / "file")]) == 2
    assert f"OUTPUT_DIR is '{tmp_path / 'file'}'" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["extend", "distil", "export"])
def test_a_missing_folder_is_told_by_the_usage_and_before_anything_large_is_imported(verb):
    code = (
        f"import sys; from train.__main__ import main; code = main(['{verb}']); "
        "assert 'torch' not in sys.modules; sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith(f"{verb} needs --to ")
    parser = program.open_verb(verb)[1]
    assert " --to " in parser.format_usage().partition("[options]")[0]


@pytest.mark.parametrize("words", [["--version"], ["check", "--version"]])
def test_the_version_is_told(words, capsys):
    with pytest.raises(SystemExit) as ended:
        program.main(words)
    assert ended.value.code == 0 and capsys.readouterr().out.startswith("sotaque 0.")


def test_the_usage_of_cut_begins_with_recordings_and_the_folder():
    usage = program.open_verb("cut")[1].format_usage()
    assert usage.rstrip().endswith("train cut RECORDING... --to DIR [options] [settings]")
