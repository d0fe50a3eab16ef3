"""Rows from Coqui's formatters are checked like our own."""

from tests.train.dataset.test_metadata import refusal, rows, written
from train.dataset.metadata import read_entries


def test_a_formatter_of_tts_is_found_by_name(tmp_path):
    for speaker, number in (("p225", 2), ("p225", 1), ("p226", 1)):
        name = f"{speaker}_{number:03}"
        written(tmp_path / "txt" / speaker, f"Text {name}.\n", f"{name}.txt")
    assert rows(tmp_path, "vctk_old") == [
        (f"wav48/{s}/{s}_{n}.wav", f"Text {s}_{n}.", f"VCTK_old_{s}", "en")
        for s, n in (("p225", "001"), ("p225", "002"), ("p226", "001"))
    ]


def test_a_formatter_with_a_transcript(tmp_path):
    written(tmp_path, "wavs/b.wav|One.|x\nwavs/a.wav|Two.|x\n", "transcript.txt")
    found = [row[:2] for row in rows(tmp_path, "css10")]
    assert found == [("wavs/b.wav", "One."), ("wavs/a.wav", "Two.")]


def test_formatters_that_are_none_or_do_not_fit(tmp_path):
    for name in ("vtck", "Path", "glob", "register_formatter", "_voxcel_x", "csv"):
        assert "is unknown" in refusal(tmp_path, name)
    assert "reads a transcript" in refusal(tmp_path, "css10")
    assert "cannot read" in refusal(written(tmp_path, "one field only\n"), "css10")
    assert "holds no row" in refusal(tmp_path, "vctk_old")
    # File names are checked as in our tables.
    away = written(tmp_path / "data", "../a.wav|Text.|x\n", "transcript.txt")
    assert "'../a.wav'" in (told := refusal(away, "css10")) and "without `..`" in told


def test_a_corpus_published_with_another_extension_is_found(tmp_path):
    """Multilingual LibriSpeech is FLAC; its formatter appends .wav to each name."""
    written(tmp_path, "77_5_01\tOi.\n", "transcripts.txt")
    recording = tmp_path / "audio" / "77" / "5" / "77_5_01.flac"
    recording.parent.mkdir(parents=True)
    recording.touch()
    assert [entry.path for entry in read_entries(tmp_path, "mls", "pt")] == [recording]
