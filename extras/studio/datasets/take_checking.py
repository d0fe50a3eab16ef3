"""Has takes checked in a child, and remembers the last ones: whoever keeps one sends it again."""

import asyncio
import hashlib
import json
import sys

from api.engine.queue import Recent
from api.voices import recordings
from extras.studio.take_schemas import CheckedTake

# Decoded further than a clip may be long, so that the sentence can say how long it is.
_DECODED_SECONDS = 60.0
# Behind speech and training, hearing twelve seconds takes a while.
WALL_SECONDS = 60.0
_MOST_REMEMBERED = 16
COMMAND = (sys.executable, "-m", "extras.studio.datasets.takes_child", str(_DECODED_SECONDS))


class TakeChecker:
    """Checks takes. places: how many recordings this service decodes at once."""

    def __init__(self, places: asyncio.Semaphore) -> None:
        self._places = places
        self._known = Recent[str, tuple[bytes, CheckedTake]](_MOST_REMEMBERED)

    async def check(self, data: bytes, text: str, language: str) -> tuple[bytes, CheckedTake]:
        """The take as a WAV without the silence around it, and what was found.

        Raises APIError as `api.voices.recordings.decoded`, for what cannot be decoded.
        """
        told = f"{language}\0{text}\0".encode()
        key = hashlib.sha256(told + data).hexdigest()
        if key not in self._known:
            async with self._places:
                wav, line = await recordings.in_child(
                    data, (*COMMAND, language, text), WALL_SECONDS
                )
            self._known[key] = wav, CheckedTake.model_validate(json.loads(line))
        return self._known[key]
