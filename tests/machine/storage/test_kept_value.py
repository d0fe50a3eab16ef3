"""One value in a file, which is taken again only under the same key and undamaged."""

import pytest

from machine.storage import kept_value


def test_a_value_is_kept_under_its_key_until_another_takes_its_place(tmp_path):
    path = tmp_path / "new" / "value.kept"
    assert kept_value.load(path, "one") is None
    kept_value.save(path, "one", {"text": "line\nbreak, é", "numbers": [1, 2.5]})
    assert kept_value.load(path, "one") == {"text": "line\nbreak, é", "numbers": [1, 2.5]}
    assert kept_value.load(path, "two") is None
    kept_value.save(path, "two", [])
    assert kept_value.load(path, "one") is None and kept_value.load(path, "two") == []


@pytest.mark.parametrize("at", [0, 70, -1])
def test_a_flipped_bit_is_not_believed(tmp_path, caplog, at):
    path = tmp_path / "value.kept"
    kept_value.save(path, "one", [1.25])
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)
    assert kept_value.load(path, "one") is None and "damaged" in caplog.text


@pytest.mark.parametrize("content", [b"", b"{}", b"\n"])
def test_another_file_is_no_value(tmp_path, caplog, content):
    (tmp_path / "value.kept").write_bytes(content)
    assert kept_value.load(tmp_path / "value.kept", "one") is None
    assert "computed again" in caplog.text


def test_a_place_that_cannot_be_written_is_told(tmp_path, caplog):
    (tmp_path / "file").touch()
    kept_value.save(tmp_path / "file" / "value.kept", "one", 1)
    assert "cannot be written" in caplog.text


def test_other_code_has_another_hash(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    for folder, text in ((one, "a = 1"), (other, "a = 2")):
        folder.mkdir()
        (folder / "module.py").write_text(text)
    assert kept_value.code_sha256(one) != kept_value.code_sha256(other)
