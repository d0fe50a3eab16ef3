"""xtts-api-server's routes, as SillyTavern's XTTS provider calls them.

After github.com/daswer123/xtts-api-server, xtts_api_server/server.py. Its routes that name
folders of the server or switch its model do not exist here.
"""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel
from starlette.responses import Response

from api.schemas import PROBLEMS, SERVED, LanguageText, Text, VoiceText
from api.speech import speaking
from api.speech.speaking import SoundForm, sound_responses
from api.state import AppState, Shared
from extras.common import protocols
from extras.dialects.memory import Memory, TtsSettings
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.text.languages import ENGLISH_NAMES

router = APIRouter(tags=["xtts-api-server"], responses=PROBLEMS)
_WAV_STREAM = SoundForm("wav", "stream", "audio/x-wav")


class TtsToAudioRequest(BaseModel):
    """speaker_wav: the id or the name of a voice; the served voice if it is missing."""

    text: Text
    speaker_wav: VoiceText | None = None
    language: LanguageText | None = None


class SpeakerRow(BaseModel):
    """A voice in SillyTavern's format. preview_url: always empty."""

    name: str
    voice_id: str
    preview_url: str


@router.get("/speakers")
async def list_speakers(state: Shared) -> list[SpeakerRow]:
    """The voices, the served one first."""
    labels = await protocols.labels(state)
    return [SpeakerRow(name=name, voice_id=voice, preview_url="") for name, voice in labels.items()]


@router.get("/speakers_list")
async def list_speaker_names(state: Shared) -> list[str]:
    """The voices by name."""
    return list(await protocols.labels(state))


@router.get("/languages")
async def list_languages(state: Shared) -> dict[str, dict[str, str]]:
    """The served voice's languages: English name -> code."""
    names = {code: ENGLISH_NAMES.get(code.lower().partition("-")[0], code) for code in state.languages}
    return {"languages": {name: code for code, name in names.items()}}


@router.get("/get_models_list")
async def list_model_names(state: Shared) -> list[str]:
    """The served voice's model, which is the only one at a time."""
    return [state.served_name]


@router.get("/get_tts_settings")
async def read_settings(request: Request, state: Shared) -> TtsSettings:
    """This caller's settings, or the defaults if the caller has set none."""
    return state.part(Memory).caller_settings.get(state.caller_of(request), TtsSettings())


@router.post("/set_tts_settings")
async def change_settings(settings: TtsSettings, request: Request, state: Shared) -> dict[str, str]:
    """Sets temperature and speed of this caller's later requests to /tts_to_audio/ and /tts_stream;
    the other settings change nothing."""
    state.part(Memory).caller_settings[state.check_rate(request)] = settings
    return {"message": "Settings successfully applied"}


@router.post("/tts_to_audio/", tags=["speech"], response_class=Response, responses=sound_responses("wav"))
async def speak_whole(body: TtsToAudioRequest, request: Request, state: Shared) -> Response:
    """Speaks `text` into a WAV file."""
    caller = state.check_rate(request)
    return await _respond(body, SoundForm("wav", "whole"), state, caller)


@router.get("/tts_stream/", include_in_schema=False, tags=["speech"], response_class=Response)
@router.get(
    "/tts_stream", tags=["speech"], response_class=Response, responses={200: {"content": {"audio/x-wav": {}}}}
)
async def speak_stream(
    request: Request,
    state: Shared,
    text: Annotated[Text, Query()],
    speaker_wav: Annotated[VoiceText | None, Query()] = None,
    language: Annotated[LanguageText | None, Query()] = None,
) -> Response:
    """Speaks `text` as a WAV stream whose header leaves its length open."""
    caller = state.check_rate(request)
    body = TtsToAudioRequest(text=text, speaker_wav=speaker_wav, language=language)
    return await _respond(body, _WAV_STREAM, state, caller)


async def _respond(body: TtsToAudioRequest, form: SoundForm, state: AppState, caller: str) -> Response:
    chosen = state.part(Memory).caller_settings.get(caller)
    speech = SynthesisRequest(
        body.text,
        body.language or "",
        temperature=chosen.temperature if chosen else None,
        speed=chosen.speed if chosen else 1.0,
    )
    voice = body.speaker_wav or SERVED
    return await speaking.respond(state, caller, speech, form, voice, voice_field="speaker_wav")
