"""`make tensorboard` shows the run's folder, also if `.env` names it."""

import os

import pytest

from train.metrics import tensorboard_server


@pytest.mark.parametrize(("port", "code"), [("7001", 0), ("six", 2)])
def test_it_looks_where_dotenv_says_or_tells_a_wrong_setting(monkeypatch, tmp_path, capsys, port, code):
    monkeypatch.chdir(tmp_path)
    started: list[list[str]] = []  # the command lines of `execv`
    monkeypatch.setattr(os, "execv", lambda _path, words: started.append(list(words)))
    text = f"RUNS_DIR=my runs\nTENSORBOARD_PORT={port}\n"
    (tmp_path / ".env").write_text(text, encoding="utf-8")
    found = tensorboard_server.main([])
    if code:
        assert found == code and started == []
        assert "TENSORBOARD_PORT is 'six'" in capsys.readouterr().err
        return
    assert started[0][3:] == [
        "--logdir",
        "my runs",
        "--port",
        "7001",
        "--samples_per_plugin",
        "audio=10000,images=10000",
    ]


def test_help_is_printed_and_nothing_starts(monkeypatch, capsys):
    monkeypatch.setattr(os, "execv", lambda *_: pytest.fail("it started"))
    with pytest.raises(SystemExit) as ended:
        tensorboard_server.main(["--help"])
    assert ended.value.code == 0 and "--tensorboard-port" in capsys.readouterr().out
    assert tensorboard_server.main(["--port", "7"]) == 2
