"""`make tensorboard` shows the folder that the run wrote into, also when `.env` names it."""

import os
from pathlib import Path

import pytest

from train.metrics import tensorboard_server


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """What this process would have become."""
    monkeypatch.chdir(tmp_path)
    seen: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda _path, words: seen.append(list(words)))
    return seen


def test_it_looks_where_dotenv_says(started):
    Path(".env").write_text("RUNS_DIR=my runs\nTENSORBOARD_PORT=7001\n", encoding="utf-8")
    tensorboard_server.main()
    assert started[0][3:7] == ["--logdir", "my runs", "--port", "7001"]
    assert started[0][7:] == ["--samples_per_plugin", "audio=10000,images=10000"]


def test_a_wrong_setting_is_told(started, capsys):
    Path(".env").write_text("TENSORBOARD_PORT=six\n", encoding="utf-8")
    assert tensorboard_server.main() == 2
    assert "TENSORBOARD_PORT is 'six'" in capsys.readouterr().err
    assert started == []
