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
class SpeechOptions:
    """What a client has chosen.

    Attributes:
        request: The parameters, with an empty text.
        protocol: How the client speaks to the service, for the log.
    """

    form: OutputFormat
    request: SynthesisRequest
    voice: str = SERVED
    protocol: str = "ElevenLabs"


@dataclass(frozen=True)
class SoundChunk:
    """Sound that is ready to be sent.

    Attributes:
        audio: In the client's format; may be empty.
        part_start_ms: The sound before the part to which this chunk belongs.
        aligned_ms: The sound of the part that earlier alignments cover.
        alignment: New characters, with times from the start of the part.
    """

    audio: bytes
    part_start_ms: int = 0
    aligned_ms: int = 0
    alignment: Alignment | None = None


class SpokenText:
    """One text: a context of ElevenLabs, or a text of one connection.

    Every part has the same voice, seed and settings.
    """

    def __init__(self, state: AppState, socket: TextSocket, options: SpeechOptions) -> None:
        self.text = TextStream()
        self.options = options
        self._state = state
        self._socket = socket

    async def mark(self) -> Mark:
        """The mark of this speech."""
        return await mark_of(self._state, self.options.voice)

    async def chunks(self, mark: Mark) -> AsyncGenerator[SoundChunk]:
        """The sound of the text, until it ends. Raises APIError."""
        encoder = self.options.form.encoder(mark)
        num_bytes = 0
        async for part_text in self.text:
            part_start, part_start_ms = num_bytes, _milliseconds(num_bytes)
            times, num_words, aligned_ms = CharacterTimes(part_text), 0, 0
            part = self.part(part_text)
            with self._socket.speaking():
                async with contextlib.aclosing(part.chunks()) as chunks:
                    async for chunk in chunks:
                        num_bytes += len(chunk)
                        audio = await encoded(encoder, chunk)
                        new_words, num_words = part.words[num_words:], len(part.words)
                        yield SoundChunk(audio, part_start_ms, aligned_ms, times.add(new_words))
                        aligned_ms = times.aligned_ms
            alignment = times.end((num_bytes - part_start) / 2 / RATE)
            yield SoundChunk(b"", part_start_ms, aligned_ms, alignment)
        yield SoundChunk(await encoded(encoder))

    def part(self, text: str, *, whole: bool = False) -> SpokenPart:
        """A part of the text; with `whole`, its sound is sent only when it is complete."""
        request = replace(self.options.request, text=text, whole=whole)
        options = self.options
        return SpokenPart(self._state, self._socket.address, request, options.voice, options.protocol)


def _milliseconds(num_bytes: int) -> int:
    return round(1000 * num_bytes / 2 / RATE)
