"""Lists for OpenAI's clients: /v1/models, /v1/audio/models and /v1/audio/voices.

Only the first belongs to OpenAI's API. Open WebUI requests the other two, in the format of
Kokoro-FastAPI, SGLang-omni and vLLM-omni.
"""

import asyncio
import re
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel

from api.errors import APIError, excerpt
from api.schemas import OPENAI_MODELS, OWN_MODEL, PROBLEMS, SERVED
from api.state import AppState, Shared
from extras.common import protocols

router = APIRouter(prefix="/v1", tags=["models"], responses=PROBLEMS)
Legacy = Annotated[bool, Query(description="names only, as Kokoro-FastAPI had them before 0.3")]
# Also with the date of a snapshot, such as tts-1-1106 and gpt-4o-mini-tts-2025-03-20.
_OPENAI_NAME = re.compile(rf"(?:{'|'.join(OPENAI_MODELS)})(?:-[0-9]+)*")


class ModelRow(BaseModel):
    """A model as OpenAI lists it, and its licence."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str
    licence: str


class ModelList(BaseModel):
    """The models."""

    object: Literal["list"] = "list"
    data: list[ModelRow]


class AudioModelRow(ModelRow):
    """A model that speaks; Open WebUI shows its name."""

    name: str


class AudioModelList(BaseModel):
    """The models, under both keys that clients read."""

    object: Literal["list"] = "list"
    data: list[AudioModelRow]
    models: list[AudioModelRow]


class AudioVoiceRow(BaseModel):
    """A voice. id: for requests; name: for people."""

    id: str
    name: str


class AudioVoiceList(BaseModel):
    """The voices; with `legacy`, only a name or id of each."""

    voices: list[AudioVoiceRow] | list[str]


@router.get("/models")
async def list_models(state: Shared) -> ModelList:
    """Lists OpenAI's model names, which all stand for the model of the served voice, with its
    licence."""
    return ModelList(data=[ModelRow(**_row(name, state)) for name in (OWN_MODEL, *OPENAI_MODELS)])


@router.get("/models/{model}")
async def read_model(model: str, state: Shared) -> ModelRow:
    """Returns one model; also accepts OpenAI's dated names."""
    if model != OWN_MODEL and not _OPENAI_NAME.fullmatch(model):
        text = f"There is no model {excerpt(model)}. /v1/models lists them."
        raise APIError(404, "model_not_found", text, param="model")
    return ModelRow(**_row(model, state))


@router.get("/audio/models")
async def list_audio_models(state: Shared) -> AudioModelList:
    """Lists the speech models, which are all models: under `models` for Open WebUI, under `data`
    for OpenAI's clients."""
    names = (OWN_MODEL, *OPENAI_MODELS)
    rows = [AudioModelRow(**_row(name, state), name=name) for name in names]
    return AudioModelList(data=rows, models=rows)


@router.get("/audio/voices")
async def list_audio_voices(state: Shared, legacy: Legacy = False) -> AudioVoiceList:
    """Lists the voices by id and name, the served one first."""
    if legacy:
        return AudioVoiceList(voices=list(await protocols.labels(state)))
    rows = [AudioVoiceRow(id=SERVED, name=state.served_name)]
    rows += [AudioVoiceRow(id=name, name=name) for name in state.speakers]
    for voice in await asyncio.to_thread(state.voices.all):
        rows.append(AudioVoiceRow(id=voice.id, name=voice.name))
    return AudioVoiceList(voices=rows)


def _row(name: str, state: AppState) -> dict[str, Any]:
    return {"id": name, "created": state.started_at, "owned_by": "sotaque", "licence": state.licence}
