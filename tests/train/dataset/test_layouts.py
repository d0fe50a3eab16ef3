"""One text file per recording, the command that cuts a long recording, and Coqui's formatters."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.train.dataset import tool_layouts
from tests.train.dataset.test_metadata import refusal, rows, written
from train.dataset.metadata import read_entries, read_transcript


def recording(path: Path, seconds: float = 1.0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, np.zeros(round(seconds * 8000), np.float32), 8000)
    return path


@pytest.mark.parametrize("layout", tool_layouts.ALL, ids=lambda one: one.name)
def test_other_tools_datasets_are_read_as_they_write_them(tmp_path, layout):
    expected = layout.write(tmp_path)
    found = read_transcript(tmp_path, "auto", "en")
    assert [
        (one.name, one.text, one.speaker, one.language, one.validation) for one in found.entries
    ] == expected
    assert [one.path for one in found.entries if not one.path.is_file()] == []


def test_each_recording_with_its_text(tmp_path):
    for name, encoding in (("b.wav", "utf-8-sig"), ("sub/a.flac", "utf-16")):
        text = recording(tmp_path / name).with_suffix(".txt")
        text.write_text(f"Of {name},\r\nin two lines.\n", encoding=encoding)
    recording(tmp_path / ".trash" / "c.wav")
    recording(tmp_path / "silent.wav")  # without a text: refused later, by name
    assert [row[:2] for row in rows(tmp_path)] == [
        ("b.wav", "Of b.wav, in two lines."), ("silent.wav", ""),
        ("sub/a.flac", "Of sub/a.flac, in two lines."),
    ]  # fmt: skip


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


def test_films_and_phones_recordings_get_the_line_that_converts(tmp_path):
    from xtts.audio import AudioError
    from xtts.recording_facts import facts

    path = tmp_path / "note one.m4a"
    path.write_bytes(b"\0\0\0\x20ftypM4A ")
    with pytest.raises(AudioError) as caught:
        facts(path)
    wav = path.with_suffix(".wav")
    assert f"Convert it: ffmpeg -i '{path}' -vn -ac 1 -ar 22050 '{wav}'" in str(caught.value)


# Rows from formatters are checked like our own


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
