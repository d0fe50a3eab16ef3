"""Is the third column of an LJSpeech transcript a text, a speaker, or neither?"""

from pathlib import Path

import pytest

from tests.train.dataset.test_metadata import refusal, rows, written
from train.dataset.third_column import third_column

TEXTS = ("The birch canoe slid on the smooth planks.", "Glue the sheet to the blue background.")


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
def test_of_two_rows(thirds: tuple[str, str], expected: str | None):
    assert third_column(list(zip(TEXTS, thirds, strict=True))) == expected


def test_numbers_written_out_are_a_text():
    rows = [("In 1863.", "In eighteen sixty-three."), ("£12", "twelve pounds."), *zip(TEXTS, TEXTS)]
    assert third_column(rows) == "text"
    assert third_column([("5.", "five.")]) == "text"


def test_a_voice_does_not_learn_its_speakers_name(tmp_path: Path, caplog):
    caplog.set_level("INFO")
    written(
        tmp_path, "".join(f"{name}|{text}|ann\n" for name, text in zip("ab", TEXTS, strict=True))
    )
    assert rows(tmp_path) == [("a", TEXTS[0], "ann", "en"), ("b", TEXTS[1], "ann", "en")]
    assert "the third column is read as the speaker" in caplog.text


def test_a_third_column_of_something_else_is_refused(tmp_path: Path):
    message = refusal(written(tmp_path, f"a|{TEXTS[0]}|3.21\nb|{TEXTS[1]}|4.07\n"))
    assert "neither the text in other words nor a speaker: '3.21' beside 'The birch" in message
    written(tmp_path, f"id|text|duration\na|{TEXTS[0]}|3.21\n")
    assert rows(tmp_path) == [("a", TEXTS[0], "speaker", "en")]
