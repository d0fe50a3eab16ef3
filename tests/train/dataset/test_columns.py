"""Tables with named columns, as Hugging Face, spreadsheets and other trainers write them."""

from pathlib import Path

import pytest

from train.dataset.entries import DatasetError
from train.dataset.metadata import read_entries

EXPECTED = [("wavs/a.wav", "Yes, of course.", "speaker"), ("wavs/b.wav", 'A "b" c.', "speaker")]


def written(folder: Path, text: str | bytes, name: str = "metadata.csv") -> Path:
    (folder / "wavs").mkdir(exist_ok=True)
    for recording in ("a.wav", "b.wav"):
        (folder / "wavs" / recording).touch()
    (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)
    return folder


def rows(folder: Path, form: str = "auto") -> list[tuple[str, str, str]]:
    return [(one.name, one.text, one.speaker) for one in read_entries(folder, form, "en")]


def refusal(folder: Path) -> str:
    with pytest.raises(DatasetError) as caught:
        read_entries(folder, "auto", "en")
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('file_name,text\nwavs/a.wav,"Yes, of course."\nwavs/b.wav,"A ""b"" c."\n', "metadata.csv"),
        ('"file_name";"text"\n"wavs/a.wav";Yes, of course.\nwavs/b.wav;A "b" c.\n', "metadata.csv"),
        ('file_name\ttext\nwavs/a.wav\tYes, of course.\nwavs/b.wav\tA "b" c.\n', "metadata.tsv"),
        ('Sentence\tPath\nYes, of course.\twavs/a.wav\nA "b" c.\twavs/b.wav\n', "metadata.csv"),
        ('file_name|text\nwavs/a.wav|Yes, of course.\nwavs/b.wav|A "b" c.\n', "metadata.csv"),
        ('wavs/a.wav\tYes, of course.\nwavs/b.wav\tA "b" c.\n', "metadata.csv"),
        ('wavs/a.wav,"Yes, of course."\n"wavs/b.wav","A ""b"" c."\n', "metadata.csv"),
        ('wavs/a.wav|"Yes, of course."\nwavs/b.wav|A "b" c.\n', "metadata.csv"),
    ],
)
def test_the_same_table_however_it_is_written(tmp_path: Path, text: str, name: str):
    assert rows(written(tmp_path, text, name)) == EXPECTED
    for encoding in ("utf-16", "utf-8-sig"):
        assert rows(written(tmp_path, text.encode(encoding), name)) == EXPECTED
    written(tmp_path, text.replace("wavs/a.wav", f"{tmp_path}/wavs/a.wav"), name)
    assert rows(tmp_path) == EXPECTED
    assert all(one.path.is_file() for one in read_entries(tmp_path, "auto", "en"))


def test_other_columns_are_told_and_left_alone(tmp_path: Path, caplog):
    caplog.set_level("INFO")
    table = "file_name,duration,text,speaker,mood\na.wav,3.2,Hello.,ann,glad\n"
    assert rows(written(tmp_path, table)) == [("a.wav", "Hello.", "ann")]
    assert "the columns duration, mood are not used" in caplog.text


def test_a_table_that_cannot_be_read_for_certain_is_refused_whole(tmp_path: Path):
    message = refusal(written(tmp_path, "file_name,text\na.wav,Yes, of course.\nb.wav,B.\n"))
    assert "line 2 has 3 fields instead of 2" in message
    assert "stands in quotation marks" in message
    message = refusal(written(tmp_path, 'file_name,text\na.wav,"Yes, of course.\n'))
    assert "line 2 has 3 fields" in message
    message = refusal(written(tmp_path, "a.wav,Hello.,3.2\nb.wav,B.,1.1\n"))
    assert "does not say what its 3 columns are" in message and "file_name,text" in message
    message = refusal(written(tmp_path, "file_name,text\n/etc/a.wav,Hello.\n../b.wav,B.\n"))
    assert "line 2" in message and "not absolute" in message and "without `..`" in message


def test_a_recording_that_was_converted_is_found(tmp_path: Path):
    written(tmp_path, "file_name,text\na.m4a,Hello.\nc.m4a,There.\n")
    (tmp_path / "c.m4a").touch()
    found = read_entries(tmp_path, "auto", "en")
    assert [one.path for one in found] == [tmp_path / "wavs" / "a.wav", tmp_path / "c.m4a"]
