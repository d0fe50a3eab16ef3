"""The pure parts of `benchmarks training`; a complete run at the small size is slow."""

from pathlib import Path

from benchmarks import coqui_training, synthetic, training
from benchmarks.training import mixed_groups


def test_groups_mix_short_and_long_clips():
    assert mixed_groups(tuple(range(8)), 4) == [(0, 2, 4, 6), (1, 3, 5, 7)]
    assert mixed_groups(tuple(range(8)), 8) == [tuple(range(8))]
    assert sorted(clip for group in mixed_groups(tuple(range(7)), 4) for clip in group) == list(range(7))


def test_a_summary_is_the_median_and_tells_its_spread():
    passes = [
        {
            "seconds": s,
            "audio_seconds": 48.0,
            "clips": 8,
            "data_seconds": 1.0,
            "busy_share": 0.5,
            "peak_gb": 2.0,
            "loss": loss,
            "load": 1.0,
        }
        for s, loss in ((4.0, 7.0), (2.0, 6.0), (40.0, 5.0))
    ]
    found = training.summarize(passes)
    assert found["audio_seconds_per_second"] == 12.0 and found["clips_per_second"] == 2.0
    assert (found["least_seconds"], found["most_seconds"]) == (2.0, 40.0)
    assert found["data_wait_share"] == 0.25
    assert found["loss"] == 5.0


def test_coquis_samples_are_the_rows_of_the_transcript(tmp_path):
    synthetic.write_dataset(tmp_path)
    found = coqui_training.samples(tmp_path)
    assert len(found) == synthetic.CLIPS
    assert all(Path(sample["audio_file"]).is_file() for sample in found)
