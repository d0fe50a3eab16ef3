"""What judging costs, and that every word is asked about although random weights never stop."""

import json

import pytest

from benchmarks import judging


def test_seconds_become_a_share_and_a_number_of_sentences() -> None:
    assert judging.told(45.0, 16) == {"share_of_ten_minutes": 0.075, "sentences_for_15_percent": 32}


@pytest.mark.slow
def test_both_turns_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert judging.main(["--sentences", "2"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert all(found[turn]["processor_seconds"] > 0 for turn in ("base", "epoch"))
    assert all(words > 4 for words in found["words_asked_about"].values())
