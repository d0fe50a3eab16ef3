"""The free space of a folder that need not exist yet, and the size of its files."""

import shutil

from api.arriving import bytes_below, free_bytes


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
