"""A file is the published one under its name, or it is not there: whatever the server does."""

import hashlib
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from machine.storage import atomic
from machine.storage.atomic import DiskFull, WriteError, Written
from tests.file_server import Bad, Server, serving
from xtts.download import http_file
from xtts.download.http_file import DownloadError, Interrupted, RetryPolicy, fetch, part_of

CONTENT = random.Random(0).randbytes(3_000_000)
EXPECTED = Written(hashlib.sha256(CONTENT).hexdigest(), len(CONTENT))
PATH = "/model.pth"
Get = Callable[..., Path]


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as one:
        one.files[PATH] = CONTENT
        yield one


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def get(server: Server, tmp_path: Path, waits: list[float]) -> Get:
    def run(*bad: Bad, url: str = "", **patience: Any) -> Path:
        server.bad[PATH] = list(bad)
        limits = {"timeout_seconds": 5.0, "wait": waits.append, **patience}
        target = tmp_path / "model.pth"
        fetch(url or server.url + PATH, target, EXPECTED, RetryPolicy(**limits))
        return target

    return run


def whole(target: Path) -> None:
    assert target.read_bytes() == CONTENT
    assert sorted(path.name for path in target.parent.iterdir()) == ["model.pth"]


# A server that does its best


def test_a_file_comes_whole(get, server):
    whole(get())
    assert server.ranges(PATH) == [""]
    (_, headers) = server.asked[0]
    assert headers["Accept-Encoding"] == "identity"


def test_a_cut_connection_goes_on_where_it_was(get, server, waits):
    whole(get(Bad(cut_after=1_000_000), Bad(cut_after=500_000)))
    assert server.ranges(PATH) == ["", "bytes=1000000-", "bytes=1500000-"]
    assert all("If-Range" in headers for _, headers in server.asked[1:])
    assert waits == [1.0, 1.0]  # each try brought something


def test_the_next_start_goes_on_where_the_last_one_stopped(get, server, tmp_path):
    with pytest.raises(DownloadError, match=r"1,000,000 of 3,000,000 bytes are kept in .*part"):
        get(Bad(cut_after=1_000_000), *[Bad(status=503)] * 9)
    assert not (tmp_path / "model.pth").exists()
    server.asked.clear()
    whole(get())
    assert server.ranges(PATH) == ["bytes=1000000-"]


def test_a_part_that_is_all_there_is_not_asked_for_again(get, server, tmp_path):
    part_of(tmp_path / "model.pth").write_bytes(CONTENT)
    whole(get())
    assert server.asked == []


def test_many_cuts_are_borne_while_something_comes(get):
    whole(get(*[Bad(cut_after=100_000)] * 25))


def test_a_reset_connection_is_tried_again(get):
    whole(get(Bad(reset=True), Bad(cut_after=10, reset=False), Bad(reset=True)))


def test_a_server_without_ranges_sends_it_all_again(get, server):
    whole(get(Bad(cut_after=2_000_000), Bad(ignore_range=True)))
    assert server.ranges(PATH) == ["", "bytes=2000000-"]


def test_a_server_without_ranges_that_always_cuts_is_given_up(get, waits):
    with pytest.raises(DownloadError, match=r"5 tries"):
        get(*[Bad(cut_after=2_000_000, ignore_range=True)] * 40)
    assert waits == [1.0, 1.0, 2.0, 4.0, 8.0]


# A server that lies


def test_a_body_without_a_length_is_taken_at_its_end(get):
    whole(get(Bad(length=0)))


def test_a_body_without_a_length_that_ends_early_is_gone_on_with(get, server):
    whole(get(Bad(length=0, cut_after=1_000)))
    assert server.ranges(PATH) == ["", "bytes=1000-"]


def test_a_length_that_is_longer_than_the_body_is_a_cut(get, server):
    server.files[PATH] = CONTENT[:2_999_990]
    # It says the right length, and has ten bytes less.
    with pytest.raises(DownloadError, match="2,999,990 of 3,000,000 bytes are kept"):
        get(*[Bad(length=3_000_000)] * 1, *[Bad(status=503)] * 9)


@pytest.mark.parametrize("length", [68, 2_999_999, 3_000_001])
def test_another_length_is_another_file(get, length, tmp_path):
    with pytest.raises(DownloadError, match=rf"offers {length:,} bytes.*has 3,000,000"):
        get(Bad(body=b"x" * length))
    assert list(tmp_path.iterdir()) == []


def test_more_bytes_than_there_should_be_are_another_file(get, tmp_path):
    with pytest.raises(DownloadError, match="more than the 3,000,000 bytes"):
        get(Bad(body=CONTENT + b"!", length=0))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("at", [0, 1_500_000, 2_999_999])
def test_one_wrong_byte_is_another_file(get, tmp_path, at):
    wrong = bytearray(CONTENT)
    wrong[at] ^= 1
    with pytest.raises(DownloadError, match=r"another file: the SHA-256 is \w{12}…"):
        get(Bad(body=bytes(wrong)))
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_changes_between_two_parts_is_begun_anew(get, server):
    old = bytes(len(CONTENT))
    whole(get(Bad(body=old, cut_after=1_000_000)))
    # The tag of the old one does not fit: the server sends the new one from its first byte.
    assert server.ranges(PATH) == ["", "bytes=1000000-"]


def test_a_file_that_changes_without_a_tag_is_found_out_by_its_hash(get, server):
    server.etags[PATH] = ""
    whole(get(Bad(body=bytes(len(CONTENT)), cut_after=1_000_000)))
    assert server.ranges(PATH) == ["", "bytes=1000000-", ""]


def test_a_weak_tag_is_not_relied_on(get, server):
    server.etags[PATH] = 'W/"1"'
    whole(get(Bad(cut_after=1_000_000)))
    assert "If-Range" not in server.asked[1][1]


def test_a_damaged_part_of_an_earlier_start_is_found_out(get, server, tmp_path):
    part_of(tmp_path / "model.pth").write_bytes(bytes(1_000_000))
    whole(get())
    assert server.ranges(PATH) == ["bytes=1000000-", ""]


def test_a_damaged_part_does_not_use_up_the_patience(get, server, tmp_path):
    part_of(tmp_path / "model.pth").write_bytes(bytes(2_900_000))
    whole(get(Bad(), *[Bad(cut_after=400_000)] * 6))


def test_wrong_bytes_in_pieces_are_not_fetched_for_ever(get, server, tmp_path):
    wrong = bytes(len(CONTENT))
    with pytest.raises(DownloadError, match="another file"):
        get(*[Bad(body=wrong, cut_after=1_000_000)] * 99)
    assert len(server.asked) == 6
    assert list(tmp_path.iterdir()) == []


def test_a_part_that_is_too_long_is_thrown_away(get, server, tmp_path):
    part_of(tmp_path / "model.pth").write_bytes(bytes(3_000_001))
    whole(get())
    assert server.ranges(PATH) == [""]


def test_a_wrong_place_in_the_file_is_not_appended(get, server):
    whole(get(Bad(cut_after=1_000_000), Bad(start_at=999_000)))
    assert server.ranges(PATH) == ["", "bytes=1000000-", ""]


def test_a_compressed_body_is_refused(get):
    with pytest.raises(DownloadError, match="as gzip"):
        get(Bad(headers={"Content-Encoding": "gzip"}))


# A server that refuses


@pytest.mark.parametrize(
    ("status", "why"),
    [(404, "is XTTS_V2_URL right"), (403, "refuses this download"), (401, "asks for a key"),
     (407, "proxy asks"), (410, "not there any more"), (418, "says 418")],
)  # fmt: skip
def test_a_refusal_is_final_and_told(get, server, status, why):
    with pytest.raises(DownloadError, match=rf"from http.*/model\.pth: .*{why}") as raised:
        get(Bad(status=status))
    assert raised.value.exit_code == 2
    assert len(server.asked) == 1


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_passing_trouble_is_waited_for(get, waits, status):
    whole(get(Bad(status=status), Bad(status=status)))
    assert waits == [1.0, 2.0]


def test_the_server_says_how_long_to_wait_within_reason(get, waits):
    whole(get(Bad(status=429, headers={"Retry-After": "7"}),
              Bad(status=503, headers={"Retry-After": "86400"})))  # fmt: skip
    assert waits == [7.0, 60.0]


def test_trouble_that_does_not_pass_is_given_up(get, server, waits):
    with pytest.raises(DownloadError, match=r"the server says 503 \(5 tries\). Nothing is kept"):
        get(*[Bad(status=503)] * 99)
    assert len(server.asked) == 5
    assert waits == [1.0, 2.0, 4.0, 8.0]


def test_the_tries_are_counted_even_when_each_brings_a_byte(get, server):
    with pytest.raises(DownloadError, match=r"20 tries"):
        get(*[Bad(cut_after=1)] * 99, tries=20)
    assert len(server.asked) == 20


def test_a_stall_is_ended_and_gone_on_with(get, server):
    whole(get(Bad(cut_after=1_000_000, stall=True), timeout_seconds=0.3))
    assert server.ranges(PATH) == ["", "bytes=1000000-"]


def test_nobody_there_is_told(get):
    with pytest.raises(DownloadError, match=r"connection refused \(5 tries\)"):
        get(url="http://127.0.0.1:9/model.pth")


def test_a_name_that_nobody_knows_is_told(get):
    with pytest.raises(DownloadError, match="is there a network"):
        get(url="http://nowhere.invalid/model.pth")


# Redirects


def test_a_redirect_is_followed_with_its_range(get, server):
    server.files["/blob"] = CONTENT
    to_blob = Bad(status=302, headers={"Location": "/blob"})
    server.bad["/blob"] = [Bad(cut_after=1_000_000)]
    whole(get(to_blob, to_blob))
    assert server.ranges("/blob") == ["", "bytes=1000000-"]


@pytest.mark.parametrize("place", ["file:///etc/passwd", "ftp://127.0.0.1/model.pth"])
def test_a_redirect_out_of_http_is_refused(get, place):
    with pytest.raises(DownloadError, match=r"Nothing is kept"):
        get(Bad(status=302, headers={"Location": place}))


def test_a_circle_is_refused(get, server):
    with pytest.raises(DownloadError):
        get(*[Bad(status=302, headers={"Location": PATH})] * 99)
    assert len(server.asked) < 60


# The machine


def test_a_disk_without_room_is_told_before_anything_comes(get, server, monkeypatch):
    room = type("Usage", (), {"free": 1_000_000})
    monkeypatch.setattr(atomic.shutil, "disk_usage", lambda _: room)
    with pytest.raises(DiskFull, match="3,600,000 bytes needed, 1,000,000 free") as raised:
        get()
    assert raised.value.exit_code == 74
    assert server.asked == []


def test_a_disk_that_gets_full_keeps_what_has_come(get, server, monkeypatch, tmp_path):
    written = http_file._write_all

    def full(file, chunk):
        if file.tell() >= 1 << 20:
            raise OSError(28, "No space left on device")
        written(file, chunk)

    monkeypatch.setattr(http_file, "_write_all", full)
    with pytest.raises(DiskFull, match=r"model\.pth could not be written.*What has come is kept"):
        get()
    kept = part_of(tmp_path / "model.pth").stat().st_size
    assert kept >= 1 << 20
    monkeypatch.setattr(http_file, "_write_all", written)
    whole(get())
    assert server.ranges(PATH)[-1] == f"bytes={kept}-"


def test_a_folder_that_is_not_there_is_named(server, tmp_path):
    with pytest.raises(WriteError, match="model"):
        fetch(server.url + PATH, tmp_path / "no" / "model.pth", EXPECTED)


def test_ctrl_c_keeps_what_has_come(get, tmp_path, monkeypatch):
    def pressed(_seconds):
        raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="1,000,000 of 3,000,000 bytes are kept") as raised:
        get(Bad(cut_after=1_000_000), wait=pressed)
    assert raised.value.exit_code == 130
    assert part_of(tmp_path / "model.pth").stat().st_size == 1_000_000


@pytest.mark.parametrize("point", ["downloading:model.pth", "downloaded:model.pth"])
def test_a_kill_leaves_a_part_and_the_next_start_finishes_it(get, server, tmp_path, point):
    target = tmp_path / "model.pth"
    code = (
        "import sys; from pathlib import Path; from machine.storage.atomic import Written;"
        "from xtts.download.http_file import fetch;"
        "fetch(sys.argv[1], Path(sys.argv[2]), Written(sys.argv[3], int(sys.argv[4])))"
    )
    words = [server.url + PATH, str(target), EXPECTED.sha256, str(EXPECTED.bytes)]
    done = subprocess.run(
        [sys.executable, "-c", code, *words], env={**os.environ, "SOTAQUE_CRASH_AT": point},
        capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == -9, done.stderr
    assert not target.exists()
    assert part_of(target).stat().st_size > 0
    whole(get())


def test_the_line_says_how_much_and_how_fast(get, caplog):
    caplog.set_level("INFO")
    get(told_every_seconds=0.0)
    assert any(
        "of 3 MB" in line and "MB/s" in line and "s left" in line for line in caplog.messages
    )
    assert caplog.messages[-1] == "model.pth: 3.0 MB, SHA-256 as published."
