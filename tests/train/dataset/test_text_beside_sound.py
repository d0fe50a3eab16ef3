"""Folders without a transcript file: texts beside the recordings, or the line that cuts."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

from train.dataset.entries import DatasetError
from train.dataset.metadata import read_entries


def recording(path: Path, seconds: float = 1.0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, np.zeros(round(seconds * 8000), np.float32), 8000)
    return path


def refusal(folder: Path, language: str = "en") -> str:
    with pytest.raises(DatasetError) as caught:
        read_entries(folder, "auto", language)
    return str(caught.value)


def test_each_recording_with_its_text(tmp_path: Path):
    for name, encoding in (("b.wav", "utf-8-sig"), ("sub/a.flac", "utf-16")):
        text = recording(tmp_path / name).with_suffix(".txt")
        text.write_text(f"Of {name},\r\nin two lines.\n", encoding=encoding)
    recording(tmp_path / ".trash" / "c.wav")
    found = [(one.name, one.text, one.language) for one in read_entries(tmp_path, "auto", "pt")]
    assert found == [
        ("b.wav", "Of b.wav, in two lines.", "pt"),
        ("sub/a.flac", "Of sub/a.flac, in two lines.", "pt"),
    ]


def test_a_recording_that_lacks_its_text_is_left_to_be_refused_by_name(tmp_path: Path):
    recording(tmp_path / "a.wav").with_suffix(".txt").write_text("Hello.")
    recording(tmp_path / "b.wav")
    assert [(one.name, one.text) for one in read_entries(tmp_path, "auto", "en")] == [
        ("a.wav", "Hello."),
        ("b.wav", ""),
    ]


def test_recordings_alone_are_answered_with_the_line_that_cuts(tmp_path: Path):
    folder = tmp_path / "my tapes"
    recording(folder / "one.wav", 20)
    message = refusal(folder, "pt")
    assert "1 recording and no transcript" in message
    line = f"python -m train cut '{folder}/one.wav' --to '{folder}-clips' --language pt"
    assert message.endswith(line)
    for number in range(4):
        recording(folder / f"{number}.wav")
    assert f"cut '{folder}'/*.wav --to '{folder}-clips'" in refusal(folder)


def test_one_long_recording_with_its_text_is_to_be_cut(tmp_path: Path):
    path = recording(tmp_path / "tape.wav", 20)
    path.with_suffix(".txt").write_text("Very much text.")
    message = refusal(tmp_path)
    assert "longer than the 11.6 s of a clip" in message
    assert message.endswith(f"cut {path} --to {tmp_path}-clips --text {tmp_path}/tape.txt")


def test_a_recording_in_the_place_of_a_folder(tmp_path: Path):
    path = recording(tmp_path / "tape.wav", 20)
    message = refusal(path)
    assert "is a recording" in message
    assert message.endswith(f"python -m train cut {path} --to {tmp_path}/tape-clips")


def test_films_and_phones_recordings_get_the_line_that_converts(tmp_path: Path):
    from xtts.audio import AudioError, facts

    path = tmp_path / "note one.m4a"
    path.write_bytes(b"\0\0\0\x20ftypM4A ")
    with pytest.raises(AudioError) as caught:
        facts(path)
    wav = path.with_suffix(".wav")
    assert f"Convert it: ffmpeg -i '{path}' -vn -ac 1 -ar 22050 '{wav}'" in str(caught.value)
