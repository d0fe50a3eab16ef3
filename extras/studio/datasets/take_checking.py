"""TakeChecker checks takes in a child process and caches the newest: keeping a take sends it again."""

import asyncio
import hashlib
import json
import sys

from api.engine.queue import RecentKeys
from api.voices import recordings
from extras.studio.take_schemas import CheckedTake

# Longer than a clip may be, so that the finding can state the length of the take.
_MAX_DECODED_SECONDS = 60.0
# The child yields to speech and training, so recognising twelve seconds can take a while.
MAX_WALL_SECONDS = 60.0
_MAX_CACHED_TAKES = 16
COMMAND = (sys.executable, "-m", "extras.studio.datasets.takes_child", str(_MAX_DECODED_SECONDS))


class TakeChecker:
    """Checks takes.

    Args:
        places: Limits how many recordings this service decodes at once.
    """

    def __init__(self, places: asyncio.Semaphore) -> None:
        self._places = places
        self._cache = RecentKeys[str, tuple[bytes, CheckedTake]](_MAX_CACHED_TAKES)

    async def check(self, data: bytes, text: str, language: str) -> tuple[bytes, CheckedTake]:
        """The take as a WAV without the silence around it, and the findings.

        Raises APIError like `api.voices.recordings.decode` if it cannot be decoded.
        """
        key = hashlib.sha256(f"{language}\0{text}\0".encode() + data).hexdigest()
        if key not in self._cache:
            async with self._places:
                wav, findings = await recordings.decode_in_child(
                    data, (*COMMAND, language, text), MAX_WALL_SECONDS
                )
            self._cache[key] = wav, CheckedTake.model_validate(json.loads(findings))
        return self._cache[key]
