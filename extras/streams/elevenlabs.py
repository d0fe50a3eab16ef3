"""ElevenLabs' speech routes over HTTP, as its clients, pipecat and LiveKit call them.

After https://elevenlabs.io/docs/api-reference/text-to-speech. `stability`, `similarity_boost`,
`style` and the other settings of ElevenLabs' models have no effect.
"""

import asyncio
import re
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from api.schemas import PROBLEMS, SERVED, LanguageText, Text, VoiceText
from api.speech import speaking
from api.speech.speaking import Sending, SoundForm, sound_responses
from api.state import AppState, Shared
from extras.common import protocols
from extras.streams import output_format
from machine.text import plain_name
from xtts.arguments import SEED, SPEED
from xtts.inference.synthesis_request import SynthesisRequest

router = APIRouter(tags=["elevenlabs"], responses=PROBLEMS)
_SOUND = sound_responses("mp3", "pcm", "wav")
# Clients have one of these as their default voice.
_VOICE_OF_ELEVENLABS = re.compile(r"[A-Za-z0-9]{20}")
FormatName = Annotated[str, Query(description="pcm_24000, mp3_44100_128, …")]


class VoiceSettings(BaseModel):
    """ElevenLabs' settings of a voice, of which `speed` has an effect."""

    model_config = ConfigDict(allow_inf_nan=False, strict=True)

    speed: float | None = Field(None, ge=SPEED.min, le=SPEED.max)


class TextToSpeech(BaseModel):
    """ElevenLabs' request. Fields that are not listed have no effect."""

    model_config = ConfigDict(strict=True)

    text: Text
    language_code: LanguageText | None = None
    voice_settings: VoiceSettings | None = None
    seed: int | None = Field(None, ge=SEED.min, le=SEED.max)


@router.post("/v1/text-to-speech/{voice_id}", tags=["speech"], response_class=Response, responses=_SOUND)
async def speak(
    voice_id: VoiceText,
    body: TextToSpeech,
    request: Request,
    state: Shared,
    output_format: FormatName = output_format.DEFAULT,
) -> Response:
    """Speaks `text`, sent whole."""
    return await _respond(voice_id, body, state.check_rate(request), state, output_format, "whole")


@router.post(
    "/v1/text-to-speech/{voice_id}/stream", tags=["speech"], response_class=Response, responses=_SOUND
)
async def speak_stream(
    voice_id: VoiceText,
    body: TextToSpeech,
    request: Request,
    state: Shared,
    output_format: FormatName = output_format.DEFAULT,
) -> Response:
    """Speaks `text`, sent while it is spoken."""
    return await _respond(voice_id, body, state.check_rate(request), state, output_format, "stream")


async def _respond(
    voice_id: str, body: TextToSpeech, caller: str, state: AppState, format_name: str, sending: Sending
) -> Response:
    form = output_format.output_format(format_name)
    synthesis = synthesis_request(body.voice_settings, body.language_code, body.seed, body.text)
    sound = SoundForm(form.form, sending, rate=form.rate, kilobits=form.kilobits)
    voice = await resolve_voice(state, voice_id)
    return await speaking.respond(state, caller, synthesis, sound, voice, language_field="language_code")


def synthesis_request(
    settings: VoiceSettings | None, language: str | None, seed: int | None, text: str = ""
) -> SynthesisRequest:
    """A request with ElevenLabs' parameters."""
    speed = settings.speed if settings else None
    return SynthesisRequest(text, language or "", seed or 0, speed=1.0 if speed is None else speed)


async def resolve_voice(state: AppState, voice_id: str) -> str:
    """The voice of a client's id or name. An id of ElevenLabs', which no voice here has, is the
    served voice, as OpenAI's names are."""
    if not _VOICE_OF_ELEVENLABS.fullmatch(voice_id):
        return voice_id
    uploaded = await asyncio.to_thread(state.voices.all)
    labels = protocols.labels_of(uploaded, state.speakers)
    names = {plain_name(name) for name in (*labels, state.served_name)}
    return voice_id if plain_name(voice_id) in names else SERVED
