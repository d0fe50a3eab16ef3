"""AppState, the state that the routes share, and `app_state`, its FastAPI dependency."""

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import Annotated

from fastapi import Depends
from starlette.requests import HTTPConnection, Request

from api.engine.child import ChildOptions, OpenedVoiceState
from api.engine.engine import Engine
from api.engine.queue import UNIT_CHARACTERS, EngineLimits, RateLimiter
from api.errors import APIError, without_paths
from api.events import Events
from api.http.connections import PEER, network_of
from api.metrics import ServiceMetrics
from api.parts import ExtraParts
from api.runs.exports import Exports
from api.runs.following import VoiceFollower
from api.schemas import Queue, Status
from api.settings import ApiSettings
from api.voices.adapters import Adapters
from api.voices.store import Voices
from machine import commands, extras
from xtts import encoding
from xtts.voices.base_models import licence_in_brief
from xtts.voices.files.unpacking import ADAPTERS_FOLDER
from xtts.voices.speakers import normalized_name

_DECODERS = 2
log = logging.getLogger("api")


class AppState:
    """The state of the service, which every route receives."""

    def __init__(self, settings: ApiSettings, how: ChildOptions, limits: EngineLimits) -> None:
        self.settings = settings
        self.started = time.monotonic()
        self.loop: asyncio.AbstractEventLoop | None = None
        self.started_at = int(time.time())
        # When the served voice was opened.
        self.served_at = self.started_at
        self._served = ""
        self.metrics = ServiceMetrics()
        self.events = Events()
        self.rate = RateLimiter(limits.requests_per_minute)
        self._said_ready = False
        self.engine = Engine(how, limits, self.metrics, self._tell_status)
        self.voices = Voices(settings.voices_dir)
        self.adapters = Adapters(settings.voices_dir / ADAPTERS_FOLDER, settings.backend)
        self.follower = VoiceFollower(settings, self.engine, self.events, self.adapters)
        self.decoding = asyncio.Semaphore(_DECODERS)
        self.exports = Exports(settings)
        self._last_languages: tuple[str, ...] = ()
        self.extras = ExtraParts(self)
        self.part = self.extras.get

    @property
    def served_name(self) -> str:
        """The name of the served voice, or of the one being opened."""
        standing = self.engine.standing
        return standing.voice.name if standing else self.engine.target.name

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages of the served voice; empty while none is open."""
        return self.engine.standing.languages if self.engine.standing else ()

    @property
    def speakers(self) -> Mapping[str, str]:
        """The named speakers of the served voice and the adapters of its weights: name -> recording
        or folder; empty while no voice is open."""
        return self.speakers_of(self.engine.standing)

    def speakers_of(self, opened: OpenedVoiceState | None) -> Mapping[str, str]:
        """As `speakers`, for an open voice. A speaker hides an adapter of the same name."""
        if opened is None:
            return {}
        names = {normalized_name(name) for name in opened.speakers}
        fitting = self.adapters.of(opened.sha256).items()
        return {**opened.speakers, **{n: path for n, path in fitting if normalized_name(n) not in names}}

    @property
    def last_languages(self) -> tuple[str, ...]:
        """The languages of the served voice, or of the previous one while another is opened."""
        self._last_languages = self.languages or self._last_languages
        return self._last_languages

    @property
    def licence(self) -> str:
        """The licence of the served voice in brief; "" while none is open."""
        return licence_in_brief(self.engine.standing.licence) if self.engine.standing else ""

    def status(self) -> Status:
        """The content of /status and of the `status` event."""
        engine, condition = self.engine, self.engine.condition
        return Status(
            **condition.placement,
            message=condition.message,
            reason_code=condition.reason_code,
            voice=self.served_name,
            voice_reason=without_paths(self.follower.reason),
            state=condition.state,
            ready=engine.ready,
            queue=Queue(
                waiting=len(engine.requests.queue),
                slots=engine.requests.slots,
                speaking=len(engine.requests.speaking),
            ),
            licence=self.licence,
            version=commands.version().removeprefix("sotaque "),
            languages=list(self.languages),
            formats=encoding.offered_formats(),
            precision=engine.standing.precision if engine.standing else "",
            restarts=engine.happened.restarts,
            uptime_seconds=round(time.monotonic() - self.started, 1),
            extras=list(extras.names()),
        )

    def check_rate(self, request: Request | str) -> str:
        """Counts a request against the rate limit and returns its caller.

        request: the HTTP request, or the caller's address for another protocol.
        Raises APIError (429)."""
        caller = request if isinstance(request, str) else self.caller(request)
        if seconds := self.rate.take(caller, time.monotonic()):
            text = (
                f"More than {self.rate.per_minute} requests a minute, counting {UNIT_CHARACTERS} "
                "characters, or part of them, as one."
            )
            raise APIError(429, "rate_limited", text, retry_after=int(seconds) + 1)
        return caller

    def caller(self, request: HTTPConnection) -> str:
        """The caller's network.

        The API key does not identify callers, because all of them share it. The address that a
        proxy forwards counts if it is valid; otherwise the proxy is the caller.
        """
        address = request.client.host if request.client else ""
        return network_of(address) or request.scope["state"].get(PEER, "")

    def require_training_allowed(self) -> None:
        """Raises APIError (403) unless API_ALLOW_TRAINING allows training."""
        if not self.settings.training_allowed:
            text = (
                "This service does not start training or delete runs. Set API_ALLOW_TRAINING=on, "
                f"or train with: DATASET_DIR=… {commands.make('train')}"
            )
            raise APIError(403, "training_off", text)

    def measure(self) -> None:
        """Updates the gauges."""
        engine, metrics = self.engine, self.metrics
        metrics.queue_depth.set(len(engine.requests.queue))
        metrics.restarts.set(engine.happened.restarts)
        metrics.ready.set(engine.ready)
        metrics.device.clear()
        if engine.place is not None:
            placement = engine.condition.placement
            metrics.device.labels(placement["device"], placement["execution_provider"]).set(1)

    def _tell_status(self) -> None:
        if self.engine.standing and self.engine.standing.key != self._served:
            self._served, self.served_at = self.engine.standing.key, int(time.time())
        if self.engine.standing is None:
            self._said_ready = False
        elif self.engine.ready and not self._said_ready:
            self._said_ready = True
            log.info("Ready: %s", _address(self.settings))
        if self.events.listeners:
            self.events.tell("status", self.status())


def _address(settings: ApiSettings) -> str:
    """The URL of the service for a browser on this machine."""
    if commands.in_image():
        return "http://localhost:8005, or the port that API_PORT in .env names. Docker Compose publishes it."
    return settings.url


def key_of(settings: ApiSettings) -> str | None:
    """API_KEY; None if it is empty."""
    return settings.api_key.get_secret_value() if settings.api_key else None


async def app_state(request: HTTPConnection) -> AppState:
    """FastAPI's dependency for the app state.

    It is a coroutine: a plain function would wait for a thread of the pool, and delay probes.
    """
    state: AppState = request.app.state.service
    return state


Shared = Annotated[AppState, Depends(app_state)]
