"""How Wyoming asks for speech (`tests/api/speech/test_common_options.py`)."""

import asyncio

from wyoming.tts import Synthesize, SynthesizeVoice

from extras.wyoming import listener
from tests.api.ways import Answer, Asked, Doors, Way
from tests.extras.wyoming.conftest import BothPorts, answered

# Additional listeners: the setting of the port -> the listener.
LISTENERS = {"wyoming_port": listener}


def wyoming(doors: Doors, asked: Asked) -> Answer:
    ports = BothPorts(doors.http, doors.ports["wyoming_port"])
    voice = SynthesizeVoice(name=asked.voice or None, language=asked.language or None)
    event = Synthesize(text=asked.text, voice=voice if asked.voice or asked.language else None)
    found = asyncio.run(answered(ports, event))
    return (0, found.code or "") if found.error else (200, "")


# Clients end a stream with an empty text: it is accepted, and nothing is spoken.
WAYS = [Way("wyoming", wyoming, empty="")]
