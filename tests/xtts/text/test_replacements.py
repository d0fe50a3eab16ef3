"""The user's table of signs and abbreviations: its replacements and its refusals."""

import pytest

from xtts.text.errors import TextError
from xtts.text.replacements import NAME, Replacements, read

PAIRS = (("№", "номер"), ("₴", "гривень"), ("км", "кілометрів"), ("км/год", "кілометрів за годину"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("№5", "номер 5"),
        ("20₴.", "20 гривень."),
        ("5км, 5 КМ", "5 кілометрів, 5 кілометрів"),
        ("90 км/год", "90 кілометрів за годину"),
        ("кмін і скм", "кмін і скм"),
    ],
)
def test_whole_entries_are_replaced_and_stand_apart(text, said):
    assert Replacements(PAIRS).replace(text) == said


def test_no_entry_changes_nothing():
    assert Replacements(()).replace("20 ₴") == "20 ₴"


def test_a_table_has_sections_as_a_list_of_pronunciations(tmp_path):
    path = tmp_path / NAME
    assert read(path, "uk") == ()
    path.write_text("# signs\n№ = номер\n[bg]\n№ = номер по ред\n[uk]\n₴ = гривень\n", "utf-8")
    assert read(path, "uk") == (("₴", "гривень"), ("№", "номер"))
    assert read(path, "bg") == (("№", "номер по ред"),)
    path.write_text("№ номер\n", "utf-8")
    with pytest.raises(TextError, match="line 1"):
        read(path, "uk")
