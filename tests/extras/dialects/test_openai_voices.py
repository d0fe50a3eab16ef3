"""Custom voices and consents by the official `openai` client, unchanged."""

from collections.abc import Iterator

import openai
import pytest
from openai import OpenAI

from extras.dialects import openai_voices
from tests.api.conftest import Running, running, settings_in
from tests.api.heard import asked
from tests.api.sounds import file_of, speech

SAMPLE = ("anna.wav", file_of(speech()), "audio/wav")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service of its own, because the tests count consents."""
    with running(settings_in(tmp_path_factory.mktemp("consents"))) as found:
        yield found


@pytest.fixture
def client(service: Running) -> OpenAI:
    return OpenAI(base_url=f"{service.address}/v1", api_key="none", max_retries=0)


@pytest.fixture
def consent(client: OpenAI) -> Iterator[str]:
    made = client.audio.voice_consents.create(name="Anna", language="en-US", recording=SAMPLE)
    assert (made.name, made.language, made.object) == ("Anna", "en-US", "audio.voice_consent")
    yield made.id
    client.audio.voice_consents.delete(made.id)


def test_a_voice_is_created_spoken_and_deleted(service, client, consent):
    made = client.audio.voices.create(audio_sample=SAMPLE, consent=consent, name="Carla")
    assert (made.name, made.object, made.type) == ("Carla", "audio.voice", "audio_sample")
    with asked() as orders:
        client.audio.speech.create(model="tts-1", voice=made.id, input="hello")
    assert orders[0][1] is not None
    gone = client.audio.voices.delete(made.id)
    assert (gone.id, gone.deleted, gone.object) == (made.id, True, "audio.voice.deleted")
    assert service.client.get(f"/v1/voices/{made.id}").status_code == 404
    with pytest.raises(openai.NotFoundError) as caught:
        client.audio.voices.delete(made.id)
    assert caught.value.code == "no_voice"
    with pytest.raises(openai.ConflictError):
        client.audio.voices.delete("default")


def test_a_consent_is_read_renamed_and_deleted_with_its_recording(service, client):
    made = client.audio.voice_consents.create(name="Bob", language="pt-BR", recording=SAMPLE)
    folder = service.state.voices.folder / ".consents"
    assert (folder / f"{made.id}.wav").read_bytes()[:4] == b"RIFF"
    assert client.audio.voice_consents.retrieve(made.id) == made
    renamed = client.audio.voice_consents.update(made.id, name="Robert")
    assert (renamed.name, renamed.language) == ("Robert", "pt-BR")
    gone = client.audio.voice_consents.delete(made.id)
    assert (gone.id, gone.deleted) == (made.id, True)
    assert [path.name for path in folder.iterdir() if path.name != ".lock"] == []
    for call in (client.audio.voice_consents.retrieve, client.audio.voice_consents.delete):
        with pytest.raises(openai.NotFoundError) as caught:
            call(made.id)
        assert caught.value.code == "no_consent"


def test_consents_are_listed_page_by_page_the_newest_first(client):
    create = client.audio.voice_consents.create
    made = [create(name=name, language="en", recording=SAMPLE).id for name in "abc"]
    page = client.audio.voice_consents.list(limit=2)
    assert [consent.id for consent in page.data] == made[:0:-1] and page.has_more
    assert [consent.id for consent in client.audio.voice_consents.list(limit=2)] == made[::-1]
    for identity in made:
        client.audio.voice_consents.delete(identity)
    assert client.audio.voice_consents.list().data == []


def test_consents_are_limited_and_their_recordings_are_read(client, consent, monkeypatch):
    monkeypatch.setattr(openai_voices, "MAX_CONSENTS", 1)
    create = client.audio.voice_consents.create
    with pytest.raises(openai.ConflictError, match="the limit"):
        create(name="more", language="en", recording=SAMPLE)
    with pytest.raises(openai.UnprocessableEntityError):
        create(name="more", language="en", recording=("x.wav", b"no sound", "audio/wav"))


def test_an_id_is_no_path(service):
    for identity in ("..%2f..%2fx", "cons_0", "cons_00000000000g"):
        path = f"/v1/audio/voice_consents/{identity}"
        assert service.client.get(path).status_code == 404
        assert service.client.delete(path).status_code == 404
