"""Route POST /v1/audio/speech: OpenAI's schema with the additional fields of other servers."""

import re
from collections.abc import Sequence
from typing import Annotated, Literal
from urllib.parse import quote

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from starlette.responses import Response

from api.engine.child import VoiceTarget
from api.errors import APIError, excerpt
from api.schemas import (
    NO_HALF_CHARACTERS,
    OPENAI_MODELS,
    OWN_MODEL,
    PROBLEMS,
    CaptionedSpeech,
    LanguageText,
    Text,
    VoiceText,
)
from api.speech import speaking
from api.speech.speaking import Sending, SoundForm, sound_responses, voice_in_style
from api.state import AppState, Shared
from machine.storage.files import JsonObject
from xtts import encoding
from xtts.arguments import SEED, SPEED, TEMPERATURE
from xtts.encoding import MEDIA_TYPES, SENT_WHOLE
from xtts.inference.synthesis_request import SynthesisRequest

router = APIRouter(tags=["speech"], responses=PROBLEMS)
SOUND_RESPONSES = sound_responses(*MEDIA_TYPES)
SOUND_RESPONSES[200]["content"]["text/event-stream"] = {}
SOUND_RESPONSES[200]["model"] = CaptionedSpeech  # with the times of the words
# The field names that a header and a log line may show; a client's body may contain anything.
_FIELD_NAME = re.compile(r"[A-Za-z0-9_.-]{1,40}")
_MAX_IGNORED_FIELDS = 20


Format = Literal["wav", "pcm", "flac", "mp3", "opus", "aac", "m4a"]


class VoiceName(BaseModel):
    """OpenAI's second way to name a voice."""

    id: VoiceText


def _allow_nulls(schema: JsonObject) -> None:
    """Makes every optional field nullable in /openapi.json, as `_drop_nulls` allows."""
    for name in schema["properties"].keys() - schema["required"]:
        field = schema["properties"][name]
        kind = {key: field.pop(key) for key in field.keys() - _FIELD_METADATA}
        kinds = field.setdefault("anyOf", [kind])
        if _NULL_SCHEMA not in kinds:
            kinds.append(_NULL_SCHEMA)


_NULL_SCHEMA = {"type": "null"}
_FIELD_METADATA = frozenset({"title", "description", "default", "anyOf"})


class SpeechRequest(BaseModel):
    """OpenAI's createSpeech, with `language`, `temperature`, `seed` and the additions of Kokoro,
    SGLang and vLLM. Other fields are ignored."""

    model_config = ConfigDict(extra="allow", strict=True, json_schema_extra=_allow_nulls)

    input: Annotated[
        Text, Field(description="The text. It can hold [pause:500ms], SSML tags and Markdown (docs/text.md).")
    ]
    model: Annotated[
        str,
        NO_HALF_CHARACTERS,
        Field(
            max_length=128,
            description="Any name. The served voice's model always speaks; the "
            "response header X-Model names it.",
        ),
    ] = OWN_MODEL
    voice: Annotated[
        VoiceText | VoiceName,
        Field(description="An id or a name of /v1/voices. OpenAI's names mean the served voice."),
    ] = "default"
    response_format: Format = "mp3"
    speed: Annotated[float, Field(ge=SPEED.min, le=SPEED.max)] = 1.0
    stream: Annotated[
        bool | None, Field(description="true: stream the audio; false: send it whole, with its length.")
    ] = None
    stream_format: Annotated[
        Literal["audio", "sse"] | None, Field(description="audio: stream bytes. sse: stream OpenAI's events.")
    ] = None
    language: Annotated[
        LanguageText | None,
        Field(
            description="A language of the model: a code, a locale or an English "
            "name. The default is the model's first."
        ),
    ] = None
    lang_code: Annotated[LanguageText | None, Field(description="Kokoro's name for `language`.")] = None
    temperature: Annotated[
        float | None,
        Field(ge=TEMPERATURE.min, le=TEMPERATURE.max, description="0 always takes the most likely code."),
    ] = None
    seed: Annotated[
        int, Field(ge=SEED.min, le=SEED.max, description="The same seed gives the same audio, bit for bit.")
    ] = 0
    timestamp_granularities: Annotated[
        list[Literal["word"]] | None,
        Field(
            max_length=4,
            description='["word"]: adds the times of the words: JSON '
            "with the audio in base64, or events of type speech.audio.words with sse.",
        ),
    ] = None
    return_timestamps: Annotated[
        bool | None, Field(description='Kokoro\'s name for `timestamp_granularities: ["word"]`.')
    ] = None
    plain: Annotated[
        bool, Field(description="true: reads Markdown and HTML entities in `input` as plain characters.")
    ] = False
    style: Annotated[
        str | None,
        Field(
            max_length=100,
            description="A style of the voice: `whisper` speaks as "
            '`voice: "anna:whisper"` does. /v1/voices lists both.',
        ),
    ] = None
    instructions: Annotated[
        str | None,
        Field(
            description="Used if a word in them names a style of the voice, else ignored: XTTS "
            "takes its style from the reference recording."
        ),
    ] = None

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, body: object) -> object:
        """Drops nulls: clients send every field that they know, and null for an unset one."""
        if not isinstance(body, dict):
            return body
        return {name: value for name, value in body.items() if value is not None or name == "input"}

    @field_validator("response_format", mode="before")
    @classmethod
    def _refuse_missing_encoder(cls, value: object) -> object:
        if value in encoding.AAC_FORMATS and value not in encoding.offered_formats():
            text = encoding.missing_encoder()
            raise APIError(400, "unsupported", text, param="response_format")
        return value

    @property
    def voice_id(self) -> str:
        """The voice's id or name, given in either form."""
        return self.voice if isinstance(self.voice, str) else self.voice.id

    @property
    def with_words(self) -> bool:
        """Whether the response has the times of the words."""
        return bool(self.timestamp_granularities or self.return_timestamps)

    @property
    def sending(self) -> Sending:
        """How the audio is sent. OpenAI's `stream_format` takes precedence over `stream`; without
        either, formats with their length in the header are sent whole."""
        if self.stream_format == "sse":
            return "events"
        if self.with_words:
            return "object"
        is_whole = self.response_format in SENT_WHOLE if self.stream is None else not self.stream
        return "whole" if is_whole and self.stream_format != "audio" else "stream"

    def unused_fields(self, voice: str) -> list[str]:
        """The fields of this request that have no effect. voice: the voice with its style;
        instructions count as used if they named the style."""
        used_instructions = voice != self.voice_id and not self.style
        unused = ["instructions"] if self.instructions and not used_instructions else []
        return [*(self.model_extra or ()), *unused]


@router.post("/v1/audio/speech", response_class=Response, responses=SOUND_RESPONSES)
async def speak(body: SpeechRequest, request: Request, state: Shared) -> Response:
    """Speaks `input`."""
    return await respond(state, state.check_rate(request), body)


async def respond(
    state: AppState, caller: str, body: SpeechRequest, target: VoiceTarget | None = None
) -> Response:
    """Speaks with the served voice or an uploaded one, or with `target` for this caller alone.
    Raises APIError."""
    voice = await voice_in_style(body.voice_id, body.style or "", body.instructions or "", state)
    unused = body.unused_fields(voice)
    refuse_ineffective_fields(body, unused, state)
    form = form_of(body, target.name if target else state.served_name, unused)
    synthesis_request = SynthesisRequest(
        body.input,
        body.language or body.lang_code or "",
        body.seed,
        body.temperature,
        body.speed,
        plain=body.plain,
    )
    return await speaking.respond(
        state,
        caller,
        synthesis_request,
        form,
        voice,
        target=target,
        language_field="language" if body.language else "lang_code",
    )


def form_of(body: SpeechRequest, model: str, unused: Sequence[str]) -> SoundForm:
    """The form of the audio, with its headers. unused: fields without effect."""
    # Headers are ASCII: other characters of a model's name are percent-encoded, and a field name
    # with any becomes `?`.
    headers = {"X-Model": quote(model, safe=" !#$&'()*+,-./:;=?@[]_~")}
    names = [name if _FIELD_NAME.fullmatch(name) else "?" for name in unused]
    if unused := list(dict.fromkeys(names))[:_MAX_IGNORED_FIELDS]:
        headers["X-Ignored-Fields"] = ", ".join(unused)
    return SoundForm(body.response_format, body.sending, headers=headers, with_words=body.with_words)


def refuse_ineffective_fields(body: SpeechRequest, unused: Sequence[str], state: AppState) -> None:
    """With API_STRICT, raises APIError for fields without effect and for unknown models."""
    if not state.settings.api_strict:
        return
    for name in body.model_extra or ():
        text = f"{name} is not a field of this request. Leave it out."
        raise APIError(422, "invalid_request", text, param=name)
    if "instructions" in unused:
        text = (
            "XTTS takes no instructions: its style comes from the reference. Leave them out, or "
            "name a style of the voice in them."
        )
        raise APIError(400, "unsupported", text, param="instructions")
    if body.model not in (OWN_MODEL, *OPENAI_MODELS):
        text = f"There is no model {excerpt(body.model)}. /v1/models lists them."
        raise APIError(404, "model_not_found", text, param="model")
