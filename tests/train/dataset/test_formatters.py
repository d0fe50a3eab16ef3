"""Coqui's readers by their names: what they find is checked as our own rows are."""

from pathlib import Path

import pytest

from tests.train.dataset.test_metadata import refusal, rows, written
from train.dataset.metadata import read_entries


def test_a_formatter_of_tts_is_found_by_name(tmp_path: Path):
    for speaker, number in (("p225", 2), ("p225", 1), ("p226", 1)):
        name = f"{speaker}_{number:03}"
        written(tmp_path / "txt" / speaker, f"Text {name}.\n", f"{name}.txt")
    assert rows(tmp_path, "vctk_old") == [
        (f"wav48/{s}/{s}_{n}.wav", f"Text {s}_{n}.", f"VCTK_old_{s}", "en")
        for s, n in (("p225", "001"), ("p225", "002"), ("p226", "001"))
    ]


def test_a_formatter_with_a_transcript(tmp_path: Path):
    written(tmp_path, "wavs/b.wav|One.|x\nwavs/a.wav|Two.|x\n", "transcript.txt")
    assert [row[:2] for row in rows(tmp_path, "css10")] == [
        ("wavs/b.wav", "One."),
        ("wavs/a.wav", "Two."),
    ]


def test_formatters_that_are_none_or_do_not_fit(tmp_path: Path):
    for name in ("vtck", "Path", "glob", "register_formatter", "_voxcel_x", "csv"):
        assert "is unknown" in refusal(tmp_path, name)
    assert "reads a transcript" in refusal(tmp_path, "css10")
    assert "cannot read" in refusal(written(tmp_path, "one field only\n"), "css10")
    assert "holds no row" in refusal(tmp_path, "vctk_old")


@pytest.mark.parametrize(
    ("name", "reason"), [("../a.wav", "without `..`"), ("/etc/a.wav", "not absolute")]
)
def test_names_that_leave_the_folder_are_refused(tmp_path: Path, name: str, reason: str):
    folder = written(tmp_path / "data", f"{name}|Text.|x\n", "transcript.txt")
    message = refusal(folder, "css10")
    assert repr(name) in message
    assert reason in message


def test_a_corpus_published_with_another_extension_is_found(tmp_path: Path):
    """Multilingual LibriSpeech comes as FLAC; its reader writes .wav behind every name."""
    written(tmp_path, "77_5_01\tOi.\n", "transcripts.txt")
    recording = tmp_path / "audio" / "77" / "5" / "77_5_01.flac"
    recording.parent.mkdir(parents=True)
    recording.touch()
    assert [entry.path for entry in read_entries(tmp_path, "mls", "pt")] == [recording]
