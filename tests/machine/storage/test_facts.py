"""Facts kept between starts; a damaged, locked or unwritable table does no harm."""

import contextlib
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from machine.storage.facts import FILE_NAME, Facts


def test_what_is_put_is_there_at_the_next_start(tmp_path):
    facts = Facts(tmp_path / "new", "clips 1")
    assert facts.get("a") is None
    facts.put("a", [1.5, "é", {"line": "\n"}])
    facts.save()
    assert Facts(tmp_path / "new", "clips 1").get("a") == [1.5, "é", {"line": "\n"}]
    assert Facts(tmp_path / "new", "clips 2").get("a") is None


def test_a_value_holds_for_its_stamp_only_and_the_next_takes_its_place(tmp_path):
    facts = Facts(tmp_path, "dataset")
    facts.put("whole", {"clips": 3}, "one")
    facts.save()
    facts = Facts(tmp_path, "dataset")
    assert facts.get("whole", "one") == {"clips": 3} and facts.get("whole", "two") is None
    facts.put("whole", [], "two")
    facts.save()
    facts = Facts(tmp_path, "dataset")
    assert facts.get("whole", "one") is None and facts.get("whole", "two") == []


def test_nothing_new_writes_nothing(tmp_path):
    Facts(tmp_path / "new", "clips").save()
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("damage", [b"{", b"\xff\xfe", b"SQLite format 3\0" + b"x" * 200])
def test_a_damaged_table_is_made_again(tmp_path, damage, caplog):
    (tmp_path / FILE_NAME).write_bytes(damage)
    facts = Facts(tmp_path, "clips")
    assert facts.get("a") is None and "damaged" in caplog.text
    facts.put("a", 1)
    facts.save()
    assert Facts(tmp_path, "clips").get("a") == 1


def test_a_flipped_bit_is_not_believed(tmp_path, caplog):
    facts = Facts(tmp_path, "clips")
    facts.put("clip", 1.25)
    facts.save()
    path = tmp_path / FILE_NAME
    path.write_bytes(path.read_bytes().replace(b"1.25", b"1.35"))
    assert Facts(tmp_path, "clips").get("clip") is None
    assert "checksum of 'clip' does not match" in caplog.text and FILE_NAME in caplog.text


def test_a_table_that_cannot_be_written_is_told(tmp_path, caplog):
    (tmp_path / "file").touch()
    facts = Facts(tmp_path / "file", "clips")
    facts.put("a", 1)
    facts.save()
    assert caplog.text.count("cannot be used") == 1 and facts.get("a") == 1


def test_a_folder_that_cannot_be_searched_costs_nothing_but_time(tmp_path, caplog):
    """As the home of root for another user; here, root tests with a name that is too long."""
    facts = Facts(tmp_path / ("x" * 300), "clips 1")
    facts.put("a", 1)
    facts.save()
    assert facts.get("a") == 1 and "cannot be used" in caplog.text


def test_a_locked_table_is_told_and_stays(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr("machine.storage.facts._BUSY_SECONDS", 0.01)
    facts = Facts(tmp_path, "clips")
    facts.put("a", 1)
    facts.save()
    with contextlib.closing(sqlite3.connect(tmp_path / FILE_NAME)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert Facts(tmp_path, "clips").get("a") is None
        facts.put("b", 2)
        facts.save()
    assert caplog.text.count("database is locked") == 2
    assert Facts(tmp_path, "clips").get("a") == 1


def test_threads_lose_nothing(tmp_path):
    facts = Facts(tmp_path, "clips")

    def work(thread: int) -> None:
        for number in range(200):
            facts.put(f"{thread}-{number}", number)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))
    facts.save()
    shared = Facts(tmp_path, "clips")
    assert all(shared.get(f"{t}-{n}") == n for t in range(8) for n in range(200))


def test_processes_lose_nothing(tmp_path):
    code = (
        "import sys; from pathlib import Path; from machine.storage.facts import Facts\n"
        "for number in range(20):\n"
        "    facts = Facts(Path(sys.argv[1]), 'clips')\n"
        "    facts.put(f'{sys.argv[2]}-{number}', number); facts.save()"
    )
    words = [sys.executable, "-c", code, str(tmp_path)]
    started = [subprocess.Popen([*words, str(child)]) for child in range(3)]
    assert [child.wait(60) for child in started] == [0, 0, 0]
    facts = Facts(tmp_path, "clips")
    assert all(facts.get(f"{child}-{n}") == n for child in range(3) for n in range(20))
