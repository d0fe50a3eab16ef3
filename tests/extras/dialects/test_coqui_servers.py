"""Coqui's two servers: where they find the text, and invalid voices; their clients are in
test_clients."""

import numpy as np
import pytest

from extras.dialects.xtts_streaming_server import handle_of, voice_of
from tests.api.heard import asked, refusal, said, samples
from tests.api.sounds import file_of, speech


@pytest.mark.parametrize(
    "sent",
    [
        {"params": {"text": "hello", "speaker_id": "Élodie"}},
        {"data": {"text": "hello", "speaker_id": "Élodie"}},
        {"headers": {"text": b"hello", "speaker-id": "Élodie".encode()}},
        {"headers": {"text": b"hello"}, "data": {"text": "no", "speaker_id": "Élodie"}},
        {"params": {"text": "hello"}, "data": {"text": "no", "speaker_id": "Élodie"}},
    ],
)
def test_a_text_stands_in_a_header_in_the_address_or_in_a_form(dialect, sent):
    """In this order: idiap/coqui-ai-TTS 7cde79ec TTS/server/server.py, tts()."""
    with asked() as orders:
        answer = dialect.client.post("/api/tts", **sent)
    assert samples(answer.content) == said("hello")
    ((params, recording),) = orders
    assert params.text == "hello" and recording is not None
    if "data" not in sent:
        answer = dialect.client.get("/api/tts", **sent)
        assert samples(answer.content) == said("hello")


def test_a_header_is_no_way_round_the_longest_text(dialect):
    answer = dialect.client.get("/api/tts", headers={"text": "x" * 4097})
    assert refusal(answer) == (422, "invalid_request", "text")


@pytest.mark.parametrize("voice", ["default", "0123456789ab", "José", "Анна"])
def test_a_handle_outlives_json_and_half_precision(voice):
    """Coqui's demo keeps the arrays in files, pipecat in memory."""
    handle = handle_of(voice)
    halves = np.asarray(handle.speaker_embedding, "float16").tolist()
    assert voice_of(handle.model_copy(update={"speaker_embedding": halves})) == voice


@pytest.mark.parametrize(
    "numbers",
    [[], [0.0] * 512, [1e300], [1e308], [-0.5], [0.1, 0.2], list(np.linspace(-3, 3, 512)), [0.5] * 100],
)
def test_latents_of_another_server_are_refused(dialect, numbers):
    body = {"text": "x", "language": "en", "speaker_embedding": numbers, "gpt_cond_latent": [[0.1]]}
    for path in ("/tts_stream", "/tts"):
        answer = dialect.client.post(path, json=body)
        assert refusal(answer) == (400, "foreign_latents", "speaker_embedding")


def test_a_handle_names_only_voices_that_there_are(dialect):
    for voice in ("0123456789ab", "../../etc/passwd"):
        body = {"text": "x", "language": "en", **handle_of(voice).model_dump()}
        answer = dialect.client.post("/tts_stream", json=body)
        assert refusal(answer) == (404, "no_voice", "speaker_embedding")


def test_a_speaker_is_cloned_once_and_kept(dialect):
    """coqui-ai/xtts-streaming-server 99286c10 test/test_streaming.py, get_speaker()"""
    files = {"wav_file": ("../bea.wav", file_of(speech(3.0)))}
    first, again = (
        dialect.client.post("/clone_speaker", files=files).raise_for_status().json() for _ in range(2)
    )
    assert first == again
    names = [voice["name"] for voice in dialect.client.get("/v1/voices").json()["voices"]]
    assert names.count("bea") == 1
    with asked() as orders:
        body = {"text": "hello", "language": "en", **first}
        assert samples(dialect.client.post("/tts_stream", json=body).content) == said("hello")
    assert orders[0][1] is not None
    assert first == dialect.client.get("/studio_speakers").json()["bea"]


def test_the_served_voice_is_listed_by_its_name_too(service):
    """Pipecat looks for a stored name in the list, and is silent without it."""
    speakers = service.client.get("/studio_speakers").json()
    name = service.state.served_name
    assert name != "default" and speakers[name] == speakers["default"]


@pytest.mark.parametrize("data", [b"", b"nothing", b"RIFF" + bytes(100)])
def test_what_is_no_recording_clones_nobody(dialect, data):
    answer = dialect.client.post("/clone_speaker", files={"wav_file": ("x.wav", data)})
    assert answer.status_code == 422


def test_a_program_that_clones_from_one_recording_sends_one(service):
    files = [("wav_file", (f"{n}.wav", file_of(speech()))) for n in range(3)]
    answer = service.client.post("/clone_speaker", files=files)
    assert refusal(answer) == (422, "several_files", "wav_file")
    assert service.state.voices.all() == []


def test_a_file_whose_name_means_the_served_voice_is_cloned_under_another(service):
    data = {"wav_file": ("Default.wav", file_of(speech()))}
    assert service.client.post("/clone_speaker", files=data).status_code == 200
    assert [voice.name for voice in service.state.voices.all()] == ["cloned"]
