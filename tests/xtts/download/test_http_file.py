"""Whatever the server does, a file under its name is the published one, or it does not exist."""

import hashlib
import http.client
import os
import random
import resource
import socket
import ssl
import subprocess
import sys
import urllib.error
from collections.abc import Callable, Iterator
from email.message import Message
from pathlib import Path

import pytest

from machine.storage import files
from machine.storage.files import DiskFull, WriteError, Written
from tests.file_server import Bad, Server, serving
from xtts.download import http_file
from xtts.download.http_file import (
    DownloadError,
    Interrupted,
    Refused,
    Retry,
    classify_error,
    fetch,
    part_path,
    start_of_body,
)

CONTENT = random.Random(0).randbytes(3_000_000)
EXPECTED = Written(hashlib.sha256(CONTENT).hexdigest(), len(CONTENT))
OTHER = bytes(len(CONTENT))
PATH = "/model.pth"
FAILS = [Bad(status=503)] * 9
Get = Callable[..., Path]


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as file_server:
        file_server.files[PATH] = CONTENT
        yield file_server


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    waited: list[float] = []
    monkeypatch.setattr(http_file.time, "sleep", waited.append)
    return waited


@pytest.fixture
def get(server: Server, tmp_path: Path, waits: list[float]) -> Get:
    def run(*bad: Bad, url: str = "") -> Path:
        server.bad[PATH] = list(bad)
        target = tmp_path / "model.pth"
        fetch(url or server.url + PATH, target, EXPECTED)
        return target

    return run


def whole(target: Path) -> None:
    assert target.read_bytes() == CONTENT
    assert sorted(path.name for path in target.parent.iterdir()) == ["model.pth"]


def from_(*places: int) -> list[str]:
    """The Range header of each request; 0 asks for the whole file."""
    return [f"bytes={place}-" if place else "" for place in places]


# A server that sends the file in the end


@pytest.mark.parametrize(
    ("bads", "ranges"),
    [
        pytest.param([], from_(0), id="well"),
        pytest.param(
            [Bad(cut_after=1_000_000), Bad(cut_after=500_000)], from_(0, 1_000_000, 1_500_000), id="cut"
        ),
        pytest.param([Bad(cut_after=100_000)] * 25, from_(*range(0, 2_600_000, 100_000)), id="cut 25 times"),
        pytest.param(
            [Bad(cut_after=2_000_000), Bad(ignore_range=True)], from_(0, 2_000_000), id="without ranges"
        ),
        pytest.param([Bad(length=0)], from_(0), id="without a length"),
        pytest.param([Bad(length=0, cut_after=1_000)], from_(0, 1_000), id="without a length, cut"),
        # The SHA-256 differs, and the whole file is requested again.
        pytest.param(
            [Bad(body=OTHER, cut_after=1_000_000)], from_(0, 1_000_000, 0), id="changed between two parts"
        ),
        pytest.param(
            [Bad(cut_after=1_000_000), Bad(start_at=999_000)], from_(0, 1_000_000, 0), id="from a wrong place"
        ),
        pytest.param([Bad(reset=True), Bad(reset=True)], from_(0, 0, 0), id="reset"),
    ],
)
def test_the_file_comes_whole_and_what_has_come_is_not_asked_for_again(get, server, bads, ranges):
    whole(get(*bads))
    assert server.ranges(PATH) == ranges
    assert {headers["Accept-Encoding"] for _, headers in server.asked} == {"identity"}


def test_a_stall_is_ended_and_gone_on_with(get, server, monkeypatch):
    monkeypatch.setattr(http_file, "TIMEOUT_SECONDS", 0.3)
    whole(get(Bad(cut_after=1_000_000, stall=True)))
    assert server.ranges(PATH) == from_(0, 1_000_000)


def test_the_next_start_goes_on_where_the_last_one_stopped(get, server, tmp_path):
    with pytest.raises(DownloadError, match=r"1,000,000 of 3,000,000 bytes are kept in .*part"):
        get(Bad(cut_after=1_000_000), *FAILS)
    assert not (tmp_path / "model.pth").exists()
    server.asked.clear()
    whole(get())
    assert server.ranges(PATH) == from_(1_000_000)


@pytest.mark.parametrize(
    ("part", "ranges"),
    [(CONTENT, []), (OTHER[:1_000_000], from_(1_000_000, 0)), (bytes(3_000_001), from_(0))],
    ids=["whole", "damaged", "too long"],
)
def test_what_an_earlier_start_left_is_used_where_it_is_right(get, server, tmp_path, part, ranges):
    part_path(tmp_path / "model.pth").write_bytes(part)
    whole(get())
    assert server.ranges(PATH) == ranges
    # Retries used for a damaged part do not count for the new file, nor does its size.
    for damaged, bads in ((OTHER[:2_900_000], [Bad()]), (bytes(3_000_001), [])):
        (tmp_path / "model.pth").unlink()
        part_path(tmp_path / "model.pth").write_bytes(damaged)
        whole(get(*bads, *[Bad(cut_after=400_000)] * 6))


# A server that sends something else


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (Bad(body=b"x" * 68), r"offers 68 bytes.*has 3,000,000"),
        (Bad(body=b"x" * 3_000_001), r"offers 3,000,001 bytes"),
        (Bad(body=CONTENT + b"!", length=0), "more than the 3,000,000 bytes"),
        (Bad(body=b"\0" + CONTENT[1:]), r"another file: its SHA-256 is \w{12}…"),
        (Bad(body=CONTENT[:-1] + b"\0"), "another file"),
        (Bad(headers={"Content-Encoding": "gzip"}), "as gzip"),
    ],
)
def test_another_file_is_refused_and_nothing_is_kept(get, tmp_path, bad, told):
    with pytest.raises(DownloadError, match=told):
        get(bad)
    assert list(tmp_path.iterdir()) == []


def test_a_length_that_is_longer_than_the_body_is_a_cut(get, server):
    server.files[PATH] = CONTENT[:2_999_990]
    with pytest.raises(DownloadError, match="2,999,990 of 3,000,000 bytes are kept"):
        get(Bad(length=3_000_000), *FAILS)


def test_wrong_bytes_in_pieces_are_not_fetched_for_ever(get, server, tmp_path):
    with pytest.raises(DownloadError, match="another file"):
        get(*[Bad(body=OTHER, cut_after=1_000_000)] * 99)
    assert len(server.asked) == 6
    assert list(tmp_path.iterdir()) == []


# A server that refuses, or cannot be reached


@pytest.mark.parametrize(
    ("status", "why"),
    [(404, "HF_ENDPOINT"), (403, "403"), (401, "key"), (407, "proxy"), (410, "410"), (418, "418")],
)
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
    whole(
        get(Bad(status=429, headers={"Retry-After": "7"}), Bad(status=503, headers={"Retry-After": "86400"}))
    )
    assert waits == [7.0, 60.0]


@pytest.mark.parametrize(
    ("bad", "waited", "told"),
    [
        (Bad(status=503), [1.0, 2.0, 4.0, 8.0], r"503 \(5 tries\). No data"),
        (Bad(cut_after=2_000_000, ignore_range=True), [1.0, 1.0, 2.0, 4.0, 5.0], "5 tries"),
    ],
)
def test_trouble_that_does_not_pass_is_given_up(get, server, waits, monkeypatch, bad, waited, told):
    monkeypatch.setattr(http_file, "MAX_WAIT_SECONDS", waited[-1])
    with pytest.raises(DownloadError, match=told):
        get(*[bad] * 99)
    assert waits == waited and len(server.asked) == len(waited) + 1


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://127.0.0.1:9/model.pth", r"connection refused \(5 tries\)"),
        ("http://nowhere.invalid/model.pth", "network"),
    ],
)
def test_a_server_that_is_not_there_is_told(get, url, told):
    with pytest.raises(DownloadError, match=told):
        get(url=url)


def test_a_redirect_is_followed_with_its_range(get, server):
    server.files["/blob"] = CONTENT
    to_blob = Bad(status=302, headers={"Location": "/blob"})
    server.bad["/blob"] = [Bad(cut_after=1_000_000)]
    whole(get(to_blob, to_blob))
    assert server.ranges("/blob") == from_(0, 1_000_000)


@pytest.mark.parametrize("place", ["file:///etc/passwd", "ftp://127.0.0.1/model.pth", PATH])
def test_a_redirect_out_of_http_or_in_a_circle_is_refused(get, server, place):
    with pytest.raises(DownloadError, match="No data was kept"):
        get(*[Bad(status=302, headers={"Location": place})] * 99)
    assert len(server.asked) < 60


# The machine


def test_a_disk_without_room_is_told_before_anything_comes(get, server, monkeypatch):
    room = type("Usage", (), {"free": 1_000_000})
    monkeypatch.setattr(files.shutil, "disk_usage", lambda _: room)
    with pytest.raises(DiskFull, match="3,600,000 bytes needed, 1,000,000 free") as raised:
        get()
    assert raised.value.exit_code == 74
    assert server.asked == []


def test_a_disk_that_gets_full_keeps_what_has_come(get, server, tmp_path):
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limit[1]))
    try:
        with pytest.raises(DiskFull, match=r"model\.pth could not be written"):
            get()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    size = part_path(tmp_path / "model.pth").stat().st_size
    assert size == 1 << 20
    whole(get())
    assert server.ranges(PATH)[-1] == f"bytes={size}-"


def test_a_folder_that_is_not_there_is_named(server, tmp_path):
    with pytest.raises(WriteError, match="model"):
        fetch(server.url + PATH, tmp_path / "no" / "model.pth", EXPECTED)


def test_ctrl_c_keeps_what_has_come(get, monkeypatch, tmp_path):
    def pressed(_seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(http_file.time, "sleep", pressed)
    with pytest.raises(Interrupted, match="1,000,000 of 3,000,000 bytes are kept") as raised:
        get(Bad(cut_after=1_000_000))
    assert raised.value.exit_code == 130
    assert part_path(tmp_path / "model.pth").stat().st_size == 1_000_000


@pytest.mark.parametrize("point", ["downloading:model.pth", "downloaded:model.pth"])
def test_a_kill_leaves_a_part_and_the_next_start_finishes_it(get, server, tmp_path, point):
    target = tmp_path / "model.pth"
    code = (
        "import sys; from pathlib import Path; from machine.storage.files import Written;"
        "from xtts.download.http_file import fetch;"
        "fetch(sys.argv[1], Path(sys.argv[2]), Written(sys.argv[3], int(sys.argv[4])))"
    )
    words = [server.url + PATH, str(target), EXPECTED.sha256, str(EXPECTED.bytes)]
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        env={**os.environ, "SOTAQUE_CRASH_AT": point},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == -9, done.stderr
    assert not target.exists()
    assert part_path(target).stat().st_size > 0
    whole(get())


def test_the_line_says_how_much_and_how_fast(get, monkeypatch, caplog):
    caplog.set_level("INFO")
    monkeypatch.setattr(http_file, "SECONDS_BETWEEN_REPORTS", 0.0)
    get()
    assert any("of 3 MB" in line and "MB/s" in line for line in caplog.messages)
    assert "3.0 MB" in caplog.messages[-1]


# The meaning of an answer, without a server

SIZE = 1_000


def headers(**values: str) -> Message:
    message = Message()
    for name, value in values.items():
        message[name.replace("_", "-")] = value
    return message


@pytest.mark.parametrize(
    ("status", "fields", "outcome"),
    [
        (200, {"Content_Length": "1000"}, 0),
        (200, {"Content_Length": "500"}, "500 bytes"),
        (200, {"Content_Length": "-5", "Content_Encoding": "identity"}, 0),
        (206, {"Content_Range": "bytes 500-999/1000"}, 500),
        (206, {"Content_Range": "bytes 500-999/*"}, 500),
        (206, {"Content_Range": "pages 500-999/1000"}, None),
        (206, {}, None),
        (206, {"Content_Range": "bytes 500-999/1001"}, "1,001 bytes"),
        (416, {}, None),
        (204, {}, "204"),
        (304, {}, "304"),
        (302, {}, "302"),
    ],
)
def test_the_answer_decides(status, fields, outcome):
    """Where its body begins, or why it is refused; garbled headers are ignored."""
    if not isinstance(outcome, str):
        assert start_of_body(status, headers(**fields), SIZE) == outcome
        return
    with pytest.raises((Retry, Refused), match=outcome):
        start_of_body(status, headers(**fields), SIZE)


UNTRUSTED = ssl.SSLCertVerificationError(1, "x")
UNTRUSTED.verify_message = "self-signed certificate"


@pytest.mark.parametrize(
    ("error", "outcome", "says"),
    [
        (urllib.error.URLError(socket.gaierror(-2, "unknown")), Retry, "network"),
        (urllib.error.URLError(ConnectionRefusedError(111, "Refused")), Retry, "refused"),
        (TimeoutError(), Retry, "no data arrived"),
        (http.client.RemoteDisconnected(), Retry, "broke off"),
        (http.client.IncompleteRead(b""), Retry, "broke off"),
        (ValueError("unknown url type"), Refused, "address is invalid"),
        (urllib.error.URLError(UNTRUSTED), Refused, "self-signed certificate"),
    ],
)
def test_a_fault_of_the_line_is_told_in_words(error, outcome, says):
    fault = classify_error(error)
    assert type(fault) is outcome and says in str(fault)
    assert ("SSL_CERT_FILE" in str(fault)) == ("certificate" in says)
