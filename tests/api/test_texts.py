"""Harmful texts: whatever a text contains, the speaking process and other callers continue.

The real child with a tiny model of all languages; the sound is not checked. Slow, because the
timings need an idle machine.
"""

import contextlib
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from api.engine.queue import SpeechStream
from tests.api.conftest import QUICK, Running, running, settings_in
from tests.api.heard import refused
from tests.api.sounds import tone_reference
from tests.models import ALL_CHARACTERS, ALL_LANGUAGES, tiny_base
from tests.xtts.workers.test_text_worker import NUMBERED
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.model.config import with_normalizer
from xtts.text.normalization.registry import COQUI

pytestmark = pytest.mark.slow

LONG = "Everybody heard the old bell once more. "
HURTING = [
    ("en", "9" * 307),
    ("en", "0" * 4096),
    ("en", "0" * 4095),
    ("en", "a-" * 2048),
    ("en", "1€" * 2048),
    ("en", "word " * 400),
    ("en", "你好 world"),
    ("en", "999999999999 " * 300),
    *NUMBERED.items(),
]


@contextlib.contextmanager
def speaking(folder: Path, normalizer: str = "") -> Iterator[Running]:
    """A service with a tiny model of all languages, and another normaliser if one is named."""
    voice = tiny_base(folder / "voice", languages=ALL_LANGUAGES, characters=ALL_CHARACTERS)
    tone_reference(voice)
    if normalizer:
        config = voice / "config.json"
        named = with_normalizer(json.loads(config.read_text()), normalizer)
        config.write_text(json.dumps(named))
    limits = replace(QUICK, deadline_seconds=60.0, hang_seconds=60.0, queue=64)
    with running(settings_in(folder, voice=str(voice)), limits=limits, threads=1) as service:
        yield service


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with speaking(tmp_path_factory.mktemp("texts")) as opened:
        yield opened


def first_byte(service: Running, language: str, text: str) -> tuple[int, str, float]:
    """Status, refusal code, and seconds until the answer began; then the client disconnects."""
    body = {"input": text, "language": language, "response_format": "pcm"}
    started = time.monotonic()
    with service.client.stream("POST", "/v1/audio/speech", json=body) as answer:
        for _ in answer.iter_raw():
            break
        seconds = time.monotonic() - started
        if answer.status_code == 200:
            return 200, "", seconds
    refused: httpx.Response = service.client.post("/v1/audio/speech", json=body)
    return refused.status_code, refused.json()["code"], seconds


def test_no_text_hurts_the_speaking_process_or_a_bystander(service):
    engine = service.state.engine
    alone = service.say(LONG, seed=7, response_format="pcm").content
    before = engine.child.pid
    answers = []
    with ThreadPoolExecutor(1) as pool:
        bystanders = []
        for number, (language, text) in enumerate(HURTING):
            if number % 8 == 0:
                bystanders.append(pool.submit(service.say, LONG, seed=7, response_format="pcm"))
            status, code, seconds = first_byte(service, language, text)
            answers.append((language, text[:12], status, code, round(seconds, 2)))
        wholes = [bystander.result() for bystander in bystanders]
    print(*answers, sep="\n")
    assert all(whole.status_code == 200 and whole.content == alone for whole in wholes)
    assert {status for _, _, status, _, _ in answers} == {200, 422}
    assert {code for _, _, _, code, _ in answers} == {"", "refused"}
    assert max(seconds for *_, seconds in answers) < 2.0
    assert engine.child.pid == before and engine.history.restarts == 0


def test_a_callers_text_stands_in_no_status_and_no_log(service, caplog):
    secret = "geheimnis" + "7" * 40
    answer = service.say(f"the password is {secret}", language="de")
    assert answer.status_code == 422 and "40 digits" in answer.json()["detail"]
    told = [service.client.get(path).text for path in ("/status", "/readyz", "/livez", "/metrics")]
    assert "geheimnis" not in json.dumps(told) + caplog.text
    assert "7" * 8 not in json.dumps(told) + caplog.text


def test_a_refused_word_is_named_to_who_sent_it(service):
    answer = service.say("dnes je \u03be prosince", language="cs")
    assert answer.status_code == 422 and "'\u03be' in language cs" in answer.json()["detail"]


def test_another_digit_or_seed_is_the_same_deadly_input():
    def digest(text: str, voice: str | None = None, **more: Any) -> str:
        return SpeechStream(SynthesisRequest(text, "en", **more), voice).digest

    deadly = digest("Call 555 1234, now!")
    assert digest("call 555 1235 now", seed=4, speed=1.5) == deadly
    assert digest("Call us, now!") != deadly
    assert digest("Call 555 1234, now!", "anna.wav") != deadly
    assert digest("!") != digest("?")


def test_an_old_voice_keeps_coquis_normaliser(service, tmp_path):
    """Old voices were trained with Coqui's normaliser, which has no Czech ordinals."""
    assert service.say("5. května", language="cs").status_code == 200
    with speaking(tmp_path, COQUI) as old:
        answer = old.say("5. května", language="cs")
        assert refused(answer) == (422, "refused") and "5." in answer.json()["detail"]
        assert old.say("pátého května", language="cs").status_code == 200
