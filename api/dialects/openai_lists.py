"""Lists for OpenAI's clients: /v1/models, /v1/audio/models and /v1/audio/voices.

OpenAI has the first only. The others are as Open WebUI asks for them and as Kokoro-FastAPI,
SGLang-omni and vLLM-omni answer.
"""

import asyncio
import re
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query

from api.errors import APIError
from api.response_schemas import PROBLEMS, AudioModelList, AudioVoiceList, ModelList, ModelRow
from api.schemas import OPENAI_MODELS, OWN_MODEL
from api.speech import speaking
from api.state import AppState, app_state
from api.validation_messages import shown
from api.voices import lookup

router = APIRouter(prefix="/v1", tags=["models"], responses=PROBLEMS)
Shared = Annotated[AppState, Depends(app_state)]
Legacy = Annotated[bool, Query(description="names only, as Kokoro-FastAPI had them before 0.3")]
# With the date of a snapshot too, such as tts-1-1106 and gpt-4o-mini-tts-2025-03-20.
_OPENAI_NAME = re.compile(rf"(?:{'|'.join(OPENAI_MODELS)})(?:-[0-9]+)*")


@router.get("/models", response_model=ModelList)
async def list_models(parts: Shared) -> dict[str, Any]:
    """OpenAI's list. Every name is the served voice's model; what it may be used for says its
    licence."""
    rows = [_row(name, parts) for name in (OWN_MODEL, *OPENAI_MODELS)]
    return {"object": "list", "data": rows}


@router.get("/models/{model}", response_model=ModelRow)
async def read_model(model: str, parts: Shared) -> dict[str, Any]:
    """One model; the dated names of OpenAI's too."""
    if model != OWN_MODEL and not _OPENAI_NAME.fullmatch(model):
        text = f"There is no model {shown(model)}; /v1/models lists them."
        raise APIError(404, "model_not_found", text, param="model")
    return _row(model, parts)


@router.get("/audio/models", response_model=AudioModelList)
async def list_audio_models(parts: Shared) -> dict[str, Any]:
    """The models that speak, which are all of them: under `models` for Open WebUI, under `data` for
    OpenAI's clients."""
    rows = [{**_row(name, parts), "name": name} for name in (OWN_MODEL, *OPENAI_MODELS)]
    return {"object": "list", "data": rows, "models": rows}


@router.get("/audio/voices", response_model=AudioVoiceList)
async def list_audio_voices(parts: Shared, legacy: Legacy = False) -> dict[str, Any]:
    """The voices by id and name, the served one first."""
    if legacy:
        return {"voices": list(await speaking.labels(parts))}
    uploaded = await asyncio.to_thread(parts.voices.all)
    served = {"id": lookup.SERVED, "name": speaking.served_name(parts)}
    return {"voices": [served, *({"id": voice.id, "name": voice.name} for voice in uploaded)]}


def _row(name: str, parts: AppState) -> dict[str, Any]:
    standing = parts.engine.standing
    return {
        "id": name, "object": "model", "created": parts.started_at, "owned_by": "sotaque",
        "licence": standing.licence if standing else "",
    }  # fmt: skip
