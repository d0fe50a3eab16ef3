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
from api.schemas import WHOLE, LanguageText, VoiceText
from api.state import AppState, Shared
from extras.streams.elevenlabs import VoiceSettings, ask_of, voice_of
from extras.streams.output_format import DEFAULT, output_format
from extras.streams.spoken_text import HowToSpeak, Sound, SpokenText
from extras.streams.text_socket import REFUSED, TextSocket, message_of, refuse, told, until_one_ends
from xtts.arguments import SEED

router = APIRouter()
# Contexts of one connection that are not finished. ElevenLabs allows 5.
_MAX_CONTEXTS = 32
# The end of a whole sentence, for `auto_mode`.
_SENTENCE = re.compile(r"[.!?…؟।。！？][\"'”’»)\]」』]*\s*$")
# Clients send the two messages that end a turn one after the other.
_TURN_SECONDS = 0.25


class TextMessage(BaseModel):
    """A message of either WebSocket. Fields that are not listed have no effect: the text is cut
    where it can be spoken, whatever `chunk_length_schedule` says."""

    text: Annotated[str, WHOLE] | None = None
    flush: bool | None = None
    voice_settings: VoiceSettings | None = None
    context_id: Annotated[str, Field(max_length=200), WHOLE] | None = Field(
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
    seed: int = Field(0, ge=SEED.least, le=SEED.most)


@dataclass(frozen=True)
class Address:
    """What the address of a WebSocket says.

    Attributes:
        sync: `sync_alignment`: times count from the start of the text, as LiveKit takes them; else
            from the end of the previous alignment, as pipecat does.
        auto: `auto_mode`: a message is a whole sentence, if it ends like one.
    """

    how: HowToSpeak
    sync: bool
    auto: bool

    def for_text(self, settings: VoiceSettings | None) -> HowToSpeak:
        """How to speak a text with these settings."""
        ask = self.how.ask
        return HowToSpeak(self.how.form, ask_of(settings, ask.language, ask.seed), self.how.voice)

    def ends_part(self, message: TextMessage) -> bool:
        """Whether the text so far is to be spoken."""
        return bool(message.flush or (self.auto and _SENTENCE.search(message.text or "")))

    async def messages(self, spoken: SpokenText) -> AsyncGenerator[dict[str, object]]:
        """Messages with the sound of a text, and the times of its characters. The first one has the
        mark of synthetic speech."""
        mark = await spoken.mark()
        more = {"ai_generated": mark.text}
        async with contextlib.aclosing(spoken.sounds(mark)) as sounds:
            async for sound in sounds:
                if sound.audio or sound.alignment:
                    yield {**self._message(sound), **more}
                    more = {}

    def _message(self, sound: Sound) -> dict[str, object]:
        alignment = None
        if sound.alignment is not None:
            start = sound.begun if self.sync else -sound.covered
            alignment = sound.alignment.after(start).as_message()
        audio = base64.b64encode(sound.audio).decode() if sound.audio else None
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
    """What the address says; None if it is wrong, and refused."""
    try:
        query = message_of(AddressQuery, dict(websocket.query_params))
        form = output_format(query.output_format)
    except APIError as refusal:
        await refuse(websocket, refusal)
        return None
    ask = ask_of(None, query.language_code, query.seed)
    how = HowToSpeak(form, ask, await voice_of(state, voice_id))
    return Address(how, query.sync_alignment, query.auto_mode)


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
            await refused(self._socket, refusal)
        except ConnectionError:
            pass

    async def _read(self) -> None:
        """Reads until the client leaves."""
        async for received in self._socket.messages():
            message = message_of(TextMessage, received)
            if self._spoken is None:
                how = self._address.for_text(message.voice_settings)
                self._spoken = SpokenText(self._state, self._socket, how)
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
        self._spoken: set[Context] = set()
        # By id. After its end, an id may be used again while the earlier text is still spoken.
        self._named: dict[str, Context] = {}

    async def run(self) -> None:
        """Serves the connection until it ends."""
        try:
            async with asyncio.TaskGroup() as group:
                await self._read(group)
        except* APIError as refusals:
            refusal = refusals.exceptions[0]
            assert isinstance(refusal, APIError)
            await refused(self._socket, refusal)
        except* ConnectionError:
            pass
        else:
            await self._socket.close()

    async def _read(self, group: asyncio.TaskGroup) -> None:
        """Reads until the client leaves or closes; then only ended texts are spoken further."""
        async for received in self._socket.messages():
            message = message_of(TextMessage, received)
            if message.close_socket:
                for context in list(self._spoken):
                    if not context.closed:
                        await self._close(context)
                return
            await self._take(message, group)
        for context in self._spoken:
            context.task.cancel()

    async def _take(self, message: TextMessage, group: asyncio.TaskGroup) -> None:
        name = message.context_id or "default"
        context = self._named.get(name)
        if message.close_context:
            if context is not None:
                await self._close(context)
            return
        if context is None or context.closed:
            if not message.text:  # keeps the connection alive
                return
            context = self._begin(name, message.voice_settings, group)
        context.take(message, ends_part=self._address.ends_part(message))

    def _begin(self, name: str, settings: VoiceSettings | None, group: asyncio.TaskGroup) -> "Context":
        if len(self._spoken) >= _MAX_CONTEXTS:
            text = f"{_MAX_CONTEXTS} contexts of this connection are open. Close some with close_context."
            raise APIError(503, "queue_full", text, retry_after=1)
        how = self._address.for_text(settings)
        context = Context(name, SpokenText(self._state, self._socket, how))
        self._spoken.add(context)
        self._named[name] = context
        context.task = group.create_task(self._speak(context))
        return context

    async def _close(self, context: "Context") -> None:
        if context.ends_turn:
            context.close()
        else:
            context.task.cancel()
            self._forget(context)
            await self._final(context)

    async def _speak(self, context: "Context") -> None:
        """Speaks a context, and says that it has ended. A refusal ends no other context."""
        try:
            async with contextlib.aclosing(self._address.messages(context.spoken)) as messages:
                async for message in messages:
                    await self._socket.send({**message, "contextId": context.name})
        except APIError as refusal:
            await self._socket.send({**fault(refusal), "contextId": context.name})
        finally:
            self._forget(context)
        await self._final(context)

    def _forget(self, context: "Context") -> None:
        self._spoken.discard(context)
        if self._named.get(context.name) is context:
            del self._named[context.name]

    async def _final(self, context: "Context") -> None:
        await self._socket.send({"audio": None, "isFinal": True, "contextId": context.name})


class Context:
    """A text of `multi-stream-input`. name: its id; task: speaks it."""

    task: asyncio.Task[None]

    def __init__(self, name: str, spoken: SpokenText) -> None:
        self.name = name
        self.spoken = spoken
        self.closed = False
        self._flushed = 0.0

    @property
    def ends_turn(self) -> bool:
        """Whether `close_context` would end the turn now, and not interrupt it."""
        return not self.closed and time.monotonic() - self._flushed < _TURN_SECONDS

    def take(self, message: TextMessage, *, ends_part: bool) -> None:
        """Adds the message's text. Raises APIError if too much waits."""
        text = message.text or ""
        self.spoken.text.add(text)
        if ends_part:
            self.spoken.text.flush()
        self._flushed = time.monotonic() if message.flush and not text.strip() else 0.0

    def close(self) -> None:
        """Ends the text; what has arrived is still spoken."""
        self.closed = True
        self.spoken.text.end()


def fault(refusal: APIError) -> dict[str, object]:
    """A refusal as a message."""
    return {"error": told(refusal), "message": told(refusal), "code": refusal.code}


async def refused(socket: TextSocket, refusal: APIError) -> None:
    """Tells the client of a refusal, and closes."""
    with contextlib.suppress(ConnectionError):
        await socket.send(fault(refusal))
    await socket.close(REFUSED, told(refusal))
