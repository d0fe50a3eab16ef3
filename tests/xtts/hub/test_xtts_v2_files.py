"""What is published, and whether a folder holds exactly that."""

import json
import os
from pathlib import Path

import pytest

from tests.published import CONTENTS, publish
from xtts.hub import xtts_v2_files
from xtts.hub.base_models import BASE_FILES
from xtts.hub.xtts_v2_files import FilesError, by_hand, look_at_files


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that holds everything, as a person would have put it there."""
    publish(monkeypatch)
    for name, content in CONTENTS.items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


def test_what_is_published_is_what_a_base_needs_and_every_hash_is_one():
    assert set(BASE_FILES) == set(xtts_v2_files.XTTS_V2) - xtts_v2_files.WELCOME
    for written in xtts_v2_files.XTTS_V2.values():
        assert len(bytes.fromhex(written.sha256)) == 32
    assert len(bytes.fromhex(xtts_v2_files.REVISION)) == 20
    assert sum(written.bytes for written in xtts_v2_files.XTTS_V2.values()) == 2_086_564_978


def test_a_folder_filled_by_hand_is_whole(folder):
    found = look_at_files(folder)
    assert found.complete
    assert set(found.whole) == set(CONTENTS)


def test_each_file_is_hashed_once(folder, monkeypatch):
    hashed = []
    sha256_of = xtts_v2_files.sha256_of
    monkeypatch.setattr(xtts_v2_files, "sha256_of", lambda p: hashed.append(p.name) or sha256_of(p))
    look_at_files(folder)
    look_at_files(folder)
    assert sorted(hashed) == sorted(CONTENTS)
    os.utime(folder / "dvae.pth", ns=(1, 1))
    look_at_files(folder)
    assert hashed[len(CONTENTS) :] == ["dvae.pth"]


def test_a_garbled_memory_is_as_none(folder):
    (folder / "verified.json").write_text('{"model.pth": 3}')
    assert look_at_files(folder).complete
    assert set(json.loads((folder / "verified.json").read_text())) == set(CONTENTS)


@pytest.mark.parametrize("name", CONTENTS)
def test_a_file_of_the_right_size_with_one_other_bit_is_refused(folder, name):
    wrong = bytearray(CONTENTS[name])
    wrong[len(wrong) // 2] ^= 1
    (folder / name).write_bytes(wrong)
    with pytest.raises(FilesError, match=rf"{name} has SHA-256 \w{{12}}…, the published"):
        look_at_files(folder)
    assert (folder / name).exists()  # it may be somebody's own


def test_half_a_file_is_refused_with_both_sizes(folder):
    (folder / "model.pth").write_bytes(CONTENTS["model.pth"][:1_000])
    with pytest.raises(FilesError, match=r"model\.pth has 1,000 bytes, the published one 5,000"):
        look_at_files(folder)


def test_a_file_that_changed_after_it_was_verified_is_found_out(folder):
    look_at_files(folder)
    (folder / "vocab.json").write_bytes(bytes(len(CONTENTS["vocab.json"])))
    with pytest.raises(FilesError, match="vocab"):
        look_at_files(folder)


def test_every_fault_is_told_at_once(folder):
    (folder / "model.pth").write_bytes(b"")
    (folder / "dvae.pth").unlink()
    (folder / "dvae.pth").mkdir()
    with pytest.raises(FilesError) as raised:
        look_at_files(folder)
    assert "model.pth has 0 bytes" in str(raised.value)
    assert "dvae.pth" in str(raised.value)


def test_what_is_missing_is_named_and_coquis_voices_may_be(folder):
    (folder / "speakers_xtts.pth").unlink()
    assert look_at_files(folder).complete
    (folder / "mel_stats.pth").unlink()
    found = look_at_files(folder)
    assert not found.complete
    assert set(found.missing) == {"mel_stats.pth", "speakers_xtts.pth"}


def test_a_folder_that_is_not_there_holds_nothing(tmp_path, monkeypatch):
    publish(monkeypatch)
    assert set(look_at_files(tmp_path / "none").missing) == set(CONTENTS)
    assert not (tmp_path / "none").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_looked_at_all_the_same(folder):
    folder.chmod(0o555)
    assert look_at_files(folder).complete


def test_a_memory_that_cannot_be_written_is_no_fault(folder):
    (folder / "verified.json").mkdir()
    assert look_at_files(folder).complete


def test_by_hand_says_which_files_from_where_to_where(folder):
    text = by_hand(folder, ["model.pth"])
    assert f"into {folder}" in text
    assert "model.pth: 5,000 bytes" in text
    assert xtts_v2_files.REVISION[:12] in text
