"""Request bodies as pydantic models, validated and shown in /openapi.json."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic_core import PydanticCustomError

MOST_CHARACTERS = 4096
# Names of OpenAI's voices: programs send one without asking. All of them are the served voice.
OPENAI_VOICES = (
    "alloy", "ash", "ballad", "cedar", "coral", "echo", "fable", "marin", "nova", "onyx", "sage",
    "shimmer", "verse",
)  # fmt: skip
OPENAI_MODELS = ("tts-1", "tts-1-hd", "gpt-4o-mini-tts")
Format = Literal["wav", "pcm", "flac", "mp3", "opus"]
_CANNOT = {
    "response_format": "wav, pcm, flac, mp3 and opus are made here; aac would need FFmpeg",
}


class VoiceName(BaseModel):
    """OpenAI's second way to name a voice."""

    model_config = ConfigDict(extra="forbid")
    id: Annotated[str, Field(min_length=1, max_length=64)]


class SpeechRequest(BaseModel):
    """OpenAI's createSpeech, with `language`, `temperature` and `seed`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    input: Annotated[
        str, Field(
            min_length=1, max_length=MOST_CHARACTERS,
            description="What to speak; it may hold [pause:500ms] and tags of SSML (docs/text.md).",
        ),
    ]  # fmt: skip
    model: Annotated[
        str, Field(max_length=128, description="An id of /v1/models; OpenAI's names work too.")
    ] = "sotaque"
    voice: Annotated[
        Annotated[str, Field(min_length=1, max_length=64)] | VoiceName,
        Field(description="An id of /v1/voices. OpenAI's names are the served voice."),
    ] = "default"
    response_format: Format = "mp3"
    speed: Annotated[float, Field(ge=0.25, le=4.0)] = 1.0
    stream_format: Annotated[
        Literal["audio", "sse"] | None,
        Field(description="audio: bytes as they are made. sse: OpenAI's events."),
    ] = None
    language: Annotated[
        str | None,
        Field(max_length=16, description="One of the model's; its first where it is missing."),
    ] = None
    temperature: Annotated[
        float | None, Field(ge=0.0, le=2.0, description="0 always says the likeliest.")
    ] = None
    seed: Annotated[
        int, Field(ge=0, le=2**63 - 1, description="The same seed says the same, bit for bit.")
    ] = 0
    instructions: Annotated[
        str | None, Field(max_length=0, description="Not done here: must be empty.")
    ] = None

    @field_validator("response_format", mode="before")
    @classmethod
    def _known_formats(cls, value: Any) -> Any:
        if value == "aac":
            raise PydanticCustomError("unsupported", _CANNOT["response_format"])
        return value

    @field_validator("instructions", mode="before")
    @classmethod
    def _no_instructions(cls, value: Any) -> Any:
        if isinstance(value, str) and value:
            raise PydanticCustomError(
                "unsupported",
                "XTTS takes no instructions: it speaks as its reference does. Leave this out",
            )
        return value

    @field_validator("speed", "temperature", mode="before")
    @classmethod
    def _whole_numbers_are_numbers(cls, value: Any) -> Any:
        return float(value) if type(value) is int else value

    @property
    def voice_id(self) -> str:
        """The voice's name, however it was given."""
        return self.voice if isinstance(self.voice, str) else self.voice.id
