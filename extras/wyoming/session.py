"""One connection of the Wyoming protocol: its events, its list of voices, its speech.

A session reads while it speaks, so that its speech ends as soon as the client disconnects. Its
texts are spoken one after another, in the same queue and within the same limits as HTTP requests.
The protocol's own reader waits without limit for as many bytes as an event announces; `EventReader`
limits size and time.

Home Assistant sends the name of a voice, but not the language that its user chose. So a model of
several languages lists each of its voices once for each language: `Anna (pt)`. For the same reason
each named speaker and each style is listed as a voice; the served voice also lists them as its
`speakers`, for clients that support those.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.error import Error
from wyoming.event import Event, Eventable, async_read_event, async_write_event
from wyoming.info import Attribution, Describe, Info, TtsProgram, TtsVoice, TtsVoiceSpeaker
from wyoming.ping import Ping, Pong
from wyoming.tts import (
    Synthesize,
    SynthesizeChunk,
    SynthesizeStart,
    SynthesizeStop,
    SynthesizeStopped,
    SynthesizeVoice,
)

from api.errors import APIError, starting_refusal, without_paths
from api.http.connections import Connections, network_of
from api.schemas import SERVED
from api.speech.speaking import mark_of
from api.state import AppState
from extras.common import protocols
from extras.common.spoken_part import SpokenPart
from extras.common.text_stream import TextStream
from xtts.encoding import RATE
from xtts.inference.synthesis_request import SynthesisRequest

log = logging.getLogger("api")
_MAX_SEND_SECONDS = 30.0
# How many texts of one connection may wait.
_MAX_WAITING = 32
# The wait for the first voice to open; Home Assistant repeats its request within it.
_MAX_OPEN_SECONDS = 60.0
_AUDIO_FORMAT = {"rate": RATE, "width": 2, "channels": 1}
# The limit of an event's data and payload; a text of 4,096 characters takes at most 50 kB.
MAX_BYTES = 64 << 10
# Time for a refused client to notice it and stop writing.
LINGER_SECONDS = 1.0
VERSION = "1"
_ATTRIBUTION = Attribution("Sotaque", "")


class SpeechAsk(NamedTuple):
    """A text to speak, and its voice.

    Attributes:
        voice: None for the served voice.
        text: May still arrive in parts.
        is_streamed: Whether the client expects an event after the last audio.
    """

    voice: SynthesizeVoice | None
    text: TextStream
    is_streamed: bool


class Listing(NamedTuple):
    """A voice in the list of voices.

    Attributes:
        voice: The voice's id.
        language: None if the model has only one.
        label: The voice's name without the language.
    """

    voice: str
    language: str | None
    label: str


class WyomingSession:
    """Serves one client until it disconnects, or until one of its requests is refused."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        state: AppState,
        connections: Connections,
    ) -> None:
        peer = writer.get_extra_info("peername")
        self.address = network_of(peer[0] if peer else "")
        self.busy = False
        self._reader = reader
        self._events = EventReader(reader, connections.limits.head_seconds)
        self._writer = writer
        self._state = state
        self._connections = connections
        self._open_text: TextStream | None = None
        self._asks: asyncio.Queue[SpeechAsk] = asyncio.Queue(_MAX_WAITING)

    async def run(self) -> None:
        """Serves the connection until it ends."""
        self._connections.mark_waiting(self)
        reading = asyncio.ensure_future(self._read())
        speaking_ = asyncio.ensure_future(self._speak_all())
        sent_error = False
        try:
            await asyncio.wait({reading, speaking_}, return_when=asyncio.FIRST_COMPLETED)
            for task in (reading, speaking_):
                if task.done():
                    task.result()
        except APIError as refusal:
            await self._send_error(refusal)
            sent_error = True
        except MalformedEvent as fault:
            self._connections.on_closed("not_wyoming")
            await self._send_error(APIError(400, "invalid_event", str(fault)))
            sent_error = True
        except TimeoutError:
            self._connections.on_closed("slow_event")
        except ConnectionError:
            pass
        finally:
            for task in (reading, speaking_):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await task
            if sent_error:
                await self._linger()
            self._connections.forget(self)
            self._writer.close()

    async def _linger(self) -> None:
        """Discards what the client still sends. Closing with unread bytes resets the connection,
        and the client would lose the error's message."""
        with contextlib.suppress(OSError, TimeoutError):
            self._writer.write_eof()
            async with asyncio.timeout(LINGER_SECONDS):
                while await self._reader.read(MAX_BYTES):
                    pass

    def drop(self, reason: str) -> None:
        """Closes the connection immediately and drops unsent data."""
        self._connections.forget(self)
        self._connections.on_closed(reason)
        self._writer.transport.abort()

    async def _read(self) -> None:
        while (event := await self._events.next()) is not None:
            if Describe.is_type(event.type):
                await self._describe()
            elif Ping.is_type(event.type):
                await self._send(Pong(text=Ping.from_event(event).text))
            else:
                self._handle_speech(event)

    def _handle_speech(self, event: Event) -> None:
        """Handles the events of speech requests; ignores those of other services."""
        if Synthesize.is_type(event.type):
            # During a streamed text, this event repeats the whole text for servers without
            # streaming.
            if self._open_text is None:
                protocols.check_length(text := _text_of(event))
                stream = TextStream()
                stream.add(text)
                stream.end()
                self._enqueue(SpeechAsk(_voice_of(event), stream, is_streamed=False))
        elif SynthesizeStart.is_type(event.type):
            self._end_stream()
            self._open_text = TextStream()
            self._enqueue(SpeechAsk(_voice_of(event), self._open_text, is_streamed=True))
        elif SynthesizeChunk.is_type(event.type):
            if self._open_text is not None:
                self._open_text.add(_text_of(event))
        elif SynthesizeStop.is_type(event.type):
            self._end_stream()

    def _enqueue(self, ask: SpeechAsk) -> None:
        try:
            self._asks.put_nowait(ask)
        except asyncio.QueueFull:
            message = f"{_MAX_WAITING} texts of this connection are already waiting."
            raise APIError(503, "queue_full", message, retry_after=1) from None

    def _end_stream(self) -> None:
        if self._open_text is not None:
            self._open_text.end()
            self._open_text = None

    async def _describe(self) -> None:
        deadline = time.monotonic() + _MAX_OPEN_SECONDS
        while not self._state.last_languages:
            if time.monotonic() > deadline:
                raise starting_refusal()
            await asyncio.sleep(0.05)
        state = self._state
        labels = await protocols.labels(state)
        await self._send(
            info_of(
                labels, state.last_languages, state.licence, state.speakers, served_name=state.served_name
            )
        )

    async def _speak_all(self) -> None:
        while True:
            ask = await self._asks.get()
            await self._speak(ask.voice, ask.text)
            if ask.is_streamed:
                await self._send(SynthesizeStopped())

    async def _speak(self, voice: SynthesizeVoice | None, text: TextStream) -> None:
        """Speaks one text, which may arrive in parts: sends a start, the audio, and an end."""
        has_started = False
        async for words in text:
            part = await self._spoken_part(voice, words)
            with self._counted_as_busy():
                async with contextlib.aclosing(part.chunks()) as sound:
                    async for chunk in sound:
                        if not has_started:
                            has_started = True
                            await self._send(await self._start_event(voice))
                        await self._send(AudioChunk(**_AUDIO_FORMAT, audio=chunk))
        if not has_started:  # the text has nothing to speak: the answer is empty audio
            await self._send(await self._start_event(voice))
        await self._send(AudioStop())

    async def _start_event(self, voice: SynthesizeVoice | None) -> "MarkedStart":
        labels = await protocols.labels(self._state)
        name, _ = voice_and_language(voice, labels, self._state.last_languages)
        mark = await mark_of(self._state, name)
        return MarkedStart(**_AUDIO_FORMAT, ai_generated=mark.text)

    @contextlib.contextmanager
    def _counted_as_busy(self) -> Iterator[None]:
        """Counts the connection as active while it speaks. While it waits for more text it is idle,
        so that a vanished client does not take a place from others. Raises APIError."""
        if self._connections.is_full(self.address):
            text = "Too many requests are open, from this address or in total."
            raise APIError(503, "too_many_connections", text, retry_after=1)
        self.busy = True
        self._connections.mark_answered(self)
        try:
            yield
        finally:
            self.busy = False
            self._connections.mark_waiting(self)

    async def _spoken_part(self, voice: SynthesizeVoice | None, text: str) -> SpokenPart:
        labels = await protocols.labels(self._state)
        name, language = voice_and_language(voice, labels, self._state.last_languages)
        ask = SynthesisRequest(text, language or "")
        return SpokenPart(self._state, self.address, ask, name, "Wyoming")

    async def _send(self, event: Eventable) -> None:
        """Sends an event; closes the connection if the client does not read for half a minute."""
        try:
            async with asyncio.timeout(_MAX_SEND_SECONDS):
                await async_write_event(event.event(), self._writer)
        except TimeoutError:
            self.drop("not_read")
            raise ConnectionError from None

    async def _send_error(self, refusal: APIError) -> None:
        """Sends the error. The session then closes, because most clients wait for the end of the audio
        and ignore errors."""
        with contextlib.suppress(ConnectionError):
            await self._send(Error(text=without_paths(refusal.detail), code=refusal.code))


@dataclass
class MarkedStart(AudioStart):
    """The start of audio with the mark of synthetic speech (`xtts.marks`), in a field that the
    protocol's readers skip."""

    ai_generated: str = ""

    def event(self) -> Event:
        start = super().event()
        return Event(start.type, {**start.data, "ai_generated": self.ai_generated})


def _text_of(event: Event) -> str:
    text = event.data.get("text")
    if not isinstance(text, str):
        raise MalformedEvent(f"{event.type} needs a text.")
    if any("\ud800" <= sign <= "\udfff" for sign in text):
        message = "text is not valid Unicode: it contains half a character (a lone surrogate)."
        raise APIError(422, "invalid_request", message, param="text")
    return text


def _voice_of(event: Event) -> SynthesizeVoice | None:
    voice = event.data.get("voice")
    if voice is None:
        return None
    if not isinstance(voice, dict) or not all(
        value is None or isinstance(value, str) for value in voice.values()
    ):
        raise MalformedEvent("voice must be an object of texts.")
    return SynthesizeVoice(voice.get("name"), voice.get("language"), voice.get("speaker"))


class MalformedEvent(Exception):
    """The received bytes are not an event, or the event is too large."""


class EventReader:
    """Reads the events of one connection.

    event_seconds: the time limit from the first byte of an event to its last.
    """

    def __init__(self, reader: asyncio.StreamReader, event_seconds: float) -> None:
        self._reader = reader
        self._event_seconds = event_seconds
        self._ended = False
        self._deadline = 0.0

    async def next(self) -> Event | None:
        """The next event; None if the client has disconnected. Raises MalformedEvent, or
        TimeoutError if the event arrives too slowly."""
        try:
            # Reads a line, and then the number of bytes in the line.
            event = await async_read_event(cast(asyncio.StreamReader, self))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        except (AttributeError, KeyError, TypeError, RecursionError) as error:
            raise MalformedEvent("This is not an event of the Wyoming protocol.") from error
        if event is None and not self._ended:
            raise MalformedEvent("This is not an event of the Wyoming protocol.")
        if event is not None and not (isinstance(event.type, str) and isinstance(event.data, dict)):
            raise MalformedEvent("An event needs a text as its type, and an object as its data.")
        return event

    async def readline(self) -> bytes:
        """asyncio's method of that name. Between events there is no time limit."""
        first = await self._reader.read(1)
        if not first:
            self._ended = True
            return b""
        self._deadline = asyncio.get_running_loop().time() + self._event_seconds
        async with asyncio.timeout_at(self._deadline):
            return first + await self._reader.readline()

    async def readexactly(self, size: int) -> bytes:
        """asyncio's method of that name."""
        if type(size) is not int or size > MAX_BYTES:
            raise MalformedEvent(f"An event can have at most {MAX_BYTES:,} bytes.")
        async with asyncio.timeout_at(self._deadline):
            return await self._reader.readexactly(size)


def listings_of(labels: Mapping[str, str], languages: Sequence[str]) -> dict[str, Listing]:
    """The listings by their names. labels: label -> id of every voice (`extras.common.protocols`)."""
    if len(languages) < 2:
        return {label: Listing(voice, None, label) for label, voice in labels.items()}
    return {
        f"{label} ({language})": Listing(voice, language, label)
        for label, voice in labels.items()
        for language in languages
    }


def info_of(
    labels: Mapping[str, str],
    languages: Sequence[str],
    licence: str,
    speakers: Iterable[str] = (),
    *,
    served_name: str = "",
) -> Info:
    """The answer to `describe`. speakers: the named speakers of the served voice; served_name: with
    its epoch, so it describes the voice, whose listed name does not change."""
    named = [TtsVoiceSpeaker(name) for name in speakers]
    voices = [
        TtsVoice(
            name=name,
            attribution=_ATTRIBUTION,
            installed=True,
            description=served_name or label if voice == SERVED else label,
            version=VERSION,
            languages=[language] if language else list(languages),
            speakers=named if named and voice == SERVED else None,
        )
        for name, (voice, language, label) in listings_of(labels, languages).items()
    ]
    about = "Sotaque: a fine-tuned XTTS-v2"
    program = TtsProgram(
        name="sotaque",
        attribution=_ATTRIBUTION,
        installed=True,
        version=VERSION,
        description=f"{about} ({licence})" if licence else about,
        voices=voices,
        supports_synthesize_streaming=True,
    )
    return Info(tts=[program])


def voice_and_language(
    voice: SynthesizeVoice | None, labels: Mapping[str, str], languages: Sequence[str]
) -> tuple[str, str | None]:
    """The voice (id or name) and the language of a request; None lets the model choose the
    language. With a `speaker`, the voice's name is used for the language only."""
    if voice is None:
        return SERVED, None
    name, language = voice.name or SERVED, voice.language
    if (listing := listings_of(labels, languages).get(name)) is not None:
        name, language = listing.voice, listing.language
    else:  # a former name of the served voice, as a client stored it
        for code in languages:
            if name.endswith(suffix := f" ({code})"):
                name, language = name.removesuffix(suffix), code
    return voice.speaker or name, language
