"""The waveforms of two devices are compared."""

import array
from pathlib import Path

import pytest

from extras.common.readings.trial_speech import relative_distance


def test_two_waveforms_are_compared_without_torch(tmp_path):
    def waveform(name: str, *values: float) -> Path:
        path = tmp_path / name
        path.write_bytes(array.array("f", values).tobytes())
        return path

    recorded = waveform("one", 3.0, 4.0)
    assert relative_distance(recorded, recorded) == 0.0
    assert relative_distance(waveform("other", 3.0, 3.0), recorded) == pytest.approx(0.2)
    assert relative_distance(waveform("short", 3.0), recorded) is None
    assert relative_distance(tmp_path / "missing", recorded) is None
