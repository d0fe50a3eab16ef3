"""A write that is killed, refused or out of space leaves the old file or the new one; leftovers of
killed writers are removed."""

import errno
import hashlib
import os
import resource
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from machine.storage.files import (
    STALE_SECONDS,
    DiskFull,
    WriteError,
    remove_stale,
    replace_file,
    require_space,
    write_json,
)

POINTS = ("part opened", "half written", "after fsync", "after replace")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def full_after(monkeypatch: pytest.MonkeyPatch, num_bytes: int, number: int = errno.ENOSPC) -> None:
    """The disk accepts `num_bytes` bytes and then refuses."""
    real, left = os.write, [num_bytes]

    def write(descriptor: int, data: memoryview) -> int:
        if not left[0]:
            raise OSError(number, os.strerror(number))
        taken = real(descriptor, data[: left[0]])
        left[0] -= taken
        return taken

    monkeypatch.setattr(os, "write", write)


def test_hash_and_size_come_with_the_writing(tmp_path):
    written = replace_file(tmp_path / "a", lambda file: [file.write(b"ab"), file.write(b"c")])
    assert (tmp_path / "a").read_bytes() == b"abc"
    assert written.sha256 == hashlib.sha256(b"abc").hexdigest()
    assert written.bytes == 3


def test_a_write_that_the_system_takes_in_pieces_is_whole(tmp_path, monkeypatch):
    """Linux writes at most 2 GB in one call."""
    real, state = os.write, {"a": torch.arange(1_000.0), "b": [1, "x"]}
    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, data[:97]))
    replace_file(tmp_path / "a.pt", lambda file: torch.save(state, file))
    loaded = torch.load(tmp_path / "a.pt", weights_only=True)
    assert torch.equal(loaded["a"], state["a"]) and loaded["b"] == state["b"]


def test_order_of_a_durable_write(tmp_path, monkeypatch):
    calls = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *given, name=name, real=real: calls.append(name) or real(*given))
    replace_file(tmp_path / "a", lambda file: file.write(b"abc"))
    assert calls == ["fsync", "replace", "fsync"]


def test_two_threads_that_write_one_file_at_once_write_one_after_the_other(tmp_path):
    both_are_open = threading.Barrier(2)

    def write(content):
        replace_file(tmp_path / "a", lambda file: [file.write(content), both_are_open.wait(30)])

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(write, (b"one", b"other")))
    assert (tmp_path / "a").read_bytes() in (b"one", b"other")
    assert names(tmp_path) == ["a"]


def test_the_temporary_file_is_in_the_same_folder_whatever_tmpdir_says(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", "/dev/shm")
    seen = []
    replace_file(tmp_path / "a", lambda file: [file.write(b"abc"), seen.extend(names(tmp_path))])
    assert len(seen) == 1
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("taken", [0, 1, 700, 5_000])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_keeps_the_old_file_and_says_bytes(tmp_path, monkeypatch, taken, number):
    path = tmp_path / "a.pt"
    replace_file(path, lambda file: file.write(b"old"))
    full_after(monkeypatch, taken, number)
    state = {"a": torch.zeros(10_000)}
    with pytest.raises(DiskFull, match=r"4\d,\d{3} bytes needed, [\d,]+ free") as raised:
        replace_file(path, lambda file: torch.save(state, file))
    assert raised.value.exit_code == 74
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a.pt"]


def test_a_limit_on_file_sizes_is_a_full_disk(tmp_path):
    """A real limit in a child: Python ignores SIGXFSZ, so the write fails with EFBIG."""
    program = (
        "import sys; from pathlib import Path\n"
        "from machine.storage.files import DiskFull, replace_file\n"
        "try: replace_file(Path(sys.argv[1]), lambda file: file.write(bytes(100_000)))\n"
        "except DiskFull as error: print(error)"
    )
    result = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "a")],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, 5_000)),
        check=True,
    )
    assert "100,000 bytes" in result.stdout
    assert "ulimit" in result.stdout
    assert names(tmp_path) == []


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
def test_a_read_only_folder_is_named(tmp_path, monkeypatch, number):
    def refuse(*_, **__):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(WriteError, match=str(tmp_path)) as raised:
        replace_file(tmp_path / "a", lambda file: file.write(b"abc"))
    assert not isinstance(raised.value, DiskFull)
    assert "Make it writable" in str(raised.value)


def test_a_writer_that_raises_leaves_nothing(tmp_path):
    def fail(file):
        file.write(b"abc")
        raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        replace_file(tmp_path / "a", fail)
    assert names(tmp_path) == []


@pytest.mark.parametrize("point", POINTS)
def test_killed_at(point, tmp_path):
    """The file has its old or its new content, and only our leftover file is removed."""
    path = tmp_path / "a"
    replace_file(path, lambda file: file.write(b"old"))
    (tmp_path / ".a.12.tmp").write_bytes(b"not ours")
    program = (
        "import sys; from pathlib import Path; from machine.storage.files import replace_file\n"
        "replace_file(Path(sys.argv[1]), lambda file: [file.write(b'new'), file.write(b'er')])"
    )
    killed = subprocess.run(
        [sys.executable, "-c", program, str(path)],
        env={**os.environ, "SOTAQUE_CRASH_AT": f"{point}:a"},
        check=False,
    )
    assert killed.returncode == -9
    assert path.read_bytes() == (b"newer" if point == "after replace" else b"old")
    assert len(remove_stale(tmp_path)) == (0 if point == "after replace" else 1)
    assert names(tmp_path) == [".a.12.tmp", "a"]


def test_space_is_asked_for_with_a_margin(tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1_199))
    require_space(tmp_path, 999, "a checkpoint")
    with pytest.raises(DiskFull, match="a checkpoint: 1,200 bytes needed, 1,199 free"):
        require_space(tmp_path, 1_000, "a checkpoint")


def test_json_with_values_that_are_no_numbers_is_not_written(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "a.json", {"loss": float("nan")})
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("older_than_seconds", "left"),
    [(None, ["voice.pt"]), (STALE_SECONDS, [".new.pt.7.sotaque-part", "voice.pt"])],
)
def test_what_a_running_writer_may_still_write_stays(tmp_path, older_than_seconds, left):
    for name, age in (
        (".old.pt.7.sotaque-part", STALE_SECONDS + 60),
        (".new.pt.7.sotaque-part", 60),
        ("voice.pt", STALE_SECONDS + 60),
    ):
        (tmp_path / name).write_bytes(b"x")
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    removed = remove_stale(tmp_path, older_than_seconds=older_than_seconds)
    assert sorted(path.name for path in tmp_path.iterdir()) == left
    assert len(removed) == 3 - len(left)


def test_a_folder_that_is_absent_has_none(tmp_path):
    assert remove_stale(tmp_path / "absent") == []
