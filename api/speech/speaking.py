"""Speaks for every API dialect: finds voice and language, calls the engine, sends its audio.

A voice is the served one, one of its speakers or adapters, or an uploaded one. `anna:whisper` is
the style `whisper` of any such voice `anna`.

The JSON with audio and word times follows github.com/remsky/Kokoro-FastAPI,
api/src/structures/schemas.py (`CaptionedSpeechResponse`, `WordTimestamp`); `pieces` and
`cut_pieces` are our additions.
"""

import asyncio
import base64
import functools
import json
import logging
import re
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from api.engine.child import OpenedVoiceState, VoiceTarget
from api.engine.queue import SpeechStream
from api.errors import APIError, excerpt, response
from api.http.connections import TRAILERS, while_connected
from api.schemas import SERVED, Responses, is_served
from api.state import AppState
from api.voices import imported, store
from machine.text import plain_name
from xtts.encoding import MEDIA_TYPES, RATE, Encoder, whole
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.marks import UNNAMED, Mark
from xtts.text import languages
from xtts.text.markup import STYLE_MARK, of_request, voices_named
from xtts.text.reading import speakable
from xtts.voices import speakers

log = logging.getLogger("api")
_SEND_SECONDS = 30.0
# A tenth of a second of PCM16.
_SILENCE_BYTES = 2 * RATE // 10

Sending = Literal["whole", "stream", "events", "lines", "object"]
_CONTENT_TYPES = {
    "events": "text/event-stream",
    "lines": "application/x-ndjson",
    "object": "application/json",
}
# Kokoro's `lang_code`; hexgrad/kokoro, kokoro/pipeline.py.
_KOKORO = {"a": "en", "b": "en", "e": "es", "f": "fr", "h": "hi", "i": "it", "j": "ja", "p": "pt", "z": "zh"}
# These leave the choice to the server.
_ANY = frozenset({"", "auto"})


@dataclass(frozen=True)
class SoundForm:
    """How audio is sent.

    Attributes:
        format: One of `xtts.encoding.MEDIA_TYPES`.
        sending: One file with its length, a stream of bytes, OpenAI's events, or JSON: lines as
            audio is made, or one object.
        media_type: Replaces that of the format.
        wrap: Converts a whole file to the body.
        words: Whether events, lines and the object have the times of the words.
        rate, kilobits: As in `xtts.encoding.Encoder`.
    """

    format: str
    sending: Sending
    media_type: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    wrap: Callable[[bytes], bytes] | None = None
    words: bool = False
    rate: int = RATE
    kilobits: int | None = None

    @property
    def whole(self) -> bool:
        """Whether all audio is made before any is sent."""
        return self.sending in ("whole", "object")

    @property
    def content_type(self) -> str:
        """The Content-Type of the response."""
        return _CONTENT_TYPES.get(self.sending) or self.media_type or MEDIA_TYPES[self.format]


class SpeechResponse(Response):
    """A response that sends 200 only after the first audio, so a refusal has its own status.

    It ends the speech when the client disconnects, at any point. mark: with the name of the voice.
    """

    def __init__(self, spoken: SpeechStream, form: SoundForm, state: AppState, mark: Mark = UNNAMED) -> None:
        super().__init__()
        self.spoken = spoken
        self.form = form
        self.mark = mark
        self.state = state
        self.started = time.monotonic()
        self.sent = False
        self._sent_words = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await while_connected(self._send(scope, receive, send), receive)
        finally:
            self.state.engine.cancel(self.spoken)
            count_pieces(self.spoken, self.state, scope.get("state", {}).get("request_id", ""))
            self.state.metrics.duration.observe(time.monotonic() - self.started)

    async def _send(self, scope: Scope, receive: Receive, send: Send) -> None:
        name = scope.get("state", {}).get("request_id", "")
        try:
            if self.form.whole:
                body = await self._whole()
                await self._begin(send, len(body))
                await _send_part(send, body, more=False)
                return
            async for chunk in self._chunks():
                if not self.sent:
                    await self._begin(send, None)
                await _send_part(send, chunk, more=True)
            if add := scope.get("state", {}).get(TRAILERS):
                add([(name.encode(), value.encode()) for name, value in self._figures.items()])
            await _send_part(send, b"", more=False)
        except APIError as refusal:
            if self.sent:
                # The status is sent already, so leave the body without its end: clients notice.
                log.warning("Request %s: its stream ended early: %s", name, refusal.detail)
                self.state.metrics.streams_cut.labels(refusal.code).inc()
                return
            await response(refusal, scope)(scope, receive, send)
        except TimeoutError:
            text = "Request %s: its client read nothing for %g s and was disconnected."
            log.warning(text, name, _SEND_SECONDS)
            self.state.metrics.streams_cut.labels("not_read").inc()

    async def _begin(self, send: Send, length: int | None) -> None:
        headers = {
            "content-type": self.form.content_type,
            "cache-control": "no-store",
            **self.mark.headers,
            **self.form.headers,
        }
        if self.form.format == "pcm":
            headers["x-sample-rate"] = str(self.form.rate)
        if length is not None:
            headers |= {"content-length": str(length), **self._figures}
        else:  # the status goes out before the last piece is spoken
            headers["trailer"] = ", ".join(self._figures)
        self.sent = True
        raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": 200, "headers": raw})

    @property
    def _figures(self) -> dict[str, str]:
        """The outcomes of the pieces: headers of a whole answer, trailers of a stream."""
        return {
            "x-cut-pieces": str(self.spoken.cut_pieces),
            "x-faulty-pieces": ", ".join(self.spoken.faults) or "0",
            "x-respoken-pieces": str(self.spoken.respoken),
        }

    async def _whole(self) -> bytes:
        pcm = b"".join([chunk async for chunk in self.spoken])
        file = await asyncio.to_thread(
            whole, self.form.format, pcm, self.mark, rate=self.form.rate, kilobits=self.form.kilobits
        )
        if self.form.sending == "object":
            return self._with_captions(file, last=True)
        return self.form.wrap(file) if self.form.wrap else file

    async def _chunks(self) -> AsyncIterator[bytes]:
        """The chunks of a streamed response."""
        encoder = Encoder(self.form.format, mark=self.mark, rate=self.form.rate, kilobits=self.form.kilobits)
        async for chunk in self.spoken:
            if piece := await encoded(encoder, chunk):
                for part in self._parts_of(piece):
                    yield part
        for part in self._parts_of(await encoded(encoder), last=True):
            yield part

    def _parts_of(self, piece: bytes, *, last: bool = False) -> Iterator[bytes]:
        """A piece of the audio file as it is sent; words precede the audio in which they end."""
        if self.form.sending == "lines":
            yield self._with_captions(piece, last=last) + b"\n"
        elif self.form.sending == "stream":
            yield from [piece] if piece else []
        else:
            if words := self._new_words():
                yield _event({"type": "speech.audio.words", "words": words})
            if piece:
                audio = base64.b64encode(piece).decode()
                yield _event({"type": "speech.audio.delta", "audio": audio})
            if last:
                yield _event(self._last_event())

    def _last_event(self) -> dict[str, object]:
        """OpenAI's last event."""
        characters = len(self.spoken.ask.text)
        frames = self.spoken.num_bytes // (2 * RATE // 50)
        usage = {"input_tokens": characters, "output_tokens": frames, "total_tokens": characters + frames}
        more = {"timed": self.spoken.timed} if self.form.words else {}
        return {"type": "speech.audio.done", "usage": usage, **self._outcomes, **more}

    def _with_captions(self, audio: bytes, *, last: bool) -> bytes:
        """A JSON object with audio and the words that have become known. The last one also has the
        outcomes of the pieces, and no words unless every piece had them."""
        words = self._new_words() if self.form.words and (self.spoken.timed or not last) else None
        body = {
            "audio": base64.b64encode(audio).decode(),
            "audio_format": MEDIA_TYPES[self.form.format],
            "timestamps": words,
            **(self._outcomes if last else {}),
        }
        return json.dumps(body, ensure_ascii=False).encode()

    def _new_words(self) -> list[dict[str, object]]:
        """The words that became known since the last call, under Kokoro's names."""
        if not self.form.words:
            return []
        new, self._sent_words = self.spoken.words[self._sent_words :], len(self.spoken.words)
        return [{"word": word, "start_time": start, "end_time": end} for word, start, end in new]

    @property
    def _outcomes(self) -> dict[str, object]:
        return {"cut_pieces": self.spoken.cut_pieces, "pieces": self.spoken.pieces}


def count_pieces(spoken: SpeechStream, state: AppState, name: str) -> None:
    """Counts and logs the pieces that did not end correctly. name: the request's id."""
    for ending in spoken.faults:
        state.metrics.faulty_pieces.labels(ending).inc()
    state.metrics.respoken_pieces.inc(spoken.respoken)
    if spoken.faults:
        reasons = [piece["reason"] for piece in spoken.pieces if piece["reason"]]
        log.warning(
            "Request %s: %d of its %d pieces did not end correctly (%s): %s.",
            name,
            len(spoken.faults),
            len(spoken.pieces),
            ", ".join(spoken.faults),
            "; ".join(reasons),
        )
    if count := spoken.cut_pieces:
        state.metrics.cut_pieces.inc(count)
        log.warning(
            "Request %s: %d of its pieces reached the model's code limit. The end of "
            "such a piece may be missing, or may be sound that is not in the text.",
            name,
            count,
        )


async def encoded(encoder: Encoder, chunk: bytes | None = None) -> bytes:
    """The bytes for a chunk, in a thread if the format needs computation. None: the end."""
    add = encoder.end if chunk is None else functools.partial(encoder.add, chunk)
    if encoder.form in ("pcm", "wav") and encoder.rate == RATE:
        return add()
    return await asyncio.to_thread(add)


async def _send_part(send: Send, body: bytes, *, more: bool) -> None:
    """Sends a part of the body; a client that does not read for half a minute is dropped."""
    async with asyncio.timeout(_SEND_SECONDS):
        await send({"type": "http.response.body", "body": body, "more_body": more})


def _event(data: dict[str, object]) -> bytes:
    return f"data: {json.dumps(data)}\n\n".encode()


def sound(*formats: str) -> Responses:
    """The /openapi.json description of a response in one of these formats."""
    binary = {"schema": {"type": "string", "format": "binary"}}
    return {200: {"content": {MEDIA_TYPES[name]: binary for name in formats}}}


async def respond(
    state: AppState,
    caller: str,
    ask: SynthesisRequest,
    form: SoundForm,
    voice: str = SERVED,
    *,
    target: VoiceTarget | None = None,
    voice_field: str = "voice",
    language_field: str = "language",
) -> Response:
    """The HTTP response to a speech request. Arguments and errors as `stream`."""
    # Before the request is admitted: afterwards nothing may fail or wait.
    mark = await mark_of(state, voice, target)
    ask = replace(ask, whole=form.whole)
    spoken = await stream(
        state, caller, ask, voice, target=target, voice_field=voice_field, language_field=language_field
    )
    return SpeechResponse(spoken, form, state, mark)


async def mark_of(state: AppState, voice: str, target: VoiceTarget | None = None) -> Mark:
    """The mark of speech with this voice: its name as people know it, without a client's id."""
    if target is not None:
        return Mark(target.name)
    if is_served(voice):
        return Mark(state.served_name)
    if (upload := state.voices.get(voice)) is not None:
        return Mark(upload.name)
    name = voice.removesuffix(".wav")
    for uploaded in await asyncio.to_thread(state.voices.all):
        if plain_name(uploaded.name) in (plain_name(voice), plain_name(name)):
            return Mark(uploaded.name)
    is_alias = plain_name(name) not in map(
        plain_name, (*state.speakers, *state.adapters.of_other_weights(""))
    )
    if is_alias and STYLE_MARK not in name:  # one of the served voice's other names
        return Mark(state.served_name)
    return Mark(name)


async def stream(
    state: AppState,
    caller: str,
    ask: SynthesisRequest,
    voice: str = SERVED,
    *,
    target: VoiceTarget | None = None,
    voice_field: str = "voice",
    language_field: str = "language",
) -> SpeechStream:
    """The audio of a request; a short silence for a stream of a text without letters and digits.
    Raises APIError.

    Args:
        caller: As `AppState.check_rate` returns it.
        ask: The request; its language is as the client wrote it, "" takes the voice's.
        voice: The client's name for the voice: the served one, one of its named speakers, or an
            uploaded one.
        target: A voice that replaces the served one for this request alone.
        voice_field, language_field: The names of these two fields, for error messages.
    """
    # The languages of a voice that is not open yet are unknown; the child checks them then.
    engine = state.engine
    sha256 = engine.standing.sha256 if engine.standing else ""
    if target is None and not is_served(voice):
        target = imported.target_of(state.settings, state.adapters, voice, sha256)
        voice = SERVED if target else voice
    opened = engine.preview_of(target) if target else engine.standing
    language = language_of(ask.language, opened.languages if opened else (), language_field)
    ask = replace(ask, language=language)
    recording = await recording_of(state, opened, voice, voice_field)
    cast = {
        name: await recording_of(state, opened, of_request(name, voice), "text")
        for name in voices_named(ask.text)
    }
    spoken = SpeechStream(ask, recording, cast, caller, target)
    if not ask.whole and not speakable(ask.text):
        # Agents stream a chat's text in chunks, and some are only signs: "…", "😊", "***".
        spoken.put(bytes(_SILENCE_BYTES))
        spoken.end()
        return spoken
    spoken = engine.speak(spoken) if target is None else await engine.preview(spoken)
    state.rate.count_length(caller, len(ask.text))
    return spoken


async def recording_of(
    state: AppState, opened: OpenedVoiceState | None, voice_name: str, param: str = "voice"
) -> str | None:
    """The recording of the voice with this id or name, with or without a style; None for the open
    voice's own. Raises APIError.

    opened: The open voice, with its named speakers and the adapters of its weights; None while no
    voice is open.
    """
    if is_served(voice_name):
        return None
    if (voice := state.voices.get(voice_name)) is not None:
        return str(state.voices.recording(voice))
    uploaded = await asyncio.to_thread(state.voices.all)
    if plain_name(voice_name) not in {plain_name(voice.name) for voice in uploaded}:
        named = state.speakers_of(opened)
        # Clients that treat voices as files add their suffix to the name.
        name = speakers.find_speaker(
            voice_name.removesuffix(".wav"), opened.own_name if opened else "", named
        )
        if name is not None:
            return named[name] if name else None
        if opened:  # else the served weights are not known yet
            state.adapters.check(speakers.normalized_name(voice_name), opened.sha256, param)
        person, mark, style = voice_name.rpartition(STYLE_MARK)
        person = person or SERVED
        if mark and plain_name(person) == plain_name(state.served_name):
            return await recording_of(state, opened, f"{SERVED}{STYLE_MARK}{style}", param)
        there = _styles_of(person, opened, (*named, *_names_of(uploaded))) if mark else []
        if there or (mark and await _is_voice(state, opened, person)):
            text = f"{excerpt(person)} has no style {excerpt(style)}. It has {', '.join(there) or 'none'}."
            raise APIError(404, "no_style", text, param=param)
    voice = store.find_by_name(voice_name, state.served_name, uploaded, param)
    return str(state.voices.recording(voice)) if voice else None


async def _is_voice(state: AppState, opened: OpenedVoiceState | None, name: str) -> bool:
    """Whether a request can name this voice."""
    sha256 = opened.sha256 if opened else ""
    if imported.find_named(state.adapters.of_other_weights(sha256), name):
        return True
    try:
        await recording_of(state, opened, name)
    except APIError as refusal:
        return refusal.code == "ambiguous_voice"
    return True


def _styles_of(person: str, opened: OpenedVoiceState | None, names: Iterable[str]) -> list[str]:
    """The styles of a person among the names of voices."""
    plain_person = speakers.normalized_name(person)
    if is_served(plain_person):
        plain_person = speakers.normalized_name(opened.own_name if opened else "").partition(STYLE_MARK)[0]
    pairs = [name.rpartition(STYLE_MARK) for name in names if STYLE_MARK in name]
    return [style.strip() for who, _, style in pairs if speakers.normalized_name(who) == plain_person]


def _names_of(uploaded: Sequence[store.UploadedVoice]) -> list[str]:
    return [voice.name for voice in uploaded]


async def voice_in_style(voice: str, style: str, instructions: str, state: AppState) -> str:
    """The name of a voice in a style: `style`, else the only style of the voice that is a word of
    the instructions. Without a style, the voice's own name."""
    if style.strip():
        return of_request(f"{STYLE_MARK}{style}", voice)
    if not instructions:
        return voice
    words = set(re.findall(r"[\w-]+", plain_name(instructions)))
    uploaded = await asyncio.to_thread(state.voices.all)
    there = _styles_of(voice, state.engine.standing, (*state.speakers, *_names_of(uploaded)))
    meant = [style_name for style_name in there if plain_name(style_name) in words]
    return of_request(f"{STYLE_MARK}{meant[0]}", voice) if len(meant) == 1 else voice


def code_of(language: str | None) -> str:
    """The ISO 639-1 code of a client's language: a name that `languages.code_of` knows, or a
    code of Kokoro such as `a`; "" if it leaves the choice to the server."""
    word = " ".join((language or "").casefold().split())
    if word in _ANY:
        return ""
    return _KOKORO.get(word) or languages.code_of(word)


def is_left_open(language: str | None) -> bool:
    """Whether a client's language without a code leaves the choice to the server: empty, `auto`,
    `und`."""
    word = " ".join((language or "").casefold().split())
    return word in _ANY or word[0].isalpha()


def language_of(name: str | None, spoken: Sequence[str], param: str = "language") -> str:
    """The voice's name for the requested language; "" if none was requested.

    spoken: the languages of the voice; empty if it is not open yet, and the child checks them then.
    Raises APIError (400) naming `param`.
    """
    short = code_of(name)
    if not short and not is_left_open(name):
        text = f"{param} is {excerpt(name)}, which names no language. Send a code such as en."
        raise APIError(400, "language_unsupported", text, param=param)
    if not short or not spoken:
        return short
    for language in spoken:
        if languages.code_of(language) == short:
            return language
    text = f"{param} is {excerpt(name)}. This voice speaks {', '.join(spoken)}."
    raise APIError(400, "language_unsupported", text, param=param)
