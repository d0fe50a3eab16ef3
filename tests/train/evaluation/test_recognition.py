"""Which recogniser listens: the setting's, else pocketsphinx for English, else none and why."""

import sys
from pathlib import Path

import pytest

from train.evaluation.plan import recognition_of
from train.evaluation.sentences import EvaluationError


def test_english_has_pocketsphinx_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("train.evaluation.plan.can_hear_english", lambda: True)
    found = recognition_of("auto", "en")
    assert (found.name, found.told, found.absent) == ("pocketsphinx", "pocketsphinx", None)


def test_without_it_nobody_listens_and_the_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pocketsphinx", None)
    found = recognition_of("auto", "en")
    assert found.name == "" and "pocketsphinx is not installed" in (found.absent or "")


@pytest.mark.parametrize(
    ("setting", "language", "reason"),
    [("off", "en", "is off"), ("auto", "pt", "EVALUATE_RECOGNISER names one")],
)
def test_no_recogniser_has_a_reason(setting: str, language: str, reason: str) -> None:
    found = recognition_of(setting, language)
    assert found.name == "" and reason in (found.absent or "")


def test_a_folder_is_looked_at_before_anything_is_spoken(tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match=r"EVALUATE_RECOGNISER: .* no folder with a Whisper"):
        recognition_of(str(tmp_path / "none"), "pt")
    (tmp_path / "config.json").write_text('{"model_type": "whisper"}')
    found = recognition_of(str(tmp_path), "pt")
    assert found.name == str(tmp_path) and found.told == f"Whisper ({tmp_path.name})"
