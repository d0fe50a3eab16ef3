"""docs/scale-out.md on loopback: two replicas behind a proxy share voices and promotion."""

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from tests.api.conftest import Running, running, settings_in
from tests.api.run_folders import write_epoch
from tests.api.sounds import file_of, speech, upload


@pytest.fixture
def replicas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Running, Running]]:
    monkeypatch.setattr("api.runs.following.POLL_SECONDS", 0.1)
    for epoch in (1, 2):
        write_epoch(tmp_path / "output", epoch)
    with running(settings_in(tmp_path)) as service, running(settings_in(tmp_path)) as two:
        yield service, two


@pytest.fixture
def proxied(replicas: tuple[Running, Running]) -> Iterator[Callable[[str], int]]:
    """proxied(text): the status of a speech request through a proxy in front of both replicas."""
    proxy = Proxy([replica.address for replica in replicas])
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{proxy.server_port}/v1/audio/speech"

    def say(text: str) -> int:
        body = {"input": text, "response_format": "wav"}
        return httpx.post(address, json=body, timeout=60, trust_env=False).status_code

    yield say
    proxy.shutdown()
    proxy.server_close()


class Proxy(ThreadingHTTPServer):
    """Alternates between replicas, and tries the next one if it cannot connect.

    A request that reached a replica is never sent to another: it may have killed the process there.
    """

    daemon_threads = True

    def __init__(self, addresses: list[str]) -> None:
        self.addresses = addresses
        self.turn = 0
        super().__init__(("127.0.0.1", 0), Passing)


class Passing(BaseHTTPRequestHandler):
    server: Proxy

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.turn += 1
        turn = self.server.turn
        for number in range(2):
            address = self.server.addresses[(turn + number) % 2]
            try:
                kind = {"content-type": self.headers["content-type"]}
                answer = httpx.post(
                    address + self.path, content=body, headers=kind, timeout=30, trust_env=False
                )
            except httpx.ConnectError:
                continue
            break
        self.send_response(answer.status_code)
        self.send_header("content-length", str(len(answer.content)))
        self.end_headers()
        self.wfile.write(answer.content)

    def log_message(self, *_: object) -> None:
        """Logs nothing."""


def test_a_voice_and_a_promotion_at_one_are_the_others_too(replicas):
    first, second = replicas
    made = upload(first, file_of(speech())).json()
    assert second.client.get(f"/v1/voices/{made['id']}").json() == made
    assert second.say("hello", voice=made["id"]).status_code == 200
    first.client.post("/v1/runs/current/epochs/1/promote")
    served = {"run": "current", "epoch": 1, "candidate": "epoch_1"}
    second.wait_until(lambda: second.client.get("/v1/runs").json()["served"] == served)
    second.client.delete("/v1/promotion")
    first.wait_until(lambda: first.client.get("/v1/runs").json()["served"]["epoch"] == 2)
    second.client.delete(f"/v1/voices/{made['id']}")
    assert first.say("hello", voice=made["id"]).status_code == 404


def test_a_child_that_dies_at_one_is_not_noticed_behind_the_proxy(replicas, proxied):
    first, second = replicas
    statuses = [proxied(f"number {number}") for number in range(3)]
    assert first.say("!signal SIGKILL").status_code == 503
    statuses += [proxied(f"number {number}") for number in range(3, 10)]
    assert statuses == [200] * 10
    assert first.state.engine.history.restarts == 1 and second.state.engine.history.restarts == 0


def test_an_input_that_ends_the_process_visits_one_replica(replicas, proxied):
    """With `non_idempotent` and http_503 the proxy sent it to every replica."""
    assert proxied("!signal SIGSEGV") == 503
    assert sorted(replica.state.engine.history.restarts for replica in replicas) == [0, 1]


def test_the_documented_proxy_passes_no_request_on_that_was_sent():
    text = (Path(__file__).parents[2] / "docs/scale-out.md").read_text(encoding="utf-8")
    (line,) = [line for line in text.splitlines() if "proxy_next_upstream" in line]
    assert line.split("#")[0].split() == ["proxy_next_upstream", "error", "timeout;"]
