"""The dialects refuse as /v1/audio/speech does, but name the field of the dialect."""

import pytest

from tests.api.heard import refusal

GENERATE, SETTINGS = ("POST /api/tts-generate data",), ("POST /set_tts_settings json",)
TO_AUDIO = ("POST /tts_to_audio/ json", "GET /tts_stream params")
COQUI = ("GET /api/tts params", "POST /api/tts data")
LONG = "x" * 4097


def invalid(field: str) -> tuple[int, str, str]:
    return 422, "invalid_request", field


@pytest.mark.parametrize(
    ("ways", "fields", "found"),
    [
        (GENERATE, {"text_input": ""}, invalid("text_input")),
        (GENERATE, {}, invalid("text_input")),
        (GENERATE, {"text_input": "x", "streaming": "off"}, invalid("streaming")),
        (GENERATE, {"text_input": "x", "speed": "9"}, invalid("speed")),
        (GENERATE, {"text_input": "x", "temperature": "nan"}, invalid("temperature")),
        (
            GENERATE,
            {"text_input": "x", "character_voice_gen": "nobody"},
            (404, "no_voice", "character_voice_gen"),
        ),
        (GENERATE, {"text_input": "x", "language": "tlh"}, (400, "language_unsupported", "language")),
        (GENERATE, {"text_input": "!refuse"}, (422, "refused", None)),
        (TO_AUDIO, {"text": ""}, invalid("text")),
        (TO_AUDIO, {"text": LONG}, invalid("text")),
        (TO_AUDIO, {}, invalid("text")),
        (TO_AUDIO, {"text": "x", "speaker_wav": "nobody.wav"}, (404, "no_voice", "speaker_wav")),
        (TO_AUDIO, {"text": "x", "speaker_wav": "../../etc/passwd"}, (404, "no_voice", "speaker_wav")),
        (TO_AUDIO, {"text": "x", "language": "tlh"}, (400, "language_unsupported", "language")),
        (COQUI, {}, invalid("text")),
        (COQUI, {"text": " "}, invalid("text")),
        (COQUI, {"text": LONG}, invalid("text")),
        (COQUI, {"text": "x", "speaker_id": "nobody"}, (404, "no_voice", "speaker_id")),
        (COQUI, {"text": "x", "language_id": "tlh"}, (400, "language_unsupported", "language_id")),
        (COQUI, {"text": "x", "speaker_wav": "/etc/passwd"}, (400, "unsupported", "speaker_wav")),
        (COQUI, {"text": "x", "style_wav": "{}"}, (400, "unsupported", "speaker_wav")),
        *(
            (SETTINGS, {name: value}, invalid(name))
            for name, value in (
                ("temperature", 0),
                ("temperature", "warm"),
                ("speed", 3),
                ("speed", None),
                ("top_k", 101),
                ("top_k", False),
                ("stream_chunk_size", 5),
                ("enable_text_splitting", 7),
            )
        ),
    ],
)
def test_what_is_refused_and_how(dialect, ways, fields, found):
    for way in ways:
        method, path, place = way.split()
        assert refusal(dialect.client.request(method, path, **{place: fields})) == found
