"""Speaks one part of a streamed text, counted and limited as a request over HTTP is."""

import contextlib
import time
from collections.abc import AsyncGenerator, Sequence

from api.errors import APIError
from api.speech import speaking
from api.speech.speaking import count_pieces
from api.state import AppState
from xtts.inference.synthesis_request import SynthesisRequest


class SpokenPart:
    """A part being spoken.

    Args:
        address: The caller's network.
        request: The part and its parameters.
        voice: The client's name for the voice.
        protocol: How the client speaks to the service, for the log.
    """

    def __init__(
        self, state: AppState, address: str, request: SynthesisRequest, voice: str, protocol: str
    ) -> None:
        self._state, self._address, self._request, self._voice = state, address, request, voice
        self._protocol = protocol
        # (word, start, end) in seconds, of the pieces whose sound is complete.
        self.words: Sequence[tuple[str, float, float]] = ()

    async def chunks(self) -> AsyncGenerator[bytes]:
        """PCM16 at 24 kHz. The words precede the sound in which they end. Raises APIError."""
        metrics, started, status = self._state.metrics, time.monotonic(), 499
        try:
            async with contextlib.aclosing(self._sound()) as sound:
                async for chunk in sound:
                    status = 200
                    yield chunk
        except APIError as refusal:
            if status == 200:
                metrics.streams_cut.labels(refusal.code).inc()
            else:
                status = refusal.status
                metrics.refusals.labels(str(status), refusal.code).inc()
            raise
        finally:
            metrics.requests.labels(str(status)).inc()
            metrics.duration.observe(time.monotonic() - started)

    async def _sound(self) -> AsyncGenerator[bytes]:
        caller = self._state.check_rate(self._address)
        spoken = await speaking.start_stream(self._state, caller, self._request, self._voice)
        self.words = spoken.words
        try:
            async for chunk in spoken:
                yield chunk
        finally:
            self._state.engine.cancel(spoken)
            count_pieces(spoken, self._state, f"of {self._address} by {self._protocol}")
