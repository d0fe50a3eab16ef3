"""A folder appears whole; only its own leftovers are removed."""

from machine.storage import folders


def test_only_a_folders_own_leftovers_are_removed(tmp_path):
    """`Anna` is the beginning of `Anna.B`, and `[a]` a pattern."""
    parts = [".Anna.7.sotaque-part", ".Anna.B.7.old.sotaque-part", ".[a].7.sotaque-part"]
    for part in parts:
        (tmp_path / part).mkdir()
    folders._remove_leftovers(tmp_path / "Anna")
    folders._remove_leftovers(tmp_path / "[a]")
    assert [path.name for path in tmp_path.iterdir()] == [".Anna.B.7.old.sotaque-part"]
