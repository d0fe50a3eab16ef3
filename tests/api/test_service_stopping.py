"""SIGTERM to a real process: `docker stop` kills it ten seconds later."""

import contextlib
import os
import signal
import subprocess
import threading
import time

import httpx
import pytest

from tests.api.heard import refused
from tests.api.raw import connected, process, request
from tests.ports import free_port

TEN_SECONDS = 10.0
OK = b"HTTP/1.1 200"
PAGE = request("GET /events")


def seconds_to_end(service: subprocess.Popen[str]) -> float:
    started = time.monotonic()
    service.send_signal(signal.SIGTERM)
    service.wait(60)
    return time.monotonic() - started


@pytest.mark.slow
def test_open_pages_do_not_hold_the_end_and_who_waits_is_told(tmp_path, monkeypatch):
    """Three pages, a speech longer than the time left, and two requests that wait for its slot."""
    monkeypatch.setenv("FAKE_STEP", "0.05")
    port = free_port()
    answers: list[httpx.Response] = []

    def ask(text, form):
        url = f"http://127.0.0.1:{port}/v1/audio/speech"
        body = {"input": text, "response_format": form}
        with contextlib.suppress(httpx.RemoteProtocolError):  # the stream is cut
            answers.append(httpx.post(url, json=body, timeout=60, trust_env=False))

    command = ("tests.api.stopped_service", str(tmp_path), str(port), "1")
    with process(*command, port=port, folder=tmp_path) as service:
        asking = [threading.Thread(target=ask, args=("s" * 2_000, form)) for form in ("pcm", "wav")]
        asking += [threading.Thread(target=ask, args=("w" * 20, "wav"))]
        for request in asking:
            request.start()
            time.sleep(0.3)
        with contextlib.ExitStack() as pages:
            for _ in range(3):
                assert pages.enter_context(connected(port, PAGE)).recv(64).startswith(OK)
            seconds = seconds_to_end(service)
        for request in asking:
            request.join()
    print(f"ended after {seconds:.1f} s")
    log = (tmp_path / "log").read_text()
    assert seconds < TEN_SECONDS and "Traceback" not in log, log
    assert len(answers) == 2
    for answer in answers:
        assert refused(answer) == (503, "closing")
        assert int(answer.headers["retry-after"]) >= 1


@pytest.mark.parametrize("embedded", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_with_nothing_but_open_pages_it_ends_at_once(tmp_path, monkeypatch, embedded):
    """Also with a client that has sent half of a head.

    embedded: `python -m api` unchanged, with the packaged voice; it ends within docker's ten
    seconds.
    """
    port = free_port()
    monkeypatch.setenv("OUTPUT_DIR", str(tmp_path / "output"))
    monkeypatch.setenv("VOICES_DIR", str(tmp_path / "voices"))
    monkeypatch.setenv("API_PORT", str(port))
    command = ("api",) if embedded else ("tests.api.stopped_service", str(tmp_path), str(port), "1")
    with process(*command, port=port, folder=tmp_path) as service, contextlib.ExitStack() as pages:
        for _ in range(3):
            assert pages.enter_context(connected(port, PAGE)).recv(64).startswith(OK)
        pages.enter_context(connected(port, b"GET /livez HTTP/1.1\r\n"))
        time.sleep(0.1)
        assert seconds_to_end(service) < (TEN_SECONDS if embedded else 5)
        assert service.returncode in (0, -signal.SIGTERM)
    assert not os.path.exists(f"/proc/{service.pid}")
