"""Clients that hold connections open do not delay other clients, least of all probes."""

import contextlib
import resource
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from pydantic import SecretStr

from api.http.connections import BoundedProtocol, ConnectionLimits, network_of
from api.http.server import limits_within, raise_file_limit
from tests.api.conftest import PATIENT, Running, running, settings_in
from tests.api.heard import refused
from tests.api.raw import connected, everything, process, request
from tests.ports import free_port

FEW = ConnectionLimits(head_seconds=0.5, stall_seconds=0.5, max_connections=40, max_per_address=20)
LIVE = request("GET /livez")
LAST = request("GET /livez", connection="close")
HALF = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Slow: "


@pytest.fixture
def strict(tmp_path: Path) -> Iterator[Running]:
    with running(settings_in(tmp_path), connections=FEW) as service:
        yield service


def closed_by_it(service: Running, reason: str) -> float:
    return service.counted("tts_connections_closed_total", reason=reason)


def alive_seconds(port: int) -> float:
    """Seconds until `/livez` answers 200 on a new connection."""
    started = time.monotonic()
    with connected(port, LAST) as probe:
        answer = everything(probe)
    assert answer.startswith(b"HTTP/1.1 200"), answer
    return time.monotonic() - started


def closed_within(connection: socket.socket, seconds: float) -> bool:
    connection.settimeout(seconds)
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False


@pytest.mark.parametrize("sent", [b"", HALF, b"G"])
def test_a_head_that_does_not_come_is_given_up(strict, sent):
    with connected(strict.port, sent) as slow:
        started = time.monotonic()
        assert closed_within(slow, 20) and time.monotonic() - started > 0.3
    assert closed_by_it(strict, "slow_head")


def test_a_head_in_drops_is_given_up_too_also_the_second(strict):
    """The time counts from the first byte of the head; a kept connection may wait before it."""
    with connected(strict.port, LIVE) as slow:
        assert b"200" in slow.recv(4096)
        time.sleep(0.8)  # between two requests it blocks no other client
        slow.sendall(HALF)
        with pytest.raises(OSError):
            for _ in range(100):
                slow.sendall(b"a")
                time.sleep(0.1)


def test_a_head_in_pieces_is_answered_with_what_came_behind_it(strict):
    """The body in the same packet, and the next request."""
    asked = request("POST /v1/audio/speech", {"input": "hello", "response_format": "wav"})
    end = asked.index(b"\r\n\r\n") + 3
    with connected(strict.port) as connection:
        for start in range(0, end, 40):
            connection.sendall(asked[start : min(start + 40, end)])
            time.sleep(0.01)
        connection.sendall(asked[end:] + LAST)
        assert everything(connection).count(b"HTTP/1.1 200") == 2


@pytest.mark.parametrize("sent", [HALF + b"a" * (20 << 10), b"\x16\x03\x01 is no HTTP"])
def test_what_is_no_head_of_ours_is_refused_at_once(tmp_path, sent):
    patient = replace(FEW, head_seconds=60.0)
    with running(settings_in(tmp_path), connections=patient) as service:
        with connected(service.port, sent) as connection:
            assert everything(connection).startswith(b"HTTP/1.1 400")
        assert closed_by_it(service, "not_http") == 1


def test_idle_connections_give_way_to_new_ones(strict):
    with contextlib.ExitStack() as held:
        for number in range(60):
            held.enter_context(connected(strict.port, HALF if number % 2 else b""))
        assert alive_seconds(strict.port) < 5
        assert closed_by_it(strict, "too_many")


def test_beyond_the_cap_requests_are_refused_and_probes_are_not(strict):
    """Requests up to the cap are answered: pages that listen to /events."""
    with contextlib.ExitStack() as held:
        for _ in range(20):
            connection = held.enter_context(connected(strict.port, request("GET /events")))
            assert connection.recv(4096).startswith(b"HTTP/1.1 200")
        for path in ("/livez", "/readyz", "/metrics"):
            assert strict.client.get(path).status_code == 200, path
        answer = strict.client.get("/status")
        assert refused(answer) == (503, "too_many_connections")
        assert int(answer.headers["retry-after"]) >= 1
        code = {"code": "too_many_connections", "status": "503"}
        assert strict.counted("tts_refusals_total", **code) == 1
    strict.wait_until(lambda: strict.client.get("/status").status_code == 200, 20)


KEY = "open sesame"
SPEECH = "POST /v1/audio/speech"
UNREAD = b"".join(request(f"GET {path}") for path in ("/docs", "/page/speak.js")) * 400
# What a client without the key sends, or one that holds its body back, and then no more.
HELD = {
    "no key, no body": request(SPEECH, content_length=10),
    "no key, a part of the body": request(SPEECH, b"{", content_length=10),
    "a wrong key, no body": request(SPEECH, content_length=10, authorization="Bearer x"),
    "no key, chunks": request(SPEECH, content_length=0, transfer_encoding="chunked"),
    "a foreign page, no body": request(SPEECH, content_length=10, origin="http://evil.example"),
    "the key, no route": request("POST /nowhere", content_length=10, authorization=f"Bearer {KEY}"),
    "the key, no body": request(SPEECH, content_length=10, authorization=f"Bearer {KEY}"),
    "no key, nothing read": UNREAD,
}


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    limits = replace(FEW, head_seconds=60.0, stall_seconds=60.0)
    settings = settings_in(tmp_path_factory.mktemp("keyed"), api_key=SecretStr(KEY))
    with running(settings, limits=PATIENT, connections=limits) as service:
        yield service


@pytest.mark.parametrize("kind", HELD)
def test_held_back_requests_lock_out_nobody_with_the_key(keyed, kind):
    """They come from the caller's own address, and outnumber the places of all addresses."""
    with contextlib.ExitStack() as held:
        for _ in range(60):
            connection = held.enter_context(connected(keyed.port))
            connection.settimeout(0.1)
            with contextlib.suppress(OSError):
                connection.sendall(HELD[kind])
        time.sleep(0.3)
        started = time.monotonic()
        # On a new connection: those that rest give way, too.
        asked = request("GET /v1/voices", authorization=f"Bearer {KEY}", connection="close")
        with connected(keyed.port, asked) as connection:
            assert everything(connection).startswith(b"HTTP/1.1 200")
        assert time.monotonic() - started < 2


def test_the_rest_of_a_body_has_as_long_as_a_head(strict):
    with connected(strict.port, request("POST /nowhere", b"{", content_length=10)) as slow:
        started = time.monotonic()
        with contextlib.suppress(ConnectionResetError):
            assert everything(slow).startswith(b"HTTP/1.1 404")
        assert time.monotonic() - started < 20
    assert closed_by_it(strict, "slow_body") == 1
    with connected(strict.port, request("POST /nowhere", b"{", content_length=2)) as connection:
        assert connection.recv(4096).startswith(b"HTTP/1.1 404")
        connection.sendall(b"}" + LAST)
        assert b"HTTP/1.1 200" in everything(connection)
    assert closed_by_it(strict, "slow_body") == 1


def test_a_head_that_arrives_at_once_has_the_same_limit(strict):
    for headers in ({"x": "a" * (20 << 10)}, {f"x-{number}": "a" * 20 for number in range(900)}):
        answer = strict.client.get("/v1/voices", headers=headers)
        assert refused(answer) == (431, "head_too_large")
    assert strict.counted("tts_refusals_total", code="head_too_large", status="431") == 2
    assert strict.client.get("/v1/voices", headers={"x": "a" * (8 << 10)}).status_code == 200


def test_a_stream_ends_with_the_figures_that_a_whole_answer_begins_with(strict):
    def spoken(form: str, version: bytes = b"1.1") -> bytes:
        body = {"input": "hello", "response_format": form}
        asked = request("POST /v1/audio/speech", body, connection="close")
        with connected(strict.port, asked.replace(b"HTTP/1.1", b"HTTP/" + version, 1)) as connection:
            return everything(connection)

    head, _, streamed = spoken("pcm").partition(b"\r\n\r\n")
    assert b"\r\ntrailer: x-cut-pieces, x-faulty-pieces, x-respoken-pieces" in head
    assert streamed.endswith(b"0\r\nx-cut-pieces: 0\r\nx-faulty-pieces: 0\r\nx-respoken-pieces: 0\r\n\r\n")
    assert b"x-faulty-pieces: 0" in spoken("wav").partition(b"\r\n\r\n")[0]
    assert b"x-faulty-pieces: 0" not in spoken("pcm", b"1.0")


def test_whoever_takes_nothing_of_an_answer_is_let_go(strict):
    with connected(strict.port) as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        with contextlib.suppress(OSError):
            for _ in range(400):  # more than the buffers of both sides hold
                slow.sendall(request("GET /openapi.json"))
        strict.wait_until(lambda: closed_by_it(strict, "not_read") == 1, 30)


@pytest.mark.parametrize(("unsent", "dropped"), [([9, 6, 3, 1], []), ([9, 6, 6], ["not_read"])])
def test_a_client_that_reads_a_long_answer_slowly_is_served_to_the_end(unsent, dropped):
    """A body that is sent whole pauses writing once, until its last bytes."""
    closed, timers = [], []

    class Slow(BoundedProtocol):
        counted_connections = SimpleNamespace(
            limits=FEW, forget=lambda connection: None, on_closed=closed.append
        )
        loop = SimpleNamespace(call_later=lambda seconds, callback, *values: later(callback, *values))
        transport = SimpleNamespace(get_write_buffer_size=lambda: unsent.pop(0), abort=lambda: None)

        def __init__(self) -> None:
            """Without uvicorn's."""

    def later(callback, *values):
        timers.append((callback, values))
        return SimpleNamespace(cancel=lambda: None)

    Slow()._limit_stall()
    while unsent:
        callback, values = timers.pop()
        callback(*values)
    assert closed == dropped and bool(timers) == (not dropped)


def test_a_network_of_ipv6_is_one_address():
    assert network_of("2001:db8::1") == network_of("2001:db8::ffff:1") != network_of("2001:db8:1::")
    assert network_of("::ffff:192.0.2.7") == network_of("192.0.2.7") == "192.0.2.7"
    assert network_of("fe80::1%eth0") == network_of("fe80::2%eth0")
    assert network_of("") == ""


def test_open_files_are_raised_and_connections_stay_below_them():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, before[1]), before[1]))
        assert raise_file_limit() == min(before[1], 1 << 16)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    for files in (64, 256, 1_024, 4_096, 65_536):
        limits = limits_within(files)
        assert 8 <= limits.max_per_address <= limits.max_connections <= max(8, files // 2)


@pytest.mark.slow
@pytest.mark.parametrize("sent", [b"", HALF])
def test_two_thousand_held_connections_stop_nobody(tmp_path, sent):
    """Closed connections are replaced while `/livez` is polled. The service runs in another
    process: this one is busy with its sockets."""
    raise_file_limit()
    port = free_port()
    command = ("tests.api.stopped_service", str(tmp_path), str(port), "4")
    with process(*command, port=port, folder=tmp_path):
        stop, held = threading.Event(), list[socket.socket]()

        def hold():
            while not stop.is_set():
                with contextlib.suppress(OSError):
                    held.append(connected(port, sent))
                if len(held) > 2_000:
                    held.pop(0).close()
                    time.sleep(0.005)

        holding = threading.Thread(target=hold)
        holding.start()
        seconds = []
        try:
            end = time.monotonic() + 60
            while len(held) < 2_000 and time.monotonic() < end:
                seconds.append(alive_seconds(port))
                time.sleep(0.02)
            assert len(held) >= 2_000
            for _ in range(30):
                seconds.append(alive_seconds(port))
                time.sleep(0.1)
        finally:
            stop.set()
            holding.join()
            for connection in held:
                connection.close()
    print(f"{len(seconds)} times asked, the slowest {1000 * max(seconds):.0f} ms")
    assert max(seconds) < 1.0
