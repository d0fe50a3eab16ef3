"""Columns are judged over all rows: each gets its role, or both readings are shown."""

import pytest

from extras.layouts.columns import judge
from tests.train.dataset.test_metadata import TEXTS, notes, refusal, rows, written
from train.dataset.metadata import read_entries

SENTENCES = (
    "The birch canoe slid on the smooth planks.",
    "Glue the sheet to the dark blue one.",
    "It's easy to tell the depth of a well.",
    "Rice is often served in round bowls.",
    "The juice of lemons makes fine punch.",
    "Four hours of steady work faced us.",
)
PEOPLE = ("ann", "ben", "ann", "ann", "ben", "ben")


def columns(row: str, rows: int = 6) -> dict[str, int]:
    """The column of each role, for rows of a form such as `{n}.wav|{who}|{text}`."""
    made = [row.format(n=n, who=PEOPLE[n], text=SENTENCES[n], id=n % 2).split("|") for n in range(rows)]
    return dict(judge(made, lambda name: name.endswith("!"), "en", "list").places)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("{n}.wav|{text}", "path text"),
        ("{text}|{n}.wav", "text path"),
        ("{text}|{n}!", "text path"),
        ("{n}.wav|{who}|{text}", "path speaker text"),
        ("{n}.wav|{text}|{who}", "path text speaker"),
        ("{n}|{who}|{text}", "path speaker text"),
        ("{n}|{id}|{text}", "path speaker text"),
        ("{n}|kathleen_s|{text}", "path speaker text"),
        ("{n}|0|{text}", "path speaker text"),
        ("{n}|{text}|Mary Ann", "path text speaker"),
        ("{n}.wav|Johann Sebastian van der Berg|{text}", "path speaker text"),
        ("{n}.wav|{who}|EN|{text}", "path speaker language text"),
        ("{n}.wav|{text}|{who}|en-us", "path text speaker language"),
        ("{n}.wav|EN-US|EN|{text}", "path speaker language text"),
        ("{n}.wav|ZH_MIX_EN|{text}", "path language text"),
        ("{n}.wav|English|{text}", "path language text"),
        ("{n}|{text}|{text} Yes.", "path written text"),
        ("{n}|{text}|{text}|{who}", "path written text speaker"),
        ("{n}.wav|{who}|{text}|", "path speaker text"),
        ("{n}.wav|yes {n}|{who}", "path text speaker"),
    ],
)
def test_each_column_is_read_as_what_it_holds(row, expected):
    assert columns(row) == {role: place for place, role in enumerate(expected.split())}


@pytest.mark.parametrize(
    ("row", "seen"),
    [
        ("{n}|{text}|{n}.25", "the third of its 3 columns"),
        ("{n}|{n}.25|{text}", "the second of its 3 columns"),
        ("{n}|{text}|dh ax b er {n}", "'dh ax b er 0' beside 'The birch"),
        # Like speaker numbers, but few occur twice.
        ("{n}|{text}|1{n}", "neither"),
        # A translation: similar in length, different in words.
        ("{n}|{text}|Das Kanu aus Birke glitt {n} Mal auf glatten Planken.", "neither"),
        ("{n}|{text}|word{n}", "neither"),
        ("{n}|{who}|{text}|{n}.5|x{n}", "5 columns whose meaning is not clear"),
    ],
)
def test_a_column_that_is_none_of_them_is_refused_with_the_way_to_name_it(tmp_path, row, seen):
    text = "\n".join(row.format(n=n, who=PEOPLE[n], text=SENTENCES[n]) for n in range(6))
    told = refusal(written(tmp_path, text))
    assert seen in told and "header line" in told


def test_two_readings_are_both_given(tmp_path):
    """Two columns of single words."""
    words = [f"{n}|{('yes', 'no')[n % 2]}|{('ann', 'ben')[n // 3]}" for n in range(6)]
    told = refusal(written(tmp_path, "\n".join(words)))
    assert "file|text|speaker, where the text of the first row is 'yes'" in told
    assert "file|speaker|text, where it is 'ann'" in told
    headed = written(tmp_path, "\n".join(["id|text|speaker", *words]))
    assert {row[1:3] for row in rows(headed)} == {
        ("yes", "ann"),
        ("no", "ann"),
        ("yes", "ben"),
        ("no", "ben"),
    }


def test_no_speaker_is_a_sentence_and_no_text_is_that_of_all_clips(tmp_path):
    people = [f"{n}.wav|{'ann' if n != 4 else 'He said it again to me.'}" for n in range(12)]
    text = [f"{person}|{SENTENCES[n % 6]}" for n, person in enumerate(people)]
    told = refusal(written(tmp_path, "\n".join(text)))
    assert "line 5 has a sentence as its speaker: 'He said it again to me.'" in told
    # A header that contradicts the rows is refused.
    told = refusal(
        written(
            tmp_path,
            "\n".join(["audio_file|text|speaker_name", *(f"{n}.wav|ann|{SENTENCES[n]}" for n in range(6))]),
        )
    )
    assert "speakers" in told and "are sentences, such as 'The birch" in told
    assert "file|speaker|text" in told and "file|text|speaker" in told
    for column in ("ann", "0", "Hello there."):
        same = [f"{n}.wav|{column}" for n in range(6)]
        assert f"All 6 clips of {tmp_path} have the same text" in refusal(written(tmp_path, "\n".join(same)))
    told = refusal(written(tmp_path, "\n".join(f"{n}.wav|{PEOPLE[n]}" for n in range(6))))
    assert "file|speaker without texts" in told and "6 clips have 2 texts" in told


@pytest.mark.parametrize("width", [2, 3, 4])
def test_one_row_with_a_field_more_is_a_fault_of_its_line(tmp_path, width):
    made = [["{n}", "{text}", "{who}", "en"][:width] for _ in range(6)]
    text = [
        "|".join(row).format(n=n, text=SENTENCES[n], who=PEOPLE[n]) + ("|or not" if n == 3 else "")
        for n, row in enumerate(made)
    ]
    told = refusal(written(tmp_path, "\n".join(text)))
    assert f"line 4 has {width + 1} fields instead of {width}" in told
    assert "line 1" not in told and "line 5" not in told
    short = [line.rpartition("|")[0] if n == 3 else line for n, line in enumerate(text)]
    assert [row[1] for row in rows(written(tmp_path, "\n".join(short)))] == list(SENTENCES)


def test_a_row_may_add_or_leave_out_its_language(tmp_path):
    text = [f"{n}.wav|{SENTENCES[n]}|{PEOPLE[n]}" for n in range(6)]
    for n, language in ((2, "|pt"), (5, "|German")):
        text[n] += language
    assert [row[3] for row in rows(written(tmp_path, "\n".join(text)))] == [
        "en",
        "en",
        "pt",
        "en",
        "en",
        "de",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a|\nb|\n", ("no row has a text", "Write each transcript behind", "report.html")),
        (f"a|{TEXTS[0]}|3.21\nb|{TEXTS[1]}|4.07\n", ("neither", "'3.21' beside 'The birch")),
        ("a.wav,Hello.,3.2\nb.wav,B.,1.1\n", ("its 3 columns", "file_name,text")),
    ],
)
def test_columns_that_are_no_texts_are_refused(tmp_path, text, told):
    message = refusal(written(tmp_path, text))
    assert [word for word in told if word not in message] == []


def test_a_text_without_its_normalised_form_is_read_as_it_is_written(tmp_path):
    table = "id|text|normalized_text\na|No. 5.|number five.\nb|As it is.|\n"
    assert [row[1] for row in rows(written(tmp_path, table))] == ["number five.", "As it is."]


def test_rows_without_a_speaker_are_counted(tmp_path):
    text = [f"{n}.wav|{SENTENCES[n]}" + ("|ann" if n < 4 else "") for n in range(6)]
    assert [row[2] for row in rows(written(tmp_path, "\n".join(text)))] == [
        *["ann"] * 4,
        "speaker",
        "speaker",
    ]
    assert notes(tmp_path) == ["metadata.csv: 2 rows name no speaker and count as one person."]


@pytest.mark.parametrize("name", ["{n}.wav", "{n}"])
def test_a_header_in_unknown_words_is_refused(tmp_path, name):
    text = ["fichier|texte", *(f"{name.format(n=n)}|{SENTENCES[n]}" for n in range(6))]
    written(tmp_path, "\n".join(text))
    for n in range(6):
        (tmp_path / "wavs" / f"{n}.wav").touch()
    assert "begins with 'fichier texte', which does not name its 2 columns" in refusal(tmp_path)


def table(form: str, kinds: tuple[str, ...], count: int = 12) -> str:
    """Rows of a form such as `{n}.wav|{kind}|{text}`."""
    return "\n".join(
        form.format(n=n, kind=kinds[n % len(kinds)], who=PEOPLE[n % 6], text=SENTENCES[n % 6])
        for n in range(count)
    )


@pytest.mark.parametrize(
    ("form", "kinds", "speakers", "said"),
    [
        ("{n}|{text}|{kind}", ("happy", "sad", "neutral"), {"speaker"}, "column 3 holds emotions"),
        ("{n}.wav|{kind}|{text}", ("Angry", "Amused"), {"speaker"}, "column 2 holds emotions"),
        ("{n}|{kind}|{text}", ("fröhlich", "traurig"), {"speaker"}, "column 2 holds emotions"),
        ("{n}|{text}|{kind}", ("happy", "sad", "pensive", "calm"), {"speaker"}, "emotions"),
        ("{n}.wav|{who}|{kind}|{text}", ("Sleepiness", "Disgust"), {"ann", "ben"}, "column 3"),
        ("{n}|{text}|{who}|{kind}", ("female", "male"), {"ann", "ben"}, "column 4 holds genders"),
        ("{n}|{text}|{kind}", ("twenties", "thirties"), {"speaker"}, "column 3 holds ages"),
        ("{n}|{text}|{kind}", ("true", "false"), {"speaker"}, "column 3 holds marks"),
        ("{n}|{kind}|{text}", ("ok", "noisy", "bad"), {"speaker"}, "column 2 holds marks"),
        # People may have such names, and without other names two voices must not be mixed.
        ("{n}|{text}|{kind}", ("Joy", "Felice", "Ann", "Bob"), {"Joy", "Felice", "Ann", "Bob"}, ""),
        ("{n}|{text}|{kind}", ("F", "M"), {"F", "M"}, ""),
    ],
)
def test_labels_of_how_and_not_of_whom_are_no_speakers(tmp_path, form, kinds, speakers, said):
    written(tmp_path, table(form, kinds))
    assert {row[2] for row in rows(tmp_path)} == speakers
    assert [row[1] for row in rows(tmp_path)] == list(SENTENCES) * 2
    told = " ".join(notes(tmp_path))
    assert said in told and ("is ignored" in told) == bool(said)


@pytest.mark.parametrize(
    ("head", "form"),
    [
        ("file_name,text,split\n", '{n}.wav,"{text}",{kind}'),
        ("", "{n}|{text}|{kind}"),
        ("id|subset|text\n", "{n}|{kind}|{text}"),
        ("", "{n}.wav|{who}|{kind}|{text}"),
    ],
)
def test_a_column_of_splits_is_honoured(tmp_path, head, form):
    written(tmp_path, head + table(form, ("train", "train", "validation", "test")))
    entries = read_entries(tmp_path, "auto", "en")
    names = [entry.name.removesuffix(".wav") for entry in entries]
    assert names == ["0", "1", "2", "4", "5", "6", "8", "9", "10"]
    assert [entry.validation for entry in entries] == [False, False, True] * 3
    assert "3 clips for validation and 3 clips for tests, which are not read" in notes(tmp_path)[0]
    # A file with one split, as `datasets` saves it, is read like any other.
    if head:
        written(tmp_path, head + table(form, ("validation",)))
        assert {entry.validation for entry in read_entries(tmp_path, "auto", "en")} == {None}


def test_the_spellings_of_a_name_are_one_speaker(tmp_path):
    written(tmp_path, table("{n}|{kind}|{text}", ("Jose\u0301", "José", "josé")))
    assert {row[2] for row in rows(tmp_path)} == {"José"}
    assert notes(tmp_path) == ["Speakers whose names differ only in case are one: josé = José."]
    styled = table("{n}|{kind}|{text}", ("Ann|Whisper", "ann|whisper", "Ben|"))
    written(tmp_path, "id|speaker|style|text\n" + styled)
    assert {row[2] for row in rows(tmp_path)} == {"Ann:Whisper", "Ben"}


def test_numbers_that_measure_the_text_are_no_speakers(tmp_path):
    seconds = [f"{n}|{text}|{len(text) // 4}" for n, text in enumerate(SENTENCES * 2)]
    assert "third of its 3 columns is neither" in refusal(written(tmp_path, "\n".join(seconds)))
    ids = [f"{n}|{text}|{n * 7 % 4}" for n, text in enumerate(SENTENCES * 2)]
    written(tmp_path, "\n".join(ids))
    assert {row[2] for row in rows(tmp_path)} == {"0", "1", "2", "3"}


def test_an_index_before_the_recordings_is_left_out(tmp_path):
    written(tmp_path, table('{n},{n}.wav,"{text}"', ("",)))
    assert [row[:2] for row in rows(tmp_path)][:2] == [("0.wav", SENTENCES[0]), ("1.wav", SENTENCES[1])]
    told = refusal(written(tmp_path, table('{n}.5,{n}.wav,"{text}"', ("",))))
    assert "the first of its 3 columns is neither" in told


@pytest.mark.parametrize("head", ["", "id|text|speaker\n"])
def test_what_programs_write_for_a_missing_name_is_no_speaker(tmp_path, head):
    written(tmp_path, head + table("{n}|{text}|{kind}", ("ann", "NaN", "ben", "None")))
    assert {row[2] for row in rows(tmp_path)} == {"ann", "ben", "speaker"}
    assert notes(tmp_path) == ["metadata.csv: 6 rows name no speaker and count as one person."]
