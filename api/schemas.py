"""Request bodies as pydantic models, validated and shown in /openapi.json."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from api import encoding
from xtts.arguments import SEED, SPEED, TEMPERATURE

MOST_CHARACTERS = 4096
MOST_NAME = 100
OPENAI_MODELS = ("tts-1", "tts-1-hd", "gpt-4o-mini-tts")
OWN_MODEL = "sotaque"
Format = Literal["wav", "pcm", "flac", "mp3", "opus", "aac", "m4a"]
Text = Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS)]
VoiceText = Annotated[str, Field(min_length=1, max_length=128)]
# `Brazilian Portuguese` is the longest that a client sends.
LanguageText = Annotated[str, Field(max_length=32)]


class VoiceName(BaseModel):
    """OpenAI's second way to name a voice."""

    id: VoiceText


def _nulls_are_taken(schema: dict[str, Any]) -> None:
    """In the document: null wherever a field may be left out, as `_null_is_left_out` takes it."""
    for name, field in schema["properties"].items():
        kinds = field.setdefault("anyOf", [])
        if name in schema["required"] or {"type": "null"} in kinds:
            if not kinds:
                del field["anyOf"]
            continue
        if not kinds:
            said = {key: field.pop(key) for key in list(field) if key not in _ABOUT_A_FIELD}
            kinds.append(said)
        kinds.append({"type": "null"})


_ABOUT_A_FIELD = frozenset({"title", "description", "default", "anyOf"})


class SpeechRequest(BaseModel):
    """OpenAI's createSpeech, with `language`, `temperature` and `seed`, and what Kokoro, SGLang and
    vLLM add to it. Other fields are taken and not used."""

    model_config = ConfigDict(extra="allow", strict=True, json_schema_extra=_nulls_are_taken)

    input: Annotated[
        str, Field(
            min_length=1, max_length=MOST_CHARACTERS,
            description="What to speak; it may hold [pause:500ms] and tags of SSML (docs/text.md).",
        ),
    ]  # fmt: skip
    model: Annotated[
        str,
        Field(max_length=128, description="Any name: the served voice's model speaks, and the "
              "header X-Model says which it is."),
    ] = OWN_MODEL  # fmt: skip
    voice: Annotated[
        VoiceText | VoiceName,
        Field(description="An id or a name of /v1/voices. OpenAI's names are the served voice."),
    ] = "default"
    response_format: Format = "mp3"
    speed: Annotated[float, Field(ge=SPEED.least, le=SPEED.most)] = 1.0
    stream: Annotated[
        bool | None,
        Field(description="true: bytes as they are made; false: as a whole, with its length."),
    ] = None
    stream_format: Annotated[
        Literal["audio", "sse"] | None,
        Field(description="audio: bytes as they are made. sse: OpenAI's events."),
    ] = None
    language: Annotated[
        str | None,
        Field(max_length=32, description="One of the model's, as a code, a locale or an English "
              "name; its first where it is missing."),
    ] = None  # fmt: skip
    lang_code: Annotated[
        str | None, Field(max_length=32, description="Kokoro's word for `language`.")
    ] = None
    temperature: Annotated[
        float | None,
        Field(
            ge=TEMPERATURE.least, le=TEMPERATURE.most, description="0 always says the likeliest."
        ),
    ] = None
    seed: Annotated[
        int,
        Field(ge=SEED.least, le=SEED.most, description="The same seed says the same, bit for bit."),
    ] = 0
    timestamp_granularities: Annotated[
        list[Literal["word"]] | None,
        Field(max_length=4, description='["word"]: the answer says when each word is spoken: JSON '
              "with the sound in base64, or events of type speech.audio.words with sse."),
    ] = None  # fmt: skip
    return_timestamps: Annotated[
        bool | None, Field(description='Kokoro\'s word for `timestamp_granularities: ["word"]`.')
    ] = None
    instructions: Annotated[
        str | None, Field(description="Taken and not used: XTTS speaks as its reference does.")
    ] = None

    @model_validator(mode="before")
    @classmethod
    def _null_is_left_out(cls, body: Any) -> Any:
        """Clients send every field that they know, and null for what was not chosen."""
        if not isinstance(body, dict):
            return body
        return {name: value for name, value in body.items() if value is not None or name == "input"}

    @field_validator("response_format", mode="before")
    @classmethod
    def _known_formats(cls, value: Any) -> Any:
        if value in encoding.AAC_FORMATS and not encoding.aac_is_installed():
            raise PydanticCustomError("unsupported", "{told}", {"told": encoding.AAC_MISSING})
        return value

    @field_validator("speed", "temperature", mode="before")
    @classmethod
    def _whole_numbers_are_numbers(cls, value: Any) -> Any:
        return float(value) if type(value) is int else value

    @property
    def voice_id(self) -> str:
        """The voice's id or name, however it was given."""
        return self.voice if isinstance(self.voice, str) else self.voice.id

    @property
    def unused(self) -> list[str]:
        """The fields of this request that change nothing."""
        return [*(self.model_extra or ()), *(["instructions"] if self.instructions else [])]


class CaptionedSpeechRequest(SpeechRequest):
    """Kokoro-FastAPI's request for sound with the times of its words."""

    stream: Annotated[
        bool | None, Field(description="true: lines of JSON as sound is made; false: one object.")
    ] = True
    return_timestamps: Annotated[bool | None, Field(description="false: `timestamps` is null.")] = (
        True
    )


class RenameRequest(BaseModel):
    """A voice's new name."""

    name: Annotated[str, Field(min_length=1, max_length=MOST_NAME)]
