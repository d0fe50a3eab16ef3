"""Speaks one text that arrives in parts: sound in the client's format, and times of characters."""

import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace

from api.schemas import SERVED
from api.speech.speaking import encoded, mark_of
from api.state import AppState
from extras.common.spoken_part import SpokenPart
from extras.common.text_stream import TextStream
from extras.streams.character_times import Alignment, CharacterTimes
from extras.streams.output_format import OutputFormat
from extras.streams.text_socket import TextSocket
from xtts.encoding import RATE
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.marks import Mark


@dataclass(frozen=True)
class HowToSpeak:
    """What a client has chosen. ask: with an empty text; protocol: for the log."""

    form: OutputFormat
    ask: SynthesisRequest
    voice: str = SERVED
    protocol: str = "ElevenLabs"


@dataclass(frozen=True)
class Sound:
    """Sound that is ready to be sent.

    Attributes:
        audio: In the client's format; may be empty.
        begun: Milliseconds of sound before the part to which this belongs.
        covered: Milliseconds of the part that earlier alignments cover.
        alignment: Characters whose times have become known, from the start of the part.
    """

    audio: bytes
    begun: int = 0
    covered: int = 0
    alignment: Alignment | None = None


class SpokenText:
    """One text: a context of ElevenLabs, or a text of one connection.

    Every part has the same voice, seed and settings.
    """

    def __init__(self, state: AppState, socket: TextSocket, how: HowToSpeak) -> None:
        self.text = TextStream()
        self.how = how
        self._state = state
        self._socket = socket

    async def mark(self) -> Mark:
        """The mark of this speech."""
        return await mark_of(self._state, self.how.voice)

    async def sounds(self, mark: Mark) -> AsyncGenerator[Sound]:
        """The sound of the text, until it ends. Raises APIError."""
        encoder = self.how.form.encoder(mark)
        num_bytes = 0
        async for words in self.text:
            begun, times = _milliseconds(num_bytes), CharacterTimes(words)
            covered = taken = 0
            part = self.part(words)
            with self._socket.speaking():
                async with contextlib.aclosing(part.chunks()) as chunks:
                    start = num_bytes
                    async for chunk in chunks:
                        num_bytes += len(chunk)
                        audio = await encoded(encoder, chunk)
                        new, taken = part.words[taken:], len(part.words)
                        yield Sound(audio, begun, covered, times.add(new))
                        covered = times.covered
            yield Sound(b"", begun, covered, times.end((num_bytes - start) / 2 / RATE))
        yield Sound(await encoded(encoder))

    def part(self, words: str, *, whole: bool = False) -> SpokenPart:
        """A part of the text. whole: its sound is sent only when it is complete."""
        ask = replace(self.how.ask, text=words, whole=whole)
        return SpokenPart(self._state, self._socket.address, ask, self.how.voice, self.how.protocol)


def _milliseconds(num_bytes: int) -> int:
    return round(1000 * num_bytes / 2 / RATE)
