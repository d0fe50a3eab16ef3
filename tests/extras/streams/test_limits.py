"""Keys, origins and limits of WebSockets: those of HTTP."""

from collections.abc import Iterator

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from extras.common.text_stream import MAX_WAITING_CHARACTERS
from tests.api.conftest import PATIENT, Running, running, settings_in
from tests.extras.streams.conftest import MULTI, OMNI, SINGLE, line

KEY = "correct horse"
PATHS = (MULTI, SINGLE, OMNI)
FOREIGN = {"origin": "https://evil.example"}


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(settings_in(tmp_path_factory.mktemp("locked"), api_key=KEY), limits=PATIENT) as service:
        yield service


def refusal(service: Running, path: str, **headers: str) -> tuple[int, bytes]:
    with pytest.raises(InvalidStatus) as refused, line(service, path, **headers):
        pass
    return refused.value.response.status_code, refused.value.response.body


@pytest.mark.parametrize("path", PATHS)
def test_each_asks_for_the_key(locked, path):
    for headers in ({"authorization": "Bearer wrong"}, {"xi_api_key": "wrong"}):
        status, body = refusal(locked, path, **headers)
        assert status == 401 and b"API key is wrong" in body
    for headers in ({"authorization": f"Bearer {KEY}"}, {"xi_api_key": KEY}):
        with line(locked, path, **headers):
            pass


@pytest.mark.parametrize("path", [MULTI, SINGLE])
def test_the_first_message_may_carry_the_key(locked, path):
    """Pages of browsers cannot send headers."""
    with line(locked, path) as client:
        client.send(text=" ", xi_api_key=KEY)
        client.send(text="Good morning.", flush=True)
        assert client.read()["audio"]
    for wrong in ({"text": "Good morning. "}, {"xi_api_key": "wrong"}, {"xi_api_key": "\ud800"}):
        with line(locked, path) as client:
            client.send(**wrong)
            assert client.read()["code"] == "unauthorized"
            with pytest.raises(ConnectionClosed) as closed:
                client.read()
            assert closed.value.rcvd is not None and closed.value.rcvd.code == 1008


def test_the_third_protocol_takes_it_in_a_header_only(locked):
    assert refusal(locked, OMNI)[0] == 401


@pytest.mark.parametrize("path", PATHS)
def test_a_page_of_another_site_opens_none(service, path):
    status, body = refusal(service, path, **FOREIGN)
    assert status == 403 and b"foreign_origin" in body
    with line(service, path, origin=service.address):
        pass


def test_a_path_without_one_and_a_large_head_are_refused(service):
    assert refusal(service, "/v1/audio/speech")[0] == 404
    assert refusal(service, f"{MULTI}&x={'x' * 7_000}", **{f"x_{n}": "x" * 7_000 for n in range(2)})[0] == 431


def test_refusals_are_counted(service):
    before = service.counted("tts_refusals_total", code="foreign_origin", status="403")
    refusal(service, MULTI, **FOREIGN)
    assert service.counted("tts_refusals_total", code="foreign_origin", status="403") == before + 1


def test_a_part_is_counted_as_a_request(service):
    before = service.counted("tts_requests_total", code="200")
    with line(service, SINGLE) as client:
        client.send(text="Good morning.", flush=True)
        client.send(text="")
        client.heard()
    assert service.counted("tts_requests_total", code="200") == before + 1


def test_more_text_than_may_wait_is_refused(service):
    with line(service, MULTI) as client:
        for _ in range(2 + MAX_WAITING_CHARACTERS // 60_000):
            client.send(text="x" * 60_000, context_id="c")
        assert client.read()["code"] == "too_large"


def test_a_larger_message_closes_the_connection(service):
    with line(service, MULTI) as client:
        client.send(text="x" * 70_000)
        with pytest.raises(ConnectionClosed) as closed:
            client.read()
    assert closed.value.rcvd is not None and closed.value.rcvd.code == 1009


def test_an_open_socket_takes_a_place_among_the_waiting_ones(service):
    connections = service.server.connections
    before = len(connections.waiting)
    with line(service, MULTI) as client:
        service.wait_until(lambda: len(connections.waiting) == before + 1)
        client.send(text="Good morning. " * 40, context_id="c", flush=True)
        client.read()
        assert len(connections.answered) == 1
    service.wait_until(lambda: len(connections.waiting) == before and not connections.answered)
