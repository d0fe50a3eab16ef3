"""The dialects' rows of `tests/api/test_added_language.py`: method, path, place, fields."""

SPEAKING = (
    "POST /tts_to_audio/ json text language",
    "GET /tts_stream params text language",
    "POST /api/tts-generate data text_input language",
    "GET /api/tts params text language_id",
)
