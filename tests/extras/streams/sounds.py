"""The routes of ElevenLabs that send sound (`tests/api/test_marks.py`)."""

from collections.abc import Callable, Iterator

import httpx

from tests.api.conftest import Running

Sound = tuple[httpx.Response, bytes | None]


def sent(path: str) -> Callable[[Running], Iterator[Sound]]:
    def sounds(service: Running) -> Iterator[Sound]:
        for form in ("mp3_44100_128", "mp3_24000_48", "wav_16000", "pcm_22050"):
            address = path.format(voice_id="default")
            answer = service.client.post(
                address, json={"text": "Good morning."}, params={"output_format": form}
            )
            yield answer, None if form.startswith("pcm") else answer.content

    return sounds


PATHS = ("/v1/text-to-speech/{voice_id}", "/v1/text-to-speech/{voice_id}/stream")
SPOKEN = {("POST", path): sent(path) for path in PATHS}
RECORDED: dict[tuple[str, str], Callable[[Running], Iterator[Sound]]] = {}
