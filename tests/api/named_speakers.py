"""A served voice with `speakers/`, for tests that real clients reach each person and style.

The voice is a tiny one of random weights, spoken by the real speaking process; what a client hears
is what /v1/audio/speech says for that speaker, and no speaker sounds like another.
"""

from dataclasses import replace
from pathlib import Path

from tests.api.conftest import QUICK, Running
from tests.models import tiny_voice
from tests.xtts.voices.test_speakers import named

TEXT = "Good morning, how did you sleep?"
NAMES = ("anna", "anna:whisper", "Ben")
LIMITS = replace(QUICK, deadline=120.0, hang=60.0, queue=32)


def voice_in(folder: Path) -> str:
    return str(named(tiny_voice(folder / "voice"), *NAMES))


def own_sounds(service: Running) -> dict[str, set[bytes]]:
    """What each of them says, asked for by the field `voice`: as usual, and at the temperature of
    SillyTavern's slider."""

    def said(name: str, **more: float) -> bytes:
        body = {"input": TEXT, "voice": name, "response_format": "pcm", **more}
        return service.client.post("/v1/audio/speech", json=body).raise_for_status().content

    found = {name: {said(name), said(name, temperature=0.75)} for name in NAMES}
    assert sum(map(len, found.values())) == len(set.union(*found.values()))
    assert said("default") in found["anna"]
    return found
