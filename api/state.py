"""AppState: what the routes share; `app_state` is the FastAPI dependency."""

import asyncio
import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from starlette.requests import HTTPConnection, Request

from api.datasets.clips import Clips
from api.datasets.cutting import CutQueue
from api.datasets.store import Datasets
from api.dialects.caller_settings import CallerSettings
from api.dialects.kept_sounds import KeptSounds
from api.engine.engine import Engine
from api.errors import APIError
from api.events import Events
from api.http.connections import PEER, is_address, network_of
from api.metrics import ServiceMetrics
from api.middleware import UNIT_CHARACTERS, AccessGate, RateLimiter
from api.runs.following import VoiceFollower
from api.settings import ApiSettings
from api.voices.store import Voices

PAGE = Path(__file__).parent / "page"
_DECODERS = 2
_MOST_UNUSED = 200
log = logging.getLogger("api")


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
    datasets: Datasets
    clips: Clips
    cuts: CutQueue
    started: float = field(default_factory=time.monotonic)
    started_at: int = field(default_factory=lambda: int(time.time()))
    loop: asyncio.AbstractEventLoop | None = None
    decoding: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_DECODERS))
    caller_settings: CallerSettings = field(default_factory=CallerSettings)
    kept_sounds: KeptSounds = field(default_factory=KeptSounds)
    _unused: set[str] = field(default_factory=set)

    @property
    def started_text(self) -> str:
        """When this process began, as ISO 8601."""
        return datetime.fromtimestamp(self.started_at, UTC).isoformat(timespec="seconds")

    def gate(self, request: Request) -> APIError | None:
        """The key's refusal, for the one address that answers browsers without one."""
        return AccessGate.refused(_key(self.settings), request.headers)

    def check_rate(self, request: Request) -> str:
        """Counts a request; returns its caller. Raises APIError (429)."""
        return self.check_rate_of(self.caller(request))

    def check_rate_of(self, caller: str) -> str:
        """The same for a caller that does not use HTTP. Raises APIError (429)."""
        if seconds := self.rate.take(caller, time.monotonic()):
            text = (
                f"More than {self.rate.per_minute} requests a minute, where {UNIT_CHARACTERS} "
                "characters begun count as one."
            )
            raise APIError(429, "rate_limited", text, retry_after=int(seconds) + 1)
        return caller

    def caller(self, request: Request) -> str:
        """The network that asks. Never the key: there is one, and all who share the service have
        it. What a proxy says counts where it is an address; else the proxy itself asks."""
        said = request.client.host if request.client else ""
        return network_of(said) if is_address(said) else request.scope["state"].get(PEER, "")

    def tell_of_unused(self, names: Iterable[str]) -> None:
        """Logs fields that change nothing, each name once."""
        new = [name for name in names if name not in self._unused]
        if new and len(self._unused) < _MOST_UNUSED:
            self._unused.update(new)
            log.info(
                "A request has fields that are not used here: %s. The header X-Ignored-Fields "
                "names them; API_STRICT=on refuses them.", ", ".join(new),
            )  # fmt: skip

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
