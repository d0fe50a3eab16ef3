"""Bodies of uploads, the free space of a folder that need not exist yet, and the size of its files."""

import asyncio
import errno
import shutil
from pathlib import Path

import pytest
from fastapi import Request

from api.arriving import body_file, bytes_below, free_bytes
from api.errors import APIError


def upload(folder: Path, error: OSError | None = None) -> None:
    """Receives a body in two parts; its use raises this error."""
    parts = iter((b"RI", b"FF"))

    async def receive() -> dict[str, object]:
        part = next(parts, b"")
        return {"type": "http.request", "body": part, "more_body": bool(part)}

    async def use() -> None:
        request = Request({"type": "http", "method": "POST", "headers": []}, receive)
        async with body_file(request, folder, "book") as path:
            assert path.read_bytes() == b"RIFF"
            if error is not None:
                raise error

    asyncio.run(use())


def test_a_body_is_a_file_while_it_is_used(tmp_path):
    upload(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_507_and_another_error_of_the_caller_stays_its_own(tmp_path):
    with pytest.raises(APIError) as full:
        upload(tmp_path, OSError(errno.ENOSPC, "No space left on device"))
    assert (full.value.status, full.value.code) == (507, "no_space")
    with pytest.raises(FileNotFoundError):
        upload(tmp_path, FileNotFoundError(errno.ENOENT, "No such file or directory"))
    with pytest.raises(APIError) as unwritten:
        upload(tmp_path / "gone")
    assert (unwritten.value.status, unwritten.value.code) == (507, "not_kept")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_yet_has_the_room_of_the_disk_it_will_be_on(tmp_path, monkeypatch):
    asked = []
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: asked.append(path) or usage)
    assert free_bytes(tmp_path / "not/yet") == usage.free and asked == [tmp_path]


def test_files_are_counted_at_every_depth_and_links_are_not_followed(tmp_path):
    (tmp_path / "books/one").mkdir(parents=True)
    (tmp_path / "books/one/a").write_bytes(bytes(100))
    (tmp_path / "books/b").write_bytes(bytes(20))
    (tmp_path / "outside").write_bytes(bytes(5000))
    link = tmp_path / "books/link"
    link.symlink_to(tmp_path / "outside")
    assert bytes_below(tmp_path / "books") == 120 + link.lstat().st_size
    assert bytes_below(tmp_path / "gone") == 0
