"""Every kind of child failure: the caller's answer, the reported state, and recovery.

The machine and the child are fake; the loop, frames and processes are real.
"""

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from api.engine.child import ChildOptions
from machine import commands
from machine.devices.health import GpuHealth
from tests.api.conftest import FAKE, NO_GPU, PATIENT, QUICK, Running, running, settings_in
from tests.api.heard import refused
from tests.api.run_folders import write_epoch

GPU = replace(NO_GPU, gpus=(GpuHealth(0, "a GPU of the tests", (9, 0), 24 << 30),))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("!cufft", "gpu_fault"),
        pytest.param("!710", "gpu_fault", marks=pytest.mark.slow),
        ("!memory", "out_of_memory"),
        ("!signal SIGSEGV", "crashed"),
        ("!signal SIGKILL", "killed"),
    ],
)
def test_whoever_spoke_is_told_why_and_it_speaks_again(service, text, code):
    before = service.state.engine.child.pid
    answer = service.say(text)
    assert refused(answer) == (503, code)
    assert int(answer.headers["retry-after"]) > 0
    status = service.status()
    if status["state"] == "restarting":
        assert status["reason_code"] == code and not status["ready"]
        assert service.client.get("/readyz").status_code == 503
    started = time.monotonic()
    service.wait_ready()
    assert time.monotonic() - started < 10
    assert service.say("hello").status_code == 200
    assert service.state.engine.child.pid != before
    status = service.status()
    assert status["state"] == "ready" and status["ready"] and status["restarts"] == 1
    assert service.counted("tts_gpu_worker_restarts_total") == 1
    assert service.counted("tts_requests_total", code="503") == 1


def test_the_log_says_when_the_service_is_ready_and_where(tmp_path, caplog):
    caplog.set_level("INFO", "api")
    settings = replace(settings_in(tmp_path), api_port=8123)
    with running(settings) as service:
        service.wait_ready()
        service.wait_until(lambda: "Ready: http://localhost:8123" in caplog.messages)
        service.say("hello")
        assert caplog.messages.count("Ready: http://localhost:8123") == 1
        service.say("!signal SIGKILL")
        service.wait_ready()
        service.wait_until(lambda: caplog.messages.count("Ready: http://localhost:8123") == 2)


def test_in_a_container_the_published_port_is_named(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(commands, "in_image", lambda: True)
    caplog.set_level("INFO", "api")
    with running(settings_in(tmp_path)) as service:
        service.wait_ready()
        service.wait_until(lambda: "API_PORT in .env" in caplog.text)


def test_a_crash_that_takes_its_time_is_no_kill(service):
    """The service waits for the child's exit: its own SIGKILL would look like the OOM killer's."""
    answer = service.say("!lingers and more")
    assert refused(answer) == (503, "crashed")
    told = answer.json()["detail"]
    # An exception's message may hold a caller's text, so only its class and place are reported.
    assert "exit status 1" in told and "KeyError in fake_child.py" in told
    assert "nothing of a GPU" not in answer.text
    service.wait_ready()


@pytest.mark.slow
def test_a_voice_that_kills_when_it_is_opened_is_not_opened_for_ever(tmp_path, monkeypatch):
    """The newest epoch kills the child: the previous one is served, without further restarts."""
    monkeypatch.setattr("api.runs.following.POLL_SECONDS", 0.1)
    output = tmp_path / "output"
    write_epoch(output, 1)
    with running(settings_in(tmp_path)) as service:
        write_epoch(output, 2, content=b"deadly")
        engine = service.state.engine
        service.wait_until(lambda: engine.history.restarts == 2 and engine.is_ready)
        time.sleep(1.0)
        assert engine.history.restarts == 2 and engine.served_voice.voice.name.startswith("epoch 1 ")
        assert service.say("hello").status_code == 200
        answer = service.client.post("/v1/runs/current/epochs/2/promote")
        assert refused(answer) == (409, "deadly_voice")
        assert "ended the speaking process 2 times" in answer.json()["detail"]
        write_epoch(output, 3)
        service.wait_until(lambda: engine.served_voice.voice.name.startswith("epoch 3 "))


@pytest.mark.parametrize(
    ("name", "voice", "code", "told", "spoken"),
    [
        ("deadly.pt", "demo", "voice_refused", "restart. The voice demo speaks instead.", 200),
        # Uploaded voices speak with it, so a proxy that polls /readyz must keep sending requests.
        ("mute.pt", "mute.pt", "no_reference", "use an uploaded voice", 409),
    ],
)
def test_a_voice_that_cannot_speak_leaves_the_service_ready_and_says_why(
    tmp_path, name, voice, code, told, spoken
):
    path = tmp_path / name
    path.write_bytes(b"deadly" if name == "deadly.pt" else b"")
    with running(settings_in(tmp_path, voice=str(path))) as service:
        assert service.client.get("/readyz").status_code == 200
        status = service.status()
        assert (status["state"], status["reason_code"]) == ("degraded", code)
        assert voice in status["voice"] and told in status["message"]
        answer = service.say("hello")
        assert answer.status_code == spoken
        assert spoken == 200 or refused(answer) == (409, code)


@pytest.mark.parametrize("stopped", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_hang_is_ended(tmp_path, stopped):
    """And the next child ends with the service."""
    with running(settings_in(tmp_path), limits=replace(QUICK, hang_seconds=1.5)) as service:
        before = service.state.engine.child.pid
        if stopped:
            os.kill(before, signal.SIGSTOP)
            service.wait_until(lambda: service.state.engine.history.last_code == "hang")
        else:
            assert refused(service.say("!hang")) == (503, "hang")
        service.wait_ready()
        child = service.state.engine.child.pid
        assert child != before and service.say("hello").status_code == 200
    assert not Path(f"/proc/{child}").exists()


@pytest.mark.parametrize(("word", "told"), [("!nan", (503, "not_finite")), ("!internal", (500, "internal"))])
def test_what_may_be_the_process_is_told_and_the_service_tries_itself_at_once(service, word, told):
    spoken = service.state.engine.last_spoken
    assert refused(service.say(word)) == told
    service.wait_until(lambda: (service.state.engine.last_spoken or 0) > spoken)
    assert service.client.get("/readyz").json()["ready"]
    assert service.state.engine.history.restarts == 0


def test_an_input_that_killed_twice_is_refused_and_others_are_not(service):
    deadly = "!signal SIGSEGV"
    for _ in range(2):
        assert service.say(deadly).status_code == 503
        service.wait_ready()
    answer = service.say(deadly)
    assert refused(answer) == (422, "deadly_input")
    assert service.say("hello").status_code == 200
    assert service.state.engine.history.restarts == 2


def test_a_bystander_is_told_too_and_is_no_suspect_for_ever(service):
    with ThreadPoolExecutor(1) as pool:
        bystander = pool.submit(service.say, "x" * 400)
        service.wait_until(lambda: bool(service.state.engine.requests.speaking))
        assert service.say("!cufft").status_code == 503
        assert refused(bystander.result()) == (503, "gpu_fault")
    service.wait_ready()
    assert service.say("x" * 400).status_code == 200
    assert len(service.state.engine.requests.deaths) == 1


def test_who_waits_goes_on_waiting_while_the_child_is_replaced(service):
    with ThreadPoolExecutor(7) as pool:
        answers = [answer.status_code for answer in pool.map(service.say, ["!cufft", *["y" * 30] * 6])]
    # At most four were speaking when it died; the next child spoke the others.
    assert set(answers) <= {200, 503} and answers.count(503) <= 4


@pytest.fixture
def on_gpu(tmp_path: Path) -> Iterator[Running]:
    how = ChildOptions(module=FAKE, look_at_machine=lambda: GPU)
    with running(settings_in(tmp_path), how) as service:
        yield service


@pytest.mark.slow
def test_after_three_restarts_on_the_gpu_it_is_the_cpu_and_says_why(on_gpu):
    assert on_gpu.status()["execution_provider"] == "torch:cuda"
    for word in ("one", "two", "three", "four"):  # digits do not make another input
        status = on_gpu.status()
        assert status["device"] == "cuda:0" and status["state"] == "ready"
        assert on_gpu.say(f"!cufft {word}").status_code == 503
        on_gpu.wait_ready()
    status = on_gpu.status()
    assert status["device"] == "cpu" and status["state"] == "degraded" and status["ready"]
    assert (status["execution_provider"], status["reason_code"]) == ("torch:cpu", "gpu_fault")
    assert "4 times" in status["message"] and "CUFFT_INVALID_SIZE" in status["message"]
    fallback = {"from": "cuda:0", "reason_code": "gpu_fault", "to": "cpu"}
    assert on_gpu.counted("tts_fallback_total", **fallback) == 1
    assert on_gpu.counted("tts_device_info", device="cpu", provider="torch:cpu") == 1
    assert on_gpu.say("hello").status_code == 200


def test_a_child_that_never_starts_is_told_and_asks_for_patience(tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_BROKEN", "1")
    limits = replace(QUICK, deadline_seconds=1.0)
    with running(settings_in(tmp_path), limits=limits, ready=False) as service:
        service.wait_until(lambda: service.state.engine.history.restarts >= 1)
        status = service.status()
        assert status["state"] == "starting" and status["reason_code"] == "crashed"
        assert "RuntimeError in fake_child.py" in status["message"]
        assert service.client.get("/livez").status_code == 200
        answer = service.client.get("/readyz")
        assert answer.status_code == 503 and "RuntimeError in" in answer.json()["message"]
        assert refused(service.say("hello")) == (503, "deadline")


def test_requests_are_refused_in_time_while_no_child_can_be_started(service, monkeypatch):
    engine = service.state.engine
    engine.limits = replace(PATIENT, deadline_seconds=1.0)

    async def cannot_start(*arguments):
        raise OSError("Cannot allocate memory")

    monkeypatch.setattr("api.engine.child.SpeakingProcess.start", cannot_start)
    assert service.say("!signal SIGKILL").status_code == 503
    started = time.monotonic()
    assert refused(service.say("hello")) == (503, "deadline")
    assert time.monotonic() - started < 5
