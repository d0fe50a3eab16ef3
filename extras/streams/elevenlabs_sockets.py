"""ElevenLabs' two WebSockets: one text a connection, and several texts (contexts) a connection.

After https://elevenlabs.io/docs/api-reference/text-to-speech (v-1-text-to-speech-voice-id-…), and
what `elevenlabs`, pipecat and LiveKit send. The empty text ends a text on the one, and keeps the
connection alive on the other.

`close_context` has two meanings. At the end of a turn, clients send it right after a `flush`
without text, and wait for the rest of the sound. At an interruption it comes alone, and speech ends
at once.
"""

import asyncio
import base64
import contextlib
import re
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, WebSocket
from pydantic import AliasChoices, BaseModel, Field

from api.errors import APIError
from api.gate import reads_the_key
from api.schemas import NO_HALF_CHARACTERS, LanguageText, VoiceText
from api.state import AppState, Shared
from extras.streams.elevenlabs import VoiceSettings, resolve_voice, synthesis_request
from extras.streams.output_format import DEFAULT, output_format
from extras.streams.spoken_text import SoundChunk, SpeechOptions, SpokenText
from extras.streams.text_socket import (
    CLOSE_REFUSED,
    TextSocket,
    parse_message,
    refusal_text,
    refuse_handshake,
    until_one_ends,
)
from xtts.arguments import SEED

router = APIRouter()
# Contexts of one connection that are not finished. ElevenLabs allows 5.
_MAX_CONTEXTS = 32
# The end of a whole sentence, for `auto_mode`.
_SENTENCE_END = re.compile(r"[.!?…؟।。！？][\"'”’»)\]」』]*\s*$")
# Clients send the two messages that end a turn one after the other.
_MAX_TURN_END_SECONDS = 0.25


class TextMessage(BaseModel):
    """A message of either WebSocket. Fields that are not listed have no effect: the text is cut
    where it can be spoken, whatever `chunk_length_schedule` says."""

    text: Annotated[str, NO_HALF_CHARACTERS] | None = None
    flush: bool | None = None
    voice_settings: VoiceSettings | None = None
    context_id: Annotated[str, Field(max_length=200), NO_HALF_CHARACTERS] | None = Field(
        None, validation_alias=AliasChoices("context_id", "contextId")
    )
    close_context: bool | None = None
    close_socket: bool | None = None


class AddressQuery(BaseModel):
    """The parameters of the address. Others have no effect."""

    output_format: str = DEFAULT
    language_code: LanguageText | None = None
    sync_alignment: bool = False
    auto_mode: bool = False
    seed: int = Field(0, ge=SEED.min, le=SEED.max)


@dataclass(frozen=True)
class Address:
    """What the address of a WebSocket says.

    Attributes:
        is_synchronized: `sync_alignment`: times count from the start of the text, as LiveKit takes
            them; otherwise from the end of the previous alignment, as pipecat does.
        is_auto: `auto_mode`: a message is a whole sentence, if it ends like one.
    """

    options: SpeechOptions
    is_synchronized: bool
    is_auto: bool

    def for_text(self, settings: VoiceSettings | None) -> SpeechOptions:
        """How to speak a text with these settings."""
        request = synthesis_request(settings, self.options.request.language, self.options.request.seed)
        return SpeechOptions(self.options.form, request, self.options.voice)

    def ends_part(self, message: TextMessage) -> bool:
        """Whether the text so far is to be spoken."""
        return bool(message.flush or (self.is_auto and _SENTENCE_END.search(message.text or "")))

    async def messages(self, spoken: SpokenText) -> AsyncGenerator[dict[str, object]]:
        """Messages with the sound of a text, and the times of its characters. The first one has the
        mark of synthetic speech."""
        mark = await spoken.mark()
        first_fields = {"ai_generated": mark.text}
        async with contextlib.aclosing(spoken.chunks(mark)) as chunks:
            async for chunk in chunks:
                if chunk.audio or chunk.alignment:
                    yield {**self._message(chunk), **first_fields}
                    first_fields = {}

    def _message(self, chunk: SoundChunk) -> dict[str, object]:
        alignment = None
        if chunk.alignment is not None:
            start_ms = chunk.part_start_ms if self.is_synchronized else -chunk.aligned_ms
            alignment = chunk.alignment.after(start_ms).as_message()
        audio = base64.b64encode(chunk.audio).decode() if chunk.audio else None
        return {"audio": audio, "alignment": alignment, "normalizedAlignment": alignment}


@router.websocket("/v1/text-to-speech/{voice_id}/stream-input")
@reads_the_key
async def speak_input(websocket: WebSocket, voice_id: VoiceText, state: Shared) -> None:
    """Speaks one text while it arrives."""
    if (address := await _address(websocket, state, voice_id)) is not None:
        await websocket.accept()
        await SingleText(state, TextSocket(websocket, state), address).run()


@router.websocket("/v1/text-to-speech/{voice_id}/multi-stream-input")
@reads_the_key
async def speak_inputs(websocket: WebSocket, voice_id: VoiceText, state: Shared) -> None:
    """Speaks several texts while they arrive, each in its context."""
    if (address := await _address(websocket, state, voice_id)) is not None:
        await websocket.accept()
        await Contexts(state, TextSocket(websocket, state), address).run()


async def _address(websocket: WebSocket, state: AppState, voice_id: str) -> Address | None:
    """What the address says; None if it is wrong; the client is refused then."""
    try:
        query = parse_message(AddressQuery, dict(websocket.query_params))
        form = output_format(query.output_format)
    except APIError as refusal:
        await refuse_handshake(websocket, refusal)
        return None
    request = synthesis_request(None, query.language_code, query.seed)
    options = SpeechOptions(form, request, await resolve_voice(state, voice_id))
    return Address(options, query.sync_alignment, query.auto_mode)


class SingleText:
    """`stream-input`: one text, which an empty text ends. Then the service closes the connection."""

    def __init__(self, state: AppState, socket: TextSocket, address: Address) -> None:
        self._state, self._socket, self._address = state, socket, address
        self._spoken: SpokenText | None = None
        self._begun = asyncio.Event()

    async def run(self) -> None:
        """Serves the connection until it ends."""
        try:
            await until_one_ends(self._read(), self._speak())
            await self._socket.close()
        except APIError as refusal:
            await send_refusal(self._socket, refusal)
        except ConnectionError:
            pass

    async def _read(self) -> None:
        """Reads until the client leaves."""
        async for received in self._socket.messages():
            message = parse_message(TextMessage, received)
            if self._spoken is None:
                options = self._address.for_text(message.voice_settings)
                self._spoken = SpokenText(self._state, self._socket, options)
                self._begun.set()
            self._spoken.text.add(message.text or "")
            if self._address.ends_part(message):
                self._spoken.text.flush()
            if message.text == "":
                self._spoken.text.end()

    async def _speak(self) -> None:
        await self._begun.wait()
        assert self._spoken is not None
        async with contextlib.aclosing(self._address.messages(self._spoken)) as messages:
            async for message in messages:
                await self._socket.send({**message, "isFinal": None})
        await self._socket.send({"audio": None, "isFinal": True})


class Contexts:
    """`multi-stream-input`: texts that are spoken independently of one another."""

    def __init__(self, state: AppState, socket: TextSocket, address: Address) -> None:
        self._state, self._socket, self._address = state, socket, address
        self._contexts: set[Context] = set()
        # By id. After its end, an id may be used again while the earlier text is still spoken.
        self._context_by_id: dict[str, Context] = {}

    async def run(self) -> None:
        """Serves the connection until it ends."""
        try:
            async with asyncio.TaskGroup() as group:
                await self._read(group)
        except* APIError as refusals:
            refusal = refusals.exceptions[0]
            assert isinstance(refusal, APIError)
            await send_refusal(self._socket, refusal)
        except* ConnectionError:
            pass
        else:
            await self._socket.close()

    async def _read(self, group: asyncio.TaskGroup) -> None:
        """Reads until the client leaves or closes. After a close, ended texts are spoken to their end."""
        async for received in self._socket.messages():
            message = parse_message(TextMessage, received)
            if message.close_socket:
                for context in list(self._contexts):
                    if not context.is_closed:
                        await self._close(context)
                return
            await self._handle(message, group)
        for context in self._contexts:
            context.task.cancel()

    async def _handle(self, message: TextMessage, group: asyncio.TaskGroup) -> None:
        context_id = message.context_id or "default"
        context = self._context_by_id.get(context_id)
        if message.close_context:
            if context is not None:
                await self._close(context)
            return
        if context is None or context.is_closed:
            if not message.text:  # keeps the connection alive
                return
            context = self._begin(context_id, message.voice_settings, group)
        context.add(message, ends_part=self._address.ends_part(message))

    def _begin(self, context_id: str, settings: VoiceSettings | None, group: asyncio.TaskGroup) -> "Context":
        if len(self._contexts) >= _MAX_CONTEXTS:
            text = f"{_MAX_CONTEXTS} contexts of this connection are open. Close some with close_context."
            raise APIError(503, "queue_full", text, retry_after=1)
        options = self._address.for_text(settings)
        context = Context(context_id, SpokenText(self._state, self._socket, options))
        self._contexts.add(context)
        self._context_by_id[context_id] = context
        context.task = group.create_task(self._speak(context))
        return context

    async def _close(self, context: "Context") -> None:
        if context.ends_turn:
            context.close()
        else:
            context.task.cancel()
            self._forget(context)
            await self._send_final(context)

    async def _speak(self, context: "Context") -> None:
        """Speaks a context, and says that it has ended. A refusal ends no other context."""
        try:
            async with contextlib.aclosing(self._address.messages(context.spoken)) as messages:
                async for message in messages:
                    await self._socket.send({**message, "contextId": context.id})
        except APIError as refusal:
            await self._socket.send({**refusal_message(refusal), "contextId": context.id})
        finally:
            self._forget(context)
        await self._send_final(context)

    def _forget(self, context: "Context") -> None:
        self._contexts.discard(context)
        if self._context_by_id.get(context.id) is context:
            del self._context_by_id[context.id]

    async def _send_final(self, context: "Context") -> None:
        await self._socket.send({"audio": None, "isFinal": True, "contextId": context.id})


class Context:
    """A text of `multi-stream-input`, which `task` speaks."""

    task: asyncio.Task[None]

    def __init__(self, context_id: str, spoken: SpokenText) -> None:
        self.id = context_id
        self.spoken = spoken
        self.is_closed = False
        self._turn_flushed_at = 0.0

    @property
    def ends_turn(self) -> bool:
        """Whether `close_context` would end the turn now, and not interrupt it."""
        return not self.is_closed and time.monotonic() - self._turn_flushed_at < _MAX_TURN_END_SECONDS

    def add(self, message: TextMessage, *, ends_part: bool) -> None:
        """Adds the message's text. Raises APIError if too much text waits."""
        text = message.text or ""
        self.spoken.text.add(text)
        if ends_part:
            self.spoken.text.flush()
        self._turn_flushed_at = time.monotonic() if message.flush and not text.strip() else 0.0

    def close(self) -> None:
        """Ends the text; what has arrived is still spoken."""
        self.is_closed = True
        self.spoken.text.end()


def refusal_message(refusal: APIError) -> dict[str, object]:
    """A refusal as a message."""
    return {"error": refusal_text(refusal), "message": refusal_text(refusal), "code": refusal.code}


async def send_refusal(socket: TextSocket, refusal: APIError) -> None:
    """Tells the client of a refusal, and closes."""
    with contextlib.suppress(ConnectionError):
        await socket.send(refusal_message(refusal))
    await socket.close(CLOSE_REFUSED, refusal_text(refusal))
