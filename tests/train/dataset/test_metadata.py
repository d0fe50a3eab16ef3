"""Transcripts of every form -> rows; a file of the wrong form is refused whole, with its line."""

from pathlib import Path

import pytest

from train.dataset.entries import DatasetError
from train.dataset.metadata import read_entries, third_column

TEXTS = ("The birch canoe slid on the smooth planks.", "Glue the sheet to the blue background.")


def written(folder: Path, text: str | bytes, name: str = "metadata.csv") -> Path:
    (folder / "wavs").mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)
    return folder


def rows(folder: Path, form: str = "auto"):
    return [(e.name, e.text, e.speaker, e.language) for e in read_entries(folder, form, "en")]


def refusal(folder: Path, form: str = "auto", language: str = "en") -> str:
    with pytest.raises(DatasetError) as caught:
        read_entries(folder, form, language)
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_ljspeech(tmp_path):
    written(tmp_path, "a|As written.|As spoken.\nb|Only text.|\n")
    (tmp_path / "wavs" / "b.flac").touch()
    entries = read_entries(tmp_path, "auto", "pt")
    assert [(e.name, e.text, e.language) for e in entries] == [
        ("a", "As spoken.", "pt"),
        ("b", "Only text.", "pt"),
    ]
    assert [e.path for e in entries] == [
        tmp_path / "wavs" / "a.wav",
        tmp_path / "wavs" / "b.flac",
    ]


def test_coqui_with_and_without_a_header(tmp_path):
    expected = [("wavs/a.wav", "Hello.", "ann", "en"), ("wavs/b.wav", "Olá.", "bia", "pt")]
    body = "wavs/a.wav|Hello.|ann\nwavs/b.wav|Olá.|bia|pt\n"
    assert rows(written(tmp_path, body)) == expected
    assert rows(written(tmp_path, "audio_file|text|speaker_name\n" + body)) == expected
    assert rows(written(tmp_path, "\n\naudio_file|text|speaker_name\n" + body)) == expected


def test_a_header_of_other_columns_is_refused(tmp_path):
    """Read by position, an emotion would become a speaker."""
    text = "audio_file|text|emotion_name\nwavs/a.wav|Hello.|happy\n"
    assert "columns 'audio_file|text|emotion_name'" in refusal(written(tmp_path, text))


def test_two_files_are_training_and_validation(tmp_path):
    written(tmp_path, "audio_file|text|speaker_name\na.wav|One.|x\n", "metadata_train.csv")
    written(tmp_path, "audio_file|text|speaker_name\nb.wav|Two.|x\n", "metadata_val.csv")
    assert [(e.name, e.validation) for e in read_entries(tmp_path, "auto", "en")] == [
        ("a.wav", False),
        ("b.wav", True),
    ]
    (tmp_path / "metadata_val.csv").unlink()
    assert [e.validation for e in read_entries(tmp_path, "auto", "en")] == [None]


def test_byte_order_mark_crlf_and_empty_lines(tmp_path):
    text = b"\xef\xbb\xbf" + "a|Olá.\r\n\r\nb|Two.\r\n   \r\n".encode()
    assert [row[:2] for row in rows(written(tmp_path, text))] == [("a", "Olá."), ("b", "Two.")]


def test_a_line_separator_inside_a_text_starts_no_row(tmp_path):
    text = "a|One\u2028line\x85here.\nb|Two.\n"
    assert [row[0] for row in rows(written(tmp_path, text))] == ["a", "b"]


def test_rows_with_the_wrong_number_of_fields_are_told_with_their_lines(tmp_path):
    message = refusal(written(tmp_path, "a|Good.\nb\nc|x|y|z\n"))
    assert "line 2 has 1 fields: 'b'" in message
    assert "line 3 has 4 fields" in message
    assert "A row is id|text" in message


def test_many_faults_are_counted(tmp_path):
    message = refusal(written(tmp_path, "x\n" * 25))
    assert message.count("has 1 fields") == 10
    assert "and 15 more" in message


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("/etc/passwd.wav", "not absolute"),
        ("C:\\voices\\a.wav", "not absolute"),
        ("\\\\server\\a.wav", "not absolute"),
        ("../other/a.wav", "without `..`"),
        ("wavs/../../a.wav", "without `..`"),
        ("wavs\\..\\a.wav", "without `..`"),
        ("", "is empty"),
        ("a\0b", "no file can be called so"),
        ("long" * 70, "no file can be called so"),
    ],
)
def test_names_that_leave_the_folder_are_refused(tmp_path, name, reason):
    for form in ("ljspeech", "coqui"):
        message = refusal(written(tmp_path, f"ok|Good.\n{name}|Text.\n"), form)
        assert "line 2" in message
        assert reason in message


def test_a_clip_named_twice_is_refused(tmp_path):
    assert "names 'a' twice" in refusal(written(tmp_path, "a|One.\nb|Two.\na|Three.\n"))
    written(tmp_path, "a.wav|One.\n", "metadata_train.csv")
    written(tmp_path, "a.wav|One.\n", "metadata_val.csv")
    assert "twice" in refusal(tmp_path)


def test_missing_and_empty_datasets_are_refused(tmp_path):
    assert "is no folder" in refusal(tmp_path / "nowhere")
    assert "neither metadata.csv nor" in refusal(tmp_path)
    assert "does not exist" in refusal(tmp_path, "ljspeech")
    assert "holds no row" in refusal(written(tmp_path, "\n  \n"))
    assert "holds no row" in refusal(written(tmp_path, "audio_file|text\n"))


def test_another_encoding_is_refused_with_its_line(tmp_path):
    message = refusal(written(tmp_path, b"a|One.\nb|Ol\xe1.\n"))
    assert "line 2" in message
    assert "0xe1" in message
    message = refusal(written(tmp_path, "a|One.\n".encode("utf-16") + b"\0"))
    assert "is no UTF-16. Save the file as UTF-8." in message


def test_utf_16_is_read_by_its_mark(tmp_path):
    for encoding in ("utf-16", "utf-16-le", "utf-16-be"):
        text = ("\ufeff" if encoding != "utf-16" else "") + "a|Olá.\r\nb|Two.\r\n"
        found = rows(written(tmp_path, text.encode(encoding)))
        assert [row[:2] for row in found] == [("a", "Olá."), ("b", "Two.")]


def test_absolute_paths_inside_the_folder_and_quoted_fields(tmp_path):
    text = f'{tmp_path}/wavs/a.wav|"One | ""two""."\n"wavs/b.wav"|"Stop," he said.\n'
    assert [row[:2] for row in rows(written(tmp_path, text))] == [
        ("wavs/a.wav", 'One | "two".'),
        ("wavs/b.wav", '"Stop," he said.'),
    ]


def test_recordings_are_found_as_people_name_them(tmp_path):
    """Windows' backslashes, accents kept apart by a Mac, files beside or in wavs/."""
    written(tmp_path, "wavs\\a.wav|One.\nb.wav|Two.\nwavs/caf\u00e9.wav|Three.\n")
    for name in ("a.wav", "b.wav", "cafe\u0301.wav"):
        (tmp_path / "wavs" / name).touch()
    assert all(entry.path.is_file() for entry in read_entries(tmp_path, "auto", "en"))


@pytest.mark.parametrize(
    ("thirds", "expected"),
    [
        (("the birch canoe slid on the smooth planks", "glue the sheet to the blue one"), "text"),
        (("", ""), "text"),
        ((TEXTS[0], ""), "text"),
        (("ann", "ann"), "speaker"),
        (("Mary Ann", ""), "speaker"),
        (("3.21", "4.07"), None),
        (("dh ax b er ch", "g l uw dh ax"), None),
        (("ann", "bob"), None),
    ],
)
def test_of_two_rows(thirds, expected):
    assert third_column(list(zip(TEXTS, thirds, strict=True))) == expected


def test_numbers_written_out_are_a_text():
    numbers = [("In 1863.", "In eighteen sixty-three."), ("£12", "twelve pounds.")]
    assert third_column([*numbers, *zip(TEXTS, TEXTS, strict=True)]) == "text"
    assert third_column([("5.", "five.")]) == "text"


def test_a_voice_does_not_learn_its_speakers_name(tmp_path, caplog):
    caplog.set_level("INFO")
    written(
        tmp_path, "".join(f"{name}|{text}|ann\n" for name, text in zip("ab", TEXTS, strict=True))
    )
    assert rows(tmp_path) == [("a", TEXTS[0], "ann", "en"), ("b", TEXTS[1], "ann", "en")]
    assert "the third column is read as the speaker" in caplog.text


def test_a_third_column_of_something_else_is_refused(tmp_path):
    message = refusal(written(tmp_path, f"a|{TEXTS[0]}|3.21\nb|{TEXTS[1]}|4.07\n"))
    assert "neither the text in other words nor a speaker: '3.21' beside 'The birch" in message
    written(tmp_path, f"id|text|duration\na|{TEXTS[0]}|3.21\n")
    assert rows(tmp_path) == [("a", TEXTS[0], "speaker", "en")]


# Tables with named columns, as Hugging Face, spreadsheets and other trainers write them

EXPECTED = [("wavs/a.wav", "Yes, of course."), ("wavs/b.wav", 'A "b" c.')]


def touched(folder: Path) -> None:
    (folder / "wavs").mkdir(exist_ok=True)
    for recording in ("a.wav", "b.wav"):
        (folder / "wavs" / recording).touch()


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
def test_the_same_table_however_it_is_written(tmp_path, text, name):
    touched(tmp_path)
    assert [row[:2] for row in rows(written(tmp_path, text, name))] == EXPECTED
    for encoding in ("utf-16", "utf-8-sig"):
        encoded = written(tmp_path, text.encode(encoding), name)
        assert [row[:2] for row in rows(encoded)] == EXPECTED
    written(tmp_path, text.replace("wavs/a.wav", f"{tmp_path}/wavs/a.wav"), name)
    assert [row[:2] for row in rows(tmp_path)] == EXPECTED
    assert all(one.path.is_file() for one in read_entries(tmp_path, "auto", "en"))


def test_other_columns_are_told_and_left_alone(tmp_path, caplog):
    caplog.set_level("INFO")
    table = "file_name,duration,text,speaker,mood\na.wav,3.2,Hello.,ann,glad\n"
    assert rows(written(tmp_path, table)) == [("a.wav", "Hello.", "ann", "en")]
    assert "the columns duration, mood are not used" in caplog.text


def test_a_table_that_cannot_be_read_for_certain_is_refused_whole(tmp_path):
    message = refusal(written(tmp_path, "file_name,text\na.wav,Yes, of course.\nb.wav,B.\n"))
    assert "line 2 has 3 fields instead of 2" in message
    assert "stands in quotation marks" in message
    message = refusal(written(tmp_path, 'file_name,text\na.wav,"Yes, of course.\n'))
    assert "line 2 has 3 fields" in message
    message = refusal(written(tmp_path, "a.wav,Hello.,3.2\nb.wav,B.,1.1\n"))
    assert "does not say what its 3 columns are" in message and "file_name,text" in message
    message = refusal(written(tmp_path, "file_name,text\n/etc/a.wav,Hello.\n../b.wav,B.\n"))
    assert "line 2" in message and "not absolute" in message and "without `..`" in message


def test_a_recording_that_was_converted_is_found(tmp_path):
    touched(written(tmp_path, "file_name,text\na.m4a,Hello.\nc.m4a,There.\n"))
    (tmp_path / "c.m4a").touch()
    found = read_entries(tmp_path, "auto", "en")
    assert [one.path for one in found] == [tmp_path / "wavs" / "a.wav", tmp_path / "c.m4a"]
