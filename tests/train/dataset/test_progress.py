"""Long looks tell how far they are: a bar on a terminal, lines elsewhere, nothing when quick."""

import itertools
import logging
import sys

import pytest

from train.dataset import progress


def test_elsewhere_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch, capsys, caplog):
    caplog.set_level(logging.INFO)
    now = itertools.count(0, 4)
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(now))
    assert list(progress.with_progress(range(5), 5, "Features")) == list(range(5))
    assert caplog.messages == ["Features: 2 of 5 clips."]
    assert capsys.readouterr().err == ""


def test_a_bar_on_a_terminal_after_some_patience(monkeypatch: pytest.MonkeyPatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert list(progress.with_progress(range(3), 3, "Features")) == [0, 1, 2]
    assert "Features: 100%" in capsys.readouterr().err
    assert list(progress.with_progress(range(3), 3, "Features", patience_seconds=60)) == [0, 1, 2]
    assert "Features" not in capsys.readouterr().err
