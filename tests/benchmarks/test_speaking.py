"""The benchmark really runs both sides, and says what it measured."""

import json

import pytest

from benchmarks import speaking
from benchmarks.__main__ import main


def test_a_row_is_medians_and_a_ratio_to_the_peer() -> None:
    row = speaking.row("ours", [(3.0, 0.5), (1.0, 0.1), (2.0, 0.3)], 4.0, peer=8.0)
    assert row["seconds"] == 2.0 and row["rtf"] == 0.5 and row["times"] == 4.0
    assert row["first_audio_seconds"] == 0.3 and (row["least"], row["most"]) == (1.0, 3.0)


@pytest.mark.slow
def test_both_sides_say_as_many_codes(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--rounds", "1", "--codes", "12", "--json", "--precisions", "fp32"]
    assert main(["speaking", *words]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in found["rows"]] == ["coqui", "ours fp32"]
    assert found["audio_seconds"] == pytest.approx(12 * 1024 / 22_050, abs=0.01)
    assert all(row["seconds"] > 0 for row in found["rows"])
