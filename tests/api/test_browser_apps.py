"""Web pages of other origins: refused unless API_ALLOWED_ORIGINS lists them (CORS).

`api.gate` decides which origins and hosts are allowed; http/test_origins tests it.
"""

from collections.abc import Iterator

import pytest

from tests.api.conftest import Running, running, settings_in
from tests.api.heard import refused

CHAT = "http://localhost:3000"
KEY = "correct-horse"
PREFLIGHT = {
    "Origin": CHAT,
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization,content-type,x-stainless-os",
    "Access-Control-Request-Private-Network": "true",
    "Authorization": "",
}


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service with a key, one allowed page, and one name of this machine."""
    settings = settings_in(tmp_path_factory.mktemp("listed"), api_key=KEY, api_allowed_origins=(CHAT,))
    with running(settings) as service:
        service.client.headers["Authorization"] = f"Bearer {KEY}"
        yield service


def test_a_preflight_of_a_named_page_is_answered_without_a_key(listed):
    """A page of the internet may reach into the network: see
    https://wicg.github.io/private-network-access"""
    answer = listed.client.options("/v1/audio/speech", headers=PREFLIGHT)
    assert answer.status_code == 200
    told = {
        name: answer.headers.get(f"access-control-allow-{name}")
        for name in ("origin", "methods", "headers", "credentials", "private-network")
    }
    assert (told["origin"], told["credentials"], told["private-network"]) == (CHAT, None, "true")
    assert "POST" in told["methods"] and "x-stainless-os" in told["headers"]
    assert "Origin" in answer.headers["vary"]


def test_a_named_page_reads_what_the_headers_say_and_why_it_is_refused(listed):
    """Without these headers, the page would see a refusal as a network error."""
    body = {"input": "hello", "response_format": "wav", "x": 1}
    answer = listed.client.post("/v1/audio/speech", json=body, headers={"Origin": CHAT})
    assert answer.status_code == 200
    told = {name.strip() for name in answer.headers["access-control-expose-headers"].split(",")}
    assert {"X-Ignored-Fields", "X-Model", "X-Request-Id", "Retry-After"} <= told
    asked = {"Origin": CHAT, "Authorization": "Bearer wrong"}
    wrong = listed.client.get("/v1/voices", headers=asked)
    assert refused(wrong) == (401, "unauthorized")
    assert {response.headers["access-control-allow-origin"] for response in (answer, wrong)} == {CHAT}


def test_no_other_page_is_let_in(listed):
    other = {**PREFLIGHT, "Origin": "http://localhost:3001"}
    answers = [listed.client.request(how, "/v1/audio/speech", headers=other) for how in ("OPTIONS", "POST")]
    assert [refused(answer) for answer in answers] == [(403, "foreign_origin")] * 2
    answers.append(listed.client.get("/v1/voices", headers={"Origin": other["Origin"]}))
    assert not any("access-control-allow-origin" in answer.headers for answer in answers)


def test_a_listed_host_needs_no_key(tmp_path_factory):
    settings = settings_in(tmp_path_factory.mktemp("hosts"), api_allowed_hosts=("nas.lan",))
    with running(settings) as service:
        for host, status in (("nas.lan:8005", 200), ("other.lan", 403)):
            assert service.client.get("/status", headers={"Host": host}).status_code == status
