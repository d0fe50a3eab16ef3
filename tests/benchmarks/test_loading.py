"""Each row of the loading benchmark is a separate process; memory settles over many sentences."""

from typing import Any

import pytest

from benchmarks import loading
from benchmarks.measuring import ChildFailed, ask


def test_growth_is_told_from_the_second_quarter_on(monkeypatch):
    seen = [100.0, 130.0, 150.0, 140.0, 151.0, 150.0, 155.0, 152.0]
    monkeypatch.setattr(loading.measuring, "ask", lambda *_: {"resident_mb": seen, "seconds": 2})
    found = loading.measure_growth("ours fp32", 8, 1)
    assert found == {"quarters_mb": [130.0, 150.0, 151.0, 155.0], "grown_mb": 5.0, "seconds": 2}


def test_sentences_are_of_mixed_length_in_each_quarter():
    for quarter in range(4):
        numbers = range(50 * quarter, 50 * quarter + 50)
        lengths = {len(loading.new_request(number).text.split()) for number in numbers}
        assert min(lengths) <= 2 and max(lengths) > 80 and len(lengths) > 25


def test_a_child_that_fails_is_no_figure(tmp_path):
    with pytest.raises(ChildFailed, match=r"ours fp32 .*config\.json"):
        ask("benchmarks.loading", "ours fp32", tmp_path, 1, 1)


@pytest.mark.slow
@pytest.mark.parametrize("row", loading.GROWTH_ROWS)
def test_memory_settles_over_320_sentences_of_mixed_length(row):
    """A leak grows in each of three runs; free pieces of the heap, 15 MB and more, only in some."""
    found: list[dict[str, Any]] = []
    while len(found) < 3 and (not found or found[-1]["grown_mb"] >= 15):
        found.append(loading.measure_growth(row, 320, 1))
        assert found[-1]["audio_seconds"] > 200
    assert found[-1]["grown_mb"] < 15, found
