"""What is published of XTTS-v2, and how a folder is verified."""

import os
from pathlib import Path

import pytest

from machine.storage import checksums
from machine.storage.facts import FILE_NAME
from tests.published import CONTENTS, publish
from train.base_model import BASE_FILES
from xtts.download import xtts_v2
from xtts.download.xtts_v2 import FilesError, missing_files


def whole(folder: Path) -> bool:
    return not set(missing_files(folder)) - xtts_v2.OPTIONAL


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with all files, as if a person had copied them."""
    publish(monkeypatch)
    for name, content in CONTENTS.items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


def test_what_is_published_is_what_a_base_needs_and_every_hash_is_one():
    assert set(BASE_FILES) == set(xtts_v2.XTTS_V2) - xtts_v2.OPTIONAL
    for written in xtts_v2.XTTS_V2.values():
        assert len(bytes.fromhex(written.sha256)) == 32
    assert len(bytes.fromhex(xtts_v2.REVISION)) == 20
    assert sum(written.bytes for written in xtts_v2.XTTS_V2.values()) == 2_086_564_978


def test_each_file_is_hashed_once_until_it_changes(folder, monkeypatch):
    hashed = []
    digest = checksums._compute_sha256
    monkeypatch.setattr(checksums, "_compute_sha256", lambda p: hashed.append(p.name) or digest(p))
    missing_files(folder)
    checksums._hashes.clear()  # the next start
    missing_files(folder)
    assert sorted(hashed) == sorted(CONTENTS)
    os.utime(folder / "dvae.pth", ns=(1, 1))
    missing_files(folder)
    assert hashed[len(CONTENTS) :] == ["dvae.pth"]
    (folder / "vocab.json").write_bytes(bytes(len(CONTENTS["vocab.json"])))
    with pytest.raises(FilesError, match="vocab"):
        missing_files(folder)


def test_a_garbled_memory_is_as_none_and_one_that_cannot_be_written_no_fault(folder):
    (folder / FILE_NAME).write_bytes(b"no table")
    assert whole(folder)
    (folder / FILE_NAME).unlink()
    (folder / FILE_NAME).mkdir()
    checksums._hashes.clear()
    assert whole(folder)


@pytest.mark.parametrize("name", CONTENTS)
def test_a_file_of_the_right_size_with_one_other_bit_is_refused(folder, name):
    wrong = bytearray(CONTENTS[name])
    wrong[len(wrong) // 2] ^= 1
    (folder / name).write_bytes(wrong)
    with pytest.raises(FilesError, match=rf"{name} has SHA-256 \w{{12}}…, the published"):
        missing_files(folder)
    assert (folder / name).exists()  # it may be the user's file


def test_every_fault_is_told_at_once(folder):
    (folder / "model.pth").write_bytes(CONTENTS["model.pth"][:1_000])
    (folder / "dvae.pth").unlink()
    (folder / "dvae.pth").mkdir()
    with pytest.raises(FilesError, match=r"(?s)dvae\.pth.*model\.pth has 1,000 .* 5,000"):
        missing_files(folder)


def test_what_is_missing_is_named_and_coquis_voices_may_be(folder):
    (folder / "speakers_xtts.pth").unlink()
    assert whole(folder)
    (folder / "mel_stats.pth").unlink()
    assert not whole(folder)
    assert set(missing_files(folder)) == {"mel_stats.pth", "speakers_xtts.pth"}
    assert set(missing_files(folder / "none")) == set(CONTENTS)
    assert not (folder / "none").exists()


# The gate
