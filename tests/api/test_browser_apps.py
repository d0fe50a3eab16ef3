"""Web pages of other origins: shut out unless API_ALLOWED_ORIGINS names them (CORS)."""

from collections.abc import Iterator

import pytest

from tests.api.conftest import Running, running, settings_in
from tests.api.heard import refused

CHAT = "http://localhost:3000"
KEY = "correct-horse"
PREFLIGHT = {
    "Origin": CHAT, "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization,content-type,x-stainless-os",
}  # fmt: skip


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """With a key, and one page that may ask."""
    settings = settings_in(
        tmp_path_factory.mktemp("listed"), api_key=KEY, api_allowed_origins=(CHAT,)
    )
    with running(settings) as found:
        found.client.headers["Authorization"] = f"Bearer {KEY}"
        yield found


def test_a_preflight_is_answered_without_a_key(listed: Running) -> None:
    asked = {**PREFLIGHT, "Authorization": ""}
    answer = listed.client.options("/v1/audio/speech", headers=asked)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == CHAT
    assert "POST" in answer.headers["access-control-allow-methods"]
    assert "x-stainless-os" in answer.headers["access-control-allow-headers"]
    assert "access-control-allow-credentials" not in answer.headers
    assert "Origin" in answer.headers["vary"]


def test_a_page_of_the_internet_may_reach_into_the_network_where_it_is_named(
    listed: Running,
) -> None:
    """https://wicg.github.io/private-network-access"""
    asked = {**PREFLIGHT, "Access-Control-Request-Private-Network": "true"}
    answer = listed.client.options("/v1/audio/speech", headers=asked)
    assert answer.headers["access-control-allow-private-network"] == "true"


def test_a_named_page_speaks_and_reads_what_the_headers_say(listed: Running) -> None:
    body = {"input": "hello", "response_format": "wav", "x": 1}
    answer = listed.client.post("/v1/audio/speech", json=body, headers={"Origin": CHAT})
    assert answer.status_code == 200 and answer.headers["access-control-allow-origin"] == CHAT
    told = {name.strip() for name in answer.headers["access-control-expose-headers"].split(",")}
    assert {"X-Ignored-Fields", "X-Model", "X-Request-Id", "Retry-After"} <= told


def test_a_named_page_reads_why_it_is_refused(listed: Running) -> None:
    """A refusal without these headers would be a network error to it."""
    asked = {"Origin": CHAT, "Authorization": "Bearer wrong"}
    answer = listed.client.get("/v1/voices", headers=asked)
    assert refused(answer) == (401, "unauthorized")
    assert answer.headers["access-control-allow-origin"] == CHAT


@pytest.mark.parametrize("origin", ["http://localhost:3001", "null", "https://evil.example"])
def test_no_other_page_is_let_in(listed: Running, origin: str) -> None:
    for method in ("OPTIONS", "POST"):
        answer = listed.client.request(
            method, "/v1/audio/speech", headers={**PREFLIGHT, "Origin": origin}
        )
        assert refused(answer) == (403, "foreign_origin")
        assert "access-control-allow-origin" not in answer.headers
    answer = listed.client.get("/v1/voices", headers={"Origin": origin})
    assert "access-control-allow-origin" not in answer.headers


def test_a_listed_host_needs_no_key(tmp_path_factory: pytest.TempPathFactory) -> None:
    settings = settings_in(tmp_path_factory.mktemp("hosts"), api_allowed_hosts=("nas.lan",))
    with running(settings) as service:
        for host, status in (("nas.lan:8005", 200), ("other.lan", 403)):
            asked = service.client.get("/status", headers={"Host": host})
            assert asked.status_code == status
