"""Every dialect stands behind the same gates as /v1/audio/speech: key, foreign pages, limits,
counting."""

from collections.abc import Iterator

import httpx
import pytest

from api.app import build
from tests.api.conftest import Running, running, settings_in
from tests.api.dialects.heard import refusal

KEY = "correct-horse"
LATENTS = {"speaker_embedding": [0.1], "gpt_cond_latent": [[0.1]]}
# A request to each path that a dialect adds; those of SPEAKING speak.
SPEAKING: dict[tuple[str, str], dict[str, object]] = {
    ("POST", "/tts_to_audio/"): {"json": {"text": "hi"}},
    ("GET", "/tts_stream"): {"params": {"text": "hi"}},
    ("GET", "/tts_stream/"): {"params": {"text": "hi"}},
    ("POST", "/tts_stream"): {"json": {"text": "hi", "language": "en", **LATENTS}},
    ("POST", "/tts"): {"json": {"text": "hi", "language": "en", **LATENTS}},
    ("POST", "/api/tts-generate"): {"data": {"text_input": "hi"}},
    ("POST", "/api/previewvoice/"): {"data": {"voice": "demo"}},
    ("GET", "/api/tts-generate-streaming"): {"params": {"text": "hi"}},
    ("GET", "/api/tts"): {"params": {"text": "hi"}},
    ("POST", "/api/tts"): {"data": {"text": "hi"}},
}
OTHERS: dict[tuple[str, str], dict[str, object]] = {
    ("GET", "/v1/audio/voices"): {}, ("GET", "/v1/audio/models"): {},
    ("GET", "/v1/models"): {}, ("GET", "/v1/models/tts-1"): {},
    ("GET", "/speakers"): {}, ("GET", "/speakers_list"): {}, ("GET", "/languages"): {},
    ("GET", "/get_models_list"): {}, ("GET", "/get_tts_settings"): {},
    ("POST", "/set_tts_settings"): {"json": {}},
    ("GET", "/api/ready"): {}, ("GET", "/api/voices"): {}, ("GET", "/api/rvcvoices"): {},
    ("GET", "/api/currentsettings"): {}, ("GET", "/audio/x.wav"): {},
    ("GET", "/audiocache/x.wav"): {}, ("GET", "/studio_speakers"): {},
    ("POST", "/clone_speaker"): {"files": {"wav_file": ("x.wav", b"RIFF")}},
}  # fmt: skip
EVERY = {**SPEAKING, **OTHERS}


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """With a key, which its client does not send."""
    with running(settings_in(tmp_path_factory.mktemp("locked"), api_key=KEY)) as found:
        yield found


def ask(service: Running, one: tuple[str, str], **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return service.client.request(*one, **{"headers": named, **EVERY[one]})  # type: ignore[arg-type]


def test_the_table_has_every_route_of_every_dialect(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """A route that is added comes into the table, and so before the gates."""
    app = build(settings_in(tmp_path_factory.mktemp("routes")))
    found = {
        (method, route.path.replace("{name}", "x.wav").replace("{model}", "tts-1"))
        for route in app.state.routes if route.endpoint.__module__.startswith("api.dialects.")
        for method in route.methods
    }  # fmt: skip
    assert found == set(EVERY)


@pytest.mark.parametrize("one", EVERY, ids=" ".join)
def test_a_key_is_asked_for(locked: Running, one: tuple[str, str]) -> None:
    assert refusal(ask(locked, one)) == (401, "unauthorized", None)
    wrong = ask(locked, one, authorization="Bearer wrong")
    assert refusal(wrong) == (401, "unauthorized", None)


@pytest.mark.parametrize("one", EVERY, ids=" ".join)
def test_a_public_name_is_not_answered_without_a_key(
    dialect: Running, one: tuple[str, str]
) -> None:
    """A page whose site points its name at this machine (DNS rebinding) is of the same origin."""
    sent = {"host": "evil.example", "origin": "http://evil.example"}
    assert refusal(ask(dialect, one, **sent)) == (403, "foreign_host", None)


@pytest.mark.parametrize("one", [*SPEAKING, *(one for one in OTHERS if one[0] == "POST")],
                         ids=" ".join)  # fmt: skip
def test_a_page_of_another_site_makes_it_neither_speak_nor_change(
    dialect: Running, one: tuple[str, str]
) -> None:
    for sent in ({"origin": "https://evil.example"}, {"origin": "null"}):
        assert refusal(ask(dialect, one, **sent)) == (403, "foreign_origin", None)
    if one[0] == "GET":  # an <audio> or an <img> has no Origin
        sent = {"sec_fetch_site": "cross-site", "sec_fetch_dest": "audio"}
        assert refusal(ask(dialect, one, **sent)) == (403, "foreign_origin", None)


def counts(service: Running) -> dict[str, float]:
    """Requests to speak so far, by status."""
    found = service.parts.metrics.requests.collect()[0].samples
    return {one.labels["code"]: one.value for one in found if one.name.endswith("_total")}


@pytest.mark.parametrize("one", SPEAKING, ids=" ".join)
def test_what_speaks_is_counted_whatever_becomes_of_it(
    dialect: Running, one: tuple[str, str]
) -> None:
    for sent in ({"origin": "null"}, {}):
        before = counts(dialect)
        status = str(ask(dialect, one, **sent).status_code)
        assert status in ("403", "400", "200")  # 400: latents of another server
        wanted = {**before, status: before.get(status, 0) + 1}
        # It is counted behind its last byte.
        dialect.wait_until(lambda wanted=wanted: counts(dialect) == wanted, 5)


def test_what_does_not_speak_is_not_counted(dialect: Running) -> None:
    before = counts(dialect)
    for one in OTHERS:
        ask(dialect, one)
    assert dialect.say("hello").status_code == 200
    dialect.wait_until(lambda: counts(dialect) != before, 5)
    assert counts(dialect) == {**before, "200": before.get("200", 0) + 1}


def test_every_dialect_draws_on_one_limit(tmp_path_factory: pytest.TempPathFactory) -> None:
    settings = settings_in(
        tmp_path_factory.mktemp("limited"), api_requests_per_minute=len(SPEAKING)
    )
    with running(settings) as service:
        service.wait_ready()
        assert 429 not in [ask(service, one).status_code for one in SPEAKING]
        for one in [*SPEAKING, ("POST", "/set_tts_settings"), ("POST", "/clone_speaker")]:
            assert refusal(ask(service, one)) == (429, "rate_limited", None)


@pytest.mark.parametrize("one", [one for one in EVERY if one[0] == "POST"], ids=" ".join)
def test_a_body_may_not_be_larger_than_any_other(dialect: Running, one: tuple[str, str]) -> None:
    most = (20 << 20) + (1 << 17) if one[1] == "/clone_speaker" else 70 << 10
    answer = dialect.client.post(one[1], content=b"x" * most)
    assert refusal(answer) == (413, "too_large", None)
