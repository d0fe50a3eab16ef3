"""Which recogniser listens: the setting's, else pocketsphinx for English, else none and why."""

import sys

import pytest

from tests.train.evaluation.spoken import PERSON
from train.evaluation.judges import WORD_ERRORS, descriptions
from train.evaluation.plan import recogniser_of
from train.evaluation.sentences import EvaluationError


@pytest.mark.parametrize(
    ("setting", "language", "installed", "name", "reason"),
    [
        ("auto", "en", True, "pocketsphinx", None),
        ("auto", "en", False, "", "pocketsphinx is not installed"),
        ("off", "en", True, "", "is off"),
        ("auto", "pt", True, "", "EVALUATE_RECOGNISER names one"),
    ],
)
def test_which_recogniser_listens_or_why_none_does(
    monkeypatch, setting, language, installed, name, reason
):
    if installed:
        monkeypatch.setattr("train.evaluation.plan.can_hear_english", lambda: True)
    else:
        monkeypatch.setitem(sys.modules, "pocketsphinx", None)
    found = recogniser_of(setting, language)
    assert found[0] == name
    assert found[1] is None if reason is None else reason in (found[1] or "")


def test_a_folder_is_looked_at_before_anything_is_spoken(tmp_path):
    with pytest.raises(EvaluationError, match=r"EVALUATE_RECOGNISER: .* no folder with a Whisper"):
        recogniser_of(str(tmp_path / "none"), "pt")
    (tmp_path / "config.json").write_text('{"model_type": "whisper"}')
    found = recogniser_of(str(tmp_path), "pt")
    assert found == (str(tmp_path), None)
    told = descriptions(PERSON, *found)[WORD_ERRORS].meaning
    assert f"Words that Whisper ({tmp_path.name}) hears wrong" in told
