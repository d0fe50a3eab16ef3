"""Without an extra that checks clips, all are kept, and SUSPECT_CLIPS=leave_out logs a warning."""

from types import SimpleNamespace
from typing import Any

import pytest

from machine import extras
from train import run_context
from train.settings import TrainSettings


def test_without_a_check_every_clip_is_kept_and_leave_out_is_warned_about(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(extras, "entries", lambda: ())
    context: Any = SimpleNamespace(data=object())
    settings = TrainSettings(suspect_clips="leave_out")
    assert run_context.left_out(settings, context) is context.data
    assert "SUSPECT_CLIPS=leave_out has no effect" in caplog.text
    assert run_context.look(settings, context, with_likelihood=True) == []
    run_context.report_kept(settings, context)
