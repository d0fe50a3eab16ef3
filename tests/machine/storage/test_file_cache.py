"""A small memory between starts, that may be damaged or unwritable without harm."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from machine.storage.file_cache import FileCache


def test_what_is_put_is_there_at_the_next_start(tmp_path):
    path = tmp_path / "new" / "memory.json"
    memory = FileCache(path)
    assert memory.get("a") is None
    memory.put("a", [1.5, "é"])
    memory.save()
    assert FileCache(path).get("a") == [1.5, "é"]


def test_nothing_new_writes_nothing(tmp_path):
    path = tmp_path / "memory.json"
    FileCache(path).save()
    assert not path.exists()


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff\xfe", b"[1, 2]", b"null"])
def test_a_damaged_file_is_made_again(tmp_path, damage):
    path = tmp_path / "memory.json"
    path.write_bytes(damage)
    memory = FileCache(path)
    assert memory.get("a") is None
    memory.put("a", 1)
    memory.save()
    assert FileCache(path).get("a") == 1


def test_a_flipped_bit_is_not_believed(tmp_path, caplog):
    path = tmp_path / "memory.json"
    memory = FileCache(path)
    memory.put("clip", 1.25)
    memory.save()
    path.write_text(path.read_text().replace("1.25", "1.35"))
    assert FileCache(path).get("clip") is None
    assert "seal does not match" in caplog.text and path.name in caplog.text


def test_a_place_that_cannot_be_written_is_told(tmp_path, caplog):
    (tmp_path / "file").touch()
    memory = FileCache(tmp_path / "file" / "memory.json")
    memory.put("a", 1)
    memory.save()
    assert "cannot be written" in caplog.text


def test_threads_lose_nothing(tmp_path):
    memory = FileCache(tmp_path / "memory.json")

    def work(thread: int) -> None:
        for number in range(200):
            memory.put(f"{thread}-{number}", number)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))
    memory.save()
    found = FileCache(tmp_path / "memory.json")
    assert all(found.get(f"{t}-{n}") == n for t in range(8) for n in range(200))
