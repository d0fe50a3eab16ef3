"""Records in a folder that replicas share."""

from dataclasses import dataclass

import pytest

from api.shared_folder import read
from machine.storage.files import write_json


@dataclass
class Row:
    id: str
    name: str = ""


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"id": "a", "name": "Anna"}, Row("a", "Anna")),
        ({"id": "b", "name": "Anna"}, None),  # a copy under another name
        ({"name": "Anna"}, None),
        ({"id": "a", "colour": "red"}, None),
    ],
)
def test_a_record_is_read_only_under_its_own_id(tmp_path, fields, expected):
    write_json(tmp_path / "a.json", fields)
    assert read(Row, tmp_path / "a.json", "a") == expected
    assert read(Row, tmp_path / "none.json", "a") is None
