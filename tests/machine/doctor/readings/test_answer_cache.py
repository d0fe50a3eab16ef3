"""What is remembered of an earlier look, and for how long."""

from pathlib import Path

import pytest

from machine.doctor.readings.answer_cache import DoctorCache, key_of


def test_what_is_remembered_holds_until_a_file_changes(tmp_path: Path) -> None:
    file, remembered = tmp_path / "lib.so", DoctorCache(tmp_path / "cache" / "doctor.json")
    file.write_text("one")
    key = key_of([file], ["3.11"])
    remembered.put("torch", key, {"version": "2.11"})
    assert remembered.get("torch", key_of([file], ["3.11"])) == {"version": "2.11"}
    assert remembered.get("torch", key_of([file], ["3.12"])) is None
    file.write_text("another")
    assert remembered.get("torch", key_of([file], ["3.11"])) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 1, "torch": 3}', '{"schema": 99}'])
def test_a_damaged_cache_is_no_cache(tmp_path: Path, text: str) -> None:
    path = tmp_path / "doctor.json"
    path.write_text(text)
    remembered = DoctorCache(path)
    assert remembered.get("torch", "k") is None
    remembered.put("torch", "k", {"a": 1})
    assert remembered.get("torch", "k") == {"a": 1}


def test_a_cache_that_cannot_be_written_is_no_fault(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    DoctorCache(tmp_path / "file" / "doctor.json").put("torch", "k", {"a": 1})
    DoctorCache(None).put("torch", "k", {"a": 1})
