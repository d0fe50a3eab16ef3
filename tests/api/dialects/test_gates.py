"""Every dialect is counted and limited as /v1/audio/speech; key, foreign pages and sizes are in
test_every_route."""

import httpx
import pytest

from api.app import build
from tests.api.conftest import Running, running, settings_in
from tests.api.dialects.heard import refusal

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
