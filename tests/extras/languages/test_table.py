"""The user's table of signs and abbreviations, and its refusals."""

import pytest

from extras.languages.table import TABLE_FILE, read_table
from xtts.text.errors import TextError


def test_a_table_has_sections_as_a_list_of_pronunciations(tmp_path):
    path = tmp_path / TABLE_FILE
    assert read_table(path, "uk") == ()
    path.write_text("# signs\n№ = номер\n[bg]\n№ = номер по ред\n[uk]\n₴ = гривень\n", "utf-8")
    assert read_table(path, "uk") == (("₴", "гривень"), ("№", "номер"))
    assert read_table(path, "bg") == (("№", "номер по ред"),)
    path.write_text("№ номер\n", "utf-8")
    with pytest.raises(TextError, match="line 1"):
        read_table(path, "uk")
