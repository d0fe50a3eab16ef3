"""AllTalk's routes, as SillyTavern's AllTalk provider calls them.

After github.com/erew123/alltalk_tts, tts_server.py of version 1 (branch main) and of version 2
(branch alltalkbeta). Both speak first and return an address; the client then fetches the audio,
which is kept in memory for up to ten minutes. Narrator, RVC and playback on the server are not
supported.
"""

import html
import json
import re
from typing import Annotated, Literal

from fastapi import APIRouter, Form, Query, Request
from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic_core import PydanticCustomError
from starlette.responses import PlainTextResponse, Response

from api.errors import APIError
from api.routes.ranged_file import SPOKEN
from api.schemas import PROBLEMS, SERVED, LanguageText, Text, VoiceText
from api.speech import speaking
from api.speech.speaking import SoundForm, sound_responses
from api.state import AppState, Shared
from extras.common import protocols
from extras.dialects.memory import Memory
from xtts.arguments import SPEED, TEMPERATURE
from xtts.inference.synthesis_request import SynthesisRequest

router = APIRouter(tags=["alltalk"], responses=PROBLEMS)
_DISABLED_WORDS = frozenset({"", "false", "disabled", "0"})
_WAV_STREAM = SoundForm("wav", "stream")
_UNSPOKEN_SIGNS = re.compile(r"[\W_]+")


class GenerateForm(BaseModel):
    """AllTalk's form. Fields that are not listed have no effect."""

    model_config = ConfigDict(allow_inf_nan=False)

    text_input: Text
    text_filtering: str = Field("standard", description="html: character references are resolved.")
    # An empty field of a form counts as left out.
    character_voice_gen: Annotated[str, Field(max_length=128)] = SERVED
    language: LanguageText = "auto"
    streaming: bool | Literal[0, 1] = False
    speed: float = Field(1.0, ge=SPEED.min, le=SPEED.max)
    temperature: float | None = Field(None, ge=TEMPERATURE.min, le=TEMPERATURE.max)
    narrator_enabled: str = Field("false", description="Without effect.")
    rvccharacter_voice_gen: str = Field("Disabled", description="Without effect.")
    autoplay: str = Field("false", description="Without effect.")

    @field_validator("streaming", mode="before")
    @classmethod
    def _switches(cls, value: object) -> object:
        """Accepts only the values that the schema names; pydantic alone would accept `y` and
        `off`."""
        if isinstance(value, str) and value.casefold() not in ("true", "false", "0", "1"):
            raise PydanticCustomError("switch", "it may be true or false")
        return value

    @property
    def unused(self) -> list[str]:
        """The enabled fields that have no effect here."""
        names = ("narrator_enabled", "rvccharacter_voice_gen", "autoplay")
        return [name for name in names if getattr(self, name).lower() not in _DISABLED_WORDS]


class Generated(BaseModel):
    """The address of the audio."""

    status: str
    output_file_path: str
    output_file_url: str
    output_cache_url: str


_GENERATED: dict[int | str, dict[str, object]] = {200: {"model": Generated, "content": {"audio/wav": {}}}}


@router.get("/api/ready", response_class=PlainTextResponse)
async def ready(state: Shared) -> str:
    """`Ready`, or `Unloaded` while no voice is open."""
    return "Ready" if state.engine.served_voice else "Unloaded"


@router.get("/api/voices")
async def list_voices(state: Shared) -> dict[str, object]:
    """The voices by name."""
    return {"status": "success", "voices": list(await protocols.labels(state))}


@router.get("/api/rvcvoices")
async def list_rvc_voices() -> dict[str, object]:
    """Returns an empty list, because RVC is not supported."""
    return {"status": "success", "rvcvoices": ["Disabled"]}


@router.get("/api/currentsettings")
async def current_settings(state: Shared) -> dict[str, object]:
    """Returns the available choices, by the names of both versions."""
    model = state.served_name
    return {
        "engines_available": ["xtts"],
        "current_engine_loaded": "xtts",
        "models_available": [{"name": model, "model_name": model}],
        "current_model_loaded": model,
        "manufacturer_name": "sotaque",
        "audio_format": "wav",
        "deepspeed_capable": False,
        "deepspeed_available": False,
        "deepspeed_enabled": False,
        "deepspeed_status": False,
        "lowvram_capable": False,
        "lowvram_enabled": False,
        "low_vram_status": False,
        "generationspeed_capable": True,
        "pitch_capable": False,
        "repetitionpenalty_capable": False,
        "streaming_capable": True,
        "temperature_capable": True,
        "languages_capable": True,
        "multivoice_capable": True,
        "multimodel_capable": False,
        "finetuned_model": False,
    }


@router.post("/api/tts-generate", tags=["speech"], response_class=Response, responses=_GENERATED)
async def generate(form: Annotated[GenerateForm, Form()], request: Request, state: Shared) -> Response:
    """Speaks `text_input` and returns the address of the audio; with `streaming`, the audio
    itself."""
    caller = state.check_rate(request)
    text = html.unescape(form.text_input) if form.text_filtering == "html" else form.text_input
    speech = SynthesisRequest(text, form.language, temperature=form.temperature, speed=form.speed)
    voice, sound_form = form.character_voice_gen, _WAV_STREAM
    if not form.streaming:
        sound_form = await _keeping_form(voice, request, state, form.unused)
    return await speaking.respond(state, caller, speech, sound_form, voice, voice_field="character_voice_gen")


@router.post(
    "/api/previewvoice/", tags=["speech"], response_class=Response, responses={200: {"model": Generated}}
)
async def preview_voice(voice: Annotated[VoiceText, Form()], request: Request, state: Shared) -> Response:
    """Speaks a sentence with the name of a voice, and returns the address of the audio."""
    caller = state.check_rate(request)
    name = _UNSPOKEN_SIGNS.sub(" ", voice.removesuffix(".wav")).strip()
    speech = SynthesisRequest(f"This is the voice {name}.", "")
    sound_form = await _keeping_form(voice, request, state, [])
    return await speaking.respond(state, caller, speech, sound_form, voice)


@router.get(
    "/api/tts-generate-streaming", tags=["speech"], response_class=Response, responses=sound_responses("wav")
)
async def generate_stream(
    request: Request,
    state: Shared,
    text: Annotated[Text, Query()],
    voice: Annotated[VoiceText, Query()] = SERVED,
    language: Annotated[LanguageText, Query()] = "auto",
) -> Response:
    """Speaks `text` as a WAV stream whose header leaves its length open."""
    caller = state.check_rate(request)
    speech = SynthesisRequest(text, language)
    return await speaking.respond(state, caller, speech, _WAV_STREAM, voice)


@router.get("/audio/{name}", response_class=Response, responses=sound_responses("wav"))
@router.get("/audiocache/{name}", response_class=Response, responses=sound_responses("wav"))
async def read_sound(name: str, state: Shared) -> Response:
    """Returns audio that was spoken within the last ten minutes."""
    wav = state.part(Memory).kept_sounds.find(name)
    if wav is None:
        raise APIError(404, "no_sound", "That audio does not exist, or is no longer kept. Generate it again.")
    headers = {"Cache-Control": "no-store", **SPOKEN}
    return Response(wav, media_type="audio/wav", headers=headers)


async def _keeping_form(voice: str, request: Request, state: AppState, unused: list[str]) -> SoundForm:
    """The form of an answer for which the audio is kept, and its address is returned. Clients of version
    1 use the address unchanged and add `.wav` to voice names; clients of version 2 append it to the
    server's address."""
    is_version_1 = voice.endswith(".wav") and voice not in await protocols.labels(state)
    root = str(request.base_url).rstrip("/") if is_version_1 else ""
    headers = {"X-Ignored-Fields": ", ".join(unused)} if unused else {}

    def keep(wav: bytes) -> bytes:
        name = state.part(Memory).kept_sounds.keep(wav)
        body = {
            "status": "generate-success",
            "output_file_path": name,
            "output_file_url": f"{root}/audio/{name}",
            "output_cache_url": f"{root}/audiocache/{name}",
        }
        return json.dumps(body).encode()

    return SoundForm("wav", "whole", "application/json", headers, keep)
