"""A row of the speaking benchmark: medians, and the ratio to the peer."""

from benchmarks import speaking
from benchmarks.speaking import SpeakingTimes


def test_a_row_is_medians_and_a_ratio_to_the_peer():
    row = speaking.row([SpeakingTimes(*times) for times in ((3.0, 0.5), (1.0, 0.1), (2.0, 0.3))], 4.0, 8.0)
    assert row["seconds"] == 2.0 and row["rtf"] == 0.5 and row["times"] == 4.0
    assert row["first_audio_seconds"] == 0.3 and (row["least"], row["most"]) == (1.0, 3.0)
