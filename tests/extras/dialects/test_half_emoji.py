"""Half an emoji in the texts of other servers' clients."""

import json

import pytest

from extras.dialects.xtts_streaming_server import handle_of
from tests.api.heard import asked, samples

_HANDLE = json.dumps(handle_of("default").model_dump()).strip("{}")


@pytest.mark.parametrize("half", ["\\ud83d", "\\ude00"])
@pytest.mark.parametrize(("path", "more"), [("/tts_to_audio/", ""), ("/tts_stream", f", {_HANDLE}")])
def test_the_rest_of_a_text_with_half_an_emoji_is_spoken(dialect, path, more, half):
    body = f'{{"text": "Good {half} morning.", "language": "en"{more}}}'
    with asked() as requests:
        answer = dialect.client.post(path, content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 200, answer.text
    assert [request.text for request, _ in requests] == ["Good  morning."]
    assert len(samples(answer.content)) > 0


@pytest.mark.parametrize(("path", "field"), [("/api/tts", "text"), ("/api/tts-generate", "text_input")])
def test_half_an_emoji_in_a_form_is_no_fault_of_the_service(dialect, path, field):
    answer = dialect.client.post(
        path,
        content=f"{field}=Good+%ED%A0%BD+morning.",
        headers={"content-type": "application/x-www-form-urlencoded"},
    )
    assert answer.status_code < 500, answer.text
