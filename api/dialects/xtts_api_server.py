"""xtts-api-server's routes, which SillyTavern's XTTS provider asks for.

After github.com/daswer123/xtts-api-server, xtts_api_server/server.py. Its routes that name folders
of the server, or switch its model, do not exist here.
"""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel
from starlette.responses import Response

from api.dialects.caller_settings import TtsSettings
from api.response_schemas import PROBLEMS
from api.schemas import LanguageText, Text, VoiceText
from api.speech import speaking
from api.speech.languages import name_of
from api.speech.response import WAV, SoundForm
from api.speech.speaking import SpeechOrder
from api.state import AppState, app_state
from api.voices.lookup import SERVED

router = APIRouter(tags=["xtts-api-server"], responses=PROBLEMS)
Shared = Annotated[AppState, Depends(app_state)]
_STREAM = SoundForm("wav", "stream", "audio/x-wav")


class TtsToAudioRequest(BaseModel):
    """speaker_wav: an id or a name of a voice; the served one where it is missing."""

    text: Text
    speaker_wav: VoiceText | None = None
    language: LanguageText | None = None


class SpeakerRow(BaseModel):
    """A voice as SillyTavern lists it. preview_url: there is none."""

    name: str
    voice_id: str
    preview_url: str


@router.get("/speakers", response_model=list[SpeakerRow])
async def list_speakers(parts: Shared) -> list[dict[str, Any]]:
    """The voices, the served one first."""
    labels = await speaking.labels(parts)
    return [{"name": name, "voice_id": voice, "preview_url": ""} for name, voice in labels.items()]


@router.get("/speakers_list", response_model=list[str])
async def list_speaker_names(parts: Shared) -> list[str]:
    """The voices by name."""
    return list(await speaking.labels(parts))


@router.get("/languages", response_model=dict[str, dict[str, str]])
async def list_languages(parts: Shared) -> dict[str, dict[str, str]]:
    """The served voice's languages: English name -> code."""
    return {"languages": {name_of(code): code for code in speaking.languages(parts)}}


@router.get("/get_models_list", response_model=list[str])
async def list_model_names(parts: Shared) -> list[str]:
    """The served voice's model, which is the only one at a time."""
    return [speaking.served_name(parts)]


@router.get("/get_tts_settings", response_model=TtsSettings)
async def read_settings(request: Request, parts: Shared) -> TtsSettings:
    """What this caller has set, else the defaults."""
    return parts.caller_settings.of(parts.caller(request)) or TtsSettings()


@router.post("/set_tts_settings", response_model=dict[str, str])
async def change_settings(settings: TtsSettings, request: Request, parts: Shared) -> dict[str, str]:
    """Sets temperature and speed of this caller's later requests to /tts_to_audio/ and /tts_stream;
    the other settings change nothing."""
    parts.check_rate(request)
    parts.caller_settings.set(parts.caller(request), settings)
    return {"message": "Settings successfully applied"}


@router.post(
    "/tts_to_audio/", tags=["speech"], response_class=Response, responses=speaking.sound("wav")
)
async def speak_whole(wanted: TtsToAudioRequest, request: Request, parts: Shared) -> Response:
    """Speaks `text` into a WAV file."""
    caller = parts.check_rate(request)
    return await speaking.respond(_order(wanted, request, parts), WAV, parts, caller)


@router.get("/tts_stream/", include_in_schema=False, tags=["speech"], response_class=Response)
@router.get(
    "/tts_stream", tags=["speech"], response_class=Response,
    responses={200: {"content": {"audio/x-wav": {}}}},
)  # fmt: skip
async def speak_stream(
    request: Request,
    parts: Shared,
    text: Annotated[Text, Query()],
    speaker_wav: Annotated[VoiceText | None, Query()] = None,
    language: Annotated[LanguageText | None, Query()] = None,
) -> Response:
    """Speaks `text` as a WAV stream whose header leaves its length open."""
    caller = parts.check_rate(request)
    wanted = TtsToAudioRequest(text=text, speaker_wav=speaker_wav, language=language)
    return await speaking.respond(_order(wanted, request, parts), _STREAM, parts, caller)


def _order(wanted: TtsToAudioRequest, request: Request, parts: AppState) -> SpeechOrder:
    chosen = parts.caller_settings.of(parts.caller(request))
    return SpeechOrder(
        wanted.text, wanted.speaker_wav or SERVED, wanted.language,
        temperature=chosen.temperature if chosen else None, speed=chosen.speed if chosen else 1.0,
        voice_field="speaker_wav",
    )  # fmt: skip
