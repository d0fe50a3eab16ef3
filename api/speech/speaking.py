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
from api.errors import APIError, excerpt, problem_response
from api.http.connections import TRAILERS, while_connected
from api.schemas import SERVED, Responses, is_served
from api.state import AppState
from api.voices import imported, store
from machine.text import plain_name
from xtts.encoding import MEDIA_TYPES, RATE, Encoder, encode
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.marks import UNNAMED, Mark
from xtts.text import languages
from xtts.text.markup import STYLE_MARK, full_voice_name, voices_named
from xtts.text.reading import speakable
from xtts.voices import speakers

log = logging.getLogger("api")
# A client that reads nothing for so long is disconnected.
_SEND_SECONDS = 30.0
# A tenth of a second of PCM16.
_SILENCE_BYTES = 2 * RATE // 10

Sending = Literal["whole", "stream", "events", "lines", "object"]
_CONTENT_TYPES = {
    "events": "text/event-stream",
    "lines": "application/x-ndjson",
    "object": "application/json",
}
# The codes of Kokoro's `lang_code` (hexgrad/kokoro, kokoro/pipeline.py).
_KOKORO = {"a": "en", "b": "en", "e": "es", "f": "fr", "h": "hi", "i": "it", "j": "ja", "p": "pt", "z": "zh"}
# These leave the choice to the server.
_UNSPECIFIED = frozenset({"", "auto"})


# ---- the response ----


@dataclass(frozen=True)
class SoundForm:
    """How audio is sent.

    Attributes:
        format: One of `xtts.encoding.MEDIA_TYPES`.
        sending: One file with its length (`whole`), a stream of bytes, OpenAI's events, or JSON:
            lines as audio is made, or one object.
        media_type: Replaces that of the format.
        wrap: Converts a whole file to the body.
        with_words: Whether events, lines and the object have the times of the words.
        rate, kilobits: As in `xtts.encoding.Encoder`.
    """

    format: str
    sending: Sending
    media_type: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    wrap: Callable[[bytes], bytes] | None = None
    with_words: bool = False
    rate: int = RATE
    kilobits: int | None = None

    @property
    def is_whole(self) -> bool:
        """Whether all audio is made before any is sent."""
        return self.sending in ("whole", "object")

    @property
    def content_type(self) -> str:
        """The Content-Type of the response."""
        return _CONTENT_TYPES.get(self.sending) or self.media_type or MEDIA_TYPES[self.format]


class SpeechResponse(Response):
    """A response that sends 200 only after the first audio, so that a refusal has its own status.

    It ends the speech when the client disconnects, at any point. mark: names the voice.
    """

    def __init__(self, stream: SpeechStream, form: SoundForm, state: AppState, mark: Mark = UNNAMED) -> None:
        super().__init__()
        self.stream = stream
        self.form = form
        self.mark = mark
        self.state = state
        self._started = time.monotonic()
        self._has_begun = False
        self._num_sent_words = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await while_connected(self._send(scope, receive, send), receive)
        finally:
            self.state.engine.cancel(self.stream)
            count_pieces(self.stream, self.state, scope.get("state", {}).get("request_id", ""))
            self.state.metrics.duration.observe(time.monotonic() - self._started)

    async def _send(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_id = scope.get("state", {}).get("request_id", "")
        try:
            if self.form.is_whole:
                body = await self._whole_body()
                await self._begin(send, len(body))
                await _send_body_part(send, body, more=False)
                return
            async for chunk in self._chunks():
                if not self._has_begun:
                    await self._begin(send, None)
                await _send_body_part(send, chunk, more=True)
            if add := scope.get("state", {}).get(TRAILERS):
                add([(name.encode(), value.encode()) for name, value in self._outcome_headers.items()])
            await _send_body_part(send, b"", more=False)
        except APIError as refusal:
            if self._has_begun:
                # The status is sent already, so leave the body without its end: clients notice.
                log.warning("Request %s: its stream ended early: %s", request_id, refusal.detail)
                self.state.metrics.streams_cut.labels(refusal.code).inc()
                return
            await problem_response(refusal, scope)(scope, receive, send)
        except TimeoutError:
            text = "Request %s: its client read nothing for %g s and was disconnected."
            log.warning(text, request_id, _SEND_SECONDS)
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
            headers |= {"content-length": str(length), **self._outcome_headers}
        else:  # the status goes out before the last piece is spoken
            headers["trailer"] = ", ".join(self._outcome_headers)
        self._has_begun = True
        raw_headers = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": 200, "headers": raw_headers})

    @property
    def _outcome_headers(self) -> dict[str, str]:
        """The outcomes of the pieces: headers of a whole answer, trailers of a stream."""
        return {
            "x-cut-pieces": str(self.stream.cut_pieces),
            "x-faulty-pieces": ", ".join(self.stream.faults) or "0",
            "x-respoken-pieces": str(self.stream.respoken_pieces),
        }

    async def _whole_body(self) -> bytes:
        pcm = b"".join([chunk async for chunk in self.stream])
        file = await asyncio.to_thread(
            encode, self.form.format, pcm, self.mark, rate=self.form.rate, kilobits=self.form.kilobits
        )
        if self.form.sending == "object":
            return self._with_captions(file, last=True)
        return self.form.wrap(file) if self.form.wrap else file

    async def _chunks(self) -> AsyncIterator[bytes]:
        """The chunks of a streamed response."""
        encoder = Encoder(self.form.format, mark=self.mark, rate=self.form.rate, kilobits=self.form.kilobits)
        async for chunk in self.stream:
            if audio := await encoded(encoder, chunk):
                for part in self._parts_of(audio):
                    yield part
        for part in self._parts_of(await encoded(encoder), last=True):
            yield part

    def _parts_of(self, audio: bytes, *, last: bool = False) -> Iterator[bytes]:
        """A part of the audio file as it is sent; words precede the audio in which they end."""
        if self.form.sending == "lines":
            yield self._with_captions(audio, last=last) + b"\n"
        elif self.form.sending == "stream":
            yield from [audio] if audio else []
        else:
            if words := self._new_words():
                yield _event({"type": "speech.audio.words", "words": words})
            if audio:
                base64_audio = base64.b64encode(audio).decode()
                yield _event({"type": "speech.audio.delta", "audio": base64_audio})
            if last:
                yield _event(self._last_event())

    def _last_event(self) -> dict[str, object]:
        """OpenAI's last event."""
        characters = len(self.stream.request.text)
        frames = self.stream.num_bytes // (2 * RATE // 50)
        usage = {"input_tokens": characters, "output_tokens": frames, "total_tokens": characters + frames}
        timed = {"timed": self.stream.has_word_times} if self.form.with_words else {}
        return {"type": "speech.audio.done", "usage": usage, **self._outcome_json, **timed}

    def _with_captions(self, audio: bytes, *, last: bool) -> bytes:
        """A JSON object with audio and the words that have become known. The last one also has the
        outcomes of the pieces, and no words unless every piece had them."""
        words = (
            self._new_words() if self.form.with_words and (self.stream.has_word_times or not last) else None
        )
        body = {
            "audio": base64.b64encode(audio).decode(),
            "audio_format": MEDIA_TYPES[self.form.format],
            "timestamps": words,
            **(self._outcome_json if last else {}),
        }
        return json.dumps(body, ensure_ascii=False).encode()

    def _new_words(self) -> list[dict[str, object]]:
        """The words that became known since the last call, under Kokoro's names."""
        if not self.form.with_words:
            return []
        new, self._num_sent_words = self.stream.words[self._num_sent_words :], len(self.stream.words)
        return [{"word": word, "start_time": start, "end_time": end} for word, start, end in new]

    @property
    def _outcome_json(self) -> dict[str, object]:
        return {"cut_pieces": self.stream.cut_pieces, "pieces": self.stream.pieces}


def count_pieces(stream: SpeechStream, state: AppState, request_id: str) -> None:
    """Counts and logs the pieces that did not end correctly."""
    for ending in stream.faults:
        state.metrics.faulty_pieces.labels(ending).inc()
    state.metrics.respoken_pieces.inc(stream.respoken_pieces)
    if stream.faults:
        reasons = [piece["reason"] for piece in stream.pieces if piece["reason"]]
        log.warning(
            "Request %s: %d of its %d pieces did not end correctly (%s): %s.",
            request_id,
            len(stream.faults),
            len(stream.pieces),
            ", ".join(stream.faults),
            "; ".join(reasons),
        )
    if count := stream.cut_pieces:
        state.metrics.cut_pieces.inc(count)
        log.warning(
            "Request %s: %d of its pieces reached the model's code limit. The end of "
            "such a piece may be missing, or may be sound that is not in the text.",
            request_id,
            count,
        )


async def encoded(encoder: Encoder, chunk: bytes | None = None) -> bytes:
    """The bytes for a chunk, in a thread if the format needs computation. chunk: None for the end."""
    add = encoder.end if chunk is None else functools.partial(encoder.add, chunk)
    if encoder.form in ("pcm", "wav") and encoder.rate == RATE:
        return add()
    return await asyncio.to_thread(add)


async def _send_body_part(send: Send, body: bytes, *, more: bool) -> None:
    """Sends a part of the body; a client that does not read for half a minute is dropped."""
    async with asyncio.timeout(_SEND_SECONDS):
        await send({"type": "http.response.body", "body": body, "more_body": more})


def _event(data: dict[str, object]) -> bytes:
    return f"data: {json.dumps(data)}\n\n".encode()


def sound_responses(*formats: str) -> Responses:
    """The responses of a route that speaks in these formats, for /openapi.json."""
    binary = {"schema": {"type": "string", "format": "binary"}}
    return {200: {"content": {MEDIA_TYPES[name]: binary for name in formats}}}


# ---- the request ----


async def respond(
    state: AppState,
    caller: str,
    request: SynthesisRequest,
    form: SoundForm,
    voice: str = SERVED,
    *,
    target: VoiceTarget | None = None,
    voice_field: str = "voice",
    language_field: str = "language",
) -> Response:
    """The HTTP response to a speech request. Arguments and errors as `start_stream`."""
    # Before the request is admitted: afterwards nothing may fail or wait.
    mark = await mark_of(state, voice, target)
    request = replace(request, whole=form.is_whole)
    stream = await start_stream(
        state, caller, request, voice, target=target, voice_field=voice_field, language_field=language_field
    )
    return SpeechResponse(stream, form, state, mark)


async def start_stream(
    state: AppState,
    caller: str,
    request: SynthesisRequest,
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
        request: Its language is as the client wrote it; "" takes the voice's.
        voice: The client's name for the voice: the served one, one of its named speakers, or an
            uploaded one.
        target: A voice that replaces the served one for this request alone.
        voice_field, language_field: The names of these two fields, for error messages.
    """
    engine = state.engine
    if target is None and not is_served(voice):
        target = imported.target_of(state.settings, state.adapters, voice, engine.served_sha256)
        voice = SERVED if target else voice
    opened = engine.preview_of(target) if target else engine.served_voice
    # The languages of a voice that is not open yet are unknown; the child checks them then.
    language = language_of(request.language, opened.languages if opened else (), language_field)
    request = replace(request, language=language)
    recording = await recording_of(state, opened, voice, voice_field)
    cast = {
        name: await recording_of(state, opened, full_voice_name(name, voice), "text")
        for name in voices_named(request.text)
    }
    stream = SpeechStream(request, recording, cast, caller, target)
    if not request.whole and not speakable(request.text):
        # Agents stream a chat's text in chunks, and some are only signs: "…", "😊", "***".
        stream.put(bytes(_SILENCE_BYTES))
        stream.end()
        return stream
    stream = engine.speak(stream) if target is None else await engine.preview(stream)
    state.rate_limiter.count_length(caller, len(request.text))
    return stream


# ---- its voice ----


async def recording_of(
    state: AppState, opened: OpenedVoiceState | None, voice_name: str, param: str = "voice"
) -> str | None:
    """The recording of the voice with this id or name, with or without a style; None for the open
    voice's own.

    Args:
        opened: The open voice, with its named speakers and the adapters of its weights; None while
            no voice is open.
        voice_name: As the client wrote it.
        param: The request's field with the name, for error messages.

    Raises:
        APIError: As `store.find_by_name`, or 404 for a style that the voice lacks.
    """
    if is_served(voice_name):
        return None
    if (voice := state.voices.get(voice_name)) is not None:
        return str(state.voices.reference_path(voice))
    uploaded = await asyncio.to_thread(state.voices.all)
    if plain_name(voice_name) not in {plain_name(voice.name) for voice in uploaded}:
        named = state.speakers_of(opened)
        # Clients that treat voices as files add their suffix to the name.
        speaker = speakers.find_speaker(
            voice_name.removesuffix(".wav"), opened.own_name if opened else "", named
        )
        if speaker is not None:
            return named[speaker] if speaker else None
        if opened:  # else the served weights are not known yet
            state.adapters.refuse_other_base(speakers.normalized_name(voice_name), opened.sha256, param)
        if STYLE_MARK in voice_name:
            person, _, style = voice_name.rpartition(STYLE_MARK)
            person = person or SERVED
            if plain_name(person) == plain_name(state.served_name):
                return await recording_of(state, opened, f"{SERVED}{STYLE_MARK}{style}", param)
            styles = _styles_of(person, opened, (*named, *_names_of(uploaded)))
            if styles or await _is_voice(state, opened, person):
                has = ", ".join(styles) or "none"
                text = f"{excerpt(person)} has no style {excerpt(style)}. It has {has}."
                raise APIError(404, "no_style", text, param=param)
    voice = store.find_by_name(voice_name, state.served_name, uploaded, param)
    return str(state.voices.reference_path(voice)) if voice else None


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
    parts = [name.rpartition(STYLE_MARK) for name in names if STYLE_MARK in name]
    return [style.strip() for owner, _, style in parts if speakers.normalized_name(owner) == plain_person]


def _names_of(uploaded: Sequence[store.UploadedVoice]) -> list[str]:
    return [voice.name for voice in uploaded]


async def voice_in_style(voice: str, style: str, instructions: str, state: AppState) -> str:
    """The name of a voice in a style: in `style`, else in the only style of the voice that is a word
    of the instructions, else without one."""
    if style.strip():
        return full_voice_name(f"{STYLE_MARK}{style}", voice)
    if not instructions:
        return voice
    words = set(re.findall(r"[\w-]+", plain_name(instructions)))
    uploaded = await asyncio.to_thread(state.voices.all)
    styles = _styles_of(voice, state.engine.served_voice, (*state.speakers, *_names_of(uploaded)))
    named_styles = [style_name for style_name in styles if plain_name(style_name) in words]
    return full_voice_name(f"{STYLE_MARK}{named_styles[0]}", voice) if len(named_styles) == 1 else voice


async def mark_of(state: AppState, voice: str, target: VoiceTarget | None = None) -> Mark:
    """The mark of speech with this voice: the voice's name as people know it, never an id."""
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


# ---- its language ----


def code_of(language: str | None) -> str:
    """The ISO 639-1 code of a client's language: a name that `languages.code_of` knows, or a
    code of Kokoro such as `a`; "" if it leaves the choice to the server."""
    word = _normalised(language)
    if word in _UNSPECIFIED:
        return ""
    return _KOKORO.get(word) or languages.code_of(word)


def is_left_open(language: str | None) -> bool:
    """Whether a client's language without a code leaves the choice to the server: it is empty or
    `auto`, or begins with a letter (such as `und`)."""
    word = _normalised(language)
    return word in _UNSPECIFIED or word[0].isalpha()


def language_of(name: str | None, voice_languages: Sequence[str], param: str = "language") -> str:
    """The voice's name for the requested language; "" if none was requested.

    voice_languages: those of the voice; empty if it is not open yet, and the child checks them then.
    Raises APIError (400) for the field `param`.
    """
    code = code_of(name)
    if not code and not is_left_open(name):
        text = f"{param} is {excerpt(name)}, which names no language. Send a code such as en."
        raise APIError(400, "language_unsupported", text, param=param)
    if not code or not voice_languages:
        return code
    for language in voice_languages:
        if languages.code_of(language) == code:
            return language
    text = f"{param} is {excerpt(name)}. This voice speaks {', '.join(voice_languages)}."
    raise APIError(400, "language_unsupported", text, param=param)


def _normalised(language: str | None) -> str:
    return " ".join((language or "").casefold().split())
