"""Speaks for every dialect: finds voice and language, asks the engine, sends its sound."""

import asyncio
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from starlette.responses import Response

from api.encoding import MEDIA_TYPES
from api.engine.options import OpenedVoiceState, VoiceTarget
from api.engine.speech_stream import SpeechStream
from api.schemas import SpeechRequest
from api.speech.languages import language_of
from api.speech.response import SoundForm, SpeechResponse
from api.state import AppState
from api.voices import lookup
from api.voices.store import UploadedVoice
from xtts.inference.synthesis_request import SynthesisRequest

_STREAM = SoundForm("pcm", "stream")


def sound(*formats: str) -> dict[int | str, dict[str, Any]]:
    """Of the formats, as /openapi.json describes a response of one of them."""
    binary = {"schema": {"type": "string", "format": "binary"}}
    return {200: {"content": {MEDIA_TYPES[one]: binary for one in formats}}}


@dataclass(frozen=True)
class SpeechOrder:
    """What is to be said, as clients name voice and language. voice_field, language_field: what
    the two are called in the request, for its refusals."""

    text: str
    voice: str = lookup.SERVED
    language: str | None = None
    seed: int = 0
    temperature: float | None = None
    speed: float = 1.0
    voice_field: str = "voice"
    language_field: str = "language"


def order_of(wanted: SpeechRequest) -> SpeechOrder:
    """What OpenAI's request asks for."""
    return SpeechOrder(
        wanted.input, wanted.voice_id, wanted.language or wanted.lang_code, wanted.seed,
        wanted.temperature, wanted.speed,
        language_field="language" if wanted.language else "lang_code",
    )  # fmt: skip


async def respond(order: SpeechOrder, form: SoundForm, parts: AppState, caller: str) -> Response:
    """Speaks with the served voice, or with an uploaded one. Raises APIError.

    caller: as `AppState.check_rate` returns it; so in the others.
    """
    return SpeechResponse(await _taken_in(order, form, parts, caller), form, parts)


async def _taken_in(
    order: SpeechOrder, form: SoundForm, parts: AppState, caller: str
) -> SpeechStream:
    request = _request(order, form, parts.engine.standing)
    recording = await recording_of(order.voice, parts, order.voice_field)
    spoken = parts.engine.speak(request, recording, caller)
    parts.rate.count_length(caller, len(order.text))
    return spoken


async def respond_with(
    voice: VoiceTarget, order: SpeechOrder, form: SoundForm, parts: AppState, caller: str
) -> Response:
    """Speaks with a voice that is not served, for this caller alone. Raises APIError."""
    request = _request(order, form, parts.engine.previews.current_of(voice))
    recording = await recording_of(order.voice, parts, order.voice_field)
    spoken = await parts.engine.preview(voice, request, recording, caller)
    parts.rate.count_length(caller, len(order.text))
    return SpeechResponse(spoken, form, parts)


async def stream_of(order: SpeechOrder, parts: AppState, caller: str) -> SpeechStream:
    """The sound as `respond` speaks it, for a protocol that is not HTTP. Raises APIError."""
    return await _taken_in(order, _STREAM, parts, caller)


def _request(
    order: SpeechOrder, form: SoundForm, opened: OpenedVoiceState | None
) -> SynthesisRequest:
    """opened: None where it is not known yet which languages the voice speaks."""
    languages = opened.languages if opened else ()
    language = language_of(order.language, languages, order.language_field)
    return SynthesisRequest(
        order.text, language, order.seed, order.temperature, order.speed,
        whole=form.whole,
    )  # fmt: skip


async def recording_of(asked: str, parts: AppState, param: str = "voice") -> str | None:
    """The recording of the voice that is asked for; None for the served voice. Raises APIError."""
    voice = await voice_of(asked, parts, param)
    return str(parts.voices.recording(voice)) if voice else None


async def voice_of(asked: str, parts: AppState, param: str = "voice") -> UploadedVoice | None:
    """The voice that is asked for by id or by name; None for the served one. Raises APIError."""
    if lookup.is_served(asked):
        return None
    if (voice := parts.voices.get(asked)) is not None:
        return voice
    uploaded = await asyncio.to_thread(parts.voices.all)
    return lookup.find_by_name(asked, served_name(parts), uploaded, param)


async def labels(parts: AppState) -> dict[str, str]:
    """Every voice for a list of names only: label -> id, the served voice first."""
    return lookup.labels(served_name(parts), await asyncio.to_thread(parts.voices.all))


def served_name(parts: AppState) -> str:
    """What the voice that speaks is called, or the one that is being opened."""
    standing = parts.engine.standing
    return standing.voice.name if standing else parts.engine.wanted.name


def languages(parts: AppState) -> tuple[str, ...]:
    """Of the voice that speaks; empty while none does."""
    return parts.engine.standing.languages if parts.engine.standing else ()


def in_header(text: str) -> str:
    """A name as a header may carry it: anything but ASCII percent-encoded."""
    return quote(text, safe=" !#$&'()*+,-./:;=?@[]_~")
