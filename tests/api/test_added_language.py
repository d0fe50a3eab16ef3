"""A language added to the served voice, in every list of languages and every request.

With the fake child; `tests/extras/languages/test_speaking.py` uses the real one. A speech request
of an extra is a row of `SPEAKING` in `tests/extras/EXTRA/added_language.py`.
"""

from collections.abc import Iterator

import pytest

from tests.api.conftest import Running, running, settings_in
from tests.api.heard import asked, refusal
from tests.installed import tables

SPEAKING = [
    "POST /v1/audio/speech json input language",
    *(way for table in tables("added_language") for way in table.SPEAKING),
]


@pytest.fixture(scope="module")
def greek(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A ready service whose voice speaks English, Portuguese and Greek."""
    voice = tmp_path_factory.mktemp("added") / "greek"
    voice.mkdir()
    with running(settings_in(voice.parent, voice=str(voice))) as service:
        yield service


def test_it_is_listed(greek):
    assert greek.status()["languages"] == ["en", "pt", "el"]


@pytest.mark.parametrize("way", SPEAKING)
def test_it_is_spoken_and_a_language_that_was_not_added_is_refused(greek, way):
    method, path, place, text, language = way.split()
    with asked() as orders:
        sent = {text: "Καλημέρα.", language: "el"}
        greek.client.request(method, path, **{place: sent}).raise_for_status()
    assert [ask.language for ask, _ in orders] == ["el"]
    answer = greek.client.request(method, path, **{place: {text: "Добрий день.", language: "uk"}})
    assert refusal(answer) == (400, "language_unsupported", language)
    assert "This voice speaks en, pt, el." in answer.json()["detail"]
