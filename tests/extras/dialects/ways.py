"""How the dialects ask for speech (`tests/api/speech/test_common_options.py`)."""

from extras.dialects.xtts_streaming_server import handle_of
from tests.api.ways import Answer, Asked, Doors, Way, answer_of, given


def alltalk(doors: Doors, asked: Asked) -> Answer:
    form = given(character_voice_gen=asked.voice, language=asked.language, speed=asked.speed)
    form = {"text_input": asked.text, **form}
    return answer_of(doors.http.client.post("/api/tts-generate", data=form))


def alltalk_stream(doors: Doors, asked: Asked) -> Answer:
    params = {"text": asked.text, **given(voice=asked.voice, language=asked.language)}
    return answer_of(doors.http.client.get("/api/tts-generate-streaming", params=params))


def coqui(doors: Doors, asked: Asked) -> Answer:
    form = {"text": asked.text, **given(speaker_id=asked.voice, language_id=asked.language)}
    return answer_of(doors.http.client.post("/api/tts", data=form))


def streaming_server(doors: Doors, asked: Asked) -> Answer:
    body = {"text": asked.text, "language": asked.language or "en"}
    handle = handle_of(asked.voice or "default").model_dump()
    return answer_of(doors.http.client.post("/tts_stream", json={**body, **handle}))


def api_server(doors: Doors, asked: Asked) -> Answer:
    """Speed is a setting of the caller."""
    client = doors.http.client
    if asked.speed is not None:
        settings = {**client.get("/get_tts_settings").json(), "speed": asked.speed}
        if (found := client.post("/set_tts_settings", json=settings)).is_error:
            return answer_of(found)
    body = {"text": asked.text, **given(speaker_wav=asked.voice, language=asked.language)}
    try:
        return answer_of(client.post("/tts_to_audio/", json=body))
    finally:
        client.post("/set_tts_settings", json={**client.get("/get_tts_settings").json(), "speed": 1})


WAYS = [
    # The text of a GET is in the address.
    Way("alltalk", alltalk, fastest=4.0),
    Way("alltalk_stream", alltalk_stream, longest="x"),
    Way("coqui", coqui),
    # Its clients identify a voice by the data that the server returned for it.
    Way("streaming_server", streaming_server, by_name=False),
    # It has another limit of speed.
    Way("api_server", api_server, fastest=2.0),
]
