"""vLLM-omni's WebSocket: texts of one connection, one after another.

After github.com/vllm-project/vllm-omni, docs/serving/speech_api.md, "Streaming Text Input". There
an utterance is spoken once it is complete; here, and in its versions before 0.28, sentence by
sentence while it arrives.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import APIRouter, WebSocket
from pydantic import BaseModel, Field

from api.errors import APIError, excerpt
from api.schemas import NO_HALF_CHARACTERS, SERVED, LanguageText, VoiceText
from api.speech.speaking import encoded
from api.state import AppState, Shared
from extras.streams.output_format import OutputFormat
from extras.streams.spoken_text import SpeechOptions, SpokenText
from extras.streams.text_socket import CLOSE_REFUSED, TextSocket, parse_message, refusal_text, until_one_ends
from machine.storage.files import JsonObject
from xtts import encoding
from xtts.arguments import SEED, SPEED
from xtts.encoding import RATE
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.marks import Mark

router = APIRouter()
# The utterances of a connection that wait to be spoken.
_MAX_WAITING = 32


class SessionConfig(BaseModel):
    """`session.config`. Fields that are not listed have no effect."""

    voice: VoiceText | None = None
    speaker: VoiceText | None = None
    language: LanguageText | None = None
    response_format: Literal["wav", "pcm", "flac", "mp3", "aac", "opus"] = "wav"
    stream_audio: bool = False
    speed: float = Field(1.0, ge=SPEED.min, le=SPEED.max)
    seed: int = Field(0, ge=SEED.min, le=SEED.max)


class InputText(BaseModel):
    """`input.text`."""

    text: Annotated[str, NO_HALF_CHARACTERS]


@dataclass(frozen=True)
class Utterance:
    """A text between two `input.done`. number: from 0."""

    number: int
    spoken: SpokenText
    config: SessionConfig


@router.websocket("/v1/audio/speech/stream")
async def speak_utterances(websocket: WebSocket, state: Shared) -> None:
    """Speaks texts while they arrive."""
    await websocket.accept()
    await Utterances(state, TextSocket(websocket, state)).run()


class Utterances:
    """One connection."""

    def __init__(self, state: AppState, socket: TextSocket) -> None:
        self._state, self._socket = state, socket
        self._config: SessionConfig | None = None
        self._number = 0
        self._arriving: Utterance | None = None
        self._queue: asyncio.Queue[Utterance | None] = asyncio.Queue(_MAX_WAITING)

    async def run(self) -> None:
        """Serves the connection until it ends."""
        try:
            await until_one_ends(self._read(), self._speak_all())
            await self._socket.close()
        except APIError as refusal:
            with contextlib.suppress(ConnectionError):
                await self._send_refusal(refusal)
            await self._socket.close(CLOSE_REFUSED, refusal_text(refusal))
        except ConnectionError:
            pass

    async def _read(self) -> None:
        """Reads until the client leaves."""
        async for message in self._socket.messages():
            try:
                self._handle(message)
            except APIError as refusal:
                await self._send_refusal(refusal)

    def _handle(self, message: JsonObject) -> None:
        kind = message.get("type")
        if kind == "session.config":
            self._configure(parse_message(SessionConfig, message))
        elif self._config is None:
            text = 'The first message must be {"type": "session.config", …}.'
            raise APIError(400, "invalid_message", text, param="type")
        elif kind == "input.text":
            text = parse_message(InputText, message).text
            if self._arriving is None:
                self._begin(self._config)
            assert self._arriving is not None
            self._arriving.spoken.text.add(text)
        elif kind == "input.done":
            if self._arriving is None:
                self._begin(self._config)
            self._end()
        elif kind == "session.close":
            self._end()
            self._enqueue(None)
        else:
            raise APIError(
                400, "invalid_message", f"There is no message of type {excerpt(kind)}.", param="type"
            )

    def _configure(self, config: SessionConfig) -> None:
        if self._arriving is not None:
            text = "Text of an utterance has arrived. Send input.done before another session.config."
            raise APIError(409, "text_waits", text, param="type")
        if config.response_format not in encoding.offered_formats():
            raise APIError(400, "unsupported", encoding.missing_encoder(), param="response_format")
        self._config = config

    def _begin(self, config: SessionConfig) -> None:
        request = SynthesisRequest("", config.language or "", config.seed, speed=config.speed)
        form = OutputFormat(config.response_format, RATE)
        options = SpeechOptions(form, request, config.voice or config.speaker or SERVED, "vLLM-omni")
        self._arriving = Utterance(self._number, SpokenText(self._state, self._socket, options), config)
        self._enqueue(self._arriving)
        self._number += 1

    def _end(self) -> None:
        if self._arriving is not None:
            self._arriving.spoken.text.end()
            self._arriving = None

    def _enqueue(self, utterance: Utterance | None) -> None:
        """Queues an utterance; None: the end of the session."""
        try:
            self._queue.put_nowait(utterance)
        except asyncio.QueueFull:
            text = f"{_MAX_WAITING} utterances of this connection are already waiting."
            raise APIError(503, "queue_full", text, retry_after=1) from None

    async def _speak_all(self) -> None:
        while (utterance := await self._queue.get()) is not None:
            count = 0
            async for words in utterance.spoken.text:
                with self._socket.speaking():
                    await self._speak(utterance, count, words)
                count += 1
            done = {"type": "session.done", "utterance_index": utterance.number, "total_sentences": count}
            await self._socket.send(done)

    async def _speak(self, utterance: Utterance, number: int, words: str) -> None:
        """Speaks a part, as vLLM-omni a sentence."""
        indices = {"utterance_index": utterance.number, "sentence_index": number}
        form, mark = utterance.config.response_format, await utterance.spoken.mark()
        rate = {"sample_rate": RATE} if form == "pcm" else {}
        start = {"type": "audio.start", **indices, "sentence_text": words, "format": form, **rate}
        await self._socket.send({**start, "ai_generated": mark.text})
        num_bytes, failed = 0, False
        try:
            async with contextlib.aclosing(self._sound_chunks(utterance, words, mark)) as sound:
                async for audio in sound:
                    num_bytes += len(audio)
                    await self._socket.send(audio)
        except APIError as refusal:
            failed = True
            await self._send_refusal(refusal)
        await self._socket.send({"type": "audio.done", **indices, "total_bytes": num_bytes, "error": failed})

    async def _sound_chunks(self, utterance: Utterance, words: str, mark: Mark) -> AsyncGenerator[bytes]:
        """A part as a file: in one piece, or, with `stream_audio`, as it is spoken."""
        streamed = utterance.config.stream_audio
        part, pcm = utterance.spoken.part(words, whole=not streamed), b""
        encoder = utterance.spoken.options.form.encoder(mark)
        async with contextlib.aclosing(part.chunks()) as chunks:
            async for chunk in chunks:
                if not streamed:
                    pcm += chunk
                elif audio := await encoded(encoder, chunk):
                    yield audio
        if not streamed:
            yield await asyncio.to_thread(encoding.encode, utterance.config.response_format, pcm, mark)
        elif audio := await encoded(encoder):
            yield audio

    async def _send_refusal(self, refusal: APIError) -> None:
        await self._socket.send({"type": "error", "message": refusal_text(refusal), "code": refusal.code})
