"""The benchmark really runs both sides, and says what it measured."""

import json

import pytest

from benchmarks import speaking
from benchmarks.speaking import Timed


def test_a_row_is_medians_and_a_ratio_to_the_peer() -> None:
    row = Timed("ours", [3.0, 1.0, 2.0], [0.5, 0.1, 0.3]).row(audio_seconds=4.0, peer=8.0)
    assert row["seconds"] == 2.0 and row["rtf"] == 0.5 and row["times"] == 4.0
    assert row["first_audio_seconds"] == 0.3 and (row["least"], row["most"]) == (1.0, 3.0)


@pytest.mark.slow
def test_both_sides_say_as_many_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert speaking.main(["--rounds", "1", "--codes", "12", "--json", "--precisions", "fp32"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in found["rows"]] == ["coqui", "ours fp32"]
    assert found["audio_seconds"] == pytest.approx(12 * 1024 / 22_050, abs=0.01)
    assert all(row["seconds"] > 0 for row in found["rows"])
