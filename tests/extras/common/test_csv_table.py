"""Tables for spreadsheets: no cell is a formula, and nothing is lost."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extras.common.csv_table import csv_bytes, read_csv

FORMULAS = ('=HYPERLINK("http://x","y")', "+1+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1+1")


@pytest.mark.parametrize("text", [*FORMULAS, "'=1", "''=1"])
def test_no_cell_begins_a_formula_and_each_is_read_back(text):
    written = csv_bytes(("name", "text"), [("a", text)])
    ((_, _), (_, cell)) = csv.reader(io.StringIO(written.decode(), newline=""))
    assert cell == f"'{text}"
    assert read_csv(written) == [{"name": "a", "text": text}]


def test_other_texts_and_numbers_are_written_as_they_are():
    written = csv_bytes(("text", "level", "seconds"), [('\'tis 3 - 2 = 1; "so"', -3.5, "0.25")])
    assert written == b'"text","level","seconds"\n"\'tis 3 - 2 = 1; ""so""","-3.5","0.25"\n'


@given(st.text())
def test_every_text_is_read_back(text):
    assert read_csv(csv_bytes(("text",), [(text,)])) == [{"text": text}]
