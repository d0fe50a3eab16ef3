"""A row of the speaking benchmark: medians, and the ratio to the peer."""

import pytest

from benchmarks import speaking
from xtts.model.shapes import GPTShape


def test_a_row_is_medians_and_a_ratio_to_the_peer():
    row = speaking.row("ours", [(3.0, 0.5), (1.0, 0.1), (2.0, 0.3)], 4.0, peer=8.0)
    assert row["seconds"] == 2.0 and row["rtf"] == 0.5 and row["times"] == 4.0
    assert row["first_audio_seconds"] == 0.3 and (row["least"], row["most"]) == (1.0, 3.0)


@pytest.mark.parametrize(
    ("name", "read", "times"),
    [("ours int8", 0.377, 1.5), ("onnx-int4, 15 layers", 0.094, 6.0), ("coqui", 1.51, 0.375)],
)
def test_a_row_is_compared_with_reading_its_weights(name, read, times):
    found = speaking.limit(name, [(5.7, 0.1)] * 3, 151, GPTShape(6681, 261), bandwidth=15e9)
    assert found == {"gb_a_code": read, "times_limit": pytest.approx(times, abs=0.01)}
