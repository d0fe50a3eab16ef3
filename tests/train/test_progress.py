"""Progress and remaining time of long work: a bar on a terminal, lines elsewhere, nothing for quick
work."""

import itertools
import sys

from train import progress
from train.progress import RemainingTime


def test_elsewhere_a_line_now_and_then_with_what_is_left(monkeypatch, capsys, caplog):
    now = itertools.count(0, 4)
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(now))
    assert list(progress.with_progress(range(5), 5, "Features")) == list(range(5))
    # Four seconds per clip, and a line after ten seconds.
    assert caplog.messages == ["Features: 3 of 5 clips, left 0:00:08"]
    assert capsys.readouterr().err == ""


def test_parts_of_any_size_count(monkeypatch, caplog):
    now = itertools.count(0, 20)
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(now))
    with progress.Progress("Listening", 3600.0, "s") as listening:
        listening.add(60.0)
        listening.add(1740.0)
    assert caplog.messages == [
        "Listening: 60 of 3600 s, left 0:19:40",
        "Listening: 1800 of 3600 s, left 0:00:40",
    ]
    assert [progress.clock(one) for one in (-3.0, 59.9, 3723)] == ["0:00:00", "0:00:59", "1:02:03"]


def test_a_bar_on_a_terminal_after_some_patience(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert list(progress.with_progress(range(3), 3, "Features")) == [0, 1, 2]
    assert "Features" not in capsys.readouterr().err
    monkeypatch.setattr(progress, "_PATIENCE_SECONDS", 0.0)
    assert list(progress.with_progress(range(3), 3, "Features")) == [0, 1, 2]
    assert "Features: 100%" in capsys.readouterr().err


def test_what_only_prepares_makes_the_work_seem_no_slower(monkeypatch, caplog):
    """As when clips are prepared before a decoder's first step."""
    now = itertools.count(0, 20)
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(now))
    with progress.Progress("Training a decoder", 100.0, "steps") as learning:
        for _ in range(5):
            learning.reach(0.0)
        learning.reach(0.5)
    assert caplog.messages == ["Training a decoder: 50 of 100 steps, left 0:00:20"]


def test_steps_ends_of_epochs_and_judging_are_left():
    found = RemainingTime(2, 4, conclusion_seconds=50.0)
    found.step(2.0)
    assert found.seconds_left(1, 1) == 7 * 2 + 50
    found.end_epoch(10.0)
    # After an epoch's last step, its validation, checkpoint and sample remain.
    assert found.seconds_left(2, 4) == 10 + 50


def test_a_slow_sample_makes_no_step_seem_slow():
    found = RemainingTime(3, 2)
    for _ in range(2):
        found.step(1.0)
    found.end_epoch(60.0)
    found.step(1.0)
    assert found.seconds_left(2, 1) == 3 * 1 + 2 * 60
