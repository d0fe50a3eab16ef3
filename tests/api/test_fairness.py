"""Long texts beside short ones, limits by caller, and what is counted of refusals."""

import contextlib
import logging
import re
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from api.app import how_of
from api.engine.options import ChildOptions
from tests.api.conftest import FAKE, NO_GPU, QUICK, Running, running, settings_in
from tests.api.routes.test_speech_routes import wanted


def test_a_short_text_is_spoken_between_the_pieces_of_long_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_PIECE", "20")
    with running(settings_in(tmp_path), limits=replace(QUICK, slots=2, deadline=60.0)) as service:
        service.wait_ready()
        with ThreadPoolExecutor(2) as pool:
            texts = ["a" * 1_500, "b" * 1_500]
            asked = [pool.submit(service.say, text, response_format="pcm") for text in texts]
            service.wait_until(lambda: len(service.parts.engine.waiting.speaking) == 2)
            assert service.say("hello").status_code == 200
            assert not any(one.done() for one in asked)
            found = [one.result().content for one in asked]
        assert found == [wanted(text, 0) for text in texts]


def test_a_long_text_that_is_left_between_two_pieces_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_PIECE", "3")
    with running(settings_in(tmp_path), limits=replace(QUICK, slots=1, deadline=60.0)) as service:
        service.wait_ready()
        body = {"input": "z" * 3_000, "response_format": "pcm"}
        with ThreadPoolExecutor(1) as pool:
            for _ in range(3):
                with service.client.stream("POST", "/v1/audio/speech", json=body) as answer:
                    next(answer.iter_raw())
                    other = pool.submit(service.say, "b" * 60)
                assert other.result().status_code == 200
        engine = service.parts.engine
        service.wait_until(lambda: not engine.spoken and not engine.waiting.speaking, 5)
        assert not engine.waiting.queue


@pytest.mark.slow
def test_it_is_ready_while_it_speaks_one_long_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_STEP", "0.01")
    limits = replace(QUICK, ready=1.0, micro=0.5)
    with running(settings_in(tmp_path), limits=limits) as service:
        service.wait_ready()
        asked = threading.Thread(target=service.say, args=("l" * 400,))
        asked.start()
        service.wait_until(lambda: bool(service.parts.engine.waiting.speaking))
        while asked.is_alive():
            answer = service.client.get("/readyz")
            assert answer.status_code == 200, answer.text
            time.sleep(0.1)
        asked.join()


def test_an_unchecked_key_is_nobodys_own_bucket(tmp_path: Path) -> None:
    with running(settings_in(tmp_path, api_requests_per_minute=3)) as service:
        service.wait_ready()
        body = {"input": "x", "response_format": "wav"}
        found = [
            service.client.post(
                "/v1/audio/speech", json=body, headers={"authorization": f"Bearer {number}"}
            ).status_code
            for number in range(5)
        ]
        assert found == [200, 200, 200, 429, 429]


def test_every_refusal_is_counted(tmp_path: Path) -> None:
    with running(settings_in(tmp_path, api_requests_per_minute=2, api_strict=True)) as service:
        service.wait_ready()
        service.say("")
        service.say("x", surprise=1)
        service.say("x", model="gpt-9")
        service.say("x")
        service.say("x")
        service.client.get("/v1/runs/nothing/metrics")
        service.client.get("/status", headers={"host": "evil.example"})
        text = service.client.get("/metrics").text
    assert counted(text, "tts_requests_total", code="422") == 2
    assert counted(text, "tts_requests_total", code="429") >= 1
    assert counted(text, "tts_refusals_total", code="invalid_request", status="422") == 2
    assert counted(text, "tts_refusals_total", code="rate_limited", status="429") >= 1
    assert counted(text, "tts_refusals_total", code="no_run", status="404") == 1
    assert counted(text, "tts_refusals_total", code="foreign_host", status="403") == 1


def test_a_full_queue_is_counted_each_time(tmp_path: Path) -> None:
    with running(settings_in(tmp_path), limits=replace(QUICK, slots=1, queue=1)) as service:
        service.wait_ready()
        with ThreadPoolExecutor(8) as pool:
            texts = [f"{number}" * 300 for number in range(8)]
            found = [one.status_code for one in pool.map(service.say, texts)]
        text = service.client.get("/metrics").text
    assert counted(text, "tts_requests_total", code="503") == found.count(503) > 0


def test_uploads_beyond_the_places_are_refused_and_counted(service: Running) -> None:
    port = int(service.address.rpartition(":")[2])
    head = (
        b"POST /v1/voices HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n"
        b"Content-Type: multipart/form-data; boundary=x\r\n\r\n--x\r\n"
    )
    with contextlib.ExitStack() as held:
        for _ in range(8):  # each has a place as long as its body is on the way
            one = held.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
            one.sendall(head)
        files = {"file": ("anna.wav", b"RIFF")}

        def refused() -> bool:
            answer = service.client.post("/v1/voices", files=files, data={"name": "Anna"})
            full = answer.status_code == 503
            assert not full or (answer.json()["code"], answer.headers["retry-after"]) == (
                "uploads_full",
                "5",
            )
            return full

        service.wait_until(refused, 10)  # the eighth may still be on its way to the service
        text = service.client.get("/metrics").text
    assert counted(text, "tts_refusals_total", code="uploads_full", status="503") == 1


def counted(text: str, name: str, **labels: str) -> float:
    words = ",".join(f'{key}="{value}"' for key, value in labels.items())
    found = re.search(rf"^{re.escape(f'{name}{{{words}}}')} (\S+)$", text, re.MULTILINE)
    return float(found[1]) if found else 0.0


def test_the_backend_that_computes_is_told_to_prometheus(tmp_path: Path) -> None:
    how = ChildOptions(command=FAKE, look=lambda: NO_GPU, backend="onnx")
    with running(settings_in(tmp_path), how) as service:
        service.wait_ready()
        text = service.client.get("/metrics").text
        assert 'tts_device_info{device="cpu",provider="CPUExecutionProvider"} 1.0' in text
        assert "torch" not in text
        assert service.client.get("/status").json()["execution_provider"] == "CPUExecutionProvider"


def test_a_piece_that_ran_to_the_limit_is_told(
    service: Running, caplog: pytest.LogCaptureFixture
) -> None:
    """In a header where the sound is sent whole, in the last event, in the log and the metrics."""
    caplog.set_level(logging.WARNING, "api")
    assert service.say("hello").headers["x-cut-pieces"] == "0"
    answer = service.say("!limit")
    assert answer.headers["x-cut-pieces"] == "1"
    # The service tells when the answer is sent: the client may have it a moment earlier.
    service.wait_until(lambda: answer.headers["x-request-id"] in caplog.text, 10)
    streamed = service.say("!limit", response_format="pcm")
    assert "x-cut-pieces" not in streamed.headers
    service.wait_until(lambda: streamed.headers["x-request-id"] in caplog.text, 10)
    events = service.say("!limit", response_format="pcm", stream_format="sse")
    assert '"cut_pieces": 1' in events.text.split("\n\n")[-2]
    service.wait_until(lambda: counted_plain(service) == 3, 10)
    assert "!limit" not in caplog.text


def test_a_piece_that_did_not_end_well_is_told(
    service: Running, caplog: pytest.LogCaptureFixture
) -> None:
    """In headers where the sound is sent whole, in the last event, in the log and the metrics."""
    caplog.set_level(logging.WARNING, "api")
    good = service.say("hello").headers
    assert (good["x-faulty-pieces"], good["x-respoken-pieces"]) == ("0", "0")
    again = service.say("!again").headers
    assert (again["x-faulty-pieces"], again["x-respoken-pieces"]) == ("0", "1")
    broken = service.say("!broken")
    assert broken.headers["x-faulty-pieces"] == "unfinished"
    service.wait_until(lambda: broken.headers["x-request-id"] in caplog.text, 10)
    assert "after 57% of the text" in caplog.text and "!broken" not in caplog.text
    events = service.say("!broken", response_format="pcm", stream_format="sse")
    assert '"ending": "unfinished"' in events.text.split("\n\n")[-2]
    metrics = service.client.get("/metrics").text
    assert counted(metrics, "tts_faulty_pieces_total", ending="unfinished") >= 1
    assert "tts_respoken_pieces_total" in metrics


def counted_plain(service: Running) -> float:
    found = re.search(r"^tts_cut_pieces_total (\S+)$", service.client.get("/metrics").text, re.M)
    return float(found[1]) if found else 0.0


@pytest.mark.slow
def test_short_texts_beside_four_of_4096_characters(tmp_path: Path) -> None:
    """With the voice in the package: each is answered within ten seconds, and it is ready."""
    settings = settings_in(tmp_path)
    how = replace(how_of(settings), look=lambda: NO_GPU, threads=2)
    limits = replace(QUICK, slots=None, queue=32, deadline=30.0, hang=60.0)
    long = ("The old man walked along the river and looked at the water. " * 69)[:4096]
    with running(settings, how, limits) as service:
        service.wait_ready()
        stop = threading.Event()

        def speak(seed: int) -> None:
            body = {"input": long, "response_format": "pcm", "seed": seed}
            with service.client.stream("POST", "/v1/audio/speech", json=body) as answer:
                for _ in answer.iter_raw():
                    if stop.is_set():
                        return

        seconds = []
        with ThreadPoolExecutor(4) as pool:
            for seed in range(4):
                pool.submit(speak, seed)
            service.wait_until(lambda: len(service.parts.engine.waiting.speaking) == 4)
            try:
                for seed in range(8):
                    started = time.monotonic()
                    assert service.say("Good morning.", seed=seed).status_code == 200
                    seconds.append(time.monotonic() - started)
                    assert service.client.get("/readyz").status_code == 200
            finally:
                stop.set()
    print([round(one, 1) for one in seconds])
    assert max(seconds) < 10
