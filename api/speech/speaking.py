"""Speaks for every dialect: finds voice and language, asks the engine, sends its sound."""

import asyncio
from dataclasses import replace
from typing import Any

from starlette.responses import Response

from api.encoding import MEDIA_TYPES
from api.engine.options import VoiceTarget
from api.engine.speech_stream import SpeechStream
from api.speech.languages import language_of
from api.speech.response import SoundForm, SpeechResponse
from api.state import AppState
from api.voices import lookup
from xtts.inference.synthesis_request import SynthesisRequest


def sound(*formats: str) -> dict[int | str, dict[str, Any]]:
    """Of the formats, as /openapi.json describes a response of one of them."""
    binary = {"schema": {"type": "string", "format": "binary"}}
    return {200: {"content": {MEDIA_TYPES[one]: binary for one in formats}}}


async def respond(
    parts: AppState,
    caller: str,
    ask: SynthesisRequest,
    form: SoundForm,
    voice: str = lookup.SERVED,
    **more: Any,
) -> Response:
    """The response that speaks. Arguments and errors as `stream`."""
    spoken = await stream(parts, caller, replace(ask, whole=form.whole), voice, **more)
    return SpeechResponse(spoken, form, parts)


async def stream(
    parts: AppState,
    caller: str,
    ask: SynthesisRequest,
    voice: str = lookup.SERVED,
    *,
    target: VoiceTarget | None = None,
    voice_field: str = "voice",
    language_field: str = "language",
) -> SpeechStream:
    """The sound of a request. Raises APIError.

    Args:
        caller: As `AppState.check_rate` returns it.
        ask: Its language is as the client wrote it; "" leaves it to the voice.
        voice: As the client names it: the served one, or an uploaded one.
        target: What speaks instead of the served voice, for this caller alone.
        voice_field, language_field: What the two are called in the request, for its refusals.
    """
    # Not known of a voice that is not open yet: the text is refused then where it is read.
    engine = parts.engine
    opened = engine.previews.current_of(target) if target else engine.standing
    language = language_of(ask.language, opened.languages if opened else (), language_field)
    ask = replace(ask, language=language)
    recording = await recording_of(voice, parts, voice_field)
    if target is None:
        spoken = engine.speak(ask, recording, caller)
    else:
        spoken = await engine.preview(target, ask, recording, caller)
    parts.rate.count_length(caller, len(ask.text))
    return spoken


async def recording_of(asked: str, parts: AppState, param: str = "voice") -> str | None:
    """The recording of the voice that is asked for by id or by name; None for the served voice.
    Raises APIError."""
    if lookup.is_served(asked):
        return None
    voice = parts.voices.get(asked)
    if voice is None:
        uploaded = await asyncio.to_thread(parts.voices.all)
        voice = lookup.find_by_name(asked, parts.served_name, uploaded, param)
    return str(parts.voices.recording(voice)) if voice else None


async def labels(parts: AppState) -> dict[str, str]:
    """Every voice for a list of names only: label -> id, the served voice first."""
    return lookup.labels(parts.served_name, await asyncio.to_thread(parts.voices.all))
