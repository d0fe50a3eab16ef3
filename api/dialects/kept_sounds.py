"""Sounds that AllTalk's clients fetch with a second request, kept in memory for a while."""

import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass, field

_MOST_SOUNDS = 64
_MOST_BYTES = 64 << 20
_SECONDS = 600.0


@dataclass
class KeptSounds:
    """The oldest go first: when there are too many, when they are too large together, and after ten
    minutes. Their names cannot be guessed."""

    _known: "OrderedDict[str, tuple[float, bytes]]" = field(default_factory=OrderedDict)
    _bytes: int = 0

    def keep(self, wav: bytes) -> str:
        """The name under which it is found from now on."""
        self._clear(time.monotonic(), len(wav))
        name = f"{secrets.token_urlsafe(16)}.wav"
        self._known[name] = (time.monotonic(), wav)
        self._bytes += len(wav)
        return name

    def find(self, name: str) -> bytes | None:
        """None where it is no longer kept, or never was."""
        self._clear(time.monotonic(), 0)
        found = self._known.get(name)
        return found[1] if found else None

    def _clear(self, now: float, more: int) -> None:
        """Makes room for one of `more` bytes; 0: only what is too old goes."""
        while self._known:
            at, wav = next(iter(self._known.values()))
            full = len(self._known) >= _MOST_SOUNDS or self._bytes + more > _MOST_BYTES
            if now - at < _SECONDS and not (more and full):
                return
            self._known.popitem(last=False)
            self._bytes -= len(wav)
