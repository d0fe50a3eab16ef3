"""Medians and extremes of rounds."""

from benchmarks import loading, measuring

ROWS = [{"seconds": 3.0, "gb": 1.0}, {"seconds": 1.0, "gb": 2.0}, {"seconds": 1.5, "gb": 9.0}]


def test_medians_and_extremes_are_of_each_figure():
    assert measuring.medians(ROWS) == {"seconds": 1.5, "gb": 2.0}
    assert loading.extremes([3.0, 1.0]) == {"first_audio_least": 1.0, "first_audio_most": 3.0}
