"""State that dialects keep between two requests: finished audio, and each caller's settings."""

import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic_core import PydanticCustomError

from api.engine.queue import RecentKeys
from api.state import AppState

_MAX_CALLERS = 1_000
_MAX_SOUNDS = 64
_MAX_SOUND_BYTES = 64 << 20
_MAX_SOUND_SECONDS = 600.0


class _KeptSound(NamedTuple):
    kept_at: float
    wav: bytes


@dataclass
class KeptSounds:
    """Audio that AllTalk's clients fetch with a second request.

    A sound is dropped after ten minutes, the oldest ones earlier if there are too many or their total
    size is too large. The names cannot be guessed.
    """

    _sounds: "OrderedDict[str, _KeptSound]" = field(default_factory=OrderedDict)
    _total_bytes: int = 0

    def keep(self, wav: bytes) -> str:
        """Keeps a WAV file and returns the name to fetch it by."""
        self._make_room(time.monotonic(), len(wav))
        name = f"{secrets.token_urlsafe(16)}.wav"
        self._sounds[name] = _KeptSound(time.monotonic(), wav)
        self._total_bytes += len(wav)
        return name

    def find(self, name: str) -> bytes | None:
        """The WAV file of that name; None if it was dropped or never existed."""
        self._make_room(time.monotonic(), 0)
        sound = self._sounds.get(name)
        return sound.wav if sound else None

    def _make_room(self, now: float, new_bytes: int) -> None:
        """Makes room for a sound of this size. With 0, drops only sounds that are too old."""
        while self._sounds:
            oldest = next(iter(self._sounds.values()))
            is_full = len(self._sounds) >= _MAX_SOUNDS or self._total_bytes + new_bytes > _MAX_SOUND_BYTES
            if now - oldest.kept_at < _MAX_SOUND_SECONDS and not (new_bytes and is_full):
                return
            self._sounds.popitem(last=False)
            self._total_bytes -= len(oldest.wav)


class TtsSettings(BaseModel):
    """xtts-api-server's settings, with its defaults and its bounds. Only temperature and
    speed have an effect; the others are stored and returned. Numbers may be strings, because the
    sliders of a web page send strings."""

    model_config = ConfigDict(allow_inf_nan=False)

    temperature: float = Field(0.75, ge=0.01, le=1.0)
    speed: float = Field(1.0, ge=0.25, le=2.0)
    length_penalty: float = 1.0
    repetition_penalty: float = Field(5.0, ge=0.1, le=10.0)
    top_p: float = Field(0.85, ge=0.0, le=1.0)
    top_k: int = Field(50, ge=0, le=100)
    enable_text_splitting: bool | Literal[0, 1] = True
    stream_chunk_size: int = Field(100, ge=20, le=400)

    @field_validator(
        "temperature",
        "speed",
        "length_penalty",
        "repetition_penalty",
        "top_p",
        "top_k",
        "stream_chunk_size",
        mode="before",
    )
    @classmethod
    def _no_switch_is_a_number(cls, value: object) -> object:
        """Rejects booleans, which pydantic would read as 0 and 1."""
        if isinstance(value, bool):
            raise PydanticCustomError("number", "it must be a number")
        return value

    @field_validator("enable_text_splitting", mode="before")
    @classmethod
    def _no_text_is_a_switch(cls, value: object) -> object:
        """Rejects strings, of which pydantic would accept `y` and `off`."""
        if isinstance(value, str):
            raise PydanticCustomError("switch", "it may be true or false")
        return value


class Memory:
    """The state that the routes of the dialects share."""

    def __init__(self, _state: AppState) -> None:
        # One caller's settings do not affect others.
        self.caller_settings = RecentKeys[str, TtsSettings](_MAX_CALLERS)
        self.kept_sounds = KeptSounds()
