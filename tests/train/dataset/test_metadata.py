"""Transcripts of every form -> rows; a malformed file is refused as a whole, with its line."""

import errno
from pathlib import Path
from types import SimpleNamespace

import pytest

from machine import extras
from train.dataset.entries import DatasetError
from train.dataset.metadata import read_entries, read_transcript
from train.dataset.tables import language_of

HEADER = "audio_file|text|speaker_name\n"
TEXTS = ("The birch canoe slid on the smooth planks.", "Glue the sheet to the blue background.")


def written(folder: Path, text: str | bytes, name: str = "metadata.csv") -> Path:
    (folder / "wavs").mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)
    return folder


def rows(folder: Path, form: str = "auto"):
    return [(e.name, e.text, e.speaker, e.language) for e in read_entries(folder, form, "en")]


def notes(folder: Path, form: str = "auto") -> list[str]:
    return list(read_transcript(folder, form, "en").notes)


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
    assert [e.path for e in entries] == [tmp_path / "wavs" / "a.wav", tmp_path / "wavs" / "b.flac"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Inside a text, a line separator does not start a row and a quotation mark is literal.
        (
            'a|One\u2028line\x85here.\nb|"Stop," he said.\n',
            [("a", "One\u2028line\x85here.", "speaker"), ("b", '"Stop," he said.', "speaker")],
        ),
        (
            '{folder}/wavs/a.wav|"One | ""two""."\n"wavs/b.wav"|Two.\n',
            [("wavs/a.wav", 'One | "two".', "speaker"), ("wavs/b.wav", "Two.", "speaker")],
        ),
        # Neither the speaker's name nor a column with another header is part of the text.
        (f"a|{TEXTS[0]}|ann\nb|{TEXTS[1]}|ann\n", [("a", TEXTS[0], "ann"), ("b", TEXTS[1], "ann")]),
        (f"id|text|duration\na|{TEXTS[0]}|3.21\n", [("a", TEXTS[0], "speaker")]),
    ],
    ids=["signs", "quoted", "speaker", "duration"],
)
def test_what_a_row_says(tmp_path, text, expected):
    written(tmp_path, text.replace("{folder}", str(tmp_path)))
    assert [row[:3] for row in rows(tmp_path)] == expected


@pytest.mark.parametrize("head", ["", HEADER, f"\n\n{HEADER}"])
def test_coqui_with_and_without_a_header(tmp_path, head):
    written(tmp_path, head + "wavs/a.wav|Hello.|ann\nwavs/b.wav|Olá.|bia|pt\n")
    assert rows(tmp_path) == [("wavs/a.wav", "Hello.", "ann", "en"), ("wavs/b.wav", "Olá.", "bia", "pt")]


def test_two_files_are_training_and_validation(tmp_path):
    written(tmp_path, f"{HEADER}a.wav|One.|x\n", "metadata_train.csv")
    written(tmp_path, f"{HEADER}b.wav|Two.|x\n", "metadata_val.csv")
    found = read_entries(tmp_path, "auto", "en")
    assert [(e.name, e.validation) for e in found] == [("a.wav", False), ("b.wav", True)]
    written(tmp_path, f"{HEADER}a.wav|Other.|x\n", "metadata_val.csv")
    assert "twice" in refusal(tmp_path)
    (tmp_path / "metadata_val.csv").unlink()
    assert [e.validation for e in read_entries(tmp_path, "auto", "en")] == [None]


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbf" + "a|Olá.\r\n\r\nb|Two.\r\n   \r\n".encode(),
        "a|Olá.\r\nb|Two.\r\n".encode("utf-16"),
        "\ufeffa|Olá.\r\nb|Two.\r\n".encode("utf-16-le"),
        "\ufeffa|Olá.\r\nb|Two.\r\n".encode("utf-16-be"),
    ],
)
def test_encodings_line_ends_and_empty_lines_are_read_by_their_marks(tmp_path, content):
    assert [row[:2] for row in rows(written(tmp_path, content))] == [("a", "Olá."), ("b", "Two.")]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "a|Good.\nb\nc|x|y|z\n",
            ("line 2 has 1 fields instead of 2: 'b'", "line 3 has 4 fields", "A row is file|text"),
        ),
        ("x\n" * 25, ("has 1 fields", "and 15 more")),
        ("a|One.\nb|Two.\na|Three.\n", ("names 'a' twice",)),
        ("\n  \n", ("holds no row",)),
        ("audio_file|text\n", ("holds no row",)),
        (b"a|One.\nb|Ol\xe1.\n", ("line 2", "0xe1")),
        ("a|One.\n".encode("utf-16") + b"\0", ("UTF-16", "UTF-8")),
        ("file_name,text\na.wav,Yes, of course.\nb.wav,B.\n", ("3 fields instead of 2",)),
        ('file_name,text\na.wav,"Yes, of course.\n', ("line 2 has 3 fields", "quotation marks")),
        ("file_name,text\n/etc/a.wav,Hello.\n../b.wav,B.\n", ("line 2", "not absolute", "without `..`")),
    ],
)
def test_what_cannot_be_read_for_certain_is_refused_whole_with_its_lines(tmp_path, text, told):
    message = refusal(written(tmp_path, text))
    assert [one for one in told if one not in message] == []


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
        ("a\0b", "this cannot be a file name"),
        ("long" * 70, "this cannot be a file name"),
        ("x" * 252, "this cannot be a file name"),  # with an ending it is too long
    ],
)
def test_names_that_leave_the_folder_are_refused(tmp_path, name, reason):
    for form in ("ljspeech", "coqui"):
        message = refusal(written(tmp_path, f"ok|Good.\n{name}|Text.\n"), form)
        assert "line 2" in message
        assert reason in message


def test_missing_datasets_are_refused(tmp_path):
    assert "is not a folder" in refusal(tmp_path / "nowhere")
    assert "neither metadata.csv nor" in refusal(tmp_path)
    assert "does not exist" in refusal(tmp_path, "ljspeech")


def test_recordings_are_found_as_people_name_them(tmp_path):
    """Windows' backslashes, a Mac's decomposed accents, files in the folder or in wavs/."""
    written(tmp_path, "wavs\\a.wav|One.\nb.wav|Two.\nwavs/caf\u00e9.wav|Three.\n")
    for name in ("a.wav", "b.wav", "cafe\u0301.wav"):
        (tmp_path / "wavs" / name).touch()
    assert all(entry.path.is_file() for entry in read_entries(tmp_path, "auto", "en"))


# Tables with named columns, as written by Hugging Face, spreadsheets and other trainers

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
    assert all(read_entry.path.is_file() for read_entry in read_entries(tmp_path, "auto", "en"))


def test_other_columns_are_named_and_ignored(tmp_path):
    """By position, Coqui's emotion column would be read as the speaker."""
    for table, others in (
        ("file_name,duration,text,speaker,mood\na.wav,3.2,Hello.,ann,glad\n", "duration, mood"),
        ("audio_file|text|speaker|emotion_name\na.wav|Hello.|ann|happy\n", "emotion_name"),
    ):
        assert rows(written(tmp_path, table)) == [("a.wav", "Hello.", "ann", "en")]
        assert notes(tmp_path) == [f"metadata.csv: the columns {others} are ignored."]


def test_a_recording_that_was_converted_is_found(tmp_path):
    touched(written(tmp_path, "file_name,text\na.m4a,Hello.\nc.m4a,There.\n"))
    (tmp_path / "c.m4a").touch()
    found = read_entries(tmp_path, "auto", "en")
    assert [one.path for one in found] == [tmp_path / "wavs" / "a.wav", tmp_path / "c.m4a"]


def test_a_style_beside_the_speaker_is_a_part_of_the_name(tmp_path):
    (tmp_path / "metadata.csv").write_text(
        "file_name,text,speaker,style\na.wav,One.,anna,\nb.wav,Two.,anna,Whisper\n"
        "c.wav,Three.,anna,neutral\nd.wav,Four.,ben,calm and slow\n"
    )
    assert [row[2] for row in rows(tmp_path, "auto")] == ["anna", "anna:Whisper", "anna", "ben:calm and slow"]


def test_a_column_of_descriptions_is_no_style(tmp_path):
    (tmp_path / "metadata.csv").write_text(
        "file_name,text,style\na.wav,One.,A woman speaks slowly in a large room.\nb.wav,Two.,calm\n"
    )
    assert {row[2] for row in rows(tmp_path, "auto")} == {"speaker"}
    assert "is ignored" in "".join(notes(tmp_path))


@pytest.mark.parametrize(
    ("written_as", "read_as"),
    [
        ("eng", "en"),
        ("English", "en"),
        ("en_US", "en"),
        ("und", "pt"),
        ("", "pt"),
        ("pt-br", "pt-br"),
        ("EN", "en"),
        ("ger", "de"),
    ],
)
@pytest.mark.parametrize("form", ["coqui", "columns"])
def test_a_language_is_read_however_it_is_written(tmp_path, form, written_as, read_as):
    (tmp_path / "wavs").mkdir()
    (tmp_path / "wavs/a.wav").touch()
    if form == "coqui":
        (tmp_path / "metadata.csv").write_text(f"wavs/a.wav|{TEXTS[0]}|ann|{written_as}\n")
    else:
        row = f"wavs/a.wav;{TEXTS[0]};{written_as}\n"
        (tmp_path / "metadata.csv").write_text(f"file_name;text;language\n{row}")
    (entry,) = read_entries(tmp_path, "auto", "pt")
    assert entry.language == read_as


def test_recordings_without_a_row_are_named(tmp_path):
    written(tmp_path, "a|First one.|train\nb|Second one.|train\nc|Third.|test\nd|No file.|train\n")
    for name in ("a.wav", "b.wav", "b.mp3", "c.wav", "x.wav", "y.flac", ".z.wav", "notes.txt"):
        (tmp_path / "wavs" / name).touch()
    found = [note for note in notes(tmp_path) if "no row" in note]
    assert found == ["2 recordings have no row and are not used: wavs/x.wav, wavs/y.flac."]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_spreadsheet_s_table(tmp_path, encoding):
    """Excel adds empty columns and rows, doubles quotation marks and breaks lines in cells."""
    lines = [
        "sep=;",
        "File Name;Speaker ID;Text;;",
        's01;anna;"He said ""yes; no"".";;',
        ";;;;",
        's02;ben;"Two\nlines of it.";;',
        "s03;anna;It costs 5, not 6.;;",
        ";;;;",
    ]
    written(tmp_path, "\r\n".join(lines).encode(encoding))
    assert rows(tmp_path) == [
        ("s01", 'He said "yes; no".', "anna", "en"),
        ("s02", "Two lines of it.", "ben", "en"),
        ("s03", "It costs 5, not 6.", "anna", "en"),
    ]


@pytest.fixture
def core(monkeypatch: pytest.MonkeyPatch) -> None:
    """No extra is installed."""
    monkeypatch.setattr(extras, "entries", lambda: ())


@pytest.mark.usefixtures("core")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            f"a|No. 5 is here.|Number five is here.\nb|{TEXTS[1]}|\n",
            [("Number five is here.", "speaker", "en"), (TEXTS[1], "speaker", "en")],
        ),
        (f"a.wav|{TEXTS[0]}|ann\nb.wav|{TEXTS[1]}|ben\n", [(TEXTS[0], "ann", "en"), (TEXTS[1], "ben", "en")]),
        (
            f"a.wav|{TEXTS[0]}|ann|en\nb.wav|{TEXTS[1]}|ben|pt\n",
            [(TEXTS[0], "ann", "en"), (TEXTS[1], "ben", "pt")],
        ),
        (f"a.wav|{TEXTS[0]}|7\nb.wav|{TEXTS[1]}|8\n", [(TEXTS[0], "7", "en"), (TEXTS[1], "8", "en")]),
    ],
    ids=["ljspeech", "coqui", "languages", "numbers"],
)
def test_the_core_alone_reads_ljspeech_and_coqui_by_the_order_of_their_columns(tmp_path, text, expected):
    assert [row[1:] for row in rows(written(tmp_path, text))] == expected


@pytest.mark.usefixtures("core")
@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("train.list", "a.wav|ann|EN|Text.", "neither metadata.csv nor"),
        ("a.txt", "Text.", "neither metadata.csv nor"),
        ("metadata.csv", f"a|ann|{TEXTS[0]}", "has 3 columns whose meaning is not clear"),
        ("metadata.csv", f"a|{TEXTS[0]}|3.21", "has 3 columns whose meaning is not clear"),
        ("metadata.csv", f"a|ann|EN|{TEXTS[0]}", "has 4 columns whose meaning is not clear"),
    ],
)
def test_the_core_alone_names_the_folder_that_other_layouts_need(tmp_path, name, text, told):
    message = refusal(written(tmp_path, text + "\n", name))
    assert told in message and "extras/layouts, which reads other layouts, is not inst" in message
    for form in ("pairs", "folders"):
        assert "extras/layouts" in refusal(tmp_path, form)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("metadata.csv", "wavs/a.wav|One.\nwavs/b.wav|Two.\n"),
        ("metadata.csv", "a|One.\nb|Two.\n"),
        ("metadata_train.csv", f"{HEADER}wavs/a.wav|One.|ann\nwavs/b.wav|Two.|ben\n"),
        ("metadata.tsv", "id\ttext\na\tOne.\nb\tTwo.\n"),
        ("metadata.jsonl", '{"id": "a", "text": "One."}\n{"id": "b", "text": "Two."}\n'),
    ],
)
def test_the_core_reads_its_own_tables_itself(tmp_path, monkeypatch, name, text):
    def never(*_given):
        raise AssertionError("the extra was asked")

    monkeypatch.setattr(extras, "offers", lambda _port: ["a module"])
    monkeypatch.setattr(extras, "modules", lambda _port: [SimpleNamespace(read=never)])
    touched(written(tmp_path, text, name))
    assert [row[1] for row in rows(tmp_path)] == ["One.", "Two."]
    (tmp_path / "notes.txt").write_text("Perhaps a transcript.")
    with pytest.raises(AssertionError, match="the extra was asked"):
        rows(tmp_path)


@pytest.mark.usefixtures("core")
def test_the_core_alone_reads_its_table_beside_other_files(tmp_path):
    touched(written(tmp_path, "wavs/a.wav|One.\nwavs/b.wav|Two.\n"))
    for name in ("README.txt", "old.csv"):
        (tmp_path / name).write_text("x")
    assert [row[1] for row in rows(tmp_path)] == ["One.", "Two."]
    assert notes(tmp_path) == ["Not read: old.csv. The clips are those of metadata.csv."]


@pytest.mark.parametrize(
    ("cell", "code"),
    [
        ("EN", "en"),
        ("en_US", "en"),
        ("pt-br", "pt"),
        ("JP", "ja"),
        ("KR", "ko"),
        ("zh-CN", "zh"),
        ("ZH_MIX_EN", "zh"),
        ("English", "en"),
        ("deu", "de"),
        ("EN-default", ""),
        ("ann", ""),
        ("Is it?", ""),
        ("", ""),
        ("0", ""),
        ("jo", ""),
    ],
)
def test_which_fields_name_a_language(cell, code):
    assert language_of(cell) == code


def test_a_table_that_may_not_be_read_is_named(tmp_path, monkeypatch):
    written(tmp_path, HEADER + f"wavs/1.wav|{TEXTS[0]}|anna\n")

    def refuse(path: Path) -> bytes:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(DatasetError, match=r"metadata\.csv cannot be read \(Permission denied\)"):
        read_transcript(tmp_path, "auto", "en")
