"""Every dialect is counted and limited like /v1/audio/speech; key, foreign pages and sizes are in
test_every_route."""

from dataclasses import replace

import httpx
import pytest

from api.app import build
from tests.api.conftest import QUICK, Running, running, settings_in
from tests.api.heard import refusal

LATENTS = {"speaker_embedding": [0.1], "gpt_cond_latent": [[0.1]]}
# A request to each path of a dialect; those in SPEAKING speak.
SPEAKING: dict[tuple[str, str], dict[str, object]] = {
    ("POST", "/dev/captioned_speech"): {"json": {"input": "hi"}},
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


def ask(service: Running, one: tuple[str, str], **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return service.client.request(*one, **{"headers": named, **SPEAKING[one]})  # type: ignore[arg-type]


def test_the_table_has_every_route_of_a_dialect_that_speaks(tmp_path):
    """A new route must be added to the table, and so passes the gates."""
    routes = [route for route in build(settings_in(tmp_path)).state.routes if "speech" in route.tags]
    found = {
        (method, route.path)
        for route in routes
        for method in route.methods
        if route.endpoint.__module__.startswith("extras.dialects.")
    }
    assert set(SPEAKING) == found


def counts(service: Running) -> dict[str, float]:
    """Speech requests so far, by status."""
    found = service.state.metrics.requests.collect()[0].samples
    return {sample.labels["code"]: sample.value for sample in found if sample.name.endswith("_total")}


@pytest.mark.parametrize("one", SPEAKING, ids=" ".join)
def test_what_speaks_is_counted_whatever_becomes_of_it(dialect, one):
    for sent in ({"origin": "null"}, {}):
        before = counts(dialect)
        status = str(ask(dialect, one, **sent).status_code)
        assert status in ("403", "400", "200")  # 400: latents of another server
        expected = {**before, status: before.get(status, 0) + 1}
        # It is counted after its last byte.
        dialect.wait_until(lambda expected=expected: counts(dialect) == expected, 5)


def test_every_dialect_draws_on_one_limit(tmp_path_factory):
    limits = replace(QUICK, requests_per_minute=len(SPEAKING))
    with running(settings_in(tmp_path_factory.mktemp("limited")), limits=limits) as service:
        assert 429 not in [ask(service, route).status_code for route in SPEAKING]
        for route in SPEAKING:
            assert refusal(ask(service, route)) == (429, "rate_limited", None)
