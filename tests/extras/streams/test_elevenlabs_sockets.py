"""ElevenLabs' WebSockets, message by message, with a fake child."""

from collections.abc import Iterator
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.api.conftest import PATIENT, running, settings_in
from tests.api.fake_child import sound_of
from tests.api.heard import asked
from tests.extras.streams.conftest import MULTI, SINGLE, Heard, Line, is_idle, line

FIRST, SECOND = "Good morning to you, my friend.", "How are you?"
# The fake child speaks this for 8 s. test_endurance.py measures how soon an interruption ends it.
LONG, SOON = f"{FIRST} " * 130, 6.0


def pcm_of(*parts: str, seed: int = 0) -> bytes:
    """What the fake child speaks for these parts."""
    return b"".join(sound_of(part, seed, number) for part in parts for number in range(len(part)))


def test_a_turn_word_by_word_is_spoken_in_a_clause_and_whole_sentences(service):
    with line(service, MULTI) as client, asked() as orders:
        client.send(text=" ", context_id="c", voice_settings={"stability": 0.5, "speed": 1.2})
        heard = Heard()
        for word in f"{FIRST} {SECOND}".split():
            client.send(text=f"{word} ", context_id="c")
            # The next word shows that the clause, or the sentence, has ended.
            client.heard_until({"my": "you, ", "How": "friend. "}.get(word, ""), heard)
        client.send(context_id="c", flush=True)
        client.send(context_id="c", close_context=True)
        client.heard("c", heard)
    parts = ["Good morning to you,", "my friend.", SECOND]
    assert [ask.text for ask, _ in orders] == parts
    assert {(ask.seed, ask.speed) for ask, _ in orders} == {(0, 1.2)}
    assert heard.pcm == pcm_of(*parts)
    assert heard.characters == f"{FIRST} {SECOND} "


def test_the_times_of_words_are_those_of_the_whole_sound(service):
    """A character takes 20 ms. The clock is pipecat's, or, with sync_alignment, LiveKit's."""
    text = f"{FIRST} {SECOND}"
    for path in (MULTI, f"{MULTI}&sync_alignment=true"):
        with line(service, path) as client:
            heard = Heard(starts_at_zero="sync" not in path)
            client.send(text=FIRST[:21], context_id="c", flush=True)
            client.heard_until("you, ", heard)
            client.send(text=f"{FIRST[21:]} {SECOND} ", context_id="c")
            client.send(text="", context_id="c", flush=True)
            client.send(context_id="c", close_context=True)
            client.heard("c", heard)
        # Between the two parts is a space that is not spoken.
        places = [text.index(word) for word in text.split()]
        starts = [0.02 * (place - (place > 20)) for place in places]
        assert [word for word, _ in heard.words] == text.split()
        assert [start for _, start in heard.words] == pytest.approx(starts, abs=0.0011)


def test_with_auto_mode_a_message_is_a_sentence(service):
    """pipecat sends sentences without a space behind them, and no flush between."""
    with line(service, f"{MULTI}&auto_mode=true") as client, asked() as orders:
        client.send(text=" ", context_id="c")
        heard = Heard()
        client.send(text=FIRST, context_id="c")
        client.heard_until("friend. ", heard)
        client.send(text=SECOND, context_id="c")
        client.heard_until("you? ", heard)
        client.send(context_id="c", close_context=True)
        client.heard("c", heard)
    assert [ask.text for ask, _ in orders] == [FIRST, SECOND] and heard.pcm == pcm_of(FIRST, SECOND)


def test_both_alignments_are_the_same_and_the_first_message_with_sound_is_marked(service):
    with line(service, MULTI) as client:
        client.send(text=FIRST, context_id="c", flush=True)
        client.send(context_id="c", flush=True)
        client.send(context_id="c", close_context=True)
        messages = client.heard("c").messages
    assert all(message["alignment"] == message["normalizedAlignment"] for message in messages)
    assert messages[0]["ai_generated"].startswith("AI-generated speech; voice: ")
    assert not any("ai_generated" in message for message in messages[1:])


def test_an_interruption_ends_at_once_and_frees_the_slot(service):
    """Also a second close_context, after the end of the turn."""
    for messages in (
        [{"close_context": True}],
        [{"flush": True}, {"close_context": True}, {"close_context": True}],
    ):
        with line(service, MULTI) as client:
            client.send(text=LONG, context_id="c")
            assert client.read()["audio"]
            for message in messages:
                client.send(context_id="c", **message)
            client.heard("c")
            service.wait_until(lambda: is_idle(service), SOON)
            # The same id begins another text, and the connection still speaks.
            client.send(text=SECOND, context_id="c", flush=True)
            client.send(context_id="c", flush=True)
            client.send(context_id="c", close_context=True)
            assert client.heard("c").pcm == pcm_of(SECOND)


def test_a_client_that_leaves_frees_the_slot(service):
    with line(service, MULTI) as client:
        client.send(text=LONG, context_id="c")
        client.send(text=LONG, context_id="d")
        assert client.read()["audio"]
    service.wait_until(lambda: is_idle(service), SOON)


def test_contexts_are_independent_and_keepalives_open_none(service):
    with line(service, MULTI) as client, asked() as orders:
        client.send(text="")
        client.send(text="", context_id="d")
        client.send(context_id="d", close_context=True)
        client.send(context_id="d", flush=True)
        client.send(text=FIRST, context_id="d")
        client.send(text=SECOND)  # the default context
        client.send(text="", context_id="d")
        client.send(flush=True)
        client.send(close_context=True)
        assert client.heard("default").pcm == pcm_of(SECOND)
        client.send(close_socket=True)
        while not client.read().get("isFinal"):
            pass  # sound of the context that is interrupted
        with pytest.raises(ConnectionClosed) as closed:
            client.read()
    assert closed.value.rcvd is not None and closed.value.rcvd.code == 1000
    # The clause of the context that was interrupted may have begun.
    assert {ask.text for ask, _ in orders} <= {SECOND, "Good morning to you,"}


def test_an_empty_text_ends_the_single_text(service):
    with line(service, SINGLE) as client:
        client.send(text=" ", generation_config={"chunk_length_schedule": [50]})
        client.send(text="Good ", try_trigger_generation=True)
        client.send(text="morning. ")
        client.send(text="")
        heard = client.heard()
        with pytest.raises(ConnectionClosed) as closed:
            client.read()
    assert heard.pcm == pcm_of("Good morning.") and heard.messages[0]["isFinal"] is None
    assert heard.messages[0]["ai_generated"] and closed.value.rcvd and closed.value.rcvd.code == 1000


def test_a_refusal_ends_its_context_alone(service):
    path = MULTI.replace("default", "nobody")
    with line(service, path) as client:
        for context in ("a", "b"):
            client.send(text=FIRST, context_id=context, flush=True)
            refusal, final = client.read(), client.read()
            assert (refusal["code"], refusal["contextId"]) == ("no_voice", context)
            assert refusal["error"].startswith("There is no voice") and final["isFinal"]
    with line(service, SINGLE.replace("default", "nobody")) as client:
        client.send(text=FIRST, flush=True)
        assert client.read()["code"] == "no_voice"
        with pytest.raises(ConnectionClosed) as closed:
            client.read()
    assert closed.value.rcvd is not None and closed.value.rcvd.code == 1008
    assert closed.value.rcvd.reason.startswith("There is no voice")


def test_an_id_of_elevenlabs_is_the_served_voice(service):
    with line(service, MULTI.replace("default", "hpp4J3VqNfWAUOO0d1Us")) as client:
        client.send(text=SECOND, context_id="c", flush=True)
        assert client.read()["audio"]


@pytest.mark.parametrize("message", ["no JSON", "[]", '{"text": 5}', '{"voice_settings": {"speed": 9}}'])
def test_a_message_that_cannot_be_read_is_told_and_ends_the_connection(service, message):
    for path in (MULTI, SINGLE):
        with line(service, path) as client:
            client.socket.send(message)
            assert client.read()["code"] in ("invalid_json", "invalid_request")
            with pytest.raises(ConnectionClosed):
                client.read()


@pytest.mark.parametrize(("wrong", "status"), [("ulaw_8000", 400), ("pcm_24000&seed=-1", 422)])
def test_a_wrong_address_is_refused_before_the_connection_opens(service, wrong, status):
    with pytest.raises(InvalidStatus) as refused, line(service, MULTI.replace("pcm_24000", wrong)):
        pass
    assert refused.value.response.status_code == status
    assert b'"param"' in refused.value.response.body


def test_a_service_that_stops_lets_a_text_be_spoken_to_its_end(tmp_path):
    with running(settings_in(tmp_path), limits=PATIENT) as service, line(service, MULTI) as client:
        client.send(text=FIRST, context_id="c", flush=True)
        first = client.read()
        service.server.should_exit = True
        pcm = [first, *until_closed(client)]
    assert sum(len(one["audio"]) for one in pcm if one.get("audio")) * 3 // 4 >= len(pcm_of(FIRST)) - 3


def until_closed(client: Line) -> Iterator[dict[str, Any]]:
    while True:
        try:
            yield client.read()
        except ConnectionClosed as closed:
            assert closed.rcvd is not None and closed.rcvd.code == 1012
            return
