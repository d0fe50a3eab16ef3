"""When a file's known hash is trusted: in this process, and at the next start."""

import hashlib
import os
from pathlib import Path

import pytest

from machine.storage import checksums
from machine.storage.checksums import remember_hash, sha256_of

ONE = hashlib.sha256(b"one").hexdigest()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "model.pth"
    path.write_bytes(b"one")
    return path


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that were hashed, not looked up."""
    paths: list[Path] = []
    real = checksums._compute_sha256
    monkeypatch.setattr(checksums, "_hashes", {})
    monkeypatch.setattr(checksums, "_compute_sha256", lambda path: [paths.append(path), real(path)][1])
    return paths


def replace(path: Path, content: bytes) -> None:
    """Writes other content of the same size, dated a second later."""
    before = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 10**9))


def test_a_file_is_read_once_until_it_changes(path, read):
    assert sha256_of(path) == sha256_of(path) == ONE
    assert read == [path]
    assert sha256_of(path, fresh=True) == ONE
    replace(path, b"two")
    assert sha256_of(path) == hashlib.sha256(b"two").hexdigest()
    assert len(read) == 3


def test_what_was_written_is_not_read_back(path, read):
    remember_hash(path, ONE)
    assert sha256_of(path) == ONE
    assert read == []
    replace(path, b"two")
    assert sha256_of(path) != ONE


def test_a_kept_hash_does_not_name_the_file(path, read, tmp_path):
    folder = tmp_path / "kept"
    assert sha256_of(path, kept_in=folder) == sha256_of(path, kept_in=folder) == ONE
    assert read == [path]
    assert [bytes(path) in file.read_bytes() for file in folder.iterdir()] == [False]


def test_a_file_swapped_with_the_same_size_and_time_is_read_again(path, read, tmp_path):
    """As `cp -p` and `rsync -t` do while the program is stopped."""
    assert sha256_of(path, kept_in=tmp_path / "kept") == ONE
    other, before = tmp_path / "other", path.stat()
    other.write_bytes(b"two")
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(path)
    checksums._hashes.clear()  # the next start
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert sha256_of(path, kept_in=tmp_path / "kept") == hashlib.sha256(b"two").hexdigest()


def test_a_large_file_says_that_it_is_read_and_only_then(path, read, tmp_path, monkeypatch, caplog):
    """XTTS-v2's model.pth takes seconds, and a minute from a slow disk."""
    monkeypatch.setattr(checksums, "_MIN_LOGGED_BYTES", 2)
    caplog.set_level("INFO")
    for _ in range(2):
        checksums._hashes.clear()  # the next start
        sha256_of(path, kept_in=tmp_path / "kept")
    assert [str(path) in line for line in caplog.messages] == [True]
