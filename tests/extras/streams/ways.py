"""How ElevenLabs' clients ask for speech over HTTP (`tests/api/speech/test_common_options.py`)."""

from urllib.parse import quote

from tests.api.ways import Answer, Asked, Doors, Way, answer_of, given


def elevenlabs(doors: Doors, asked: Asked) -> Answer:
    settings = given(speed=asked.speed)
    body = {"text": asked.text, **given(language_code=asked.language, voice_settings=settings or None)}
    path = f"/v1/text-to-speech/{quote(asked.voice or 'default')}/stream"
    return answer_of(doors.http.client.post(path, json=body, params={"output_format": "pcm_24000"}))


WAYS = [Way("elevenlabs", elevenlabs, fastest=4.0)]
