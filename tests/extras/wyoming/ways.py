"""Wyoming's way to ask for speech (`tests/api/speech/test_common_options.py`)."""

import asyncio

from wyoming.tts import Synthesize, SynthesizeVoice

from extras.wyoming import listener
from tests.api.ways import Answer, Asked, Doors, Way
from tests.extras.wyoming.conftest import BothPorts, answered

# What listens beside HTTP: the setting of its port, and its listener.
LISTENERS = {"wyoming_port": listener}


def wyoming(doors: Doors, one: Asked) -> Answer:
    ports = BothPorts(doors.http, doors.ports["wyoming_port"])
    voice = SynthesizeVoice(name=one.voice or None, language=one.language or None)
    event = Synthesize(text=one.text, voice=voice if one.voice or one.language else None)
    found = asyncio.run(answered(ports, event))
    return (0, found.code or "") if found.error else (200, "")


# Clients end a stream with an empty text: nothing is said, and that is all.
WAYS = [Way("wyoming", wyoming, empty="")]
