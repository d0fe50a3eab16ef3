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

# The recordings that are decoded at once.
_MAX_DECODERS = 2
log = logging.getLogger("api")


class AppState:
    """The state of the service, which every route receives."""

    def __init__(self, settings: ApiSettings, options: ChildOptions, limits: EngineLimits) -> None:
        self.settings = settings
        self.started = time.monotonic()
        self.loop: asyncio.AbstractEventLoop | None = None
        self.started_at = int(time.time())
        # When the served voice was opened.
        self.served_at = self.started_at
        self._served_key = ""
        self.metrics = ServiceMetrics()
        self.events = Events()
        self.rate_limiter = RateLimiter(limits.requests_per_minute)
        self._has_logged_ready = False
        self.engine = Engine(options, limits, self.metrics, self._handle_change)
        self.voices = Voices(settings.voices_dir)
        self.adapters = Adapters(settings.voices_dir / ADAPTERS_FOLDER, settings.backend)
        self.follower = VoiceFollower(settings, self.engine, self.events, self.adapters)
        self.decoding = asyncio.Semaphore(_MAX_DECODERS)
        self.exports = Exports(settings)
        self._last_languages: tuple[str, ...] = ()
        self.extras = ExtraParts(self)
        self.part = self.extras.get

    @property
    def served_name(self) -> str:
        """The name of the served voice, or of the one being opened."""
        opened = self.engine.served_voice
        return opened.voice.name if opened else self.engine.target.name

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages of the served voice; empty while none is open."""
        return self.engine.served_voice.languages if self.engine.served_voice else ()

    @property
    def speakers(self) -> Mapping[str, str]:
        """The named speakers of the served voice and the adapters of its weights: name -> recording
        or folder; empty while no voice is open."""
        return self.speakers_of(self.engine.served_voice)

    def speakers_of(self, opened: OpenedVoiceState | None) -> Mapping[str, str]:
        """As `speakers`, of an open voice. A speaker hides an adapter of the same name."""
        if opened is None:
            return {}
        speaker_names = {normalized_name(name) for name in opened.speakers}
        adapters = self.adapters.of_weights(opened.sha256).items()
        return {
            **opened.speakers,
            **{n: path for n, path in adapters if normalized_name(n) not in speaker_names},
        }

    @property
    def last_languages(self) -> tuple[str, ...]:
        """The languages of the served voice, or of the previous one while another is opened."""
        self._last_languages = self.languages or self._last_languages
        return self._last_languages

    @property
    def licence(self) -> str:
        """The licence of the served voice in brief; "" while none is open."""
        return licence_in_brief(self.engine.served_voice.licence) if self.engine.served_voice else ""

    def status(self) -> Status:
        """The content of /status and of the `status` event."""
        engine, condition = self.engine, self.engine.condition
        return Status(
            **condition.placement,
            message=condition.message,
            reason_code=condition.reason_code,
            voice=self.served_name,
            voice_reason=without_paths(self.follower.served_reason),
            state=condition.state,
            ready=engine.is_ready,
            queue=Queue(
                waiting=len(engine.requests.queue),
                slots=engine.requests.slots,
                speaking=len(engine.requests.speaking),
            ),
            licence=self.licence,
            version=commands.version().removeprefix("sotaque "),
            languages=list(self.languages),
            formats=encoding.offered_formats(),
            precision=engine.served_voice.precision if engine.served_voice else "",
            restarts=engine.history.restarts,
            uptime_seconds=round(time.monotonic() - self.started, 1),
            extras=list(extras.names()),
        )

    def check_rate(self, request: Request | str) -> str:
        """Counts a request against the rate limit and returns its caller.

        request: the HTTP request, or the caller's address for another protocol. Raises APIError
        (429).
        """
        caller = request if isinstance(request, str) else self.caller_of(request)
        if seconds := self.rate_limiter.take(caller, time.monotonic()):
            text = (
                f"More than {self.rate_limiter.per_minute} requests a minute, counting {UNIT_CHARACTERS} "
                "characters, or part of them, as one."
            )
            raise APIError(429, "rate_limited", text, retry_after=int(seconds) + 1)
        return caller

    def caller_of(self, request: HTTPConnection) -> str:
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

    def update_gauges(self) -> None:
        """Updates the gauges of `metrics`."""
        engine, metrics = self.engine, self.metrics
        metrics.queue_depth.set(len(engine.requests.queue))
        metrics.restarts.set(engine.history.restarts)
        metrics.ready.set(engine.is_ready)
        metrics.device.clear()
        if engine.place is not None:
            placement = engine.condition.placement
            metrics.device.labels(placement["device"], placement["execution_provider"]).set(1)

    def _handle_change(self) -> None:
        if self.engine.served_voice and self.engine.served_voice.key != self._served_key:
            self._served_key, self.served_at = self.engine.served_voice.key, int(time.time())
        if self.engine.served_voice is None:
            self._has_logged_ready = False
        elif self.engine.is_ready and not self._has_logged_ready:
            self._has_logged_ready = True
            log.info("Ready: %s", _address(self.settings))
        if self.events.listeners:
            self.events.tell("status", self.status())


def _address(settings: ApiSettings) -> str:
    """The URL of the service for a browser on this machine."""
    if commands.in_image():
        return "http://localhost:8005, or the port that API_PORT in .env names. Docker Compose publishes it."
    return settings.url


def api_key_of(settings: ApiSettings) -> str | None:
    """API_KEY; None if it is empty."""
    return settings.api_key.get_secret_value() if settings.api_key else None


async def app_state(request: HTTPConnection) -> AppState:
    """FastAPI's dependency for the app state.

    It is a coroutine: a plain function would wait for a thread of the pool, and delay probes.
    """
    state: AppState = request.app.state.service
    return state


Shared = Annotated[AppState, Depends(app_state)]
