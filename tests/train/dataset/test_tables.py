"""Rows of a transcript: the commonest delimiter, quotation marks, JSON lines, header lines."""

import json

import pytest

from tests.train.dataset.test_metadata import refusal, rows, written
from train.dataset.tables import columns_of_header, delimiter_of, read_table


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # As written by Python's csv and by a spreadsheet.
        (
            'file_name,text\na.wav,"First line,\nsecond, line."\nb.wav,Two.\n',
            [("a.wav", "First line, second, line."), ("b.wav", "Two.")],
        ),
        (
            'a.wav|"First line\n\n\tsecond line."|ann\nb.wav|Two of them.|ann\n',
            [("a.wav", "First line second line."), ("b.wav", "Two of them.")],
        ),
        (
            'a.wav|"He said ""yes,\r\nindeed""."\r\n"b.wav"|"Two\nof\nthem."\r\n',
            [("a.wav", 'He said "yes, indeed".'), ("b.wav", "Two of them.")],
        ),
        # An unclosed quotation mark does not extend beyond its row.
        (
            'a.wav|"Hello, he said.\nb.wav|"Go," she said.\nc.wav|Really "so?"\n',
            [("a.wav", '"Hello, he said.'), ("b.wav", '"Go," she said.'), ("c.wav", 'Really "so?"')],
        ),
        ('a|"Hello\nb|World"\nc|Others here.\n', [("a", '"Hello'), ("b", 'World"'), ("c", "Others here.")]),
        (
            'a.wav,"Hello\nb.wav,World"\nc.wav,Others here.\n',
            [("a.wav", '"Hello'), ("b.wav", 'World"'), ("c.wav", "Others here.")],
        ),
    ],
    ids=["comma", "bar", "doubled", "open", "rows", "recordings"],
)
def test_a_line_break_in_quotation_marks_is_part_of_the_text(tmp_path, text, expected):
    assert [row[:2] for row in rows(written(tmp_path, text))] == expected


def test_an_empty_field_after_a_quoted_one_stays_between_tabs(tmp_path):
    lines = ('a.wav\t"First,\nsecond."\t\tann', "b.wav\tThird.\tx\tben", 'c.wav\t"Fourth." \t\t')
    path = written(tmp_path, "\n".join(lines)) / "metadata.csv"
    assert list(read_table(path).rows) == [
        ("a.wav", "First, second.", "", "ann"),
        ("b.wav", "Third.", "x", "ben"),
        ("c.wav", "Fourth.", "", ""),
    ]


def test_faults_name_the_line_on_which_a_row_begins(tmp_path):
    text = 'a.wav|"One\nline."\nb.wav|Two.|x|y\nc.wav|Three.\n'
    assert "line 3 has 4 fields" in refusal(written(tmp_path, text))


@pytest.mark.parametrize(
    ("lines", "delimiter"),
    [
        (("a.wav,Yes | no.", "b.wav,Two.", "c.wav,Three."), ","),
        (("a.wav|Yes, no; so", "b.wav|Two, three", "c.wav|Four"), "|"),
        (("a.wav;Yes, of course.", "b.wav;Two, three"), ";"),
        (("a\tYes, of course.", "b\tTwo; three"), "\t"),
        (('"a, b.wav";Yes.', '"c, d.wav";No.'), ";"),
        (("one field", "another"), "|"),
    ],
)
def test_the_delimiter_is_that_of_most_lines(lines, delimiter):
    assert delimiter_of(lines) == delimiter


OBJECTS = [
    {"file_name": "a.wav", "text": "One\nline.", "duration": 1.5},
    {"audio": {"path": "b.wav", "bytes": None}, "file_name": "b.wav", "text": "Two."},
]


@pytest.mark.parametrize("text", ["\n".join(map(json.dumps, OBJECTS)), json.dumps(OBJECTS, indent=1)])
def test_json_lines_and_a_list_of_objects_are_one_table(tmp_path, text):
    written(tmp_path, text, "metadata.jsonl")
    found = read_table(tmp_path / "metadata.jsonl").rows
    assert found[0] == ("file_name", "text", "duration", "audio")
    assert found[2] == ("b.wav", "Two.", "", "b.wav")
    assert [row[:2] for row in rows(tmp_path)] == [("a.wav", "One line."), ("b.wav", "Two.")]


def test_json_that_is_broken_is_refused_with_its_line(tmp_path):
    for second, told in (('{"file_name":', "line 2: this is not JSON"), ("[1]", "not a JSON obj")):
        text = '{"file_name": "a.wav", "text": "One."}\n' + second + "\n"
        assert told in refusal(written(tmp_path, text, "metadata.jsonl"))


def test_a_spreadsheets_line_with_the_delimiter_is_not_a_row(tmp_path):
    written(tmp_path, "sep=;\na.wav;Yes, of course.\nb.wav;No, never.\nc.wav\n")
    assert "line 4 has 1 fields" in refusal(tmp_path)
    written(tmp_path, "SEP=;\r\na.wav;Yes, of course.\r\nb.wav;No, never.\r\n")
    assert [row[1] for row in rows(tmp_path)] == ["Yes, of course.", "No, never."]


TEXTS = [
    "The lamp by the window was still burning.",
    "We walked along the river, until noon.",
    "Nobody had opened the letter.",
    "My brother keeps three hens; and a goat.",
    "The train leaves at seven.",
    "She painted the gate dark green.",
]


@pytest.mark.parametrize("closed", [None, 3, 5], ids=["never", "by a later row", "by the last"])
@pytest.mark.parametrize(
    ("delimiter", "name", "header"),
    [
        (",", "s{:02}", "file_name,text\n"),
        ("\t", "{:04}", ""),
        (";", "anna_{}", ""),
        (",", "LJ001-{:04}", "text,id\n"),
        (";", "dir/clip{}", "text;id\n"),
        ("\t", "a b{}", ""),
    ],
)
def test_an_open_quotation_mark_swallows_no_row(tmp_path, delimiter, name, header, closed):
    """With ids without an ending; for ids of words, the recordings tell."""
    lines = []
    for number, text in enumerate(TEXTS):
        text = text.replace(delimiter, "")
        text = f'"{text}' if number == 2 else f'{text}"' if number == closed else text
        pair = (name.format(number), text)
        lines.append(delimiter.join(reversed(pair) if "id" in header else pair))
    if " " in name or "/" in name:
        for number in range(len(TEXTS)):
            recording = tmp_path / "wavs" / (name.format(number) + ".wav")
            recording.parent.mkdir(parents=True, exist_ok=True)
            recording.touch()
    path = written(tmp_path, header + "\n".join(lines) + "\n") / "metadata.csv"
    found = list(read_table(path).rows)
    assert len(found) == len(lines) + bool(header)
    ids = [cells[-1 if "id" in header else 0] for cells in found[bool(header) :]]
    assert ids == [name.format(number) for number in range(len(TEXTS))]


@pytest.mark.parametrize("delimiter", [",", "\t", ";"])
def test_a_text_of_many_lines_is_one_row(tmp_path, delimiter):
    """Its lines may have as many fields as a row, and begin with figures."""
    text = delimiter.join(("First", " he said.\n1999", " it rained.\nSo", " no more."))
    lines = [f"{number:04}{delimiter}Text {number}." for number in range(1, 9)]
    lines[3] = f'0004{delimiter}"{text}"'
    (tmp_path / "wavs").mkdir()
    for number in range(1, 9):
        (tmp_path / "wavs" / f"{number:04}.wav").touch()
    path = written(tmp_path, "\n".join(lines)) / "metadata.csv"
    found = list(read_table(path).rows)
    assert [cells[0] for cells in found] == [f"{number:04}" for number in range(1, 9)]
    assert found[3] == ("0004", " ".join(text.split()) if delimiter != "\t" else found[3][1])


def test_a_header_is_known_by_its_names():
    header = columns_of_header(("audio_filepath", "duration", "text", "speaker"))
    assert header is not None and header.places == {"path": 0, "text": 2, "speaker": 3}
    assert header.spelled() == "file|(not used)|text|speaker"
    assert columns_of_header(("a.wav", "The text of it.")) is None
    both = columns_of_header(("ID", "Transcription", "Normalized Transcription"))
    assert both is not None and both.places == {"path": 0, "written": 1, "text": 2}


@pytest.mark.parametrize(
    "header",
    [
        "wav_path,speakerID,languageID,text",
        "Wav Path,Speaker Id,Language-ID,Text",
        "audioFile,speakerName,langCode,rawText",
        "FILENAME,Voice,LOCALE,Sentence",
        "audio_file_name,spkid,lang_id,transcribed_text",
        "clipPath,SpeakerID,Language,utterance",
    ],
)
def test_headers_however_they_are_written(header):
    known = columns_of_header(header.split(","))
    assert known is not None
    assert known.places == {"path": 0, "speaker": 1, "language": 2, "text": 3}
