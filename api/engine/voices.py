"""The voices that are open: the served one, and beside it one preview of an epoch.

Only one preview is open at a time, which bounds the memory. Another one waits until no request uses
it. A preview that is not requested for a while is closed.
"""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from api.engine.queue import EngineLimits
from api.errors import APIError

_LOOK_SECONDS = 0.05


@dataclass(frozen=True)
class VoiceTarget:
    """A voice on disk, as `xtts.voices.voice_files.VoiceSpec` takes it, and the name it goes
    by. decoder: the digest of the one that was learned for it, and is opened with it
    (`xtts.voices.learned_decoder`); "" for none."""

    name: str
    wanted: Mapping[str, Any]
    decoder: str = ""


DEMO = VoiceTarget("demo", {"name": "demo"})


@dataclass(frozen=True)
class OpenedVoiceState:
    """The voice that speaks, and what the child said of it. placed: where ONNX Runtime computes it
    and why there, as `machine.onnxruntime.sessions.SessionStatus`; empty with torch. slots: fewer
    than were asked for, where a GPU's memory decides. speakers,
    own_name: as of `xtts.inference.loaded_voice.LoadedVoice`."""

    key: str
    voice: VoiceTarget
    licence: str = ""
    languages: tuple[str, ...] = ()
    sha256: str = ""
    own_voice: bool = True
    own_name: str = ""
    speakers: Mapping[str, str] = field(default_factory=dict)
    precision: str = ""
    placed: Mapping[str, Any] = field(default_factory=dict)
    slots: int | None = None

    @property
    def trouble(self) -> tuple[str, str]:
        """Why it speaks but not as itself, and the code of that; empty where it does."""
        if self.own_voice:
            return "", ""
        return "This voice has no recording of its own: use an uploaded voice", "no_reference"


class PreviewSlot:
    """At most one open voice beside the served one.

    Args:
        limits: How long and how many may wait for it, and when it is closed.
        open_voice: Has the speaking process open a voice under a key.
        close_voice: Has it close one.
        in_use: Whether anybody speaks, or waits to speak, with the voice of a key.
    """

    def __init__(
        self,
        limits: EngineLimits,
        open_voice: Callable[[str, VoiceTarget], Awaitable[OpenedVoiceState]],
        close_voice: Callable[[str], None],
        in_use: Callable[[str], bool],
    ) -> None:
        self.current: OpenedVoiceState | None = None
        self._limits = limits
        self._open, self._close, self._in_use = open_voice, close_voice, in_use
        self._changing = asyncio.Lock()
        self._waiting = 0
        self._used = 0.0
        self._names = itertools.count(1)

    def current_of(self, voice: VoiceTarget) -> OpenedVoiceState | None:
        """The voice, where it is open."""
        return self.current if self.current and self.current.voice == voice else None

    @asynccontextmanager
    async def held(self, voice: VoiceTarget) -> AsyncIterator[OpenedVoiceState]:
        """The voice, opened; it is not closed inside. Raises APIError where it cannot be opened, or
        others speak with another one for too long."""
        if self._waiting >= self._limits.queue:
            text = f"{self._limits.queue} requests already wait to hear an epoch. Try again later."
            raise APIError(503, "queue_full", text, retry_after=5)
        self._waiting += 1
        try:
            await self._turn(voice)
        finally:
            self._waiting -= 1
        try:
            yield await self._opened(voice)
        finally:
            self._used = time.monotonic()
            self._changing.release()

    async def _turn(self, voice: VoiceTarget) -> None:
        """Waits, in the order of asking, until this voice may be open; holds the lock then."""
        try:
            async with asyncio.timeout(self._limits.turn):
                await self._changing.acquire()
                try:
                    while self.current and self.current.voice != voice and self._busy:
                        await asyncio.sleep(_LOOK_SECONDS)
                except BaseException:
                    self._changing.release()
                    raise
        except TimeoutError:
            text = "Another epoch is in use. Only one can be open beside the served voice."
            raise APIError(503, "preview_busy", text, retry_after=5) from None

    async def _opened(self, voice: VoiceTarget) -> OpenedVoiceState:
        if (current := self.current_of(voice)) is not None:
            return current
        self.close()
        self.current = await self._open(f"preview-{next(self._names)}", voice)
        return self.current

    def expire(self, now: float) -> None:
        """Closes it when it was not requested for a while."""
        idle = now - self._used > self._limits.preview
        if self.current and idle and not self._busy and not self._changing.locked():
            self.close()

    def release(self) -> None:
        """Closes it unless somebody needs it: another voice is to be opened."""
        if not self._busy and not self._changing.locked():
            self.close()

    def close(self) -> None:
        if self.current is not None:
            self._close(self.current.key)
            self.current = None

    def lost(self) -> None:
        """The speaking process is gone, and the voice with it."""
        self.current = None

    @property
    def _busy(self) -> bool:
        """Whether somebody speaks with it. A long text keeps it, piece by piece."""
        if self.current is None or not self._in_use(self.current.key):
            return False
        self._used = time.monotonic()
        return True
