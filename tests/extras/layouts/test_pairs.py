"""Other tools' layouts, one text file per recording, the command that cuts a long recording."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

from extras.layouts import pairs
from tests.extras.layouts import tool_layouts
from tests.train.dataset.test_metadata import refusal, rows
from train.dataset.metadata import read_transcript


def recording(path: Path, seconds: float = 1.0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, np.zeros(round(seconds * 8000), np.float32), 8000)
    return path


@pytest.mark.parametrize("layout", tool_layouts.ALL, ids=lambda layout: layout.name)
def test_other_tools_datasets_are_read_as_they_write_them(tmp_path, layout):
    expected = layout.write(tmp_path)
    found = read_transcript(tmp_path, "auto", "en")
    assert [
        (entry.name, entry.text, entry.speaker, entry.language, entry.validation) for entry in found.entries
    ] == expected
    assert [entry.path for entry in found.entries if not entry.path.is_file()] == []


def test_each_recording_with_its_text(tmp_path):
    for name, encoding in (("b.wav", "utf-8-sig"), ("sub/a.flac", "utf-16")):
        text = recording(tmp_path / name).with_suffix(".txt")
        text.write_text(f"Of {name},\r\nin two lines.\n", encoding=encoding)
    recording(tmp_path / ".trash" / "c.wav")
    recording(tmp_path / "silent.wav")  # without a text: refused later, by name
    assert [row[:2] for row in rows(tmp_path)] == [
        ("b.wav", "Of b.wav, in two lines."),
        ("silent.wav", ""),
        ("sub/a.flac", "Of sub/a.flac, in two lines."),
    ]


def test_recordings_alone_are_answered_with_the_line_that_cuts(tmp_path):
    folder = tmp_path / "my tapes"
    recording(folder / "one.wav", 20)
    message = refusal(folder, "auto", "pt")
    assert "1 recording and no transcript" in message
    line = f".venv/bin/python -m train cut '{folder}/one.wav' --to '{folder}-clips' --language pt"
    assert message.endswith(line)
    for number in range(4):
        recording(folder / f"{number}.wav")
    assert f"cut '{folder}'/*.wav --to '{folder}-clips'" in refusal(folder)


def test_one_long_recording_with_its_text_is_to_be_cut(tmp_path):
    path = recording(tmp_path / "tape.wav", 20)
    path.with_suffix(".txt").write_text("Very much text.")
    message = refusal(tmp_path)
    assert "longer than the 11.6 s of a clip" in message
    assert message.endswith(f"cut {path} --to {tmp_path}-clips --text {tmp_path}/tape.txt")
    # A file given as the dataset folder.
    message = refusal(path)
    assert "is a recording" in message
    assert message.endswith(f".venv/bin/python -m train cut {path} --to {tmp_path}/tape-clips")


def test_only_the_headers_that_were_read_are_called_long(tmp_path, monkeypatch):
    monkeypatch.setattr(pairs, "_MAX_HEADERS_READ", 2)
    for number in range(3):
        path = recording(tmp_path / f"{number}.wav", 20)
        path.with_suffix(".txt").write_text("Very much text.")
    assert "3 recordings with text, the first 2 of them longer than" in refusal(tmp_path)


@pytest.mark.parametrize(
    ("texts", "sounds"), [("txt", "wavs"), ("txt/{who}", "wav48/{who}"), ("lab", "audio/{who}")]
)
def test_texts_in_a_folder_of_their_own(tmp_path, texts, sounds):
    for n, who in enumerate(("ann", "ben", "ann")):
        recording(tmp_path / sounds.format(who=who) / f"{who}_{n}.wav")
        text = tmp_path / texts.format(who=who) / f"{who}_{n}{'.lab' if texts == 'lab' else '.txt'}"
        text.parent.mkdir(parents=True, exist_ok=True)
        text.write_text(f"Text {n}.")
    (tmp_path / "README.txt").write_text("A text of no recording.")
    assert sorted(row[1] for row in rows(tmp_path)) == ["Text 0.", "Text 1.", "Text 2."]
    if "who" in sounds:
        assert {row[2] for row in rows(tmp_path, "folders")} == {"ann", "ben"}
    # Two texts with the same name: neither is used.
    again = tmp_path / "other" / text.name
    again.parent.mkdir()
    again.write_text("Another text.")
    assert sorted(row[1] for row in rows(tmp_path)) == ["", "Text 0.", "Text 1."]


@pytest.mark.parametrize(
    "name", ["text", "data/a.json", "texts.xlsx", "train.txt.cleaned", "a.TextGrid", "notes.srt"]
)
def test_files_that_may_hold_the_texts_are_named(tmp_path, name):
    recording(tmp_path / "wavs" / "a.wav")
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("{}")
    told = refusal(tmp_path)
    assert f"Not read: {name}. If the texts are in there, write them into metadata.csv" in told
    assert "Otherwise cut them into clips" in told and "train cut" in told


@pytest.mark.parametrize(
    ("folder", "speaker"),
    [("wav48_silence_trimmed/ann", "ann"), ("sounds/ann", "ann"), ("Soundarya", "Soundarya")],
)
def test_a_sole_folder_is_a_speaker_unless_it_is_named_for_sounds(tmp_path, folder, speaker):
    recording(tmp_path / folder / "a.wav")
    (tmp_path / folder / "a.txt").write_text("One.")
    assert [row[2] for row in rows(tmp_path, "folders")] == [speaker]


def test_folders_are_speakers_and_the_folders_in_them_styles(tmp_path):
    for name in ("anna/a", "anna/whisper/b", "ben/c", "d"):
        path = tmp_path / f"{name}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, [0.0] * 8000, 8000)
        path.with_suffix(".txt").write_text(f"This is {name}.")
    found = {name: speaker for name, _, speaker, _ in rows(tmp_path, "folders")}
    assert found == {
        "anna/a.wav": "anna",
        "anna/whisper/b.wav": "anna:whisper",
        "ben/c.wav": "ben",
        "d.wav": "speaker",
    }
    assert {speaker for _, _, speaker, _ in rows(tmp_path, "pairs")} == {"speaker"}


def test_tags_are_left_out_of_the_text_of_a_recording(tmp_path):
    recording(tmp_path / "a.wav").with_suffix(".txt").write_text("ANNA: [laughs] We &amp; they left.")
    assert [row[1] for row in rows(tmp_path, "pairs")] == ["We & they left."]
