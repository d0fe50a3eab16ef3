"""The open voices: the served one, and at most one preview of an epoch.

One preview at a time bounds the memory. Another one waits until no request uses the open one. A
preview that is unused for a while is closed.
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
    """A voice on disk. name: for /status and the log; wanted: the fields of its
    `xtts.voices.voice_files.VoiceSpec`; decoder: the digest of its learned decoder
    (`xtts.voices.learned_decoder`), "" if it has none."""

    name: str
    wanted: Mapping[str, Any]
    decoder: str = ""


DEMO = VoiceTarget("demo", {"name": "demo"})


@dataclass(frozen=True)
class OpenedVoiceState:
    """An open voice, as the child reported it. placed: where and why ONNX Runtime computes it, as
    in `machine.onnxruntime.sessions.SessionStatus`; empty with torch. slots: fewer than configured
    if the GPU's memory requires it. speakers, own_name: as in
    `xtts.inference.loaded_voice.LoadedVoice`."""

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
        """The message and code for a voice without a reference recording; empty otherwise."""
        if self.own_voice:
            return "", ""
        return "This voice has no reference recording: use an uploaded voice", "no_reference"


class PreviewSlot:
    """At most one open voice in addition to the served one.

    Args:
        limits: The number of waiting requests, their longest wait, and the idle time.
        open_voice: Opens a voice under a key in the speaking process.
        close_voice: Closes the voice of a key there.
        in_use: Whether a request speaks, or waits to speak, with the voice of a key.
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
        """This voice, if it is open."""
        return self.current if self.current and self.current.voice == voice else None

    @asynccontextmanager
    async def held(self, voice: VoiceTarget) -> AsyncIterator[OpenedVoiceState]:
        """Opens the voice and keeps it open inside. Raises APIError if it cannot be opened, or if
        another one is in use for too long."""
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
        """Waits, first come first served, until this voice may be opened; then holds the lock."""
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
            text = "Another epoch is in use. Only one can be open in addition to the served voice."
            raise APIError(503, "preview_busy", text, retry_after=5) from None

    async def _opened(self, voice: VoiceTarget) -> OpenedVoiceState:
        if (current := self.current_of(voice)) is not None:
            return current
        self.close()
        self.current = await self._open(f"preview-{next(self._names)}", voice)
        return self.current

    def expire(self, now: float) -> None:
        """Closes the preview if it was unused for too long."""
        idle = now - self._used > self._limits.preview
        if self.current and idle and not self._busy and not self._changing.locked():
            self.close()

    def release(self) -> None:
        """Closes the preview unless it is in use, to make room for another voice."""
        if not self._busy and not self._changing.locked():
            self.close()

    def close(self) -> None:
        if self.current is not None:
            self._close(self.current.key)
            self.current = None

    def lost(self) -> None:
        """Forgets the preview, which has ended with the speaking process."""
        self.current = None

    @property
    def _busy(self) -> bool:
        """Whether a request uses the preview; if so, restarts its idle time."""
        if self.current is None or not self._in_use(self.current.key):
            return False
        self._used = time.monotonic()
        return True
