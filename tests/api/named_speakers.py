"""A served voice with `speakers/`, for tests that real clients reach each person and style.

The real speaking process speaks a tiny voice with random weights. A client must receive the same
sound as /v1/audio/speech returns for that speaker, and every speaker sounds different.
"""

from dataclasses import replace
from pathlib import Path

from tests.api.conftest import QUICK, Running
from tests.models import ending_base, tiny_voice
from tests.xtts.voices.test_speakers import named

TEXT = "Good morning, how did you sleep?"
NAMES = ("anna", "anna:whisper", "Ben")
LIMITS = replace(QUICK, deadline_seconds=120.0, hang_seconds=60.0, queue=32)


def voice_in(folder: Path) -> str:
    return str(named(ending_base(tiny_voice(folder / "voice")), *NAMES))


def own_sounds(service: Running) -> dict[str, set[bytes]]:
    """The sounds of each speaker, requested by the field `voice`: with default options and at the
    temperature of SillyTavern's slider, streamed and whole, which a bfloat16 vocoder rounds
    differently."""

    def speech(name: str, **more: float) -> bytes:
        body = {"input": TEXT, "voice": name, "response_format": "pcm", **more}
        return service.client.post("/v1/audio/speech", json=body).raise_for_status().content

    options: list[dict[str, float]] = [{}, {"temperature": 0.75}]
    sounds = {
        name: {speech(name, stream=stream, **more) for stream in (True, False) for more in options}
        for name in NAMES
    }
    assert sum(map(len, sounds.values())) == len(set.union(*sounds.values()))
    assert speech("default") in sounds["anna"]
    return sounds
