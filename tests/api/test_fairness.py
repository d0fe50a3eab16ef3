"""Long texts next to short ones, limits per caller, and the count of refusals."""

import contextlib
import logging
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import httpx
import pytest

from api.app import build, engine_limits
from api.engine.child import ChildOptions
from tests.api.conftest import FAKE, NO_GPU, QUICK, Running, running, settings_in
from tests.api.heard import refused, said
from tests.api.raw import connected, request
from tests.api.sounds import upload
from xtts.inference.compute_config import ComputeConfig

BODY = {"input": "Good morning.", "response_format": "pcm"}
TWO = replace(QUICK, requests_per_minute=2)
LONG = ("The old man walked along the river and looked at the water. " * 69)[:4096]


def client_at(service: str, address: str) -> httpx.Client:
    """A client whose connections come from this address of loopback."""
    transport = httpx.HTTPTransport(local_address=address)
    return httpx.Client(base_url=service, timeout=120.0, trust_env=False, transport=transport)


@pytest.mark.parametrize(("low_memory", "slots"), [(True, 2), (False, None)])
def test_with_little_memory_two_requests_at_most_are_spoken_in_parallel(tmp_path, low_memory, slots):
    state = build(settings_in(tmp_path, low_memory=low_memory)).state.service
    assert state.engine.limits.slots == slots


def test_a_short_text_is_spoken_between_the_pieces_of_long_ones(tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_PIECE", "20")
    with running(settings_in(tmp_path), limits=replace(QUICK, slots=2, deadline_seconds=60.0)) as service:
        with ThreadPoolExecutor(2) as pool:
            texts = ["a" * 1_500, "b" * 1_500]
            asked = [pool.submit(service.say, text, response_format="pcm") for text in texts]
            service.wait_until(lambda: len(service.state.engine.requests.speaking) == 2)
            assert service.say("hello").status_code == 200
            assert not any(future.done() for future in asked)
            sounds = [future.result().content for future in asked]
        assert sounds == [said(text, 0) for text in texts]


def test_a_long_text_that_is_left_between_two_pieces_is_forgotten(tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_PIECE", "3")
    with running(settings_in(tmp_path), limits=replace(QUICK, slots=1, deadline_seconds=60.0)) as service:
        body = {"input": "z" * 3_000, "response_format": "pcm"}
        with ThreadPoolExecutor(1) as pool:
            for _ in range(3):
                with service.client.stream("POST", "/v1/audio/speech", json=body) as answer:
                    next(answer.iter_raw())
                    other = pool.submit(service.say, "b" * 60)
                assert other.result().status_code == 200
        engine = service.state.engine
        service.wait_until(lambda: not list(engine.requests), 5)
        assert not engine.requests.queue


@pytest.mark.slow
def test_it_is_ready_while_it_speaks_one_long_text(tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_STEP", "0.01")
    limits = replace(QUICK, ready_seconds=1.0, self_test_seconds=0.5)
    with running(settings_in(tmp_path), limits=limits) as service, ThreadPoolExecutor(1) as pool:
        asked = pool.submit(service.say, "l" * 400)
        service.wait_until(lambda: bool(service.state.engine.requests.speaking))
        while not asked.done():
            assert service.client.get("/readyz").status_code == 200
            time.sleep(0.1)


def test_every_refusal_is_counted(tmp_path):
    with running(settings_in(tmp_path, api_strict=True), limits=TWO) as service:
        for text, more in (("", {}), ("x", {"surprise": 1}), ("x", {"model": "gpt-9"})):
            service.say(text, **more)
        service.say("x"), service.say("x")
        service.client.get("/v1/runs/nothing/metrics")
        service.client.get("/status", headers={"host": "evil.example"})
        assert service.counted("tts_requests_total", code="422") == 2
        assert service.counted("tts_requests_total", code="429") >= 1
        for code, status in (("invalid_request", 422), ("no_run", 404), ("foreign_host", 403)):
            count = service.counted("tts_refusals_total", code=code, status=str(status))
            assert count == (2 if status == 422 else 1)
        assert service.counted("tts_refusals_total", code="rate_limited", status="429") >= 1


def test_uploads_beyond_the_places_are_refused_and_counted(service):
    kind = "multipart/form-data; boundary=x"
    begun = request("POST /v1/voices", b"--x\r\n", content_length=1000, content_type=kind)
    with contextlib.ExitStack() as held:
        for _ in range(8):  # each holds a place until its body has arrived
            held.enter_context(connected(service.port, begun))

        def full():
            answer = upload(service, b"RIFF")
            told = (answer.json()["code"], answer.headers.get("retry-after"))
            assert answer.status_code != 503 or told == ("uploads_full", "5")
            return answer.status_code == 503

        service.wait_until(full, 10)  # the eighth may still be in transit
        assert service.counted("tts_refusals_total", code="uploads_full", status="503") == 1
    service.wait_until(lambda: not full(), 10)  # their places are free again


def test_an_upload_that_ends_with_a_fault_frees_its_place(service, monkeypatch):
    """Eight faults would otherwise keep every upload out until a restart."""

    def break_off(*_: object, **__: object) -> None:
        raise RuntimeError("a fault of the route")

    monkeypatch.setattr(service.state, "check_rate", break_off)
    for _ in range(9):
        with contextlib.suppress(httpx.TransportError):  # a fault may close the connection
            assert upload(service, b"RIFF").status_code == 500
    monkeypatch.undo()
    answers = list[int]()
    for _ in range(3):  # the client may still hold a connection that a fault has closed
        with contextlib.suppress(httpx.TransportError):
            answers.append(upload(service, b"RIFF").status_code)
    assert answers and not {500, 503} & set(answers)


def test_the_backend_that_computes_is_told_to_prometheus(tmp_path):
    how = ChildOptions(ComputeConfig(backend="onnx"), FAKE, lambda: NO_GPU)
    with running(settings_in(tmp_path), how) as service:
        provider = "CPUExecutionProvider"
        assert service.counted("tts_device_info", device="cpu", provider=provider) == 1
        assert "torch" not in service.metrics()
        assert service.status()["execution_provider"] == provider


@pytest.mark.parametrize(
    ("text", "header", "value", "event", "metric"),
    [
        ("!limit", "x-cut-pieces", "1", '"cut_pieces": 1', "tts_cut_pieces_total"),
        (
            "!broken",
            "x-faulty-pieces",
            "unfinished",
            '"ending": "unfinished"',
            'tts_faulty_pieces_total{ending="unfinished"}',
        ),
    ],
)
def test_a_piece_that_did_not_end_well_is_told(service, caplog, text, header, value, event, metric):
    """In the headers of a complete answer, in the last event, in the log and in the metrics."""
    caplog.set_level(logging.WARNING, "api")
    assert service.say("hello").headers[header] == "0"
    again = service.say("!again").headers
    assert (again["x-faulty-pieces"], again["x-respoken-pieces"]) == ("0", "1")
    whole = service.say(text)
    assert whole.headers[header] == value
    streamed = service.say(text, response_format="pcm")
    assert header not in streamed.headers
    events = service.say(text, response_format="pcm", stream_format="sse")
    assert event in events.text.split("\n\n")[-2]
    # The service logs when the answer is sent: the client may have it a moment earlier.
    for answer in (whole, streamed, events):
        service.wait_until(lambda one=answer: one.headers["x-request-id"] in caplog.text, 10)
    assert f"{metric} 3.0" in service.metrics()
    assert text not in caplog.text


def test_a_caller_is_an_address_and_not_what_a_header_makes_up(tmp_path):
    """A caller is the address in a header from a proxy on this machine, IPv6 by /64.

    An invalid address counts as the proxy itself, and headers from other peers are ignored.
    """
    with running(settings_in(tmp_path), limits=TWO) as service:

        def asked(forwarded, address="127.0.0.1"):
            with client_at(service.address, address) as client:
                headers = {"x-forwarded-for": forwarded}
                return client.post("/v1/audio/speech", json=BODY, headers=headers).status_code

        assert [asked(f"zz{number}") for number in range(4)] == [200, 200, 429, 429]
        assert [asked(f"192.0.2.{number}") for number in range(3)] == [200] * 3
        assert [asked(f"2001:db8::{number}") for number in range(3)] == [200, 200, 429]
        assert asked("2001:db8:0:1::1") == 200
        statuses = [asked(f"192.0.2.{number}", "127.0.0.2") for number in range(9, 12)]
        assert statuses == [200, 200, 429]


def test_a_long_text_counts_for_more_than_one_request(tmp_path):
    """A key that is not checked gives no separate quota."""
    with running(settings_in(tmp_path), limits=replace(QUICK, requests_per_minute=8)) as service:
        assert service.say("x" * 1_500).status_code == 200  # counts as six
        answers = []
        for number in range(4):
            service.client.headers["authorization"] = f"Bearer {number}"
            answers.append(service.say("x"))
        assert [answer.status_code for answer in answers] == [200, 200, 429, 429]
        assert 1 <= int(answers[-1].headers["retry-after"]) <= 20
        with client_at(service.address, "127.0.0.2") as other:
            assert other.post("/v1/audio/speech", json=BODY).status_code == 200


def test_one_caller_who_fills_the_queue_keeps_nobody_out(tmp_path, monkeypatch):
    """The service stays ready all the while, because it speaks."""
    monkeypatch.setenv("FAKE_STEP", "0.01")
    monkeypatch.setenv("FAKE_PIECE", "20")
    limits = replace(QUICK, slots=2, queue=4, deadline_seconds=60.0)
    with running(settings_in(tmp_path), limits=limits) as service:
        engine = service.state.engine
        with ThreadPoolExecutor(7) as pool:
            asked = [pool.submit(service.say, f"{number}" * 800) for number in range(7)]
            service.wait_until(lambda: any(future.done() for future in asked))
            (answer,) = [future.result() for future in asked if future.done()]
            assert refused(answer) == (503, "queue_full")
            with client_at(service.address, "127.0.0.2") as other:
                for _ in range(3):
                    assert len(list(engine.requests)) >= 6
                    assert service.client.get("/readyz").status_code == 200
                    started = time.monotonic()
                    assert other.post("/v1/audio/speech", json=BODY).status_code == 200
                    assert time.monotonic() - started < 3
            for spoken in list(engine.requests):
                engine.cancel(spoken)


@contextlib.contextmanager
def overloaded(service: Running, num_stalled: int) -> Iterator[list[int]]:
    """Overload: four callers with 36 concurrent texts of 4,096 characters each.

    They repeat refused requests after the Retry-After. `num_stalled` more clients send such a text
    and never read. Yields the growing list of statuses of the callers' requests.
    """
    stop, statuses = threading.Event(), list[int]()
    body = {"input": LONG, "response_format": "pcm"}

    def speak(address: str, seed: int) -> None:
        with client_at(service.address, address) as client:
            while not stop.is_set():
                asked = {**body, "seed": seed}
                with client.stream("POST", "/v1/audio/speech", json=asked) as answer:
                    statuses.append(answer.status_code)
                    for _ in answer.iter_raw():
                        if stop.is_set():
                            return
                stop.wait(int(answer.headers.get("retry-after", 0)))

    threads = [
        threading.Thread(target=speak, args=(f"127.0.0.{caller}", seed), daemon=True)
        for caller in range(1, 5)
        for seed in range(36)
    ]
    with contextlib.ExitStack() as stalled:
        for thread in threads:
            thread.start()
        for number in range(num_stalled):
            connection = stalled.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.bind((f"127.0.0.{5 + number % 4}", 0))
            connection.connect(("127.0.0.1", service.port))
            connection.sendall(request("POST /v1/audio/speech", body))
        try:
            yield statuses
        finally:
            stop.set()
    for thread in threads:
        thread.join(30)


@contextlib.contextmanager
def readiness(service: Running) -> Iterator[list[int]]:
    """Polls /readyz four times a second until the block ends; yields the list of statuses."""
    statuses, ended = list[int](), threading.Event()

    def ask() -> None:
        with client_at(service.address, "127.0.0.10") as client:
            while not ended.wait(0.25):
                statuses.append(client.get("/readyz").status_code)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    try:
        yield statuses
    finally:
        ended.set()
        asking.join(30)


@pytest.mark.slow
@pytest.mark.parametrize("num_stalled", [0, 40])
def test_short_texts_beside_four_callers_of_36_long_ones(tmp_path, num_stalled):
    """With the packaged voice and the default limits.

    Each is answered within ten seconds, none is refused, and the service stays ready.
    """
    settings = settings_in(tmp_path)
    with (
        running(settings, limits=engine_limits(settings), threads=2) as service,
        overloaded(service, num_stalled) as statuses,
    ):
        service.wait_until(lambda: len(statuses) >= 8)
        seconds, began = [], time.monotonic()
        with client_at(service.address, "127.0.0.9") as client, readiness(service) as ready:
            for seed in range(20):
                started = time.monotonic()
                answer = client.post("/v1/audio/speech", json={**BODY, "seed": seed})
                assert answer.status_code == 200, answer.text
                seconds.append(time.monotonic() - started)
                time.sleep(max(0.0, began + 4.0 * (seed + 1) - time.monotonic()))
    print("seconds", sorted(round(second, 1) for second in seconds), Counter(statuses))
    assert max(seconds) < 10
    assert len(ready) > 20 and set(ready) == {200}
