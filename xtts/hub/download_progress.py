"""Time in a download: how long to bear with a server, and the line every few seconds."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RetryPolicy:
    """How long to bear with a server. fruitless: tries in a row that brought nothing new."""

    timeout_seconds: float = 30.0
    fruitless: int = 5
    tries: int = 200
    first_wait_seconds: float = 1.0
    longest_wait_seconds: float = 60.0
    told_every_seconds: float = 5.0
    wait: Callable[[float], object] = time.sleep

    def seconds_before(self, fruitless: int, asked: float | None) -> float:
        """The wait before the next try. asked: what the server wishes (Retry-After)."""
        doubled = self.first_wait_seconds * 2.0 ** max(0, fruitless - 1)
        return min(doubled if asked is None else asked, self.longest_wait_seconds)


class ProgressReport:
    """A line every few seconds: how much, how fast, how long still."""

    def __init__(self, name: str, total: int, every_seconds: float) -> None:
        self.name, self.total, self.every_seconds = name, total, every_seconds
        self.told_at, self.told_bytes = time.monotonic(), -1

    def tell(self, received: int) -> None:
        if self.told_bytes < 0:  # the clock starts when something comes
            self.told_at, self.told_bytes = time.monotonic(), received
        seconds = time.monotonic() - self.told_at
        if seconds < self.every_seconds or received >= self.total:
            return
        speed = max(1.0, (received - self.told_bytes) / max(seconds, 1e-3))
        log.info("%s: %d of %d MB (%d %%), %.1f MB/s, %.0f s left.", self.name, received / 1e6,
                 self.total / 1e6, 100 * received // self.total, speed / 1e6,
                 (self.total - received) / speed)  # fmt: skip
        self.told_at, self.told_bytes = time.monotonic(), received
