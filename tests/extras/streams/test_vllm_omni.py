"""vLLM-omni's WebSocket, message by message, with a fake child."""

import json

import pytest
from websockets.exceptions import ConnectionClosed

from tests.api.heard import asked
from tests.extras.streams.conftest import OMNI, SECONDS, Line, is_idle, line
from tests.extras.streams.test_elevenlabs_sockets import FIRST, LONG, SECOND, SOON, pcm_of
from tests.marked import comment


def utterance(client: Line) -> tuple[list[dict], list[bytes]]:
    """The messages and the files of an utterance."""
    messages: list[dict] = []
    files: list[bytes] = []
    while not messages or messages[-1]["type"] != "session.done":
        received = client.socket.recv(SECONDS)
        if isinstance(received, bytes):
            files[-1] += received
        else:
            messages.append(json.loads(received))
            files += [b""] * (messages[-1]["type"] == "audio.start")
    return messages, files


def test_utterances_are_spoken_sentence_by_sentence_and_the_connection_stays(service):
    with line(service, OMNI) as client, asked() as orders:
        client.send(
            type="session.config", voice="default", response_format="pcm", stream_audio=True, speed=1.5
        )
        client.send(type="input.text", text=f"{FIRST} How ")
        started = json.loads(client.socket.recv(SECONDS))
        client.send(type="input.text", text="are you?")
        client.send(type="input.done")
        messages, files = utterance_after(client, started)
        client.send(type="input.done")
        empty, _ = utterance(client)
        client.send(type="session.config", response_format="wav")
        client.send(type="input.text", text=SECOND)
        client.send(type="input.done")
        whole, (wav,) = utterance(client)
        client.send(type="session.close")
        with pytest.raises(ConnectionClosed) as closed:
            client.read()
    assert [ask.text for ask, _ in orders] == [FIRST, SECOND, SECOND]
    assert {ask.speed for ask, _ in orders[:2]} == {1.5} and orders[2][0].whole
    assert b"".join(files) == pcm_of(FIRST, SECOND) and wav.endswith(pcm_of(SECOND))
    assert started.pop("ai_generated").startswith("AI-generated speech; ")
    place = {"utterance_index": 0, "sentence_index": 0}
    assert started == {
        "type": "audio.start",
        **place,
        "sentence_text": FIRST,
        "format": "pcm",
        "sample_rate": 24_000,
    }
    done = {"type": "audio.done", **place, "total_bytes": len(pcm_of(FIRST)), "error": False}
    assert done in messages
    assert messages[-1] == {"type": "session.done", "utterance_index": 0, "total_sentences": 2}
    assert empty == [{"type": "session.done", "utterance_index": 1, "total_sentences": 0}]
    assert whole[0]["utterance_index"] == 2 and comment(wav).startswith("AI-generated speech; ")
    assert closed.value.rcvd is not None and closed.value.rcvd.code == 1000


def utterance_after(client: Line, started: dict) -> tuple[list[dict], list[bytes]]:
    """As `utterance`, whose first message was read."""
    pcm = b""
    while isinstance(received := client.socket.recv(SECONDS), bytes):
        pcm += received
    messages, files = utterance(client)
    return [started, json.loads(received), *messages], [pcm, *files]


def test_errors_are_told_and_end_nothing(service):
    with line(service, OMNI) as client:
        client.send(type="input.text", text="early")
        assert client.read()["message"].startswith("The first message must be")
        client.send(type="session.config", response_format="ulaw")
        assert client.read()["code"] == "invalid_request"
        client.send(type="session.config", voice="nobody", response_format="pcm")
        client.send(type="input.text", text="wait")
        client.send(type="session.config", voice="default")
        assert client.read()["code"] == "text_waits"
        client.send(type="barge.in")
        assert "barge.in" in client.read()["message"]
        client.send(type="input.done")
        messages, _ = utterance(client)
        assert [one.get("code") for one in messages if one["type"] == "error"] == ["no_voice"]
        assert [one["error"] for one in messages if one["type"] == "audio.done"] == [True]
        client.send(type="session.config", response_format="pcm")
        client.send(type="input.text", text=SECOND)
        client.send(type="input.done")
        assert utterance(client)[1] == [pcm_of(SECOND)]


def test_a_client_that_leaves_frees_the_slot(service):
    with line(service, OMNI) as client:
        client.send(type="session.config", response_format="pcm", stream_audio=True)
        client.send(type="input.text", text=LONG)
        client.send(type="input.done")
        client.read()
        client.socket.recv(SECONDS)
    service.wait_until(lambda: is_idle(service), SOON)
