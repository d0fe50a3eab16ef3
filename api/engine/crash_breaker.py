"""Stops reopening a voice whose loading crashes the speaking process."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from api.engine.options import DEMO, VoiceTarget
from api.engine.queue import DEADLY
from api.errors import APIError


@dataclass
class CrashBreaker:
    """deaths: how often a child died while a voice was opened, by its name."""

    deaths: dict[str, int] = field(default_factory=dict)
    _now: list[VoiceTarget] = field(default_factory=list)

    @contextlib.contextmanager
    def begun(self, voice: VoiceTarget) -> Iterator[None]:
        """Until there is an answer. A request that is cancelled meanwhile has none; see `died`."""
        self._now.append(voice)
        try:
            yield
        except APIError:
            self._over(voice)
            raise
        self._over(voice)

    def _over(self, voice: VoiceTarget) -> None:
        if voice in self._now:  # else `died` has taken it out
            self._now.remove(voice)

    def died(self, device: str, code: str, *, alone: bool) -> None:
        """The child is gone. alone: no request was active that may be the reason
        as well. What a GPU does is no voice's fault: there the device changes."""
        if alone and (device == "cpu" or code == "crashed"):
            for voice in self._now:
                self.deaths[voice.name] = self.deaths.get(voice.name, 0) + 1
        self._now.clear()

    def deadly(self, name: str) -> bool:
        """As an input that killed twice; the voice in the package is always tried."""
        return self.deaths.get(name, 0) >= DEADLY and name != DEMO.name

    def check(self, voice: VoiceTarget) -> None:
        """Raises APIError."""
        if self.deadly(voice.name):
            text = (
                f"{voice.name} ended the speaking process {DEADLY} times while it was opened. It "
                "is tried again when the service is started again."
            )
            raise APIError(409, "deadly_voice", text)
