"""What is believed of a file's hash: in this process, in its child, and at the next start."""

import hashlib
import json
import os
from dataclasses import asdict
from pathlib import Path

import pytest

from machine.storage import hash_cache
from machine.storage.hash_cache import (
    HashedFile,
    hashed_file,
    kept_sha256,
    known_sha256,
    remember_hash,
    trust_cached_hash,
)

ONE = hashlib.sha256(b"one").hexdigest()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "model.pth"
    path.write_bytes(b"one")
    return path


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that were really hashed."""
    found: list[Path] = []
    real = hash_cache.sha256_of
    monkeypatch.setattr(hash_cache, "_hashed", {})
    monkeypatch.setattr(hash_cache, "sha256_of", lambda path: [found.append(path), real(path)][1])
    return found


def replace(path: Path, content: bytes) -> None:
    """Another content of the same size, a second later."""
    before = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 10**9))


def test_a_file_is_read_once_until_it_changes(path: Path, read: list[Path]) -> None:
    assert known_sha256(path) == known_sha256(path) == ONE
    assert read == [path]
    assert known_sha256(path, fresh=True) == ONE
    replace(path, b"two")
    assert known_sha256(path) == hashlib.sha256(b"two").hexdigest()
    assert len(read) == 3


def test_what_was_written_is_not_read_back_and_a_child_is_told(
    path: Path, read: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert hashed_file(path) is None
    remember_hash(path, ONE)
    told = json.loads(json.dumps(asdict(hashed_file(path))))
    monkeypatch.setattr(hash_cache, "_hashed", {})  # the child has its own
    trust_cached_hash(path, HashedFile(**told))
    assert known_sha256(path) == ONE
    assert read == []
    replace(path, b"two")
    assert hashed_file(path) is None
    assert known_sha256(path) != ONE


def test_a_kept_hash_does_not_name_the_file(path: Path, read: list[Path], tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    assert kept_sha256(path, folder) == kept_sha256(path, folder) == ONE
    assert read == [path]
    assert [str(path) in file.read_text() for file in folder.iterdir()] == [False]
