"""AppState: what the routes share; `app_state` is the FastAPI dependency."""

import asyncio
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from starlette.requests import HTTPConnection, Request

from api.engine.engine import Engine
from api.errors import APIError
from api.events import Events
from api.http.connections import network_of
from api.metrics import ServiceMetrics
from api.middleware import AccessGate, RateLimiter
from api.runs.following import VoiceFollower
from api.settings import ApiSettings
from api.voices.store import Voices

PAGE = Path(__file__).parent / "page"
_DECODERS = 2


@dataclass
class AppState:
    """The service, in pieces."""

    settings: ApiSettings
    engine: Engine
    follower: VoiceFollower
    voices: Voices
    metrics: ServiceMetrics
    events: Events
    rate: RateLimiter
    started: float = field(default_factory=time.monotonic)
    started_at: int = field(default_factory=lambda: int(time.time()))
    loop: asyncio.AbstractEventLoop | None = None
    decoding: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_DECODERS))

    @property
    def started_text(self) -> str:
        """When this process began, as ISO 8601."""
        return datetime.fromtimestamp(self.started_at, UTC).isoformat(timespec="seconds")

    def gate(self, request: Request) -> APIError | None:
        """The key's refusal, for the one address that answers browsers without one."""
        return AccessGate.refused(_key(self.settings), request.headers)

    def check_rate(self, request: Request) -> None:
        """Raises APIError (429)."""
        # A key counts only where it was compared with ours: else each request could bring another.
        known = self.settings.api_key is not None
        caller = "key" if known else network_of(request.client.host if request.client else "")
        if seconds := self.rate.take(caller, time.monotonic()):
            text = f"More than {self.rate.per_minute} requests a minute."
            raise APIError(429, "rate_limited", text, retry_after=int(seconds) + 1)

    def measure(self) -> None:
        """The gauges, as they are now."""
        engine, metrics = self.engine, self.metrics
        metrics.queue_depth.set(len(engine.waiting.queue))
        metrics.restarts.set(engine.happened.restarts)
        metrics.ready.set(engine.ready)
        metrics.device.clear()
        if engine.place is not None:
            found = engine.placement
            metrics.device.labels(found["device"], found["execution_provider"]).set(1)


def _key(settings: ApiSettings) -> str | None:
    return settings.api_key.get_secret_value() if settings.api_key else None


async def app_state(request: HTTPConnection) -> AppState:
    """FastAPI's dependency. Not a plain function: that would wait for a thread of the pool, and a
    probe behind everybody who uses it."""
    found: AppState = request.app.state.parts
    return found
